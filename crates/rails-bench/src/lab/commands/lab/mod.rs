//! `lab`: networks to try things on, made for as long as they are wanted.

mod emulated;
mod guest;
mod links;
mod report;
mod session;

use crate::exit::{Exit, Help, Helped};
use anyhow::Result;
use clap::Subcommand;
pub(super) use emulated::probability;
use rails_lab::LabError;

/// Make links between two network namespaces, or a two-socket machine, and run programs there
///
/// The two sides of links, A and B, are namespaces with interfaces, addresses and TCP stacks of
/// their own, joined by one link or several; to make them takes root. Nothing of this machine's own
/// network is touched. A lab is there for as long as this runs, and gone however it ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    Links(links::Args),
    Emulated(emulated::Args),
    Guest(guest::Args),
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    match args.kind {
        Kind::Links(args) => links::run(args),
        Kind::Emulated(args) => emulated::run(args),
        Kind::Guest(args) => guest::run(args),
    }
}

/// A lab's error, with the help for it.
fn explained(error: LabError) -> anyhow::Error {
    let help = match &error {
        LabError::NotRoot { .. } => "run it as root: it makes network namespaces, and removes them again",
        LabError::NamespacesRefused { .. } => "run it outside the container, or give the container CAP_SYS_ADMIN",
        LabError::ToolMissing { .. } => "install that package, e.g. `apt-get install iproute2`",
        LabError::Tap { .. } => "load the module (`modprobe tun`), or give the container the device /dev/net/tun",
        LabError::BadEmulatedLink { .. } => return Helped::usage(error, "change --rate, --rtt, --queue or --loss"),
        LabError::BadShape { .. } => return Helped::usage(error, "change --rate"),
        LabError::TooManyLinks { .. } => return Helped::usage(error, "ask for fewer links"),
        _ => return error.into(),
    };
    anyhow::Error::from(error).help(help)
}
