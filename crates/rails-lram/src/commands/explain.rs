//! `lram explain`: a read, before it is made.

use crate::{
    commands::get::select,
    site::{DatasetArgs, LITTLE_MEMORY},
};
use anyhow::Result;
use rails_array::{Region, Selection};
use rails_cli::{exit::Exit, print, thread::block_on};
use rails_lambdaram::{Array, Explanation};
use rails_topo::DataSize;
use serde_json::json;
use std::fmt::Write;

/// Say which blocks a read of a box takes, and how many bytes would travel
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Blocks travel whole. A box that takes a small part of each of its blocks is read faster with blocks of another shape: \
`block_shape` of a dataset file, or a view for a region that is read again and again.

Example: lram explain lram://host/merra --box 'ozone[:, 3, 100:200, 100:250]'")]
pub(crate) struct Args {
    #[command(flatten)]
    dataset: DatasetArgs,
    /// The box, such as 'ozone[0:64, 3, :, 100:250]' [default: all of the only array]
    #[arg(long = "box", value_name = "BOX", value_parser = super::get::is_box)]
    selection: Option<String>,
    /// List the blocks, too
    #[arg(long)]
    blocks: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(args.dataset.reading(LITTLE_MEMORY, async |_, dataset| {
        let (array, selection) = select(&dataset, args.selection.as_deref())?;
        let explanation = array.explain(&selection)?;
        let bytes = block_bytes(&array, &explanation);
        if args.json {
            print::result(format_args!("{}\n", json(&array, &selection, &explanation, bytes)))?;
        } else {
            print::text(text(&array, &selection, &explanation, bytes, args.blocks))?;
        }
        Ok(Exit::Done)
    }))
}

/// The size of all blocks of a read.
fn block_bytes(array: &Array, explanation: &Explanation) -> u64 {
    let elements = explanation.blocks.iter().map(|(region, _)| region.elements()).fold(0, u64::saturating_add);
    elements.saturating_mul(array.description().dtype.bytes())
}

fn text(array: &Array, selection: &Selection, explanation: &Explanation, bytes: u64, lists: bool) -> String {
    let mut text = String::new();
    let wanted = explanation.wanted_bytes;
    let name = crate::text::printable(&array.description().name);
    let _ = writeln!(text, "box       {name}{selection}: {}, {}", selection.shape(), DataSize::bytes(wanted));
    let of = explanation.view.as_ref().map_or_else(|| "the array".to_owned(), |view| format!("the view {view}"));
    let (count, shape) = (explanation.blocks.len(), &explanation.block_shape);
    let _ = writeln!(text, "blocks    {count} of {shape}, which divide {of}");
    let times =
        if wanted == 0 { String::new() } else { format!(", {:.1} times the box", bytes as f64 / wanted as f64) };
    let _ = writeln!(text, "they hold {}{times}", DataSize::bytes(bytes));
    let missing = DataSize::bytes(explanation.missing_bytes);
    let _ = writeln!(text, "to fetch  {missing} into a site without any of them, before encoding");
    for (region, _) in explanation.blocks.iter().filter(|_| lists) {
        let _ = writeln!(text, "  {region}");
    }
    text
}

fn json(array: &Array, selection: &Selection, explanation: &Explanation, bytes: u64) -> serde_json::Value {
    let extents = |region: &Region| json!({ "start": region.start(), "shape": region.shape().extents() });
    let blocks: Vec<_> = explanation.blocks.iter().map(|(region, _)| extents(region)).collect();
    json!({
        "array": array.description().name,
        "selection": selection.to_string(),
        "shape": selection.shape().extents(),
        "wanted_bytes": explanation.wanted_bytes,
        "block_shape": explanation.block_shape.extents(),
        "block_bytes": bytes,
        "missing_bytes": explanation.missing_bytes,
        "view": explanation.view.as_ref().map(extents),
        "blocks": blocks,
    })
}
