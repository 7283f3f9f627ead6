//! `docs/json.md`.

use super::{
    Described,
    shape::{Definitions, Field, Shape, Shapes, description, reference},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

const HEAD: &str = "\
# JSON of rails-bench

Each document begins with its `schema` and its `version`. A release that adds a field keeps the version; one that takes
a field away, or changes its meaning, has the next. So a program that reads a document looks at both, and ignores
fields that it does not know. A command that fails before it has a result prints no document: its reason is on stderr,
and its exit code is not 0.

`a[].b` is field `b` of each item of the array `a`. An `object of T` has data as its keys, and `a.*` is each value. A
field with a `?` may be missing. CPUs and nodes are texts in the kernel's list syntax, `0-3,8`.
[One JSON schema](json.schema.json) describes all documents.
";

/// The page of these documents.
pub(super) fn page(documents: &[Described], definitions: &Definitions) -> String {
    let linked = linked(documents, definitions);
    let shapes = Shapes { definitions, linked: &linked };
    let mut page = HEAD.to_owned();
    page += "\n| document | printed by |\n|---|---|\n";
    for Described { schema, command, .. } in documents {
        let name = schema.name();
        let anchor = name.replace('.', "");
        let _ = writeln!(page, "| [{name}](#{anchor}) | `rails-bench {command}` |");
    }
    for Described { schema, command, form, fields } in documents {
        let (name, version) = (schema.name(), schema.version());
        let _ = write!(page, "\n## {name}\n\nVersion {version}. `rails-bench {command}` {form}.\n");
        let mut shape = shapes.of(fields);
        if let Some(link) = &shape.link {
            let _ = writeln!(page, "Its fields are those of {}.", linked_name(link));
        }
        shape.fields.retain(|name, _| !["schema", "version"].contains(&name.as_str()));
        page += &table(&shape);
    }
    page += "\n# Types\n";
    for name in &linked {
        let definition = &definitions[name];
        let _ = write!(page, "\n## {name}\n");
        if let Some(description) = description(definition) {
            let _ = write!(page, "\n{}\n", sentence(description));
        }
        let shape = shapes.of(definition);
        if !shape.scalars.is_empty() {
            let _ = write!(page, "\nType: {}.\n", kind(&shape));
        }
        page += &table(&shape);
    }
    page
}

/// The types with fields that are in more than one place.
fn linked(documents: &[Described], definitions: &Definitions) -> BTreeSet<String> {
    let mut uses = BTreeMap::new();
    let all = documents.iter().map(|document| &document.fields).chain(definitions.values());
    all.for_each(|schema| count(schema, &mut uses));
    let none = BTreeSet::new();
    let has_fields = |name: &str| !Shapes { definitions, linked: &none }.of(&definitions[name]).fields.is_empty();
    uses.into_iter().filter(|(name, uses)| *uses > 1 && has_fields(name)).map(|(name, _)| name.to_owned()).collect()
}

/// Counts the references of a schema.
fn count<'a>(schema: &'a Value, uses: &mut BTreeMap<&'a str, usize>) {
    if let Some(name) = reference(schema) {
        *uses.entry(name).or_default() += 1;
    }
    match schema {
        Value::Object(parts) => parts.values().for_each(|part| count(part, uses)),
        Value::Array(parts) => parts.iter().for_each(|part| count(part, uses)),
        _ => {}
    }
}

fn table(shape: &Shape) -> String {
    let mut rows = String::new();
    add_rows(shape, "", &mut rows);
    match rows.is_empty() {
        true => rows,
        false => format!("\n| field | type | unit | meaning |\n|---|---|---|---|\n{rows}"),
    }
}

/// The rows of the fields of a shape, whose path this is.
fn add_rows(shape: &Shape, path: &str, rows: &mut String) {
    let dot = if path.is_empty() { "" } else { "." };
    for (name, fields) in &shape.fields {
        let path = format!("{path}{dot}{name}");
        let mut fields = &fields[..];
        while let Some(first) = fields.first() {
            let row = |field: &Field| (kind(&field.shape), field.is_optional, sentence(&field.description));
            let same;
            (same, fields) = fields.split_at(fields.iter().take_while(|field| row(field) == row(first)).count());
            let (kind, is_optional, meaning) = row(first);
            let (unit, mark) = (unit(name, &first.shape), if is_optional { "?" } else { "" });
            let variants: Vec<String> =
                same.iter().filter_map(|field| Some(code(&field.variant.as_ref()?.1))).collect();
            let variants = match &first.variant {
                Some((tag, _)) => format!("With `{tag}` {}: ", variants.join(", ")),
                None => String::new(),
            };
            let _ = writeln!(rows, "| `{path}`{mark} | {kind} | {unit} | {variants}{meaning} |");
            add_rows(&first.shape, &path, rows);
        }
    }
    if let Some(items) = &shape.items {
        add_rows(items, &format!("{path}[]"), rows);
    }
    if let Some(values) = &shape.values {
        add_rows(values, &format!("{path}{dot}*"), rows);
    }
}

/// The type, in words.
fn kind(shape: &Shape) -> String {
    let mut kinds: Vec<String> = shape.scalars.iter().filter(|kind| *kind != "null").map(|kind| code(kind)).collect();
    kinds.extend(shape.link.as_ref().map(|name| linked_name(name)));
    kinds.extend(shape.items.as_ref().map(|items| format!("array of {}", kind(items))));
    match &shape.values {
        Some(values) => kinds.push(format!("object of {}", kind(values))),
        None if shape.is_object => kinds.push("object".to_owned()),
        None => {}
    }
    kinds.extend(shape.scalars.get("null").cloned());
    kinds.join(" or ")
}

/// The JSON type as it is, or a text as code.
fn code(text: &str) -> String {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => format!("`{text}`"),
        None => text.to_owned(),
    }
}

fn linked_name(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

/// The unit that the name of a number, or of numbers, has.
fn unit(name: &str, shape: &Shape) -> &'static str {
    let number = shape.items.as_deref().or(shape.values.as_deref()).unwrap_or(shape);
    if !["integer", "number"].iter().any(|kind| number.scalars.contains(*kind)) {
        return "";
    }
    let unit_of = |end: &str| match end {
        "bits_per_second" => Some("bit/s"),
        "mt_per_second" => Some("MT/s"),
        "khz" => Some("kHz"),
        "seconds" | "secs" | "s" => Some("s"),
        "ms" => Some("ms"),
        "us" => Some("µs"),
        "ns" | "nanos" => Some("ns"),
        "bytes" => Some("byte"),
        _ => None,
    };
    let ends = name.match_indices('_').map(|(at, _)| &name[at + 1..]);
    let unit = std::iter::once(name).chain(ends).find_map(unit_of);
    unit.unwrap_or(if name.starts_with("bytes_") { "byte" } else { "" })
}

/// The first sentence of a description, without links of rustdoc, and with JSON's name of `None`.
fn sentence(description: &str) -> String {
    let text = description.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let end = text.match_indices(". ").find(|(at, _)| !text[..*at].ends_with("etc"));
    let text = end.map_or(&*text, |(at, _)| &text[..=at]);
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link, after)) = next_link(rest) {
        plain += before;
        plain += link;
        rest = after;
    }
    plain += rest;
    plain.replace("`None`", "`null`").replace('|', "\\|")
}

/// The text before a link, the link's text, and the rest. Brackets in code are no link.
fn next_link(text: &str) -> Option<(&str, &str, &str)> {
    let is_code = |at: usize| text[..at].matches('`').count() % 2 == 1;
    let (at, _) = text.match_indices('[').find(|(at, _)| !is_code(*at))?;
    let (link, after) = text[at + 1..].split_once(']')?;
    let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
    Some((&text[..at], link, target.map_or(after, |(_, after)| after)))
}
