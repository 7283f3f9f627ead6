//! The fields of a JSON schema, without the schema's own nesting.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The definitions of a schema (`$defs`).
pub(super) type Definitions = Map<String, Value>;

/// The values that a schema allows.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Names of JSON types, and texts in quotation marks where only these are allowed.
    pub(super) scalars: BTreeSet<String>,
    /// The items of an array.
    pub(super) items: Option<Box<Self>>,
    pub(super) is_object: bool,
    /// The fields of an object: several of one name where variants of the object differ in it.
    pub(super) fields: BTreeMap<String, Vec<Field>>,
    /// The values of an object whose keys are data.
    pub(super) values: Option<Box<Self>>,
    /// The type, if it has a section of its own; its fields are not here then.
    pub(super) link: Option<String>,
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) shape: Shape,
    pub(super) description: String,
    pub(super) is_optional: bool,
    /// The tag of the variant that has the field.
    pub(super) variant: Option<(String, String)>,
}

/// The place of a schema within that of an object.
#[derive(Clone, Default)]
struct Place {
    variant: Option<(String, String)>,
    /// The description of the variant, which its tag gets, or its only field.
    description: Option<String>,
}

/// Makes shapes, in which `linked` types are left out.
#[derive(Clone, Copy)]
pub(super) struct Shapes<'a> {
    pub(super) definitions: &'a Definitions,
    pub(super) linked: &'a BTreeSet<String>,
}

impl Shapes<'_> {
    pub(super) fn of(self, schema: &Value) -> Shape {
        let mut shape = Shape::default();
        self.add(schema, &Place::default(), &mut shape);
        shape
    }

    fn add(self, schema: &Value, place: &Place, shape: &mut Shape) {
        assert!(schema.is_object(), "a value of any type: {schema}");
        if let Some(name) = reference(schema) {
            match self.linked.contains(name) {
                true => shape.link = Some(name.to_owned()),
                false => self.add(&self.definitions[name], place, shape),
            }
        }
        let texts = schema.get("const").into_iter().chain(list(schema, "enum"));
        let texts: BTreeSet<String> = texts.map(Value::to_string).collect();
        let types = schema.get("type").into_iter().flat_map(|kind| match kind {
            Value::Array(kinds) => kinds.iter().collect(),
            kind => vec![kind],
        });
        for kind in types.filter_map(Value::as_str) {
            match kind {
                "object" => shape.is_object = true,
                "array" => {}
                "string" if !texts.is_empty() => {}
                kind => {
                    shape.scalars.insert(kind.to_owned());
                }
            }
        }
        shape.scalars.extend(texts);
        for items in
            schema.get("items").filter(|items| items.is_object()).into_iter().chain(list(schema, "prefixItems"))
        {
            self.add(items, &Place::default(), shape.items.get_or_insert_default());
        }
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let keyed = schema.get("additionalProperties").filter(|values| values.is_object());
        for values in patterns.into_iter().flat_map(Map::values).chain(keyed) {
            self.add(values, &Place::default(), shape.values.get_or_insert_default());
        }
        self.add_fields(schema, place, shape);
        for part in list(schema, "allOf") {
            self.add(part, place, shape);
        }
        let variants = list(schema, "oneOf").chain(list(schema, "anyOf")).map(|variant| {
            let mut shape = Shape::default();
            self.add(variant, &place.within(variant), &mut shape);
            shape
        });
        shape.add_variants(variants.collect());
    }

    fn add_fields(self, schema: &Value, place: &Place, shape: &mut Shape) {
        let required: BTreeSet<&str> = list(schema, "required").filter_map(Value::as_str).collect();
        let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
        for (name, field) in fields {
            let is_tag = place.variant.as_ref().is_some_and(|(tag, _)| tag == name);
            let is_only = fields.len() == if place.variant.is_some() { 2 } else { 1 };
            let of_variant = place.description.as_deref().filter(|_| is_tag || is_only);
            let of_type = || {
                let name = reference(field).filter(|name| !self.linked.contains(*name))?;
                description(&self.definitions[name]).filter(|_| self.definitions[name]["type"] != "string")
            };
            shape.fields.entry(name.clone()).or_default().push(Field {
                shape: self.of(field),
                description: description(field).or(of_variant).or_else(of_type).unwrap_or_default().to_owned(),
                is_optional: !required.contains(&**name),
                variant: place.variant.clone().filter(|_| !is_tag),
            });
        }
    }
}

impl Place {
    /// The place of a variant in this one.
    fn within(&self, variant: &Value) -> Self {
        let fields = variant.get("properties").and_then(Value::as_object).into_iter().flatten();
        let tag = fields.filter_map(|(name, field)| Some((name.clone(), field.get("const")?.to_string()))).next();
        Self { description: description(variant).map(str::to_owned), variant: tag.or_else(|| self.variant.clone()) }
    }
}

impl Shape {
    /// Allows the values of these shapes as well. A field that only some of them have is optional,
    /// if no tag tells them apart.
    fn add_variants(&mut self, variants: Vec<Self>) {
        let names: Vec<BTreeSet<String>> =
            variants.iter().map(|shape| shape.fields.keys().cloned().collect()).collect();
        let is_rare = |name: &String| names.iter().any(|names| !names.is_empty() && !names.contains(name));
        for Self { scalars, items, is_object, fields, values, link } in variants {
            self.scalars.extend(scalars);
            self.is_object |= is_object;
            self.items = items.or(self.items.take());
            self.values = values.or(self.values.take());
            self.link = link.or(self.link.take());
            for (name, fields) in fields {
                let is_rare = is_rare(&name);
                let fields = fields.into_iter().map(|field| Field {
                    is_optional: field.is_optional || is_rare && field.variant.is_none(),
                    ..field
                });
                self.fields.entry(name).or_default().extend(fields);
            }
        }
    }

    /// The reasons why a value is not of this shape, each with its path.
    pub(super) fn faults(&self, value: &Value, path: &str) -> Vec<String> {
        let is_scalar = |kind: &str| self.scalars.contains(kind);
        let fits = match value {
            Value::Null => is_scalar("null"),
            Value::Bool(_) => is_scalar("boolean"),
            Value::Number(number) => {
                is_scalar("number") || !number.is_f64() && is_scalar("integer") || is_scalar(&value.to_string())
            }
            Value::String(_) => is_scalar("string") || is_scalar(&value.to_string()),
            Value::Array(items) => {
                let Some(shape) = &self.items else { return vec![format!("{path} is no array")] };
                return items.iter().flat_map(|item| shape.faults(item, &format!("{path}[]"))).collect();
            }
            Value::Object(fields) if self.is_object || self.values.is_some() => {
                return fields.iter().flat_map(|(name, value)| self.faults_of(name, value, path)).collect();
            }
            Value::Object(_) => false,
        };
        if fits { Vec::new() } else { vec![format!("{path} is never {value}")] }
    }

    fn faults_of(&self, name: &str, value: &Value, path: &str) -> Vec<String> {
        let path = format!("{path}.{name}");
        let fields = self.fields.get(name).into_iter().flatten().map(|field| &field.shape);
        let shapes = fields.chain(self.values.as_deref());
        let faults = shapes.map(|shape| shape.faults(value, &path));
        faults.min_by_key(Vec::len).unwrap_or_else(|| vec![format!("{path} is gone")])
    }
}

pub(super) fn description(schema: &Value) -> Option<&str> {
    schema.get("description")?.as_str()
}

/// The name of the definition that a schema refers to.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn list<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}
