//! `lram get`: a box of an array, as a file.

use crate::{
    output::{self, Format, Target},
    site::DatasetArgs,
    slabs::Slabs,
};
use anyhow::{Result, bail};
use rails_array::{Region, Selection, SelectionText, SelectionTextError};
use rails_cli::{
    bar::{self, Bar},
    exit::{Exit, Help, Helped},
    size,
    thread::block_on,
};
use rails_lambdaram::{Array, Dataset, SelectError};
use rails_topo::DataSize;
use std::{
    io::{IsTerminal, stderr},
    path::PathBuf,
};

/// Read a box of an array into a file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A box is `ARRAY[...]` with an entry for each axis, as numpy's: an index (3, -1) drops its axis, a slice (0:64, ::4) keeps it, `:` \
is all of an axis, and `...` all axes that are not written. Coordinates count from 0, and an end does not belong to its slice.

A file appears under its name only when it is whole. The box goes through memory slab by slab, so it may be larger than memory.

Examples:
  lram get lram://host/merra --box 'ozone[0:64, 3, :, 100:250]' -o ozone.nc
  lram get lram://host/merra --box 'ozone[-1]' -o last.npy
  lram get lram://host/merra --box 'ozone[..., 180, 270]' -o - | od -t f4")]
pub(crate) struct Args {
    #[command(flatten)]
    dataset: DatasetArgs,
    /// The box, such as 'ozone[0:64, 3, :, 100:250]' [default: all of the only array]
    #[arg(long = "box", value_name = "BOX", value_parser = is_box)]
    selection: Option<String>,
    /// The file; its name ends with .nc, .npy or .raw, or --format says what it is. `-` is stdout,
    /// raw
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// The format, whatever the name of the file
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    /// Memory for blocks; a slab has a quarter of it, 64MiB at most
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size::parse)]
    memory: DataSize,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let format = format_of(&args)?;
    block_on(args.dataset.reading(args.memory, async |_, dataset| get(&args, format, dataset).await))
}

async fn get(args: &Args, format: Format, dataset: Dataset) -> Result<Exit> {
    let (array, selection) = select(&dataset, args.selection.as_deref())?;
    let description = array.description();
    if selection.is_empty() {
        bail!("the box {}{selection} has no element", description.name);
    }
    let bytes = selection.elements().saturating_mul(description.dtype.bytes());
    let mut target = Target::open(&args.output, args.force)?;
    let frame = format.frame(&dataset, &array, &selection).await?;
    let bar = progress(bytes, args.quiet);
    target.write(frame.header).await?;
    let max_bytes = (args.memory.as_bytes() / 4).min(MAX_SLAB_BYTES);
    let slabs = || Slabs::new(&selection, array.block_shape(), description.dtype.bytes(), max_bytes);
    announce(&array, slabs())?;
    for slab in slabs() {
        let mut elements = target.buffer();
        elements.resize((slab.elements() * description.dtype.bytes()) as usize, 0);
        array.read_into(&slab, &mut elements).await?;
        output::swap(description.dtype, &mut elements, frame.endianness);
        bar.inc(elements.len() as u64);
        target.write(elements).await?;
    }
    target.write(frame.trailer).await?;
    target.finish().await?;
    bar.finish_and_clear();
    Ok(Exit::Done)
}

/// The array and the elements that are meant.
pub(super) fn select(dataset: &Dataset, text: Option<&str>) -> Result<(Array, Selection)> {
    let whole = || {
        let names: Vec<&str> = dataset.array_names().collect();
        match names[..] {
            [only] => {
                let array = dataset.array(only)?;
                let selection = Selection::from(Region::whole(&array.description().shape));
                Ok((array, selection))
            }
            _ => Err(Helped::usage(
                format_args!("--box is missing: the dataset has {} arrays", names.len()),
                format!("name one, as --box '{}[...]'", names.first().unwrap_or(&"ARRAY")),
            )),
        }
    };
    let Some(text) = text else { return whole() };
    dataset.select(text).map_err(|error| {
        let is_nameless = matches!(error, SelectError::NoName);
        let error = anyhow::Error::new(error).context(format!("--box '{text}'"));
        let help = format!("`lram describe` prints the arrays of `{}` and their shapes", dataset.name());
        if is_nameless { Helped::usage(format_args!("{error:#}"), help) } else { error.help(help) }
    })
}

/// The text, if it is one of a box, whatever the array.
pub(super) fn is_box(text: &str) -> Result<String, SelectionTextError> {
    text.parse::<SelectionText>().map(|_| text.to_owned())
}

/// Has the slabs fetched in their order.
fn announce(array: &Array, slabs: Slabs) -> Result<()> {
    let regions: Vec<Region> = slabs.take(MAX_ANNOUNCED).map(|slab| slab.bounds().clone()).collect();
    Ok(array.tell(regions)?)
}

fn format_of(args: &Args) -> Result<Format> {
    let name = args.output.to_string_lossy();
    match args.format.or_else(|| Format::of_name(&name)) {
        Some(format) => Ok(format),
        None if name == "-" => Ok(Format::Raw),
        None => Err(Helped::usage(
            format_args!("--output {name}: the name does not say the format"),
            "let it end with .nc, .npy or .raw, or give --format",
        )),
    }
}

fn progress(bytes: u64, quiet: bool) -> Bar {
    let bar = if quiet || !stderr().is_terminal() { Bar::hidden() } else { bar::shown() };
    bar.set_length(bytes);
    bar
}

const MAX_SLAB_BYTES: u64 = 64 << 20;

/// Slabs behind these are foretold by those before them.
const MAX_ANNOUNCED: usize = 4096;
