//! The contenders at work, one file for each kind.

mod iperf3;
mod mptcp;
mod own;
mod program;
mod ucx;

use super::{Arena, Contender, ContestError};
use serde::Serialize;
use std::path::Path;

/// Something that carries bytes from side A to side B of the arena.
pub(super) trait Rival {
    /// What exactly it is; `None` where that is this program.
    fn version(&self) -> Option<String> {
        None
    }

    /// Carries bytes for the arena's time, and says how many arrived.
    fn measure(&mut self, arena: &Arena) -> Result<Figures, ContestError>;
}

/// What a rival says of one measurement.
pub(super) struct Figures {
    pub(super) goodput_bits_per_second: f64,
    pub(super) bytes: u64,
    pub(super) measured_at: MeasuredAt,
    /// CPU time of both processes while they measured; `None` where it does not say, and that of their whole lives is taken.
    pub(super) cpu_seconds: Option<f64>,
    pub(super) congestion_control: Vec<String>,
    /// Why the figure is not what it seems to be.
    pub(super) warnings: Vec<String>,
}

/// Whose figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuredAt {
    /// What the receiving program had read.
    Receiver,
    /// What the sending program knew to be delivered; it tells of nothing else.
    Sender,
}

/// Makes a contender ready, or says why it cannot take part.
pub(super) fn enter(contender: Contender, arena: &Arena, ucx: Option<&Path>) -> Result<Box<dyn Rival>, String> {
    let all = (0..arena.links.len()).collect::<Vec<_>>();
    Ok(match contender {
        Contender::PlainFlows => Box::new(own::Own::on(all).both(&["--plain"])),
        Contender::PlainBestLink => Box::new(own::Own::on(vec![super::link::fastest(&arena.links)]).both(&["--plain"])),
        Contender::RailsStatic => Box::new(own::Own::on(all).sender(&["--policy", "static"])),
        Contender::RailsAdaptive => Box::new(own::Own::on(all)),
        Contender::RailsSingle => Box::new(own::Own::on(all).both(&["--driver", "single"])),
        Contender::Iperf3 => Box::new(iperf3::Iperf3::find()?),
        Contender::Mptcp => Box::new(mptcp::Mptcp::enable(arena)?),
        Contender::Ucx => Box::new(ucx::Ucx::find(ucx)?),
    })
}
