//! The documents of all commands: their page and their schemas in `docs/`, and documents of earlier
//! releases.

mod page;
mod shape;

use self::shape::{Definitions, Shapes};
use super::{doctor, plan, rails, run, serve, stream, tasks, topo, undo};
use crate::{
    document::{Contents, Schema},
    measure::{intervals::Interval, latency, path::PathReport, report::Measurement},
    published,
    report::documents::{Received, Sent},
};
use rails_gate::status::GateStatus;
use rails_topo::Topology;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A document, as the page describes it.
struct Described {
    schema: Schema,
    command: &'static str,
    /// The verb, and the number of documents.
    form: &'static str,
    /// The fields, as a JSON schema that refers to the definitions of all documents.
    fields: Value,
}

const ONE: &str = "prints one object";
const LINE: &str = "prints one object, on one line";
const LINES: &str = "prints one object on each line";

/// The documents, and the definitions of their types.
fn documents() -> (Vec<Described>, Definitions) {
    let types = &mut SchemaSettings::draft2020_12().for_serialize().into_generator();
    let documents = vec![
        described::<doctor::Report<'_>>(types, "doctor --json", ONE),
        described::<GateStatus>(types, "gate --status --json", LINE),
        described::<Interval>(
            types,
            "stream --interval S --json",
            "prints one object each time, on a line, and so does `serve`",
        ),
        described::<plan::Report<'_>>(types, "plan --rails SPEC --json", ONE),
        described::<PathReport>(types, "probe --json", LINE),
        described::<rails::Report<'_>>(types, "rails --json", ONE),
        described::<Received<'_>>(types, "recv --json", "prints one object for each batch, on a line of its own"),
        described::<latency::Report>(types, "stream --ping SIZES --json", LINE),
        described::<run::Report>(types, "run --json FILE", "writes one object to the file"),
        described::<Sent<'_>>(types, "send --json", LINE),
        described::<serve::Report<'_>>(
            types,
            "serve --json",
            "prints one object for each `stream`, on a line of its own",
        ),
        described::<serve::SentReport<'_>>(
            types,
            "serve --json",
            "prints one object for each `stream --reverse` and `--both`, on a line of its own",
        ),
        described::<stream::Report<'_>>(types, "stream --json", LINE),
        described::<tasks::Report<'_>>(types, "tasks --json", ONE),
        described::<Topology>(types, "topo --json", ONE),
        described::<topo::Line<'_>>(types, "topo --watch --json", LINES),
        described::<undo::Report<'_>>(types, "undo --json", ONE),
    ];
    (documents, types.take_definitions(true))
}

fn described<T: Contents + JsonSchema>(
    types: &mut SchemaGenerator,
    command: &'static str,
    form: &'static str,
) -> Described {
    let schema = T::SCHEMA;
    let mut fields = types.subschema_for::<T>().to_value();
    let (name, version) = (schema.name(), schema.version());
    fields["properties"] = json!({ "schema": { "const": name }, "version": { "const": version } });
    fields["required"] = json!(["schema", "version"]);
    Described { schema, command, form, fields }
}

/// The schema of all documents.
fn schema_of_all(documents: &[Described], definitions: &Definitions) -> Value {
    let names = documents.iter().map(|document| document.schema.name());
    let references: Vec<Value> = names.map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
    let fields = documents.iter().map(|document| (document.schema.name().to_owned(), document.fields.clone()));
    let all: Definitions = definitions.clone().into_iter().chain(fields).collect();
    sorted(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of rails-bench",
        "anyOf": references,
        "$defs": all,
    }))
}

/// The value with the keys in order, which serde_json keeps only in some builds.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().collect();
            Value::Object(fields.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}

/// The file of documents of this schema's version, which a release has printed.
fn old(schema: Schema) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json");
    folder.join(format!("v{}/{}.json", schema.version(), schema.name().strip_prefix("rails-bench.").unwrap()))
}

fn read<T: DeserializeOwned>(schema: Schema) -> Vec<T> {
    let path = old(schema);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let documents: Result<Vec<T>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
    documents.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn page_and_schema_are_generated() {
    let (documents, definitions) = documents();
    let schema = serde_json::to_string_pretty(&schema_of_all(&documents, &definitions)).unwrap() + "\n";
    published::check("json.schema.json", &schema);
    published::check("json.md", &page::page(&documents, &definitions));
}

#[test]
fn every_schema_is_described() {
    let described: Vec<Schema> = documents().0.iter().map(|document| document.schema).collect();
    assert_eq!(described, Schema::ALL);
}

#[test]
fn fields_of_old_documents_are_still_there() {
    let (documents, definitions) = documents();
    for Described { schema, fields, .. } in documents {
        let shape = Shapes { definitions: &definitions, linked: &BTreeSet::new() }.of(&fields);
        let documents: Vec<Value> = read(schema);
        assert!(!documents.is_empty(), "{}", schema.name());
        let faults = documents.iter().flat_map(|document| shape.faults(document, schema.name()));
        assert_eq!(faults.collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn faults_of_a_document_that_has_changed() {
    let (documents, definitions) = documents();
    let send = documents.iter().find(|document| document.schema == Schema::SEND).unwrap();
    let shape = Shapes { definitions: &definitions, linked: &BTreeSet::new() }.of(&send.fields);
    let mut document: Value = read(Schema::SEND).swap_remove(0);
    document["begun_again"] = json!("1");
    document["files"][0]["how"] = json!("lost");
    document["sender"]["host"] = json!(null);
    document["version"] = json!(2);
    let faults = BTreeSet::from_iter(shape.faults(&document, "send"));
    let expected = [
        "send.begun_again is never \"1\"",
        "send.files[].how is never \"lost\"",
        "send.sender.host is gone",
        "send.version is never 2",
    ];
    assert_eq!(faults, BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn old_documents_that_the_program_reads() {
    let machine = Topology::from_saved(old(Schema::TOPO)).unwrap();
    assert_eq!((machine.packages().len(), machine.nics()[0].name.as_str()), (2, "eth0"));
    let [measurement]: [Measurement; 1] = read(Schema::STREAM).try_into().unwrap();
    assert_eq!((measurement.bytes, measurement.sender.lanes().count()), (4_000_000, 2));
    let [report]: [latency::Report; 1] = read(Schema::ROUND_TRIPS).try_into().unwrap();
    assert_eq!((report.round_trips[0].bytes, report.round_trips[0].each_ns.len()), (64, 20));
}
