//! A replay in virtual time.

use super::{
    Outcome, ReplayError, Setting,
    divisions::{Divisions, View},
    program::Program,
};
use crate::trace::Trace;
use rails_cache::{Policy, RequestId, pattern::Path, rehearsal::Rehearsal};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Replays the reads of a trace. `origin` is any time: the result does not depend on it.
///
/// # Errors
/// [`ReplayError`], if the settings do not fit the trace.
pub fn replay(trace: &Trace, setting: &Setting, origin: Instant) -> Result<Outcome, ReplayError> {
    let program = Program::new(trace);
    let config = setting.size(trace)?.config(SEED);
    let mut replay = Replay {
        trace,
        setting,
        program: &program,
        rehearsal: Rehearsal::new(config, setting.path, origin),
        divisions: Divisions::new(trace, setting),
        begins: BTreeSet::new(),
        open: BTreeMap::new(),
        blocks: 0,
        outcome: Outcome { waits: vec![Duration::ZERO; program.reads.len()], ..Outcome::default() },
    };
    replay.begin_after(&program.first);
    replay.run()?;
    Ok(replay.finish(origin))
}

struct Replay<'a> {
    trace: &'a Trace,
    setting: &'a Setting,
    program: &'a Program<'a>,
    rehearsal: Rehearsal,
    divisions: Divisions<'a>,
    /// When reads begin, and which.
    begins: BTreeSet<(Instant, usize)>,
    open: BTreeMap<RequestId, Open>,
    /// The blocks that were asked for.
    blocks: u64,
    outcome: Outcome,
}

/// A read that has not ended.
struct Open {
    number: usize,
    since: Instant,
    /// Its blocks stay as long as it.
    view: View,
}

impl Replay<'_> {
    fn run(&mut self) -> Result<(), ReplayError> {
        if self.setting.policy == Policy::Schedule {
            self.expect(0)?;
        }
        while !(self.begins.is_empty() && self.open.is_empty()) {
            let next = self.begins.first().copied();
            let ended = self.rehearsal.run(next.map(|(at, _)| at));
            match next {
                _ if !ended.is_empty() => ended.into_iter().for_each(|request| self.ended(request)),
                Some((at, number)) => {
                    self.begins.remove(&(at, number));
                    self.begin(number)?;
                }
                None => unreachable!("a read waits for blocks that are on their way"),
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: usize) -> Result<(), ReplayError> {
        let read = self.program.reads[number];
        for tell in self.program.tells.get(&number).into_iter().flatten() {
            let told = &self.trace.tells[*tell];
            self.divisions.tell(&mut self.rehearsal, told.handle, told.array, &told.regions)?;
            if self.setting.policy == Policy::Hinted {
                self.forget_expected();
                for region in &told.regions {
                    let budget = self.divisions.expected(&mut self.rehearsal, told.handle, told.array, region)?;
                    let blocks = self.rehearsal.node().blocks_of(budget, region);
                    // A site's detector takes a list without the regions that are none.
                    blocks.into_iter().for_each(|blocks| drop(self.rehearsal.node_mut().expect(budget, blocks)));
                }
            }
        }
        let (view, is_new) = self.divisions.reading(&mut self.rehearsal, read.handle, read.array, &read.selection)?;
        if self.setting.policy == Policy::Schedule {
            if is_new {
                // Later reads use other blocks than was expected.
                self.forget_expected();
                self.expect(number)?;
            } else {
                self.expect_one(number + MAX_EXPECTED_READS)?;
            }
        }
        self.ask(number, view)
    }

    fn ask(&mut self, number: usize, view: View) -> Result<(), ReplayError> {
        let (selection, now) = (&self.program.reads[number].selection, self.rehearsal.now());
        let node = self.rehearsal.node_mut();
        let blocks = node.blocks_of_selection(view.budget(), selection).expect("a checked selection has blocks");
        self.blocks = self.blocks.saturating_add(blocks.len() as u64);
        if self.blocks > MAX_BLOCKS {
            return Err(ReplayError::Blocks { max: MAX_BLOCKS });
        }
        self.outcome.wanted_bytes = self.outcome.wanted_bytes.saturating_add(node.bytes_of(view.budget(), selection));
        // As in a site: over a link without a rate nothing comes ahead of time.
        let rate = if self.setting.prefetch { self.setting.path.bytes_per_second } else { 0 };
        let path = Path { bytes_per_second: rate, ..self.setting.path };
        let request = view.reader.borrow_mut().read(node, selection, &path, now);
        let request = request.expect("a checked selection is read");
        self.open.insert(request, Open { number, since: now, view });
        Ok(())
    }

    fn ended(&mut self, request: RequestId) {
        let Some(Open { number, since, view }) = self.open.remove(&request) else { return };
        let now = self.rehearsal.now();
        view.reader.borrow_mut().ended(request, now);
        self.outcome.waits[number] = now - since;
        let handle = self.program.reads[number].handle;
        if self.program.last.get(&handle) == Some(&number) {
            self.divisions.forget(handle);
        }
        let program = self.program;
        self.begin_after(&program.next[number]);
    }

    /// Has reads begin so long after now.
    fn begin_after(&mut self, reads: &[(Duration, usize)]) {
        let now = self.rehearsal.now();
        self.begins.extend(reads.iter().map(|(after, number)| (now + *after, *number)));
    }

    /// Expects the next reads.
    fn expect(&mut self, number: usize) -> Result<(), ReplayError> {
        (number..=number.saturating_add(MAX_EXPECTED_READS)).try_for_each(|number| self.expect_one(number))
    }

    fn expect_one(&mut self, number: usize) -> Result<(), ReplayError> {
        let Some(read) = self.program.reads.get(number) else { return Ok(()) };
        let bounds = read.selection.bounds();
        let budget = self.divisions.expected(&mut self.rehearsal, read.handle, read.array, bounds)?;
        let node = self.rehearsal.node_mut();
        let blocks = node.blocks_of_selection(budget, &read.selection).expect("a checked selection has blocks");
        // What a budget has no room to expect is as unknown as what comes after it.
        node.expect(budget, blocks).expect("these are blocks of the budget");
        Ok(())
    }

    fn forget_expected(&mut self) {
        self.divisions.budgets().into_iter().for_each(|budget| self.rehearsal.node_mut().forget_expected(budget));
    }

    fn finish(mut self, origin: Instant) -> Outcome {
        for budget in self.divisions.budgets() {
            self.outcome.add(&self.rehearsal.node().stats(budget));
        }
        self.divisions.ended.iter().for_each(|budget| self.outcome.add(budget));
        let source = self.rehearsal.source();
        Outcome {
            elapsed: self.rehearsal.now() - origin,
            path_bytes: source.sent_bytes(),
            path_blocks: source.sent_blocks(),
            views: self.divisions.views,
            ..self.outcome
        }
    }
}

/// Decisions do not depend on it.
const SEED: u64 = 1;
/// Some ten seconds of work.
const MAX_BLOCKS: u64 = 1 << 26;
/// The reads that a schedule knows in advance.
const MAX_EXPECTED_READS: usize = 4096;
