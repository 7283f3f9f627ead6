//! `lram import`: a dataset file for the files of a folder.

use crate::text::printable;
use anyhow::{Context, Result, anyhow};
use rails_cli::{
    exit::{Exit, Help, Helped},
    output_file, print,
};
use rails_lambdaram::{
    catalogue::{OpenLimits, propose},
    description::DatasetDescription,
};
use rails_topo::DataSize;
use std::path::{Path, PathBuf};

/// Look at the files of a folder, and propose a dataset file that makes them one dataset
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Files of NetCDF-3 and MAP-Binary that have the same arrays follow each other along the axis on which they differ, in the order of \
their coordinates. The reasons are printed to stderr. The proposal is opened before it is written, with the blocks that \
`lram serve` would make; `block_shape` in the file changes them.

Example: lram import /data/merra && lram serve /data/merra/merra.toml")]
pub(crate) struct Args {
    /// The folder, whose name the dataset gets
    folder: PathBuf,
    /// The dataset file, which lies in the folder; `-` is stdout [default: FOLDER/NAME.toml]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let folder = args.folder.canonicalize().with_context(|| args.folder.display().to_string())?;
    if !folder.is_dir() {
        return Err(Helped::usage(
            format_args!("{}: it is no folder", args.folder.display()),
            "name the folder of the files; one file is served as it is: lram serve FILE",
        ));
    }
    let name = folder.file_name().map_or_else(|| "dataset".into(), |name| name.to_string_lossy().into_owned());
    let output = args.output.unwrap_or_else(|| folder.join(format!("{name}.toml")));
    let is_stdout = output == Path::new("-");
    if !is_stdout && folder_of(&output)? != folder {
        return Err(Helped::usage(
            format_args!("--output {}: it is not in {}", output.display(), folder.display()),
            "a dataset file names files below its own folder",
        ));
    }
    if !is_stdout && output.exists() && !args.force {
        return Err(anyhow!("{}: the file is there already", output.display()).help("--force replaces it"));
    }
    let limits = OpenLimits::default();
    let proposal = propose(&folder, &limits)?;
    for (path, reason) in proposal.left_out.iter().filter(|(path, _)| *path != output) {
        print::note(format_args!("left out: {}: {reason}", path.display()));
    }
    proposal.reasons.iter().for_each(print::note);
    let dataset_file = if is_stdout { folder.join(format!("{name}.toml")) } else { output.clone() };
    let dataset = proposal.open(&dataset_file, &limits).map_err(|error| {
        let error = anyhow::Error::new(error).context("the files do not make one dataset");
        error.help(format!("this was tried:\n{}", proposal.text))
    })?;
    for array in dataset.arrays.iter().filter(|array| array.inline.is_none()) {
        let (description, blocks) = (&array.description, &array.block_shape);
        let bytes = DataSize::bytes(blocks.elements().saturating_mul(description.dtype.bytes()));
        let name = printable(&description.name);
        print::note(format_args!("`{name}` is {}, in blocks of {blocks} ({bytes}).", description.shape));
    }
    print::note(format_args!("--memory {} holds four steps of the largest array.", memory(&dataset)));
    if is_stdout {
        print::result(proposal.text)?;
    } else {
        output_file::write(&output, proposal.text).with_context(|| format!("cannot write {}", output.display()))?;
        print::note(format_args!("Written: {}", output.display()));
    }
    Ok(Exit::Done)
}

/// The folder of a file to be written.
fn folder_of(output: &Path) -> Result<PathBuf> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().with_context(|| folder.display().to_string())
}

/// Four times the bytes of one step of the largest array, and no less than the default.
fn memory(dataset: &DatasetDescription) -> DataSize {
    let steps = dataset.arrays.iter().map(|array| {
        let (extents, element) = (array.description.shape.extents(), array.description.dtype.bytes());
        extents.iter().skip(1).fold(element, |bytes, extent| bytes.saturating_mul(*extent))
    });
    DataSize::bytes(steps.max().unwrap_or(0).saturating_mul(4).max(256 << 20))
}
