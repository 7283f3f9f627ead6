//! The ways that a program's connections may take.
//!
//! A new door is a variant of [`Door`], and an arm of [`Door::open`] that starts what it needs and
//! says in a [`Passage`] how programs get through. The programs themselves know passages alone.

mod gates;

use crate::{
    passage::{Means, Passage},
    process::{find, sibling},
    room::Room,
};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

/// A way that a program's connections may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// TCP, over the link that the routes choose.
    Plain,
    /// The kernel's Multipath TCP: `mptcpize run` before the client and before the service.
    Mptcpize,
    /// Gates, and `rails-bench pipe` in place of a connection.
    Pipe,
    /// Gates, and a port of the client's host for each service, by `rails-bench forward`.
    Forward,
    /// Gates, and SOCKS5, by `rails-bench forward --socks`.
    Socks,
    /// Gates, and `rails-bench run --stripe` before the client.
    Stripe,
    /// Gates, and `rails-bench redirect` for a cgroup that the client is in.
    Redirect,
}

impl Door {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mptcpize => "mptcpize",
            Self::Pipe => "pipe",
            Self::Forward => "forward",
            Self::Socks => "socks",
            Self::Stripe => "stripe",
            Self::Redirect => "redirect",
        }
    }

    /// The part of a program that this door takes hold of.
    pub fn means(self) -> Means {
        match self {
            Self::Plain | Self::Mptcpize | Self::Stripe | Self::Redirect => Means::Command,
            Self::Pipe => Means::ProxyCommand,
            Self::Forward => Means::Destination,
            Self::Socks => Means::Socks,
        }
    }

    /// Why the door cannot be opened on this system; `None` if it can.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Mptcpize if find(MPTCPIZE).is_none() => Some(format!("{MPTCPIZE} is not installed")),
            Self::Mptcpize => None,
            Self::Redirect if gates::cgroups().is_none() => Some("no cgroup2 file system is mounted".to_owned()),
            Self::Pipe | Self::Forward | Self::Socks | Self::Stripe | Self::Redirect => {
                sibling(gates::RAILS_BENCH).err().map(|error| error.to_string())
            }
        }
    }

    /// Opens the door in a room, once.
    ///
    /// # Errors
    ///
    /// A program that it needs is missing or fails.
    pub fn open(self, room: &Room) -> Result<Passage> {
        if let Some(why) = self.missing() {
            bail!("the door {} cannot be opened: {why}", self.name());
        }
        match self {
            Self::Plain => Ok(Passage::default()),
            Self::Mptcpize => {
                room.lab.enable_mptcp().context("the kernel's MPTCP")?;
                let run = [MPTCPIZE, "run"].map(str::to_owned).to_vec();
                Ok(Passage { client_prefix: run.clone(), service_prefix: run, ..Passage::default() })
            }
            Self::Pipe => gates::open(room)?.pipe(),
            Self::Forward => gates::open(room)?.forward(room),
            Self::Socks => gates::open(room)?.socks(room),
            Self::Stripe => gates::open(room)?.stripe(),
            Self::Redirect => gates::open(room)?.redirect(room),
        }
    }
}

const MPTCPIZE: &str = "mptcpize";
