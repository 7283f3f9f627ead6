//! Which machine is meant: this one, or one that was saved.

use anyhow::{Context, Result};
use rails_topo::{NicKind, Topology};
use std::{fmt, path::PathBuf};

/// Where the machine is read from.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MachineArgs {
    /// Read a saved machine instead of this one: a capture (`topo capture`), a model (`topo --json`), hwloc XML (`lstopo machine.xml`), or a folder that
    /// holds a copy of its /sys and /proc. The content shows which of them it is
    #[arg(long, value_name = "FILE", aliases = ["xml", "sysfs"])]
    topology: Option<PathBuf>,
}

impl MachineArgs {
    /// Whether it is the machine that this runs on.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.topology.is_none()
    }

    /// The machine's model.
    pub(crate) fn topology(&self) -> Result<Topology> {
        match &self.topology {
            Some(saved) => Topology::from_saved(saved).with_context(|| format!("--topology {}", saved.display())),
            None => this_machine(),
        }
    }
}

/// The machine that this runs on.
pub(crate) fn this_machine() -> Result<Topology> {
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
            writeln!(
                f,
                "           {}: {driver}, {speed}, {node}, {}",
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
