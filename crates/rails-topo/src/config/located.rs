//! Values with their position in the text, and keys by position.

use super::{ConfigError, Position, Problem};
use crate::model::quoted;
use serde::Deserialize;
use std::{ops::Range, path::Path};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Bytes of the file's text.
pub(super) type Span = Range<usize>;

/// A value with its position. Two are equal if their values are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Located<T>(Spanned<T>);

impl<T> Located<T> {
    pub(super) fn value(&self) -> &T {
        self.0.get_ref()
    }

    pub(super) fn span(&self) -> Span {
        self.0.span()
    }
}

/// A located value has the schema of the value.
#[cfg(test)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// The parser's error, with the key that the parser does not name.
pub(super) fn of_parser(file: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let offset = error.span().map_or(0, |span| span.start);
    let (document, _) = DeTable::parse_recoverable(text);
    let key = key_at(document.get_ref(), offset).unwrap_or_else(|| key_of_line(text, offset));
    let at = Position::of(file, text, offset, key);
    let reason: Vec<&str> = error.message().lines().map(str::trim).collect();
    ConfigError::Wrong { at, problem: Problem::Malformed(reason.join("; ")).into() }
}

/// The key whose name or value stands at `offset`, from the outermost table down; `None` between
/// keys.
fn key_at(table: &DeTable<'_>, offset: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = quoted(key.get_ref());
        if key.span().contains(&offset) { Some(name) } else { Some(name + &rest_at(value, offset)?) }
    })
}

/// The rest of a key whose value, or a value in it, stands at `offset`.
fn rest_at(value: &Spanned<DeValue<'_>>, offset: usize) -> Option<String> {
    let inside = match value.get_ref() {
        DeValue::Table(table) => key_at(table, offset).map(|key| format!(".{key}")),
        DeValue::Array(elements) => elements
            .iter()
            .enumerate()
            .find_map(|(index, element)| Some(format!("[{index}]{}", rest_at(element, offset)?))),
        _ => None,
    };
    inside.or_else(|| value.span().contains(&offset).then(String::new))
}

/// The key in the line at `offset` of a text that is no TOML or has a key twice: the key of the
/// last header, and the line's own.
fn key_of_line(text: &str, offset: usize) -> String {
    let line_start = text.get(..offset).unwrap_or(text).rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default().trim();
    let header = |line: &str| line.starts_with('[').then(|| line.trim_matches(['[', ']', ' ', '\t']).to_owned());
    let above = text[..line_start].lines().rev().find_map(|line| header(line.trim()));
    let path = match header(line) {
        Some(header) => [header, String::new()],
        None => [above.unwrap_or_default(), line.split_once('=').map_or("", |(key, _)| key.trim()).to_owned()],
    };
    path.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}
