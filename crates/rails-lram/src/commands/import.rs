//! `lram import`: a dataset file for the files of a folder.

use crate::proposal::{Proposal, SeenArray, SeenFile};
use anyhow::{Context, Result, anyhow, bail};
use rails_cli::{
    exit::{Exit, Help, Helped},
    output_file, print,
};
use rails_formats::data_type::{DataType, Endianness};
use rails_lambdaram::{
    catalogue::{Catalogue, OpenLimits, PublishedDataset, SourceFormat},
    description::DatasetDescription,
};
use rails_topo::DataSize;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Look at the files of a folder, and propose a dataset file that makes them one dataset
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Files of NetCDF-3 and MAP-Binary that have the same arrays follow each other along the first axis that they share, in the order \
of their coordinates. The proposal is opened before it is written, so what `lram serve` says of it is known.

Example: lram import /data/merra && lram serve /data/merra/merra.toml")]
pub(crate) struct Args {
    /// The folder
    folder: PathBuf,
    /// The dataset file, in the folder or above it; `-` is stdout [default: FOLDER/NAME.toml]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The name of the dataset [default: that of the folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let folder = args.folder.canonicalize().with_context(|| args.folder.display().to_string())?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => folder.file_name().map_or_else(|| "dataset".into(), |name| name.to_string_lossy().into_owned()),
    };
    let output = args.output.clone().unwrap_or_else(|| folder.join(format!("{name}.toml")));
    let is_stdout = output == Path::new("-");
    let root = if is_stdout { folder.clone() } else { root_of(&output)? };
    let Ok(below) = folder.strip_prefix(&root) else {
        return Err(Helped::usage(
            format_args!("--output {}: it is neither in {} nor above it", output.display(), folder.display()),
            "a dataset file names files below its own folder",
        ));
    };
    if output.exists() && !args.force {
        return Err(anyhow!("{}: the file is there already", output.display()).help("--force replaces it"));
    }
    let proposal = Proposal::of(&name, below, seen(&folder)?)?;
    proposal.notes.iter().for_each(print::note);
    let opened = opened(&root, &proposal.text(None))?;
    let text = proposal.text(Some(&opened));
    if is_stdout {
        print::result(text)?;
    } else {
        output_file::write(&output, text).with_context(|| format!("cannot write {}", output.display()))?;
        print::note(format_args!("written: {}", output.display()));
    }
    print::note(format_args!("memory: {} hold its largest array's first step four times", memory(&opened)));
    Ok(Exit::Done)
}

/// The folder of a file to be written.
fn root_of(output: &Path) -> Result<PathBuf> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().with_context(|| folder.display().to_string())
}

/// The files of the folder that can be parts of a dataset.
fn seen(folder: &Path) -> Result<Vec<SeenFile>> {
    let catalogue = Catalogue::open(&[folder.to_owned()], &OpenLimits::default());
    let catalogue = catalogue.map_err(|error| {
        anyhow::Error::new(error).help("files of one name but for their ending cannot be told apart: move one away")
    })?;
    for refused in catalogue.refused() {
        print::note(format_args!("left out: {}: {}", refused.path.display(), refused.error));
    }
    let files: Vec<SeenFile> = catalogue.datasets().filter_map(|dataset| seen_file(dataset)).collect();
    if files.is_empty() {
        bail!("{}: no file of NetCDF-3 or MAP-Binary is there", folder.display());
    }
    Ok(files)
}

fn seen_file(dataset: &PublishedDataset) -> Option<SeenFile> {
    let format = match dataset.format() {
        SourceFormat::NetCdf3 => "netcdf3",
        SourceFormat::MapBinary => "map-binary",
        _ => return None,
    };
    let arrays = dataset.description().arrays.iter().map(|array| {
        let description = &array.description;
        let dimensions = description.dimension_names.iter().zip(description.shape.extents());
        SeenArray {
            name: description.name.clone(),
            dtype: description.dtype,
            dimensions: dimensions.map(|(name, length)| (name.clone(), *length)).collect(),
            values: array.inline.as_deref().and_then(|bytes| description.dtype.numbers(bytes, Endianness::Little)),
        }
    });
    let name = dataset.path().file_name()?.to_str()?.to_owned();
    Some(SeenFile { name, format, arrays: arrays.collect() })
}

/// Opens a proposal as a dataset file in that folder.
fn opened(root: &Path, text: &str) -> Result<DatasetDescription> {
    let beside = tempfile::Builder::new().prefix(".lram-").suffix(".toml").tempfile_in(root);
    let mut beside = beside.with_context(|| format!("cannot try the proposal in {}", root.display()))?;
    beside.write_all(text.as_bytes()).context("cannot try the proposal")?;
    let catalogue = Catalogue::open(&[beside.path().to_owned()], &OpenLimits::default());
    let catalogue = catalogue.map_err(|error| {
        let error = anyhow::Error::new(error).context("the files do not make one dataset");
        error.help(format!("this was tried:\n{text}"))
    })?;
    let dataset = catalogue.datasets().next().context("the proposal has no dataset")?;
    Ok(dataset.description().clone())
}

/// Four times the bytes of one step of the largest array, and no less than the default.
fn memory(dataset: &DatasetDescription) -> DataSize {
    let step = |(shape, dtype): (&rails_array::Shape, DataType)| {
        let rest = shape.extents().iter().skip(1).fold(dtype.bytes(), |bytes, extent| bytes.saturating_mul(*extent));
        rest.saturating_mul(4)
    };
    let arrays = dataset.arrays.iter().map(|array| (&array.description.shape, array.description.dtype));
    DataSize::bytes(arrays.map(step).max().unwrap_or(0).max(256 << 20))
}
