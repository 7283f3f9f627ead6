//! The subject of an examination.

use crate::{exit::Help, placement};
use anyhow::{Result, anyhow};
use rails_bind::thread::Tid;
use rails_multirail::{RailRequest, Rails};
use rails_topo::{Nic, Topology};

/// The subject of an examination.
#[derive(Debug)]
pub(super) enum Subject {
    /// NICs, by name.
    Nics(Vec<String>),
    /// A process.
    Process(Tid),
    /// Rails of this process, made for the purpose.
    Rails(Rails),
}

impl Subject {
    /// The subjects that the command line names, or every NIC.
    pub(super) fn of(
        pid: Option<Tid>,
        iface: Option<&str>,
        rails: Option<&RailRequest>,
        topology: &Topology,
    ) -> Result<Self> {
        match (pid, iface, rails) {
            (Some(pid), _, _) => Ok(Self::Process(pid)),
            (None, Some(name), _) => match topology.nic(name) {
                Some(nic) => Ok(Self::Nics(vec![nic.name.clone()])),
                None => Err(anyhow!("--iface {name}: there is no such interface")
                    .help(format!("interfaces here: {}", names(topology.nics().iter())))),
            },
            (None, None, Some(request)) => {
                let (_, rails) = placement::build(topology, request, "--rails")?;
                Ok(Self::Rails(rails))
            }
            (None, None, None) => {
                let nics = topology.nics().iter().filter(|nic| nic.kind.may_have_device());
                let nics: Vec<String> = nics.map(|nic| nic.name.clone()).collect();
                match nics.is_empty() {
                    false => Ok(Self::Nics(nics)),
                    true => Err(anyhow!("this machine has no NIC with a device behind it")
                        .help("name a subject: --pid, --iface or --rails")),
                }
            }
        }
    }
}

fn names<'a>(nics: impl Iterator<Item = &'a Nic>) -> String {
    nics.map(|nic| nic.name.as_str()).collect::<Vec<_>>().join(", ")
}
