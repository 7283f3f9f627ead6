//! A table of rails with chosen columns.

use super::Part;
use crate::{
    side::{LaneReport, RailReport},
    table::Table,
};
use rails_bind::affinity::Verdict;
use rails_topo::DataSize;

/// A column of the table of rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// The end of the stream.
    Side,
    /// The rail's number.
    Rail,
    /// The lane's addresses.
    Lane,
    /// Bytes that went over the lane, in the part's direction.
    Bytes,
    /// The lane's share of all bytes.
    Share,
    /// Segments that the lane's TCP retransmitted.
    Resent,
    /// The lane's congestion control.
    Congestion,
    /// CPU time of the rail's thread.
    Seconds,
    /// The CPUs that the rail's thread may run on, read back.
    Cpus,
    /// The memory policy of the rail's thread, read back.
    Policy,
    /// The node of the memory that the rail's thread was the first to touch, read back.
    Node,
    /// Whether the rail's interrupts are beside the NIC.
    Interrupt,
    /// Whether the rail's thread is beside the interrupts.
    Thread,
    /// Whether the rail's memory is beside the thread.
    Memory,
}

/// The table. If a column is about lanes, a rail has a line for each of its lanes, and an
/// [unused](super::unused) one has none.
pub(crate) fn table(columns: &[Column], parts: &[Part<'_>]) -> String {
    let header: Vec<_> = columns.iter().map(|column| column.head()).collect();
    let mut table = Table::plain(header, columns.iter().map(|column| column.is_number()));
    let of_lanes = columns.contains(&Column::Lane);
    for part in parts {
        let total = part.side.lanes().map(|lane| part.bytes(lane)).sum();
        for rail in &part.side.rails {
            let lanes = match of_lanes {
                true if rail.unused.is_some() => 0,
                true => rail.lanes.len().max(1),
                false => 1,
            };
            for index in 0..lanes {
                let line = Line { part, rail, lane: rail.lanes.get(index), is_first: index == 0, total };
                table.add_row(columns.iter().map(|column| line.cell(*column)));
            }
        }
    }
    format!("{table}\n")
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Side => "side",
            Self::Rail => "rail",
            Self::Lane => "lane",
            Self::Bytes => "bytes",
            Self::Share => "share",
            Self::Resent => "resent",
            Self::Congestion => "control",
            Self::Seconds => "CPU s",
            Self::Cpus => "CPU",
            Self::Policy => "memory policy",
            Self::Node => "node",
            Self::Interrupt => "interrupt",
            Self::Thread => "thread",
            Self::Memory => "memory",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Rail | Self::Bytes | Self::Share | Self::Resent | Self::Seconds | Self::Cpus | Self::Node)
    }

    /// Whether the column is about the rail, and so is filled in the rail's first line only.
    fn is_of_rail(self) -> bool {
        !matches!(self, Self::Lane | Self::Bytes | Self::Share | Self::Resent | Self::Congestion)
    }
}

/// One line of the table.
struct Line<'a> {
    part: &'a Part<'a>,
    rail: &'a RailReport,
    lane: Option<&'a LaneReport>,
    is_first: bool,
    total: u64,
}

impl Line<'_> {
    fn cell(&self, column: Column) -> String {
        if column.is_of_rail() && !self.is_first {
            return String::new();
        }
        let (rail, part) = (self.rail, self.part);
        let of_lane = |told: &dyn Fn(&LaneReport) -> String| self.lane.map_or("-".to_owned(), told);
        match column {
            Column::Side => part.name.to_owned(),
            Column::Rail => rail.rail.to_string(),
            Column::Lane => of_lane(&|lane| {
                let (local, remote) = (lane.local, lane.remote);
                // The ephemeral port of the connecting end is left out.
                if part.sends { format!("{} > {remote}", local.ip()) } else { format!("{local} < {}", remote.ip()) }
            }),
            Column::Bytes => of_lane(&|lane| DataSize::bytes(part.bytes(lane)).to_string()),
            Column::Share => of_lane(&|lane| match self.total {
                0 => "-".to_owned(),
                total => format!("{:.1}%", part.bytes(lane) as f64 * 100.0 / total as f64),
            }),
            Column::Resent => of_lane(&|lane| known(lane.retransmitted_segments)),
            Column::Congestion => of_lane(&|lane| known(lane.congestion_control.as_ref())),
            Column::Seconds => rail.cpu_seconds.map_or(UNKNOWN.to_owned(), |seconds| format!("{seconds:.2}")),
            Column::Cpus => known(rail.cpus.as_ref()),
            Column::Policy => rail.memory_policy.clone(),
            Column::Node => known(rail.memory_node),
            Column::Interrupt => in_short(&rail.affinity.interrupt),
            Column::Thread => in_short(&rail.affinity.thread),
            Column::Memory => in_short(&rail.affinity.memory),
        }
    }
}

impl Part<'_> {
    fn bytes(&self, lane: &LaneReport) -> u64 {
        if self.sends { lane.bytes_sent } else { lane.bytes_received }
    }
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or(UNKNOWN.to_owned(), |value| value.to_string())
}

fn in_short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds { .. } => "holds",
        Verdict::Broken { .. } => "broken",
        Verdict::Unknown { .. } => UNKNOWN,
    }
    .to_owned()
}

const UNKNOWN: &str = "unknown";
