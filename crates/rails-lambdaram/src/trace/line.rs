//! The lines of a trace, as JSON.

use rails_array::Shape;
use rails_cache::{Policy, pattern::Path};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::time::Duration;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Trace(TraceHeader),
    Path(PathLine),
    Array(ArrayLine),
    Tell(TellLine),
    Read(ReadLine),
    End(TraceEnd),
}

/// The first line: the site and its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceHeader {
    /// The version of the format, [`TRACE_VERSION`](super::TRACE_VERSION).
    pub version: u32,
    /// The site's address.
    pub address: String,
    /// The number of the process.
    pub process: u32,
    /// The application.
    pub application: String,
    /// The memory for blocks.
    pub memory_bytes: u64,
    /// The size of a slot.
    pub slot_bytes: u32,
    /// The largest block.
    pub max_block_bytes: u64,
    /// Which block goes first.
    #[serde(serialize_with = "policy_to_text", deserialize_with = "policy_of_text")]
    pub policy: Policy,
    /// Whether blocks were fetched ahead of reads.
    pub prefetch: bool,
    /// Whether regions that were read again and again got blocks of their own.
    pub views: bool,
    /// Whether the node that serves sent blocks unasked.
    pub presend: bool,
}

/// The way to the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathLine {
    pub(super) round_trip_ns: u64,
    pub(super) storage_latency_ns: u64,
    pub(super) bytes_per_second: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArrayLine {
    pub(super) number: u32,
    pub(super) dataset: String,
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) element_bytes: u32,
    pub(super) block_shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TellLine {
    pub(super) at_ns: u64,
    pub(super) handle: u32,
    pub(super) array: u32,
    pub(super) regions: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) goes_on: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadLine {
    pub(super) at_ns: u64,
    pub(super) handle: u32,
    pub(super) array: u32,
    pub(super) selection: String,
    pub(super) waited_ns: u64,
    #[serde(default, skip_serializing_if = "ReadOutcome::is_done")]
    pub(super) outcome: ReadOutcome,
}

/// The end of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOutcome {
    /// It was served.
    #[default]
    Done,
    /// It failed.
    Failed,
    /// The program gave it up.
    Cancelled,
}

/// The last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TraceEnd {
    /// The reads of the file.
    pub reads: u64,
    /// The reads and announcements that were not recorded, because the file could not be written as
    /// fast, or was full.
    pub dropped: u64,
    /// Blocks that were in memory, because they had been read before: these and the following are
    /// the counters of the site's memory at its end.
    pub hits: u64,
    /// Blocks that were in memory ahead of their first use.
    pub ahead_hits: u64,
    /// Blocks that were on their way ahead of their first use.
    pub late_ahead: u64,
    /// Blocks that had to be fetched.
    pub misses: u64,
    /// Blocks that were fetched ahead of time.
    pub ahead_fetched: u64,
    /// Blocks that came unasked.
    pub pushed: u64,
    /// Blocks that came ahead of time and were used.
    pub used: u64,
}

impl ReadOutcome {
    pub(super) fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

impl PathLine {
    pub(super) fn of(path: &Path) -> Self {
        Self {
            round_trip_ns: nanoseconds(path.round_trip),
            storage_latency_ns: nanoseconds(path.storage_latency),
            bytes_per_second: path.bytes_per_second,
        }
    }

    pub(super) fn path(&self) -> Path {
        Path {
            round_trip: Duration::from_nanos(self.round_trip_ns),
            storage_latency: Duration::from_nanos(self.storage_latency_ns),
            bytes_per_second: self.bytes_per_second,
        }
    }
}

impl Line {
    /// Adds the line with its end.
    pub(super) fn write_to(&self, text: &mut Vec<u8>) {
        serde_json::to_writer(&mut *text, self).expect("a line has only text keys, and memory takes all bytes");
        text.push(b'\n');
    }
}

/// Whole nanoseconds, of which 64 bits have 584 years.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn is_false(truth: &bool) -> bool {
    !truth
}

fn policy_to_text<S: Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(policy)
}

fn policy_of_text<'de, D: Deserializer<'de>>(from: D) -> Result<Policy, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
