//! Policies that answer nonsense: they slow a stream down, and do nothing worse.

use crate::{
    application::Habits,
    network::LaneSpec,
    pair::Scenario,
    properties::{for_each_seed, scenarios, scenarios_of_messages},
};
use proptest::prelude::*;
use rails_proto::policy::{Decision, LaneView, SchedulerView, StripePolicy, Wait};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::{cell::RefCell, time::Duration};

/// A policy that answers at random, and differently to the same question.
#[derive(Debug, Clone)]
pub(crate) struct Contrary {
    answers: Vec<Answer>,
    longest_chunk: usize,
    reinjects: bool,
    random: RefCell<Xoshiro256PlusPlus>,
}

/// A kind of answer.
#[derive(Debug, Clone, Copy)]
enum Answer {
    New(usize),
    Requeue(usize),
    /// Reinjects at any offset; a chunk rarely begins there.
    ReinjectAny(u64),
    /// Reinjects a chunk that another lane has in flight, if there is one.
    ReinjectReal,
    Wait,
}

impl Contrary {
    /// Creates a policy that always gives one of these answers.
    fn new(seed: u64, answers: Vec<Answer>, longest_chunk: usize, reinjects: bool) -> Self {
        Self { answers, longest_chunk, reinjects, random: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed)) }
    }

    /// Creates a policy that gives each lane with room a whole chunk, and never reinjects.
    pub(crate) fn greedy(longest_chunk: usize) -> Self {
        Self::new(0, vec![Answer::New(usize::MAX)], longest_chunk, false)
    }
}

impl StripePolicy for Contrary {
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        let chosen = self.random.borrow_mut().random_range(0..self.answers.len());
        match self.answers[chosen] {
            Answer::New(length) => Decision::New(length),
            Answer::Requeue(length) => Decision::Requeue(length),
            Answer::ReinjectAny(offset) => Decision::Reinject(offset),
            Answer::ReinjectReal => {
                let oldest = (0..view.lanes.len()).find_map(|other| view.oldest(other, lane));
                oldest
                    .or(view.first(lane))
                    .map_or(Decision::Wait(Wait::Other), |chunk| Decision::Reinject(chunk.offset))
            }
            Answer::Wait => Decision::Wait(Wait::Other),
        }
    }

    fn longest_chunk(&self, _: &LaneView, _: usize) -> usize {
        self.longest_chunk
    }

    fn reinjects(&self) -> bool {
        self.reinjects
    }
}

#[test]
fn streams_under_a_contrary_policy() {
    for_each_seed(
        "streams_under_a_contrary_policy",
        1,
        || contrary(scenarios()),
        |scenario| {
            scenario.check();
        },
    );
}

#[test]
fn messages_under_a_contrary_policy() {
    for_each_seed(
        "messages_under_a_contrary_policy",
        4,
        || contrary(scenarios_of_messages()),
        |scenario| {
            scenario.check();
        },
    );
}

#[test]
fn each_nonsense_alone_delivers_every_byte() {
    let huge = usize::MAX;
    let answers = [
        Answer::Wait,
        Answer::New(0),
        Answer::New(huge),
        Answer::Requeue(0),
        Answer::Requeue(huge),
        Answer::ReinjectAny(0),
        Answer::ReinjectAny(u64::MAX),
        Answer::ReinjectReal,
    ];
    for answer in answers {
        for (longest_chunk, reinjects) in [(0, false), (huge, true)] {
            let mut lanes = vec![LaneSpec::steady(100, Duration::from_millis(1), 64 << 10); 3];
            lanes[0].breaks = Some((Duration::from_millis(700), [Duration::from_millis(5); 2]));
            let contrary = Contrary::new(1, vec![answer], longest_chunk, reinjects);
            let sizes = (4 << 10, 4 << 10, 8 << 10);
            let (longest_chunk, send_buffer, window) = sizes;
            let scenario = Scenario {
                contrary: Some(contrary),
                longest_chunk,
                send_buffer,
                window,
                ..Scenario::one_way(64 << 10, lanes)
            };
            let outcome = scenario.run();
            assert!(outcome.read_end[1].is_some(), "{answer:?}: {outcome:?}");
        }
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    let length = || prop_oneof![Just(0), Just(1), 1usize..100_000, Just(usize::MAX)];
    prop_oneof![
        length().prop_map(Answer::New),
        length().prop_map(Answer::Requeue),
        prop_oneof![0u64..100_000, any::<u64>()].prop_map(Answer::ReinjectAny),
        Just(Answer::ReinjectReal),
        Just(Answer::Wait),
    ]
}

fn contrary(scenarios: impl Strategy<Value = Scenario>) -> impl Strategy<Value = Scenario> {
    let longest_chunk = prop_oneof![Just(0), 1usize..100_000, Just(usize::MAX)];
    let policy = (any::<u64>(), prop::collection::vec(answer(), 1..6), longest_chunk, any::<bool>());
    (scenarios, policy).prop_map(|(scenario, (seed, answers, longest_chunk, reinjects))| {
        let contrary = Some(Contrary::new(seed, answers, longest_chunk, reinjects));
        // A policy may give a single byte after every half second.
        let shorten = |habits: Habits| {
            let (most, longest) = if habits.messages { (20, 200) } else { (2_000, usize::MAX) };
            let total = habits.total.min(most);
            let (longest_write, goes) = (habits.longest_write.min(longest), habits.goes.map(|at| at.min(total)));
            Habits { total, longest_write, goes, ..habits }
        };
        let habits = scenario.habits.clone().map(shorten);
        Scenario { contrary, habits, ..scenario }
    })
}
