//! `lram describe`: a dataset's dimensions, types and attributes.

use crate::{
    site::{self, DatasetArgs, LITTLE_MEMORY},
    text::{cdl_type, cdl_value, json_value, printable},
};
use anyhow::Result;
use rails_cli::{exit::Exit, print, thread::block_on};
use rails_formats::manifest::{ArrayDescription, Attributes};
use rails_lambdaram::description::{ArraySummary, DatasetDescription};
use rails_topo::DataSize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt::Write};

/// Show a dataset's dimensions, types, attributes and blocks, as `ncdump -h` does
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    dataset: DatasetArgs,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(args.dataset.reading(LITTLE_MEMORY, async |site, dataset| {
        site::warn_of_left_out(site);
        if args.json {
            print::result(format_args!("{}\n", json(dataset.description())))?;
        } else {
            print::result(cdl(dataset.description()))?;
        }
        Ok(Exit::Done)
    }))
}

/// The dataset in CDL.
fn cdl(dataset: &DatasetDescription) -> String {
    let mut text = format!("netcdf {} {{\ndimensions:\n", printable(&dataset.name));
    let lengths = lengths(dataset);
    for (name, lengths) in &lengths {
        for length in lengths {
            let _ = writeln!(text, "\t{} = {length} ;", printable(name));
        }
    }
    text += "variables:\n";
    for ArraySummary { description, block_shape, views, .. } in &dataset.arrays {
        let ArrayDescription { name, dtype, .. } = description;
        let axes: Vec<String> = axes(description).map(|(name, _)| printable(&name)).collect();
        let axes = if axes.is_empty() { String::new() } else { format!("({})", axes.join(", ")) };
        let bytes = DataSize::bytes(block_shape.elements().saturating_mul(dtype.bytes()));
        let _ = writeln!(
            text,
            "\t{} {}{axes} ; // {}, in blocks of {block_shape} ({bytes})",
            cdl_type(*dtype),
            printable(name),
            description.shape
        );
        for view in views {
            let _ = writeln!(text, "\t\t// with blocks of their own for {view}");
        }
        write_attributes(&mut text, &printable(name), &description.attributes);
    }
    if !dataset.attributes.is_empty() {
        text += "\n// global attributes:\n";
        write_attributes(&mut text, "", &dataset.attributes);
    }
    text + "}\n"
}

fn write_attributes(text: &mut String, of: &str, attributes: &Attributes) {
    for (name, value) in attributes {
        let _ = writeln!(text, "\t\t{of}:{} = {} ;", printable(name), cdl_value(value));
    }
}

/// The dataset in JSON.
fn json(dataset: &DatasetDescription) -> Value {
    let arrays = dataset.arrays.iter().map(|ArraySummary { description, block_shape, .. }| {
        json!({
            "name": description.name,
            "dtype": description.dtype,
            "shape": description.shape.extents(),
            "dimensions": description.dimension_names,
            "block_shape": block_shape.extents(),
            "bytes": description.shape.elements().saturating_mul(description.dtype.bytes()),
            "attributes": attributes_json(&description.attributes),
        })
    });
    json!({
        "name": dataset.name,
        "generation": dataset.generation,
        "arrays": arrays.collect::<Vec<_>>(),
        "attributes": attributes_json(&dataset.attributes),
    })
}

fn attributes_json(attributes: &Attributes) -> Map<String, Value> {
    attributes.iter().map(|(name, value)| (name.clone(), json_value(value))).collect()
}

/// The lengths of each dimension: one, unless arrays disagree.
fn lengths(dataset: &DatasetDescription) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (name, length) in dataset.arrays.iter().flat_map(|array| axes(&array.description)) {
        let lengths = all.entry(name).or_default();
        if !lengths.contains(&length) {
            lengths.push(length);
        }
    }
    all
}

/// The name and length of each axis; one without a name is called by its number.
fn axes(array: &ArrayDescription) -> impl Iterator<Item = (String, u64)> {
    let names = array.dimension_names.iter().enumerate();
    names.zip(array.shape.extents()).map(|((axis, name), length)| {
        (name.clone().unwrap_or_else(|| format!("axis_{axis}_of_{}", array.name)), *length)
    })
}
