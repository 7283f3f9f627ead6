//! The program of a trace: when which read begins.

use crate::trace::{ReadOutcome, Trace, TracedRead};
use std::{collections::BTreeMap, time::Duration};

/// The reads of a trace that were served, and what each of them follows.
pub(super) struct Program<'a> {
    pub(super) reads: Vec<&'a TracedRead>,
    /// The reads that begin as the replay does, and how long after.
    pub(super) first: Vec<(Duration, usize)>,
    /// The reads that follow one, and how long after its end they begin.
    pub(super) next: Vec<Vec<(Duration, usize)>>,
    /// The announcements before a read.
    pub(super) tells: BTreeMap<usize, Vec<usize>>,
    /// The last read of each handle.
    pub(super) last: BTreeMap<u32, usize>,
}

impl<'a> Program<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let reads: Vec<&TracedRead> = trace.reads.iter().filter(|read| read.outcome == ReadOutcome::Done).collect();
        let begin = reads.first().map_or(Duration::ZERO, |read| read.at);
        let (mut first, mut next) = (Vec::new(), vec![Vec::new(); reads.len()]);
        let mut of_handle: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        // The ends of the reads so far.
        let mut ends: BTreeMap<(Duration, usize), ()> = BTreeMap::new();
        for (number, read) in reads.iter().enumerate() {
            match ends.range(..=(read.at, usize::MAX)).next_back() {
                Some(((end, before), ())) => next[*before].push((read.at - *end, number)),
                None => first.push((read.at - begin, number)),
            }
            ends.insert((read.at + read.waited, number), ());
            of_handle.entry(read.handle).or_default().push(number);
        }
        let mut tells: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, tell) in trace.tells.iter().enumerate() {
            let Some(own) = of_handle.get(&tell.handle) else { continue };
            let after = own.partition_point(|read| reads[*read].at < tell.at);
            if let Some(read) = own.get(after) {
                tells.entry(*read).or_default().push(number);
            }
        }
        let last = of_handle.iter().map(|(handle, own)| (*handle, own[own.len() - 1])).collect();
        Self { reads, first, next, tells, last }
    }
}
