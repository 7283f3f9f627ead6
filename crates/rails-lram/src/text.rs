//! What files and nodes say, as text for a terminal and for CDL.

use rails_formats::{
    data_type::{DataType, Endianness},
    manifest::AttributeValue,
};
use std::fmt::Write;

/// A name or a text, with an escape for each character that would do something to a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() { printed.extend(character.escape_default()) } else { printed.push(character) }
    }
    printed
}

/// The name of a type in CDL, the language of `ncdump`.
pub(crate) fn cdl_type(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Int8 => "byte",
        DataType::Uint8 => "ubyte",
        DataType::Int16 => "short",
        DataType::Uint16 => "ushort",
        DataType::Int32 => "int",
        DataType::Uint32 => "uint",
        DataType::Int64 => "int64",
        DataType::Uint64 => "uint64",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Char => "char",
        other => other.name(),
    }
}

/// The value of an attribute in CDL. Of a long list of numbers, the first ones.
pub(crate) fn cdl_value(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Text(text) => quoted(text),
        AttributeValue::Bytes(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        AttributeValue::Numbers { dtype, bytes } => {
            let all = numbers(*dtype, bytes);
            let suffix = match dtype {
                DataType::Int8 => "b",
                DataType::Uint8 => "ub",
                DataType::Int16 => "s",
                DataType::Uint16 => "us",
                DataType::Uint32 => "u",
                DataType::Int64 => "ll",
                DataType::Uint64 => "ull",
                DataType::Float32 => "f",
                _ => "",
            };
            let first = all.iter().take(MAX_NUMBERS).map(|number| format!("{number}{suffix}"));
            let mut text = first.collect::<Vec<_>>().join(", ");
            if all.len() > MAX_NUMBERS {
                let _ = write!(text, ", ... ({} numbers)", all.len());
            }
            text
        }
        other => format!("{other:?}"),
    }
}

/// The value of an attribute in JSON: a text, a number, or a list of numbers. Numbers that JSON
/// does not have are texts.
pub(crate) fn json_value(value: &AttributeValue) -> serde_json::Value {
    match value {
        AttributeValue::Text(text) => text.clone().into(),
        AttributeValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        AttributeValue::Numbers { dtype, bytes } => {
            let numbers = numbers(*dtype, bytes).into_iter().map(|number| {
                let read = serde_json::from_str::<serde_json::Number>(&number);
                read.map_or_else(|_| serde_json::Value::String(number), serde_json::Value::Number)
            });
            let mut all: Vec<serde_json::Value> = numbers.collect();
            if all.len() == 1 { all.remove(0) } else { all.into() }
        }
        other => format!("{other:?}").into(),
    }
}

/// Numbers of their type, little-endian, each as the shortest text that is read back as the same.
fn numbers(dtype: DataType, bytes: &[u8]) -> Vec<String> {
    let mut native = bytes.to_vec();
    dtype.swap_to_native(&mut native, Endianness::Little);
    let elements = native.chunks_exact(dtype.bytes() as usize);
    macro_rules! read {
        ($type:ty) => {
            elements.map(|number| <$type>::from_ne_bytes(number.try_into().expect("its size")).to_string()).collect()
        };
    }
    match dtype {
        DataType::Int8 => read!(i8),
        DataType::Uint8 | DataType::Char => read!(u8),
        DataType::Int16 => read!(i16),
        DataType::Uint16 => read!(u16),
        DataType::Int32 => read!(i32),
        DataType::Uint32 => read!(u32),
        DataType::Int64 => read!(i64),
        DataType::Uint64 => read!(u64),
        DataType::Float32 => read!(f32),
        _ => read!(f64),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", printable(&text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// A list of more numbers is cut.
const MAX_NUMBERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(dtype: DataType, bytes: &[u8]) -> AttributeValue {
        AttributeValue::from_bytes(dtype, bytes, Endianness::Little)
    }

    #[test]
    fn numbers_keep_their_digits() {
        let large = value(DataType::Uint64, &u64::MAX.to_le_bytes());
        assert_eq!(cdl_value(&large), "18446744073709551615ull");
        assert_eq!(json_value(&large).to_string(), "18446744073709551615");
        let tenth = value(DataType::Float32, &0.1_f32.to_le_bytes());
        assert_eq!((cdl_value(&tenth).as_str(), json_value(&tenth).to_string().as_str()), ("0.1f", "0.1"));
        let nan = value(DataType::Float64, &f64::NAN.to_le_bytes());
        assert_eq!(json_value(&nan).to_string(), "\"NaN\"");
        assert!(cdl_value(&value(DataType::Int8, &[7; 17])).ends_with("7b, ... (17 numbers)"));
    }

    #[test]
    fn texts_do_nothing_to_a_terminal() {
        let text = AttributeValue::Text("a \"b\"\\\n\u{1b}[2J".to_owned());
        assert_eq!(cdl_value(&text), r#""a \"b\"\\\n\u{1b}[2J""#);
        assert_eq!(printable("Größe"), "Größe");
    }
}
