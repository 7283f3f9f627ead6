//! Lines and keys of a TOML text, by offset.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The line at `offset`, counted from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// The key whose name or value stands at `offset`, from the outermost table down; empty, if there
/// is none or the text is no TOML.
pub(super) fn key_of(text: &str, offset: usize) -> String {
    let (document, _) = DeTable::parse_recoverable(text);
    key_at(document.get_ref(), offset).unwrap_or_default()
}

fn key_at(table: &DeTable<'_>, offset: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().to_string();
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
