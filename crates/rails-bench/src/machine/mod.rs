//! The machine that this runs on.

#[cfg(feature = "cli")]
mod flags;

use crate::config;
use anyhow::{Context, Result};
#[cfg(feature = "cli")]
pub(crate) use flags::MachineArgs;
use rails_topo::{NicKind, Topology};
use std::fmt;

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
