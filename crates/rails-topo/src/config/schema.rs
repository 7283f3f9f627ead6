//! The JSON schema of configuration files, made of the types that read them. It is published in
//! `docs/topology.schema.json`.

use super::{
    document::Document,
    values::{Added, Distance, FromText, Hide, Text},
};
use schemars::{
    JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema, transform::RecursiveTransform,
};
use serde_json::{Value, json};
use std::{borrow::Cow, env, fs, path::Path};

impl<T: FromText> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": T::PATTERN })
    }
}

macro_rules! schema {
    ($($type:ty: $schema:tt)*) => {
        $(impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

schema! {
    Hide: { "anyOf": [{ "type": "string", "pattern": "\\S" }, { "const": false }] }
    Added: { "const": true }
    Distance: { "type": "integer", "minimum": 10, "maximum": 254 }
}

#[test]
fn published_schema_is_that_of_the_code() {
    // TOML has no null: unknown facts are left out.
    let without_null = RecursiveTransform(|schema: &mut Schema| {
        for list in ["type", "enum", "anyOf"] {
            let Some(Value::Array(kinds)) = schema.get_mut(list) else { continue };
            kinds.retain(|kind| !kind.is_null() && kind != "null" && *kind != json!({ "type": "null" }));
            if list == "type" && kinds.len() == 1 {
                let only = kinds.remove(0);
                schema.insert(list.to_owned(), only);
            }
        }
    });
    let settings = SchemaSettings::draft2020_12().with_transform(without_null);
    let schema = settings.into_generator().into_root_schema_for::<Document>();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/topology.schema.json");
    if env::var_os("RAILS_WRITE_SCHEMA").is_some() {
        fs::write(&published, &text).unwrap();
    }
    let found = fs::read_to_string(&published).unwrap_or_default();
    // Another crate of the same build may have serde_json keep another order of keys.
    let found: Value = serde_json::from_str(&found).unwrap_or_default();
    assert!(
        found == serde_json::to_value(&schema).unwrap(),
        "{} is another one; RAILS_WRITE_SCHEMA=1 writes the generated schema:\n{text}",
        published.display()
    );
}
