//! What the reading threads measure.

use super::gap::GapMeter;
use rails_bind::Unheld;
use rails_topo::CpuSet;
use std::time::Duration;

/// The figures of reading threads.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StorageFigures {
    /// The number of threads.
    pub threads: usize,
    /// The cause for which there are fewer threads than were wanted.
    pub refused_threads: Option<String>,
    /// The CPUs beside the disks, on which the threads were to run; `None`, if they run anywhere.
    pub cpus: Option<CpuSet>,
    /// The cause for which they do not run there.
    pub unheld: Option<Unheld>,
    /// The number of reads that have not begun.
    pub waiting: usize,
    /// The number of reads that have begun, and not ended.
    pub running: usize,
    /// The number of open files.
    pub open_files: usize,
    /// The number of reads that have ended well.
    pub reads: u64,
    /// The bytes of their elements.
    pub bytes: u64,
    /// The smoothed time from the beginning of a read to its end; `None` before the first one.
    pub latency: Option<Duration>,
    /// The bytes of elements in a second while at least one read runs, over the last seconds of
    /// these. A disk that is asked for little at a time brings less than it could.
    pub bytes_per_second: Option<u64>,
    /// The devices from which files have been read, by number.
    pub sources: Vec<SourceFigures>,
}

/// The figures of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceFigures {
    /// The number of the device, as stat(2) has it.
    pub device: u64,
    /// The largest gap between wanted bytes that is read over, in bytes.
    pub gap_bytes: u64,
    /// The fixed cost of a request; `None` until it is known.
    pub request_cost: Option<Duration>,
    /// The rate at which the bytes of one request come; `None` until it is known.
    pub bytes_per_second: Option<u64>,
}

impl SourceFigures {
    pub(super) fn of(device: u64, meter: &GapMeter) -> Self {
        let (request_cost, bytes_per_second) = (meter.request_cost(), meter.bytes_per_second());
        Self { device, gap_bytes: meter.gap_bytes(), request_cost, bytes_per_second }
    }
}
