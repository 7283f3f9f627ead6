//! A record as text: lines of JSON.
//!
//! The first line is a [`Header`], and each line after it an [`Entry`]. Times are whole
//! nanoseconds. The version changes whenever an older reader would misread the lines, or an older
//! record would be replayed wrongly.

use super::{Decided, Entry, Record, RecordedEvent};
use crate::{
    parameters::MAX_LANES,
    policy::{Policy, Sent},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, str::FromStr};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header<'a> {
    /// [`FORMAT`].
    format: Cow<'a, str>,
    /// [`VERSION`].
    version: u32,
    policy: Option<Policy>,
    dropped: u64,
    numbers: Cow<'a, [Option<u16>]>,
}

/// The reason why a text cannot be read as a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The first line is not the header of a record.
    #[error("it is no record of decisions: its first line is not the header of one")]
    NoRecord,
    /// Another version of this crate wrote it.
    #[error("it is a record of version {found}, and this program reads version {VERSION}")]
    Version {
        /// The record's version.
        found: u32,
    },
    /// A line cannot be read.
    #[error("line {line} of the record is no entry")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// A line has impossible values.
    #[error("line {line} of the record cannot be: {reason}")]
    Impossible {
        /// The line's number, from 1.
        line: usize,
        /// The reason why the values are impossible.
        reason: &'static str,
    },
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, dropped, ref numbers, .. } = *self;
        let header = Header { format: FORMAT.into(), version: VERSION, policy, dropped, numbers: numbers.into() };
        writeln!(f, "{}", serde_json::to_string(&header).map_err(|_| fmt::Error)?)?;
        self.entries.iter().try_for_each(|entry| {
            let line = serde_json::to_string(entry).map_err(|_| fmt::Error)?;
            writeln!(f, "{line}")
        })
    }
}

impl FromStr for Record {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let mut lines = (1..).zip(text.lines());
        let first = lines.next().map(|(_, first)| first).unwrap_or_default();
        match version(first) {
            Some(VERSION) => {}
            Some(found) => return Err(RecordError::Version { found }),
            None => return Err(RecordError::NoRecord),
        }
        let of_line = |line| move |source| RecordError::Line { line, source };
        let header: Header<'_> = serde_json::from_str(first).map_err(of_line(1))?;
        let entries = lines.map(|(line, text)| {
            let entry: Entry = serde_json::from_str(text).map_err(of_line(line))?;
            check(&entry).map_err(|reason| RecordError::Impossible { line, reason })?;
            Ok(entry)
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let Header { policy, dropped, numbers, .. } = header;
        Ok(Self { policy, dropped, numbers: numbers.into_owned(), entries })
    }
}

/// The version of a record with this first line. Another version may have other fields.
fn version(first: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Named<'a> {
        format: Cow<'a, str>,
        version: u32,
    }
    let named: Named<'_> = serde_json::from_str(first).ok()?;
    (named.format == FORMAT).then_some(named.version)
}

/// Checks the conditions on which a policy may rely.
fn check(entry: &Entry) -> Result<(), &'static str> {
    let (RecordedEvent::Sent(Sent { lane, .. })
    | RecordedEvent::Acked { lane, .. }
    | RecordedEvent::Lost { lane }
    | RecordedEvent::Joined { slot: lane, .. }
    | RecordedEvent::Decided(Decided { lane, .. })) = &entry.event;
    if *lane >= MAX_LANES {
        return Err("a stream has fewer lanes");
    }
    let RecordedEvent::Decided(Decided { view, .. }) = &entry.event else { return Ok(()) };
    let is_lane = |lane: usize| lane < view.lanes.len();
    let chunks = || view.first.iter().chain(&view.oldest);
    let rules = [
        (view.lanes.len() <= MAX_LANES, "a stream has fewer lanes"),
        (is_lane(*lane), "the lane that asks is none of those listed"),
        (view.streak.is_none_or(|streak| is_lane(streak.lane)), "the lane of the streak is none of those listed"),
        (chunks().all(|chunk| is_lane(chunk.lane)), "a chunk is on none of the lanes listed"),
        (chunks().all(|chunk| chunk.lane != *lane), "a chunk is on the lane that asks"),
        ((1..=u32::MAX as usize).contains(&view.longest_chunk), "no chunk is that long"),
        (view.lanes.iter().all(|lane| lane.rate.is_none_or(|rate| rate >= 0.0)), "a rate is negative"),
    ];
    rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, reason)| Err(reason))
}

/// The name of the format in the first line.
const FORMAT: &str = "rails decisions";
/// The version of the lines.
pub(super) const VERSION: u32 = 2;
