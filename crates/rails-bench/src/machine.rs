//! Which machine is meant: this one, or one that was saved.

use crate::facts;
use anyhow::{Context, Result};
use rails_topo::{NicKind, Topology};
use std::{fmt, path::PathBuf};

/// Where the machine is read from.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MachineArgs {
    /// Read the machine from an hwloc XML file (`lstopo machine.xml`) instead of this one
    #[arg(long, value_name = "FILE", conflicts_with = "sysfs")]
    xml: Option<PathBuf>,
    /// Read the machine from a folder that holds a copy of its /sys and /proc
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
    /// Believe this TOML file about the machine, after those of --config; may be given more than once
    #[arg(long = "topology", value_name = "FILE")]
    topologies: Vec<PathBuf>,
}

impl MachineArgs {
    /// Whether it is the machine that this runs on.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.xml.is_none() && self.sysfs.is_none()
    }

    /// The machine's model.
    pub(crate) fn topology(&self) -> Result<Topology> {
        self.topologies.iter().try_for_each(|file| facts::ensure_toml(file))?;
        let topology = match (&self.xml, &self.sysfs) {
            (Some(file), _) => Topology::from_xml(file).with_context(|| format!("--xml {}", file.display()))?,
            (None, Some(root)) => {
                Topology::from_sysfs_root(root).with_context(|| format!("--sysfs {}", root.display()))?
            }
            (None, None) => return facts::of_this_machine(detected()?, &self.topologies),
        };
        facts::of_another(topology, &self.topologies)
    }
}

/// The machine that this runs on, with what files say of it.
pub(crate) fn this_machine() -> Result<Topology> {
    facts::of_this_machine(detected()?, &[])
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
