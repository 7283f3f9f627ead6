//! The laboratory (feature `lab`): commands that make network namespaces, emulate machines, and
//! measure streams beside other transports.

mod background;
mod commands;
pub(crate) mod compare;
mod disturb;
mod fault;
mod latency;
pub(crate) mod links;
mod netvideo;
pub(crate) mod rate;
mod soak;
mod wan;

use crate::exit::Exit;
use anyhow::Result;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Compare(commands::compare::Args),
    Latency(commands::latency::Args),
    Disturb(commands::disturb::Args),
    Wan(commands::wan::Args),
    Netvideo(commands::netvideo::Args),
    Overlap(commands::overlap::Args),
    PingPong(commands::ping_pong::Args),
    BackgroundEnd(commands::background_end::Args),
    Soak(commands::soak::Args),
    Lab(commands::lab::Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<Exit> {
        match self {
            Self::Compare(args) => commands::compare::run(&args),
            Self::Latency(args) => commands::latency::run(&args),
            Self::Disturb(args) => commands::disturb::run(&args),
            Self::Wan(args) => commands::wan::run(&args),
            Self::Netvideo(args) => commands::netvideo::run(&args),
            Self::Overlap(args) => commands::overlap::run(&args),
            Self::PingPong(args) => commands::ping_pong::run(&args),
            Self::BackgroundEnd(args) => commands::background_end::run(&args),
            Self::Soak(args) => commands::soak::run(&args),
            Self::Lab(args) => commands::lab::run(args),
        }
    }
}
