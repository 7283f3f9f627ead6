//! Sessions of many streams over random lanes, with an oracle for each stream.
//!
//! Each end opens streams of either kind, writes, finishes, resets, stops and drops them at random.
//! What a stream carries, and how it ends, follows from its number, so that the other end knows
//! what to expect of it: `story.rs`. `player.rs` is the application of an end.

mod player;
mod story;

use crate::{
    network::LaneSpec,
    pair::{End, Scenario, World},
    properties::{for_each_seed_of, scenarios, seeds, time},
};
use bytes::Bytes;
use player::{Outcome, Player};
use proptest::{option, prelude::*};
use rails_proto::{
    parameters::{StreamParameters, TransportParameters},
    policy::Policy,
    session::Failure,
};
use std::time::Duration;
use story::Story;

/// A scenario of many streams.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    /// The lanes, windows and the like. The habits in it do not matter.
    pub(crate) scenario: Scenario,
    /// How many streams each end opens.
    pub(crate) streams: [u64; 2],
    /// The longest stream.
    pub(crate) longest: u64,
    pub(crate) parameters: StreamParameters,
    /// When each end lets its peer have how many streams of each kind open, if that changes.
    pub(crate) places: Option<(Duration, u64)>,
    /// When the application of each end stops reading, and for how long.
    pub(crate) naps: [Option<(Duration, Duration)>; 2],
    pub(crate) ending: Ending,
}

/// How the session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The first end closes it when everything has been delivered.
    Closed,
    /// The first end drops it when it has written and read everything.
    Dropped,
    /// The first end drops it when it has written everything, whatever comes from the peer.
    DroppedUnread,
    /// An end closes it after a time, in the middle of everything.
    Cut {
        /// The end that does.
        end: usize,
        /// The time since the start.
        at: Duration,
    },
}

impl Crowd {
    /// The crowd with nothing but its streams.
    pub(crate) fn new(scenario: Scenario, streams: [u64; 2], longest: u64, parameters: StreamParameters) -> Self {
        Self { scenario, streams, longest, parameters, places: None, naps: [None; 2], ending: Ending::Closed }
    }

    /// Runs the scenario to its end, and checks it.
    pub(crate) fn check(&self) -> World<Player> {
        let Scenario { longest_chunk, window, .. } = self.scenario;
        let streams = Some(self.parameters);
        let parameters = TransportParameters { longest_chunk: longest_chunk as u32, window, streams };
        let mut world = World::new(&self.scenario, parameters, |end| Player::new(self, end));
        let must_end = self.scenario.must_end();
        world.run(must_end, false);
        if must_end {
            self.check_the_end(&world);
        }
        world
    }

    fn check_the_end(&self, world: &World<Player>) {
        let state = || {
            let [near, far] = &world.ends;
            format!("{:?}\n{:?}\nthe other: {:?}\n{:?}", near.application, near.session, far.application, far.session)
        };
        for End { session, application, .. } in &world.ends {
            assert!(session.failure().is_some() && application.is_over(), "the session stands still: {}", state());
        }
        let closed_by = |end: usize| {
            let failures = [end, 1 - end].map(|end| world.ends[end].session.failure());
            matches!(failures, [Some(Failure::Closed { code: ours, reason: one }),
                Some(Failure::ClosedByPeer { code: theirs, reason: other })]
                if ours == theirs && one == other && self.says(*ours, one))
        };
        let both = || world.ends.iter().all(|end| matches!(end.session.failure(), Some(Failure::Closed { .. })));
        if let Ending::Cut { .. } = self.ending {
            assert!(closed_by(0) || closed_by(1) || both(), "not closed: {}", state());
            return;
        }
        assert!(closed_by(0), "not closed: {}", state());
        if self.ending == Ending::DroppedUnread {
            return self.check_streams(world, 0);
        }
        for end in 0..2 {
            self.check_streams(world, end);
            assert_eq!(world.ends[end].session.memory_held(), 0, "bytes are left: {}", state());
        }
        let (used, arrived) = (used(world, 0), arrived(world, 1));
        assert_eq!(used, arrived, "the ends count other bytes: {}", state());
    }

    /// Whether a session ends with that.
    fn says(&self, code: u64, reason: &Bytes) -> bool {
        match self.ending {
            Ending::Dropped | Ending::DroppedUnread => code == 0 && reason.is_empty(),
            Ending::Closed | Ending::Cut { .. } => code == CODE && reason == REASON,
        }
    }

    /// Checks the streams in which `end` sent. The end that ends the session waits for all of its
    /// own, and for all of the peer's to arrive.
    fn check_streams(&self, world: &World<Player>, end: usize) {
        let (near, far) = (&world.ends[end].application, &world.ends[1 - end].application);
        assert_eq!(near.opened, self.streams[end]);
        for (number, sent) in &near.sent {
            let received = far.received.get(number).unwrap_or_else(|| panic!("stream {number} did not arrive"));
            let story = Story::of(self, *number, near.side);
            let state = || format!("{story:?}, {sent:?}, {received:?}");
            assert!(received.read <= sent.written, "stream {number} has too many bytes: {}", state());
            match received.outcome.as_ref().unwrap_or_else(|| panic!("stream {number} has no end: {}", state())) {
                Outcome::Complete => assert!(story.reset_at.is_none(), "stream {number} was reset"),
                Outcome::Reset(code) => assert!(
                    story.may_be_reset() && *code == story.code || sent.was_stopped,
                    "stream {number} was not reset: {}",
                    state()
                ),
                Outcome::Left => {}
            }
        }
    }
}

/// How much of its peer's window an end has used.
fn used(world: &World<Player>, end: usize) -> u64 {
    let session = &world.ends[end].session;
    session.stats(world.now).sending.used_bytes + session.sent().1
}

/// How much of an end's window its peer has used, as far as the end knows.
fn arrived(world: &World<Player>, end: usize) -> u64 {
    let session = &world.ends[end].session;
    session.stats(world.now).receiving.used_bytes + session.received().0
}

/// A lane that breaks up to three times, and is dialled again each time.
fn flapping() -> impl Strategy<Value = LaneSpec> {
    let break_down = (time(300), [time(50), time(50)], time(200));
    let path = (1_000_000u64..1_000_000_000, time(60), 1usize..200_000);
    (path, prop::collection::vec(break_down, 1..4)).prop_map(|((rate, delay, buffer), breaks)| {
        let steady = LaneSpec { rate, ..LaneSpec::steady(0, delay, buffer) };
        // No lane breaks before the others are up.
        let mut at: Duration = breaks.iter().map(|(after, _, _)| *after).sum::<Duration>() + 2 * delay;
        breaks.into_iter().rev().fold(steady.clone(), |then, (after, detection, returns)| {
            let lane = LaneSpec {
                breaks: Some((at, detection)),
                returns: Some(returns),
                returns_as: Some(Box::new(then)),
                ..steady.clone()
            };
            at -= after;
            lane
        })
    })
}

/// Whether nothing is lost on the way, and nobody waits for a lane that is slow to tell.
fn is_calm(scenario: &Scenario) -> bool {
    let lanes = scenario.lanes.iter();
    scenario.pauses.is_empty()
        && lanes.clone().all(|lane| lane.breaks.is_none() && lane.leaves.is_none() && lane.stops.is_empty())
        && lanes.clone().all(|lane| lane.changes.is_empty())
}

fn crowds() -> impl Strategy<Value = Crowd> {
    let counts = prop_oneof![0u64..4, 0u64..40];
    let limits = prop_oneof![1u32..3, 3u32..100];
    let windows = prop_oneof![1 => 1u64..100, 4 => 1u64..100_000];
    let parameters = (windows, limits.clone(), limits);
    let places = option::weighted(0.2, (time(3_000), 1u64..10, any::<bool>()));
    let nap = || option::weighted(0.1, (time(500), time(20_000)));
    let ending = prop_oneof![
        5 => Just(Ending::Closed),
        2 => Just(Ending::Dropped),
        1 => Just(Ending::DroppedUnread),
        1 => (0usize..2, time(2_000)).prop_map(|(end, at)| Ending::Cut { end, at }),
    ];
    let flaps = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(flapping(), 1..3)];
    let longest = prop_oneof![1u64..2_000, 2_000u64..100_000];
    (scenarios(), flaps, [counts.clone(), counts], longest, parameters, places, [nap(), nap()], ending).prop_map(
        |(scenario, flaps, streams, longest, (stream_window, max_bi, max_uni), places, naps, ending)| {
            let Scenario { window, longest_chunk, send_buffer, max_unacknowledged, .. } = scenario;
            // Windows and buffers of a few bytes are for streams of a few bytes.
            let least = window.min(longest_chunk as u64).min(send_buffer as u64).min(max_unacknowledged);
            let longest = longest.min(least.min(stream_window).saturating_mul(100));
            // A peer that may open none learns later that it may.
            let begins = |max| if places.is_some_and(|(_, _, with_none)| with_none) { 0 } else { max };
            let parameters =
                StreamParameters { window: stream_window, max_bi: begins(max_bi), max_uni: begins(max_uni) };
            let places = places.map(|(at, max, _)| (at, max));
            let lanes = [scenario.lanes, flaps].concat();
            let scenario = Scenario { lanes, ..scenario };
            // The other policies send nothing again, so an acknowledgement that is stuck in a lane which died
            // on the way back is waited for without end.
            let policy = if is_calm(&scenario) { scenario.policy } else { Policy::Adaptive };
            let scenario = Scenario { policy, ..scenario };
            Crowd { scenario, streams, longest, parameters, places, naps, ending }
        },
    )
}

/// Lanes and applications behave at random: every byte of every stream arrives once and in order,
/// every end, reset and stop is learned, and neither end keeps or sends more than the windows
/// allow.
#[test]
fn any_session_of_streams_comes_to_its_end() {
    for_each_seed_of(seeds(64), "any_session_of_streams_comes_to_its_end", 1, crowds, |crowd| {
        crowd.check();
    });
}

/// A hundred streams over two lanes of which one breaks: none stands still, and nothing is lost.
#[test]
fn a_lane_is_lost_under_a_hundred_streams() {
    let ms = Duration::from_millis;
    let mut lanes = [100, 100].map(|rate| LaneSpec::steady(rate, ms(2), 256 << 10)).to_vec();
    lanes[0].breaks = Some((ms(40), [ms(1), ms(1)]));
    let scenario = Scenario { window: 4 << 20, ..Scenario::one_way(0, lanes) };
    let parameters = StreamParameters { window: 64 << 10, max_bi: 100, max_uni: 100 };
    Crowd::new(scenario, [60, 40], 200_000, parameters).check();
}

const CODE: u64 = 77;
const REASON: &[u8] = b"all is done";
