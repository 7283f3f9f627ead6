//! The verdicts at the end, for people and as JSON.

use super::{launch::Placed, stripe::Connections, traffic::Bytes, watch::CpuTime};
use crate::placement::with_remedies;
use rails_bind::{
    Unheld,
    affinity::{Observation, Verdict},
    memory::MemoryPolicy,
};
use rails_topo::{CpuSet, DataSize, Topology};
use serde::Serialize;
use std::{collections::BTreeMap, fmt, time::Duration};

/// A program that ran, with the verdicts on its place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct Report {
    /// The command line.
    command: String,
    /// The program's end, in words.
    ended: String,
    /// The time from the beginning to the end.
    seconds: f64,
    /// The CPUs at the end; `None` if the program was not bound.
    cpus: Option<CpuSet>,
    /// The memory policy at the beginning, as it read back.
    memory_policy: Option<MemoryPolicy>,
    /// CPU time of the program, by where it was used.
    cpu_time: CpuShare,
    /// The place of the memory; `None` is unknown.
    memory: Option<MemoryShare>,
    /// The NICs that carried traffic or that the rails are on, by name.
    nics: BTreeMap<String, NicReport>,
    /// With `--stripe`, the connections by their ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<Connections>,
    /// How often the program moved to other NICs.
    moves: u32,
    /// The number of threads at the look that saw most.
    max_threads: usize,
    /// The number of looks at the program.
    looks: u64,
    /// The CPU time that watching took.
    watching_seconds: f64,
    /// The properties of the program's placement that do not hold.
    unheld: Vec<Unheld>,
    /// Remarks on the watch, such as threads that were left alone.
    notes: Vec<String>,
}

/// CPU time, by where it was used.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CpuShare {
    /// On the program's CPUs.
    in_place_seconds: f64,
    /// On other CPUs.
    away_seconds: f64,
    /// Of threads that ended between two looks.
    unseen_seconds: f64,
}

/// Memory, by where it lay when it was seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MemoryShare {
    /// The bytes of all processes' own memory.
    pub(super) bytes: u64,
    /// Those of them on the nodes nearest to the CPUs.
    pub(super) in_place: u64,
}

/// A NIC that carried traffic, or that the rails are on.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NicReport {
    #[serde(flatten)]
    bytes: Bytes,
    /// The interrupts of the NIC's devices.
    interrupts: Vec<Interrupts>,
}

/// The interrupts of a device.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Interrupts {
    /// The device.
    device: String,
    /// Whether the interrupts are served beside the device.
    verdict: Verdict,
    /// How often they were served, and how often of that beside the device; `None` is unknown.
    served: Option<(u64, u64)>,
}

/// The result of a watch.
pub(super) struct Watched {
    pub(super) cpus: Option<CpuSet>,
    pub(super) used: CpuTime,
    pub(super) traffic: BTreeMap<String, Bytes>,
    pub(super) memory: Option<MemoryShare>,
    pub(super) interrupts: BTreeMap<String, Vec<Interrupts>>,
    pub(super) moves: u32,
    pub(super) threads: usize,
    pub(super) looks: u64,
    pub(super) notes: Vec<String>,
}

/// The end of a program.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) command: String,
    pub(super) how: String,
    pub(super) after: Duration,
    /// The CPU time of the program and of all that it has waited for; `None` is unknown.
    pub(super) cpu_time: Option<Duration>,
    pub(super) watching: Duration,
}

impl Interrupts {
    pub(super) fn of(topology: &Topology, device: &str, seen: &Observation) -> Self {
        let beside = topology.nic(device).and_then(|nic| nic.locality(topology));
        let served = beside.map(|beside| {
            let counts = seen.interrupts.iter().flat_map(|interrupt| &interrupt.served);
            counts.fold((0, 0), |(all, near), (cpu, times)| {
                (all + times, near + if beside.contains(*cpu) { *times } else { 0 })
            })
        });
        Self { device: device.to_owned(), verdict: seen.report(topology).interrupt, served }
    }
}

impl Report {
    pub(super) fn new(ended: Ended, placed: Placed, watched: Watched, connections: Option<Connections>) -> Self {
        let Watched { cpus, used, traffic, memory, mut interrupts, moves, threads, looks, notes } = watched;
        let CpuTime { in_place, away } = used;
        let unseen = ended.cpu_time.map_or(Duration::ZERO, |all| all.saturating_sub(in_place + away));
        let names = traffic.keys().chain(interrupts.keys()).cloned().collect::<std::collections::BTreeSet<_>>();
        let nics = names.into_iter().map(|name| {
            let bytes = traffic.get(&name).copied().unwrap_or_default();
            let interrupts = interrupts.remove(&name).unwrap_or_default();
            (name, NicReport { bytes, interrupts })
        });
        Self {
            nics: nics.collect(),
            connections,
            command: ended.command,
            ended: ended.how,
            seconds: ended.after.as_secs_f64(),
            cpus,
            memory_policy: placed.memory,
            cpu_time: CpuShare {
                in_place_seconds: in_place.as_secs_f64(),
                away_seconds: away.as_secs_f64(),
                unseen_seconds: unseen.as_secs_f64(),
            },
            memory,
            moves,
            max_threads: threads,
            looks,
            watching_seconds: ended.watching.as_secs_f64(),
            unheld: placed.unheld,
            notes,
        }
    }
}

/// Lines for stderr.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, ended, seconds, moves, .. } = self;
        writeln!(f, "run: `{command}` {ended} after {seconds:.1} s")?;
        writeln!(f, "  thread affine     {}", self.threads())?;
        if *moves > 0 {
            let times = if *moves == 1 { "once".to_owned() } else { format!("{moves} times") };
            writeln!(f, "  {:<16}  it moved {times} to the NICs of its traffic", "")?;
        }
        writeln!(f, "  memory affine     {}", self.pages())?;
        for (name, nic) in &self.nics {
            let bytes = |bytes: u64| DataSize::bytes(bytes);
            let Bytes { sent, received } = nic.bytes;
            match sent + received {
                0 => writeln!(f, "  {name}: no traffic of it was seen")?,
                _ => writeln!(f, "  {name}: {} sent, {} received", bytes(sent), bytes(received))?,
            }
            for interrupts in &nic.interrupts {
                writeln!(f, "    interrupt affine  {interrupts}")?;
            }
        }
        if let Some(connections) = &self.connections {
            write!(f, "{connections}")?;
        }
        for unheld in &self.unheld {
            write!(f, "  not held: {}", with_remedies(unheld))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

impl Report {
    fn threads(&self) -> String {
        let CpuShare { in_place_seconds, away_seconds, unseen_seconds } = self.cpu_time;
        let Some(cpus) = &self.cpus else { return "unknown: it was bound to no CPUs".to_owned() };
        let seen = in_place_seconds + away_seconds;
        let unseen = match percent(unseen_seconds, seen + unseen_seconds) {
            Some(share) if share >= 0.5 => format!("; {share:.0} % more in threads that ended between two looks"),
            _ => String::new(),
        };
        match percent(in_place_seconds, seen) {
            None => format!("unknown: it used no CPU time that was seen{unseen}"),
            Some(share) => format!("{share:.0} % of {seen:.2} s of CPU time, on {} at last{unseen}", list(cpus)),
        }
    }

    fn pages(&self) -> String {
        match self.memory {
            None => "holds: no more than one node has memory".to_owned(),
            Some(MemoryShare { bytes: 0, .. }) => "unknown: it ended before its memory was looked at".to_owned(),
            Some(MemoryShare { bytes, in_place }) => {
                let share = percent(in_place as f64, bytes as f64).unwrap_or_default();
                format!("{share:.0} % of {}, when it was seen last", DataSize::bytes(bytes))
            }
        }
    }
}

/// `no, because ...`, and the share of the interrupts that were served beside the device.
impl fmt::Display for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.served.and_then(|(all, near)| Some((all, percent(near as f64, all as f64)?)));
        if let Some((all, share)) = share {
            write!(f, "{share:.0} % of {all}: ")?;
        }
        match &self.verdict {
            Verdict::Holds { evidence } => write!(f, "holds: {evidence}"),
            Verdict::Broken { evidence, .. } => write!(f, "no, because {evidence}"),
            Verdict::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

/// `CPU 3` or `CPUs 0-3`.
pub(super) fn list(cpus: &CpuSet) -> String {
    format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
}

/// The share of a part; `None` of nothing.
fn percent(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all * 100.0)
}
