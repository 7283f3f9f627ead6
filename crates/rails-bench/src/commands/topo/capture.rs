//! `rails-bench topo capture`

use crate::{exit::Exit, output_file, print};
use anyhow::{Context, Result};
use rails_topo::Capture;
use std::path::PathBuf;

/// Pack the kernel's files about this machine into one file, for --topology on any other
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rails-bench topo capture machine.tar.gz
  rails-bench topo --topology machine.tar.gz
  rails-bench plan --rails auto --topology machine.tar.gz

The file is an archive of the files of /sys and /proc that were read, and of no others: `tar -tzf` lists them. It tells the machine's host name,
the hardware and IP addresses of its interfaces, its devices, its kernel, and what is mounted where. --anonymous makes up other names and
addresses, and leaves the mounts out. Needs no privilege; what may not be read is missing, as it is for `topo`.")]
pub(crate) struct Args {
    /// The file to be written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Put other names and addresses in place of the machine's own
    #[arg(long)]
    anonymous: bool,
    /// Pack a folder that holds a copy of a machine's /sys and /proc, and not this machine
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let capture = match &args.folder {
        Some(folder) => Capture::of_folder(folder).with_context(|| format!("--folder {}", folder.display()))?,
        None => Capture::of_this_machine().context("this machine cannot be read")?,
    };
    let capture = if args.anonymous { capture.anonymous() } else { capture };
    let mut archive = Vec::new();
    capture.write(&mut archive)?;
    let file = args.file.display();
    output_file::write(&args.file, &archive).with_context(|| format!("FILE: cannot write `{file}`"))?;
    print::note(format_args!("captured in {file} ({} bytes)", archive.len()));
    Ok(Exit::Done)
}
