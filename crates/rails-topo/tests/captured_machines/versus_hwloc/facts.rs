//! A model, taken apart into single facts.

use rails_topo::Topology;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Facts by field (`pci_devices.node`) and by object (`0000:3b:00.0`).
pub(super) type Facts = BTreeMap<(String, String), Value>;

pub(super) fn facts(machine: &Topology) -> Facts {
    let Value::Object(fields) = serde_json::to_value(machine).unwrap() else { panic!("a model is an object") };
    let mut facts = Facts::new();
    fields
        .into_iter()
        .filter(|(name, _)| name != "origin")
        .for_each(|(name, value)| take_apart(&mut facts, name, "", value));
    facts
}

/// The fact, or null where it or its object is missing.
pub(super) fn of<'a>(facts: &'a Facts, subject: &(String, String)) -> &'a Value {
    facts.get(subject).unwrap_or(&Value::Null)
}

/// Nothing, an empty list or an empty set: the model's values for unknown facts.
pub(super) fn is_unknown(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Whether both say the same, as exactly as the coarser of the two can.
pub(super) fn same(field: &str, ours: &Value, theirs: &Value) -> bool {
    match (field, ours.as_u64(), theirs.as_u64()) {
        // hwloc knows class and subclass, and not the programming interface.
        ("pci_devices.class", Some(ours), Some(theirs)) => ours >> 8 == theirs >> 8,
        // hwloc has KiB.
        ("block_devices.size_bytes", Some(ours), Some(theirs)) => ours / 1024 == theirs / 1024,
        // hwloc has GB/s as a `float`, and writes six decimals of it.
        ("pci_devices.bandwidth_bits_per_second", Some(ours), Some(theirs)) => ours.abs_diff(theirs) <= ours / 100_000,
        _ => ours == theirs || (is_unknown(ours) && is_unknown(theirs)),
    }
}

/// A list of things is one fact that each is there, and its fields; all else is a fact as it is.
fn take_apart(facts: &mut Facts, field: String, of: &str, value: Value) {
    match value {
        Value::Array(list) if IDENTITIES.iter().any(|(name, _)| *name == field) => {
            let (_, identity) = IDENTITIES.iter().find(|(name, _)| *name == field).unwrap();
            for thing in list {
                let Value::Object(thing) = thing else { panic!("{field} holds {thing}") };
                let of = format!("{of} {}", text_of(identity, &thing)).trim().to_owned();
                facts.insert((field.clone(), of.clone()), Value::Bool(true));
                let fields = thing.into_iter().filter(|(name, _)| !identity.contains(&name.as_str()));
                fields.for_each(|(name, value)| take_apart(facts, format!("{field}.{name}"), &of, value));
            }
        }
        Value::Object(fields) if field == "machine" => {
            fields.into_iter().for_each(|(name, value)| take_apart(facts, format!("{field}.{name}"), of, value));
        }
        value => _ = facts.insert((field, of.to_owned()), value),
    }
}

fn text_of(identity: &[&str], thing: &Map<String, Value>) -> String {
    let text = |name: &&str| match &thing[*name] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    identity.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The lists of objects, and the key that tells the objects of one list apart.
const IDENTITIES: [(&str, &[&str]); 12] = [
    ("packages", &["cpus"]),
    ("dies", &["cpus"]),
    ("nodes", &["id"]),
    ("caches", &["level", "kind", "cpus"]),
    ("cores", &["cpus"]),
    ("core_kinds", &["cpus"]),
    ("pci_devices", &["address"]),
    ("nics", &["name"]),
    ("rdma_devices", &["name"]),
    ("rdma_devices.ports", &["number"]),
    ("gpus", &["name"]),
    ("block_devices", &["name"]),
];
