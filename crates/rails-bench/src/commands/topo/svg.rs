//! `rails-bench topo --svg`

use crate::{machine::MachineArgs, output_file, placement, print};
use anyhow::{Context, Result};
use rails_multirail::{RailRequest, planner::PlannedRail};
use rails_topo::{CpuSet, Overlay, RailMark, Topology};
use std::path::{Path, PathBuf};

/// The picture to draw, and its file.
#[derive(Debug, clap::Args)]
pub(super) struct SvgArgs {
    /// Draw the machine into an SVG file; `-` is stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "of", "explain"])]
    svg: Option<PathBuf>,
    /// Draw these rails over it, where `plan` would place them (`plan --help` lists the wishes)
    #[arg(long, value_name = "SPEC", requires = "svg")]
    rails: Option<RailRequest>,
}

impl SvgArgs {
    /// Draws the machine if a picture was requested. Returns whether one was.
    pub(super) fn draw(&self, machine: &MachineArgs, topology: &Topology) -> Result<bool> {
        let Some(file) = &self.svg else { return Ok(false) };
        let rails = match &self.rails {
            Some(request) => placement::plan_on(machine, topology, request, "--rails")?.rails,
            None => Vec::new(),
        };
        let overlay = Overlay { rails: rails.iter().map(|rail| mark(topology, rail)).collect() };
        let picture = topology.svg(&overlay);
        match file == Path::new("-") {
            true => print::result(picture)?,
            false => {
                output_file::write(file, picture).with_context(|| format!("--svg: cannot write {}", file.display()))?;
            }
        }
        Ok(true)
    }
}

/// The mark of a planned rail. Its interrupts are those of its NIC that its CPU serves at present.
fn mark(topology: &Topology, rail: &PlannedRail) -> RailMark {
    let nic = rail.interface.as_deref().and_then(|name| topology.nic(name));
    let interrupts = nic.into_iter().flat_map(|nic| &nic.interrupts);
    let bound = rail.bound_cpu();
    let is_here = |cpus: &CpuSet| bound.is_some_and(|cpu| cpus.contains(cpu));
    let served = interrupts.filter(|interrupt| interrupt.effective.as_ref().is_some_and(is_here));
    RailMark {
        name: format!("R{}", rail.id),
        nic: rail.interface.clone(),
        cpus: bound.map(|_| rail.cpus()).unwrap_or_default(),
        node: rail.node,
        interrupts: served.map(|interrupt| interrupt.number).collect(),
    }
}
