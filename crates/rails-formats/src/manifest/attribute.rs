//! Attributes: what files say of themselves and of their arrays.

use crate::data_type::{DataType, Endianness};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Attributes by name.
pub type Attributes = BTreeMap<String, AttributeValue>;

/// The value of an attribute: text, or a list of numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// Text that is not UTF-8.
    Bytes(Vec<u8>),
    /// Numbers in their elements' type, as bytes of this order: a NaN keeps its bits.
    Numbers {
        /// The type of each number.
        dtype: DataType,
        /// The numbers, little-endian.
        bytes: Vec<u8>,
    },
}

impl AttributeValue {
    /// Makes a value of a file's bytes. [`DataType::Char`] becomes text.
    pub fn from_bytes(dtype: DataType, bytes: &[u8], endianness: Endianness) -> Self {
        if dtype == DataType::Char {
            return match str::from_utf8(bytes) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::Bytes(bytes.to_vec()),
            };
        }
        let mut bytes = bytes.to_vec();
        if endianness == Endianness::Big {
            bytes.chunks_exact_mut(dtype.bytes() as usize).for_each(<[u8]>::reverse);
        }
        Self::Numbers { dtype, bytes }
    }

    /// The text, if the value is text.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The numbers, if the value is numbers. Integers beyond 2^53 are rounded.
    pub fn to_numbers(&self) -> Option<Vec<f64>> {
        let Self::Numbers { dtype, bytes } = self else { return None };
        dtype.numbers(bytes, Endianness::Little)
    }

    /// The little-endian bytes of the value, if it is one number of that type.
    pub fn as_element(&self, of: DataType) -> Option<&[u8]> {
        let bytes = match self {
            Self::Text(text) if of == DataType::Char => text.as_bytes(),
            Self::Bytes(bytes) if of == DataType::Char => bytes,
            Self::Numbers { dtype, bytes } if *dtype == of => bytes,
            _ => return None,
        };
        (bytes.len() as u64 == of.bytes()).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_type() {
        let big = Endianness::Big;
        let numbers = AttributeValue::from_bytes(DataType::Int16, &[0, 7, 0xff, 0xff], big);
        assert_eq!(numbers.to_numbers(), Some(vec![7.0, -1.0]));
        assert_eq!(numbers.as_element(DataType::Int16), None);
        let one = AttributeValue::from_bytes(DataType::Int16, &[0, 7], big);
        assert_eq!(one.as_element(DataType::Int16), Some(&[7, 0][..]));
        assert_eq!(one.as_element(DataType::Uint16), None);
        let text = AttributeValue::from_bytes(DataType::Char, "K".as_bytes(), big);
        assert_eq!((text.as_text(), text.to_numbers()), (Some("K"), None));
        assert_eq!(AttributeValue::from_bytes(DataType::Char, &[0xe9], big), AttributeValue::Bytes(vec![0xe9]));
    }

    #[test]
    fn a_nan_equals_itself() {
        let nan = AttributeValue::from_bytes(DataType::Float32, &f32::NAN.to_be_bytes(), Endianness::Big);
        assert_eq!(nan, nan.clone());
    }
}
