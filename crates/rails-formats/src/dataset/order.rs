//! The order of an array's files.

use super::{document::Order, file::ArraySource, source::SourceFile, stitch_error::StitchError};
use crate::manifest::AttributeValue;
use std::cmp::Ordering;

/// Puts files into the order of an array.
pub(super) fn sort(array: &ArraySource, files: &mut [SourceFile]) -> Result<(), StitchError> {
    match &array.order {
        Order::Name => files.sort_by(|one, other| one.file.cmp(&other.file)),
        Order::Listed => files.sort_by_key(|file| array.place_of(&file.file)),
        Order::Attribute(attribute) => by_attribute(array, attribute, files)?,
    }
    Ok(())
}

fn by_attribute(array: &ArraySource, attribute: &str, files: &mut [SourceFile]) -> Result<(), StitchError> {
    let mut keyed = Vec::new();
    for file in files.iter() {
        let no_key = || StitchError::OrderAttribute {
            array: array.name.clone(),
            file: file.file.clone(),
            attribute: attribute.into(),
        };
        let value = file.manifest.attributes().get(attribute).ok_or_else(no_key)?;
        keyed.push(Key::of(value).ok_or_else(no_key)?);
    }
    let mut numbers: Vec<usize> = (0..files.len()).collect();
    numbers.sort_by(|one, other| keyed[*one].cmp(&keyed[*other]));
    if let Some(pair) = numbers.windows(2).find(|pair| !keyed[pair[0]].is_before(&keyed[pair[1]])) {
        return Err(StitchError::OrderUnclear {
            array: array.name.clone(),
            attribute: attribute.into(),
            file: files[pair[0]].file.clone(),
            other: files[pair[1]].file.clone(),
        });
    }
    let mut sorted: Vec<SourceFile> = numbers.iter().map(|number| files[*number].clone()).collect();
    files.swap_with_slice(&mut sorted);
    Ok(())
}

/// The value of an attribute, to be compared with others of its kind.
enum Key {
    Number(f64),
    Text(String),
}

impl Key {
    fn of(value: &AttributeValue) -> Option<Self> {
        match value.as_text() {
            Some(text) => Some(Self::Text(text.into())),
            None => value.to_numbers()?.first().filter(|number| !number.is_nan()).map(|number| Self::Number(*number)),
        }
    }

    /// Numbers come before texts, so that the kinds are apart.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }

    /// Whether the values say that this one is first. Values of different kinds say nothing.
    fn is_before(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one < other,
            (Self::Text(one), Self::Text(other)) => one < other,
            _ => false,
        }
    }
}
