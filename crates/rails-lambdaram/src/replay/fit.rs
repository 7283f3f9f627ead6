//! The rate of a path, from the waits of a recording.

use super::{ReplayError, Setting, replay};
use crate::trace::{ReadOutcome, Trace};
use rails_cache::pattern::Path;
use std::time::{Duration, Instant};

/// The path with which the replay of the recorded settings waits as long as the recording did, in
/// all: with the round trip that was measured, and a rate that is found by trials.
///
/// The rate that a site measures is that of encoded bytes, and only as high as its program had use
/// for; this one is that of elements, and covers the work of both ends. The first 16,384 reads are
/// looked at. Where no rate explains the waits, it is the one that was measured: the recording
/// waited less than the round trip takes, or had blocks sent unasked, which a replay does not do.
///
/// # Errors
/// Those of [`replay`].
pub fn fitted_path(trace: &Trace, origin: Instant) -> Result<Path, ReplayError> {
    let mut part;
    let trace = if trace.reads.len() > MAX_READS {
        part = trace.clone();
        part.reads.truncate(MAX_READS);
        &part
    } else {
        trace
    };
    let done = trace.reads.iter().filter(|read| read.outcome == ReadOutcome::Done);
    let recorded: Duration = done.map(|read| read.waited).sum();
    let at = |bytes_per_second: u64| Path { bytes_per_second, ..trace.path };
    let waited = |bytes_per_second: u64| {
        let setting = Setting { path: at(bytes_per_second), ..Setting::recorded(trace) };
        replay(trace, &setting, origin).map(|outcome| outcome.waited())
    };
    let (mut slow, mut fast) = (MIN_RATE, MAX_RATE);
    if trace.header.presend || waited(fast)? >= recorded || waited(slow)? <= recorded {
        return Ok(trace.path);
    }
    for _ in 0..TRIALS {
        let middle = (slow as f64 * fast as f64).sqrt() as u64;
        if waited(middle)? > recorded {
            slow = middle;
        } else {
            fast = middle;
        }
    }
    Ok(at(fast))
}

/// Enough for a rate, and 14 replays of them take a second or two.
const MAX_READS: usize = 16_384;
/// Half a megabit in a second.
const MIN_RATE: u64 = 1 << 16;
/// A terabit in a second.
const MAX_RATE: u64 = 1 << 37;
/// The range is a factor of 2^21, and so it ends at one of 1.004.
const TRIALS: u32 = 12;
