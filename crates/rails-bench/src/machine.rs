//! The choice of a machine: this one, or a saved one.

use crate::config;
use anyhow::{Context, Result, bail};
use rails_topo::{NicKind, Topology};
use std::{fmt, path::PathBuf};

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

/// This machine, with the user's files of facts.
pub(crate) fn this_machine() -> Result<Topology> {
    config::of_this_machine(detected()?, &[])
}

fn detected() -> Result<Topology> {
    Topology::detect().context("this machine cannot be read")
}

/// A machine in a few lines; [`Topology::tree`] has all of it.
pub(crate) struct Brief<'a>(pub(crate) &'a Topology);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(topology) = self;
        let machine = topology.machine();
        let kernel = machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
        let known: Vec<String> = [machine.cpu_model.clone(), kernel].into_iter().flatten().collect();
        writeln!(f, "machine    {}", if known.is_empty() { "of unknown make".to_owned() } else { known.join(", ") })?;
        let counted = [
            count(topology.packages().len(), "package"),
            count(topology.nodes().len(), "NUMA node"),
            count(topology.cores().len(), "core"),
            count(topology.online_cpus().len(), "CPU"),
        ];
        writeln!(f, "           {}; CPUs {} may be used", counted.join(", "), topology.allowed_cpus())?;
        for nic in topology.nics().iter().filter(|nic| nic.kind == NicKind::Device) {
            let driver = nic.driver.as_deref().unwrap_or("driver unknown");
            let speed = nic.speed.map_or("speed unknown".to_owned(), |speed| speed.to_string());
            let node = nic.node.map_or("node unknown".to_owned(), |node| format!("node {node}"));
            let hidden = nic.hidden.as_ref().map_or(String::new(), |reason| format!("; left alone: {reason}"));
            writeln!(
                f,
                "           {}: {driver}, {speed}, {node}, {}{hidden}",
                nic.name,
                count(nic.interrupts.len(), "interrupt")
            )?;
        }
        Ok(())
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
