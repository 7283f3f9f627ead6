//! Attributes, from JSON.

use crate::{
    data_type::DataType,
    manifest::{AttributeValue, Attributes},
};
use serde_json::{Map, Value};

/// Attributes of JSON: text, numbers and lists of numbers are what they are, and any other value
/// becomes text in JSON. Numbers without a fraction that fit are 64-bit integers.
pub(super) fn attributes(values: &Map<String, Value>) -> Attributes {
    values.iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

fn attribute(value: &Value) -> AttributeValue {
    let numbers = match value {
        Value::String(text) => return AttributeValue::Text(text.clone()),
        Value::Number(_) => std::slice::from_ref(value),
        Value::Array(values) if !values.is_empty() => &values[..],
        _ => return AttributeValue::Text(value.to_string()),
    };
    let integers: Option<Vec<[u8; 8]>> = numbers.iter().map(|number| Some(number.as_i64()?.to_le_bytes())).collect();
    if let Some(integers) = integers {
        return AttributeValue::Numbers { dtype: DataType::Int64, bytes: integers.concat() };
    }
    let floats: Option<Vec<[u8; 8]>> = numbers.iter().map(|number| Some(number.as_f64()?.to_le_bytes())).collect();
    match floats {
        Some(floats) => AttributeValue::Numbers { dtype: DataType::Float64, bytes: floats.concat() },
        None => AttributeValue::Text(value.to_string()),
    }
}
