//! The choice of a machine: this one, or a saved one.

use super::detected;
use crate::config;
use anyhow::{Context, Result, bail};
use rails_topo::Topology;
use std::path::PathBuf;

/// The flag for the source of the machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MachineArgs {
    /// Read a saved machine instead of this one: a capture (`topo capture`), a model (`topo
    /// --json`), hwloc XML (`lstopo machine.xml`), or a folder that holds a copy of its /sys
    /// and /proc; or believe a TOML file of facts about it, after those of --config. The content
    /// shows which of them it is. May be given more than once, with one machine at most
    #[arg(long, value_name = "FILE", aliases = ["xml", "sysfs"])]
    topology: Vec<PathBuf>,
}

impl MachineArgs {
    /// Whether it is this machine.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.topology.iter().all(|file| config::is_toml(file))
    }

    /// The machine's model.
    pub(crate) fn topology(&self) -> Result<Topology> {
        let (facts, saved): (Vec<PathBuf>, Vec<PathBuf>) =
            self.topology.iter().cloned().partition(|file| config::is_toml(file));
        match &saved[..] {
            [] => config::of_this_machine(detected()?, &facts),
            [saved] => {
                let read = Topology::from_saved(saved).with_context(|| format!("--topology {}", saved.display()));
                config::of_another(read?, &facts)
            }
            [one, other, ..] => bail!("--topology: {} and {} are two machines", one.display(), other.display()),
        }
    }
}
