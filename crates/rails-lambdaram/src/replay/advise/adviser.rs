//! The settings that are tried, and the best of them.

use super::{Trial, shapes::Reads};
use crate::{
    replay::{Outcome, Setting},
    trace::{ReadOutcome, Trace},
};
use rails_array::Shape;
use rails_cache::Policy;
use rails_topo::DataSize;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// Tries settings on a trace.
///
/// The caller replays the settings of [`next_round`](Self::next_round), in any order and on any
/// number of threads, tells [`learn`](Self::learn) of the outcomes, and goes on until a round is
/// empty. No more than [`MAX_TRIALS`](Self::MAX_TRIALS) are tried.
pub struct Adviser<'a> {
    trace: &'a Trace,
    memories: Vec<DataSize>,
    /// The arrays whose blocks are tried, with their reads.
    arrays: BTreeMap<u32, Reads>,
    round: Round,
    asked: Vec<Setting>,
    trials: Vec<Trial>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Recorded,
    Shapes,
    /// Halves and doubles of the best shapes; so many such rounds are left.
    Climb(u32),
    Others,
    Memories,
    Over,
}

/// The best settings, as far as they were tried.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// The settings of the recording.
    pub recorded: Trial,
    /// The best with the same memory; of nearly equal ones, that which changes least.
    pub best: Trial,
    /// Others with the same memory, the best first.
    pub others: Vec<Trial>,
    /// The best with other memory sizes, by the size.
    pub memories: Vec<Trial>,
    /// The best one, if the node knew all reads beforehand: a bound for policies.
    pub bound: Option<Trial>,
    /// The number of trials.
    pub tried: usize,
}

impl<'a> Adviser<'a> {
    /// The settings that are tried at most.
    pub const MAX_TRIALS: usize = 160;

    /// An adviser that tries these memory sizes, or without any, the half and the double of the
    /// recorded one.
    pub fn new(trace: &'a Trace, memories: &[DataSize]) -> Self {
        let recorded = trace.header.memory_bytes;
        let half_and_double = || vec![DataSize::bytes(recorded / 2), DataSize::bytes(recorded.saturating_mul(2))];
        let memories = if memories.is_empty() { half_and_double() } else { memories.to_vec() };
        let mut by_bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for read in trace.reads.iter().filter(|read| read.outcome == ReadOutcome::Done) {
            let bytes = by_bytes.entry(read.array).or_default();
            let element_bytes = trace.arrays[read.array as usize].element_bytes;
            *bytes = bytes.saturating_add(read.selection.elements().saturating_mul(element_bytes.into()));
        }
        let mut most: Vec<(u32, u64)> = by_bytes.into_iter().collect();
        most.sort_by_key(|(_, bytes)| Reverse(*bytes));
        most.truncate(MAX_TRIED_ARRAYS);
        let arrays = most.into_iter().filter_map(|(array, _)| Some((array, Reads::of(trace, array)?))).collect();
        Self { trace, memories, arrays, round: Round::Recorded, asked: Vec::new(), trials: Vec::new() }
    }

    /// The settings to be replayed next. Empty at the end.
    pub fn next_round(&mut self) -> Vec<Setting> {
        while self.round != Round::Over {
            let (settings, next) = self.plan();
            self.round = next;
            let mut new = Vec::new();
            for setting in settings {
                if self.asked.len() < Self::MAX_TRIALS && !self.asked.contains(&setting) {
                    self.asked.push(setting.clone());
                    new.push(setting);
                }
            }
            if !new.is_empty() {
                return new;
            }
        }
        Vec::new()
    }

    /// Takes the outcome of a setting. A setting that cannot be replayed is not told of.
    pub fn learn(&mut self, setting: Setting, outcome: &Outcome) {
        self.trials.push(Trial::new(setting, outcome));
    }

    /// The advice so far. `None` if the recorded setting could not be replayed.
    pub fn advice(&self) -> Option<Advice> {
        let base = self.recorded();
        let recorded = self.trials.iter().find(|trial| trial.setting == base)?.clone();
        let is_real = |trial: &&Trial| trial.setting.policy != Policy::Schedule;
        let of_memory =
            |memory: DataSize| self.trials.iter().filter(is_real).filter(move |t| t.setting.memory == memory);
        let mut others: Vec<Trial> = of_memory(base.memory).cloned().collect();
        others.sort_by_key(order);
        let best = simplest(of_memory(base.memory), &base)?.clone();
        others.retain(|trial| *trial != best && *trial != recorded);
        let mut sizes = self.memories.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let memories = sizes.into_iter().filter(|memory| *memory != base.memory);
        let memories = memories.filter_map(|memory| simplest(of_memory(memory), &base).cloned()).collect();
        let bound = self.trials.iter().filter(|trial| !is_real(trial)).min_by_key(|trial| order(trial)).cloned();
        Some(Advice { recorded, best, others, memories, bound, tried: self.trials.len() })
    }

    fn recorded(&self) -> Setting {
        Setting::recorded(self.trace)
    }

    /// The settings of this round, and the next round.
    fn plan(&self) -> (Vec<Setting>, Round) {
        let base = self.recorded();
        match self.round {
            Round::Recorded => (vec![base], Round::Shapes),
            Round::Shapes => {
                let first = |(array, reads): (&u32, &Reads)| {
                    let shapes = reads.first(base.block_shape(self.trace, *array));
                    shapes.into_iter().map(|shape| self.with_shape(&base, *array, shape)).collect::<Vec<_>>()
                };
                (self.arrays.iter().flat_map(first).collect(), Round::Climb(CLIMBS))
            }
            Round::Climb(left) => {
                let best = if left == CLIMBS { self.joined() } else { self.best() };
                let near = |(array, reads): (&u32, &Reads)| {
                    let shapes = reads.near(best.block_shape(self.trace, *array));
                    shapes.into_iter().map(|shape| self.with_shape(&best, *array, shape)).collect::<Vec<_>>()
                };
                let settings = [best.clone()].into_iter().chain(self.arrays.iter().flat_map(near)).collect();
                (settings, if left > 1 { Round::Climb(left - 1) } else { Round::Others })
            }
            Round::Others => {
                let others = |setting: &Setting| {
                    let other = |change: fn(&mut Setting)| {
                        let mut other = setting.clone();
                        change(&mut other);
                        other
                    };
                    [
                        other(|setting| setting.policy = Policy::Lru),
                        other(|setting| setting.policy = Policy::Mru),
                        other(|setting| setting.policy = Policy::Schedule),
                        other(|setting| setting.prefetch = !setting.prefetch),
                        other(|setting| setting.views = !setting.views),
                    ]
                };
                ([base, self.best()].iter().flat_map(others).collect(), Round::Memories)
            }
            Round::Memories => {
                let best = self.best();
                let with =
                    |memory: &DataSize| [&base, &best].map(|setting| Setting { memory: *memory, ..setting.clone() });
                (self.memories.iter().flat_map(with).collect(), Round::Over)
            }
            Round::Over => (Vec::new(), Round::Over),
        }
    }

    /// The recorded setting with the best shape for each array, as each was found alone.
    fn joined(&self) -> Setting {
        let base = self.recorded();
        let mut joined = base.clone();
        for array in self.arrays.keys() {
            let is_alone = |trial: &&Trial| trial.setting.block_shapes.keys().all(|other| other == array);
            let best = self.trials.iter().filter(is_alone).min_by_key(|trial| order(trial));
            if let Some(shape) = best.and_then(|trial| trial.setting.block_shapes.get(array)) {
                joined.block_shapes.insert(*array, shape.clone());
            }
        }
        joined
    }

    /// The best setting with the recorded memory, which is the recorded one before any trial.
    fn best(&self) -> Setting {
        let base = self.recorded();
        let trials = self.trials.iter().filter(|trial| trial.setting.memory == base.memory);
        let real = trials.filter(|trial| trial.setting.policy != Policy::Schedule);
        simplest(real, &base).map_or(base.clone(), |trial| trial.setting.clone())
    }

    fn with_shape(&self, setting: &Setting, array: u32, shape: Shape) -> Setting {
        let mut block_shapes = setting.block_shapes.clone();
        if *setting.block_shape(self.trace, array) != shape {
            block_shapes.insert(array, shape);
        }
        block_shapes.retain(|array, shape| self.trace.arrays[*array as usize].block_shape != *shape);
        Setting { block_shapes, ..setting.clone() }
    }
}

/// Less is better.
fn order(trial: &Trial) -> (Duration, u64) {
    (trial.waited, trial.path_bytes)
}

/// Of the trials that wait hardly longer than the best one, that which changes least.
fn simplest<'a>(trials: impl Iterator<Item = &'a Trial> + Clone, base: &Setting) -> Option<&'a Trial> {
    let least = trials.clone().map(|trial| trial.waited).min()?;
    let limit = least.saturating_add(least / 100);
    let good = trials.filter(|trial| trial.waited <= limit);
    good.min_by_key(|trial| (trial.changes_from(base), order(trial)))
}

/// The arrays of which most bytes are read.
const MAX_TRIED_ARRAYS: usize = 4;
/// Each of them changes an extent by a factor of two.
const CLIMBS: u32 = 3;
