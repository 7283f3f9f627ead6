//! Two connections back to back, whose lanes are lost, stall and come back between any two calls.
//!
//! There is no network here: a frame waits in its lane until a step delivers it, and the loss of a
//! lane discards the frames that wait in it. So a byte counts as delivered only if its lane lasted
//! until the peer had it. The order of events is random, and reaches cases that no link would
//! produce in ten thousand runs: half of a chunk sent again, then the first lane back, then both
//! lost.

mod back_to_back;
mod log;

use crate::properties::{for_each_seed_of, seeds};
use back_to_back::Pair;
use proptest::prelude::*;
use rails_proto::policy::Policy;

/// When all lanes work again, the stream comes to its end, and the peer has every byte once and in
/// order; before that, no undelivered byte counts as delivered.
#[test]
fn no_byte_is_lost_with_its_lanes() {
    for_each_seed_of(seeds(SEEDS), "no_byte_is_lost_with_its_lanes", 1, || story(false), Story::check);
}

/// As `no_byte_is_lost_with_its_lanes`, for messages of all priorities, small and large.
#[test]
fn no_message_is_lost_with_its_lanes() {
    for_each_seed_of(seeds(SEEDS), "no_message_is_lost_with_its_lanes", 1, || story(true), Story::check);
}

/// All the parameters of a run.
#[derive(Debug, Clone)]
struct Story {
    messages: bool,
    policy: Policy,
    longest_chunk: usize,
    window: u64,
    lanes: usize,
    steps: Vec<Step>,
}

/// The next step. A step that a lane cannot take leaves it as it is.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The application writes `length` bytes, or sends a message of this length and priority.
    Write {
        length: usize,
        level: u8,
    },
    /// The application finishes: it writes no more.
    Finish,
    /// The lane has room for `chunks` chunks.
    Send {
        lane: usize,
        chunks: usize,
    },
    /// As `Send`, and the peer receives and acknowledges all chunks `microseconds` later: so the
    /// sender learns the rate.
    Exchange {
        lane: usize,
        chunks: usize,
        microseconds: u64,
    },
    /// The peer acknowledges.
    Answer {
        lane: usize,
    },
    /// `frames` frames arrive at the peer, and with `part` a part of one more.
    Deliver {
        lane: usize,
        frames: usize,
        part: bool,
    },
    /// The peer's frames arrive.
    Hear {
        lane: usize,
    },
    /// The peer's application reads everything that it can.
    Read,
    Wait {
        microseconds: u64,
    },
    /// The sender learns that the link is down.
    Stall {
        lane: usize,
    },
    Restore {
        lane: usize,
    },
    /// The link goes down and up again, and in between the lane `other` has room for `chunks`
    /// chunks.
    Flap {
        lane: usize,
        other: usize,
        chunks: usize,
    },
    /// The lane's connection breaks, and this end finds out.
    Lose {
        lane: usize,
        end: usize,
    },
    /// The broken lane is dialled again; both ends know by then that it broke.
    Join {
        lane: usize,
    },
    /// This end takes the lane out of the stream.
    Retire {
        lane: usize,
        end: usize,
    },
}

fn story(messages: bool) -> impl Strategy<Value = Story> {
    let policy = prop_oneof![6 => Just(Policy::Adaptive), 1 => Just(Policy::Static), 1 => Just(Policy::Weighted)];
    let sizes = (16usize << 10..256 << 10, 256u64 << 10..2 << 20);
    (policy, sizes, 2usize..5).prop_flat_map(move |(policy, (longest_chunk, window), lanes)| {
        prop::collection::vec(step(lanes), 20..160).prop_map(move |steps| Story {
            messages,
            policy,
            longest_chunk,
            window,
            lanes,
            steps,
        })
    })
}

fn step(lanes: usize) -> impl Strategy<Value = Step> {
    // One draw instead of a choice of strategies, which would take most of a run's time.
    (0..100u32, 0..lanes, 0..lanes, any::<u32>()).prop_map(|(kind, lane, other, draw)| {
        let (count, draw) = (draw as usize % 4, draw >> 2);
        match kind {
            // The first lane is the fastest.
            0..12 => Step::Exchange { lane, chunks: 1 + count, microseconds: u64::from(draw % 1_000) << (3 * lane) },
            12..20 => Step::Write { length: draw as usize % LONGEST_WRITE, level: (draw >> 24) as u8 % 8 },
            20..21 if count == 0 => Step::Finish,
            20..35 => Step::Send { lane, chunks: 1 + count },
            35..42 => Step::Answer { lane },
            42..52 => Step::Deliver { lane, frames: count, part: draw % 4 == 0 },
            52..60 => Step::Hear { lane },
            60..64 => Step::Read,
            // From ten microseconds to a third of a second: chunks are overdue.
            64..70 => Step::Wait { microseconds: 10 << (draw % 16) },
            70..76 => Step::Stall { lane },
            76..80 => Step::Restore { lane },
            80..88 => Step::Flap { lane, other, chunks: count },
            88..94 => Step::Lose { lane, end: count % 2 },
            94..99 => Step::Join { lane },
            _ => Step::Retire { lane, end: count % 2 },
        }
    })
}

impl Story {
    fn check(&self) {
        let mut pair = Pair::new(self);
        self.steps.iter().for_each(|step| pair.step(*step));
        pair.come_to_the_end();
    }
}

/// The most bytes of one write: more than the longest chunk.
const LONGEST_WRITE: usize = 300 << 10;
/// The default without `RAILS_SEEDS`.
const SEEDS: u64 = 10_000;
