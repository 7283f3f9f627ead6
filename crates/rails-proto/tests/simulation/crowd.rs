//! Sessions of many streams over random lanes, with an oracle for each stream.
//!
//! Each end opens streams of either kind, writes, finishes, resets and stops them at random. What a
//! stream carries, and how it ends, follows from its number, so that the other end knows what to
//! expect of it.

use crate::{
    application::Task,
    network::LaneSpec,
    pair::{Party, Scenario, World},
    properties::{for_each_seed_of, scenarios, seeds},
};
use bytes::Bytes;
use proptest::prelude::*;
use rails_proto::{
    parameters::{StreamParameters, TransportParameters},
    policy::Policy,
    session::{Failure, Session, Wakes},
    stream_number::{Direction, Side, StreamNumber},
    wire::ResetReason,
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

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
}

impl Crowd {
    /// Runs the scenario to its end, and checks it.
    pub(crate) fn check(&self) -> World<Player> {
        let Scenario { longest_chunk, window, seed, .. } = self.scenario;
        let streams = Some(self.parameters);
        let parameters = TransportParameters { longest_chunk: longest_chunk as u32, window, streams };
        let mut world = World::new(&self.scenario, parameters, |end| Player::new(self, end, seed));
        let must_end = self.scenario.must_end();
        world.run(must_end, false);
        self.check_the_end(&world, must_end);
        world
    }

    fn check_the_end(&self, world: &World<Player>, must_end: bool) {
        let failures = [0, 1].map(|end: usize| world.ends[end].session.failure().cloned());
        if !must_end {
            return;
        }
        let expected = Failure::ClosedByPeer { code: CODE, reason: Bytes::from_static(REASON) };
        assert!(
            matches!(failures[0], Some(Failure::Closed { code: CODE, .. })),
            "the session stands still: {:?}\n{:?}\nthe other: {:?}\n{:?}",
            world.ends[0].application,
            world.ends[0].session,
            world.ends[1].application,
            world.ends[1].session
        );
        assert_eq!(failures[1], Some(expected));
        for end in 0..2 {
            let (near, far) = (&world.ends[end].application, &world.ends[1 - end].application);
            assert_eq!(near.opened, self.streams[end]);
            for (number, sent) in &near.sent {
                // The closing end waits for all of its own, and for all of the peer's to arrive.
                let received = far.received.get(number).unwrap_or_else(|| panic!("stream {number} did not arrive"));
                let story = Story::of(self, *number, near.side);
                let state = || format!("{story:?}, {sent:?}, {received:?}");
                match received.outcome.as_ref().unwrap_or_else(|| panic!("stream {number} has no end: {}", state())) {
                    Outcome::Complete => assert!(story.reset_at.is_none(), "stream {number} was reset"),
                    Outcome::Reset(code) => assert!(
                        story.reset_at.is_some() && *code == story.code || sent.was_stopped,
                        "stream {number} was not reset"
                    ),
                    Outcome::Stopped => {}
                }
            }
        }
    }
}

/// What a stream carries in one direction, and how it ends: a function of its number.
#[derive(Debug, Clone, Copy)]
struct Story {
    total: u64,
    /// The sender resets the stream when it has written that much.
    reset_at: Option<u64>,
    /// The receiver stops the stream when it has read that much.
    stop_at: Option<u64>,
    code: u64,
    urgency: i32,
    /// The receiver begins to read after this time.
    pause: Duration,
}

impl Story {
    fn of(crowd: &Crowd, number: StreamNumber, sender: Side) -> Self {
        let seed = crowd.scenario.seed ^ number.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (sender as u64) << 40;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let total = match random.random_range(0..4) {
            0 => 0,
            1 => random.random_range(0..100),
            _ => random.random_range(0..=crowd.longest),
        };
        let mut sometimes = |one_in: u32| random.random_ratio(1, one_in).then(|| random.random_range(0..=total));
        let (reset_at, stop_at) = (sometimes(8), sometimes(8));
        let (code, urgency) = (random.random_range(0..1 << 60), random.random_range(-1..2));
        let pause = Duration::from_millis(if random.random_ratio(1, 8) { random.random_range(0..2_000) } else { 0 });
        Self { total, reset_at, stop_at, code, urgency, pause }
    }
}

/// The application of one end.
#[derive(Debug)]
pub(crate) struct Player {
    crowd: Crowd,
    side: Side,
    random: ChaCha8Rng,
    opened: u64,
    /// How many of the peer's streams were accepted.
    accepted: u64,
    sent: BTreeMap<StreamNumber, Sent>,
    received: BTreeMap<StreamNumber, Received>,
    /// The streams with something to do for the writing task, and for the reading one.
    to_write: BTreeSet<StreamNumber>,
    to_read: BTreeSet<StreamNumber>,
    /// The streams that are to be read from a time on.
    later: BTreeSet<(Instant, StreamNumber)>,
    may_open: bool,
    may_accept: bool,
    writer: Task,
    reader: Task,
    datagrams: u64,
}

/// The sending direction of a stream.
#[derive(Debug, Default)]
struct Sent {
    written: u64,
    is_over: bool,
    was_stopped: bool,
    is_released: bool,
}

/// The receiving direction of a stream.
#[derive(Debug, Default)]
struct Received {
    read: u64,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Complete,
    Reset(u64),
    Stopped,
}

impl Player {
    fn new(crowd: &Crowd, end: usize, seed: u64) -> Self {
        Self {
            crowd: crowd.clone(),
            side: if end == 0 { Side::Initiator } else { Side::Responder },
            random: ChaCha8Rng::seed_from_u64(seed ^ end as u64),
            opened: 0,
            accepted: 0,
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            to_write: BTreeSet::new(),
            to_read: BTreeSet::new(),
            later: BTreeSet::new(),
            may_open: true,
            may_accept: true,
            writer: Task::Ready,
            reader: Task::Ready,
            datagrams: 0,
        }
    }

    fn peers(&self) -> u64 {
        self.crowd.streams[if self.side == Side::Initiator { 1 } else { 0 }]
    }

    /// How many streams this end opens.
    fn own(&self) -> u64 {
        self.crowd.streams[if self.side == Side::Initiator { 0 } else { 1 }]
    }

    fn sends(&mut self, session: &mut Session, number: StreamNumber) {
        session.set_urgency(number, Story::of(&self.crowd, number, self.side).urgency);
        self.sent.insert(number, Sent::default());
        self.to_write.insert(number);
    }

    fn receives(&mut self, now: Instant, number: StreamNumber) {
        self.received.insert(number, Received::default());
        let pause = Story::of(&self.crowd, number, self.side.peer()).pause;
        if pause.is_zero() {
            self.to_read.insert(number);
        } else {
            self.later.insert((now + pause, number));
        }
        self.reader = Task::Ready;
    }

    fn open(&mut self, now: Instant, session: &mut Session) {
        let direction = if self.random.random_bool(0.7) { Direction::Bi } else { Direction::Uni };
        let Some(number) = session.open(direction) else {
            self.may_open = false;
            return;
        };
        self.opened += 1;
        self.sends(session, number);
        if direction == Direction::Bi {
            self.receives(now, number);
        }
    }

    fn write_to(&mut self, now: Instant, session: &mut Session, number: StreamNumber) {
        let story = Story::of(&self.crowd, number, self.side);
        let sent = self.sent.get_mut(&number).expect("the stream is one of those to write to");
        if sent.is_over {
            if session.is_send_settled(number) && !std::mem::replace(&mut sent.is_released, true) {
                session.release_sending(now, number);
            }
            self.to_write.remove(&number);
            return;
        }
        if let Some(Failure::StoppedWith { code }) = session.write_failure(number) {
            let theirs = Story::of(&self.crowd, number, self.side);
            assert_eq!(code, theirs.code ^ 1, "the peer stops with its own code");
            (sent.is_over, sent.was_stopped) = (true, true);
            return;
        }
        if story.reset_at.is_some_and(|at| sent.written >= at) {
            session.reset(now, number, story.code);
            sent.is_over = true;
            return;
        }
        if sent.written == story.total {
            session.finish(now, number);
            sent.is_over = true;
            // A handle that is dropped at once delivers as well.
            if self.random.random_bool(0.3) {
                session.release_sending(now, number);
                sent.is_released = true;
                self.to_write.remove(&number);
            }
            return;
        }
        let room = session.writable_bytes(number) as u64;
        if room == 0 {
            self.to_write.remove(&number);
            return;
        }
        let left = (story.total - sent.written).min(room).min(story.reset_at.map_or(u64::MAX, |at| at - sent.written));
        let length = self.random.random_range(1..=left.min(40_000));
        session.write(now, number, pattern(number, self.side, sent.written, length));
        sent.written += length;
    }

    fn read_from(&mut self, now: Instant, session: &mut Session, number: StreamNumber) {
        let peer = self.side.peer();
        let story = Story::of(&self.crowd, number, peer);
        let received = self.received.get_mut(&number).expect("the stream is one of those to read from");
        if story.stop_at.is_some_and(|at| received.read >= at) {
            session.stop(now, number, story.code ^ 1);
            received.outcome = Some(Outcome::Stopped);
        } else if let Some(bytes) = session.read(now, number) {
            let expected = pattern(number, peer, received.read, bytes.len() as u64);
            assert!(bytes == expected, "wrong bytes in stream {number} from {} on", received.read);
            received.read += bytes.len() as u64;
            return;
        } else if session.is_read(number) {
            assert_eq!(received.read, story.total, "stream {number} ends early");
            received.outcome = Some(Outcome::Complete);
        } else if let Some(failure) = session.read_failure(number) {
            if let Failure::ResetWith { code } = failure {
                received.outcome = Some(Outcome::Reset(code));
            }
        } else {
            self.to_read.remove(&number);
            return;
        }
        self.to_read.remove(&number);
        session.release_receiving(now, number);
    }

    /// Whether all streams of both ends have come to their end, as far as this end knows.
    fn is_done(&self, session: &Session) -> bool {
        self.opened == self.own()
            && self.accepted == self.peers()
            && self.sent.iter().all(|(number, sent)| sent.is_over && session.is_send_settled(*number))
            && self.received.values().all(|received| received.outcome.is_some())
    }

    fn pick(&mut self, of_writer: bool) -> Option<StreamNumber> {
        let set = if of_writer { &self.to_write } else { &self.to_read };
        if set.is_empty() {
            return None;
        }
        set.iter().nth(self.random.random_range(0..set.len())).copied()
    }
}

impl Party for Player {
    fn writer(&self) -> Task {
        self.writer
    }

    fn reader(&self) -> Task {
        self.reader
    }

    fn write(&mut self, now: Instant, session: &mut Session) {
        if session.failure().is_some() {
            self.writer = Task::Done;
            return;
        }
        let opens = self.may_open && self.opened < self.own();
        match self.pick(true) {
            Some(number) if !opens || self.random.random_bool(0.7) => self.write_to(now, session, number),
            _ if opens => self.open(now, session),
            _ => {
                self.writer = Task::Waiting;
                if self.side == Side::Initiator && self.is_done(session) {
                    if session.lanes().next().is_some() {
                        session.close(now, CODE, Bytes::from_static(REASON));
                    } else {
                        // The peer hears of the end on a lane.
                        self.writer = Task::Until(now + Duration::from_millis(5));
                    }
                }
            }
        }
        if self.random.random_bool(0.02) {
            let datagram = self.datagrams.to_be_bytes();
            self.datagrams += 1;
            session.send_datagram(Bytes::copy_from_slice(&datagram));
        }
    }

    fn read(&mut self, now: Instant, session: &mut Session) {
        while let Some(datagram) = session.read_datagram() {
            assert_eq!(datagram.len(), 8);
        }
        if self.may_accept {
            let accepted = Direction::ALL.map(|direction| session.accept(direction));
            self.may_accept = accepted.iter().any(Option::is_some);
            for number in accepted.into_iter().flatten() {
                self.accepted += 1;
                self.receives(now, number);
                if number.direction() == Direction::Bi {
                    self.sends(session, number);
                    self.writer = Task::Ready;
                }
            }
            return;
        }
        // What has arrived before the session was closed can be read after it.
        let is_closed = session.failure().is_some();
        while let Some((at, number)) = self.later.first().copied().filter(|(at, _)| *at <= now || is_closed) {
            self.later.remove(&(at, number));
            self.to_read.insert(number);
        }
        if let Some(number) = self.pick(false) {
            self.read_from(now, session, number);
        } else if session.failure().is_some() {
            self.reader = Task::Done;
        } else {
            self.reader = self.later.first().map_or(Task::Waiting, |(at, _)| Task::Until(*at));
            // The last thing that the closing end waits for may have been read.
            self.writer = Task::Ready;
        }
    }

    fn wake(&mut self, session: &mut Session, wakes: Wakes) {
        if wakes.streams {
            for wake in session.take_stream_wakes() {
                let is_read_later = self.later.iter().any(|(_, number)| *number == wake.stream);
                let is_open = self.received.get(&wake.stream).is_some_and(|received| received.outcome.is_none());
                if wake.reader && is_open && !is_read_later {
                    self.to_read.insert(wake.stream);
                }
                if wake.writer && self.sent.get(&wake.stream).is_some_and(|sent| !sent.is_released) {
                    self.to_write.insert(wake.stream);
                }
            }
        }
        self.may_open |= wakes.open;
        self.may_accept |= wakes.accept;
        let reads = wakes.accept || wakes.datagrams || !self.to_read.is_empty() || session.failure().is_some();
        if reads && matches!(self.reader, Task::Waiting | Task::Until(_)) {
            self.reader = Task::Ready;
        }
        if (wakes.open || wakes.streams || session.failure().is_some()) && self.writer == Task::Waiting {
            self.writer = Task::Ready;
        }
    }

    fn check(world: &World<Self>, end: usize) {
        let session = &world.ends[end].session;
        let Crowd { scenario, .. } = &world.ends[end].application.crowd;
        let held = session.memory_held();
        let parts = world.ends[end].application.crowd.streams.iter().sum::<u64>() * 1_024;
        assert!(held <= scenario.window + parts, "the end holds {held} bytes");
        let other = &world.ends[1 - end].session;
        let (used, consumed) = session.sent();
        let waiting: u64 = world.ends[end].application.sent.len() as u64 * scenario.send_buffer as u64;
        assert!(used - consumed <= scenario.window + waiting, "the end sends more than it may");
        assert!(consumed <= other.received().0, "the peer has not read as much");
        let open = Direction::ALL.map(|direction| session.opened(direction).expect("it has many").open);
        assert!(open[0] + open[1] <= world.ends[end].application.opened, "more streams are open than were opened");
        let is_lost = |end: usize| matches!(world.ends[end].session.failure(), Some(Failure::LanesLost { .. }));
        match session.failure() {
            None | Some(Failure::LanesLost { .. } | Failure::Closed { .. } | Failure::ClosedByPeer { .. }) => {}
            Some(Failure::Reset(ResetReason::Dropped)) if is_lost(1 - end) => {}
            Some(failure) => panic!("end {end} failed: {failure}"),
        }
    }
}

/// The bytes of a stream from an offset on.
fn pattern(number: StreamNumber, sender: Side, offset: u64, length: u64) -> Bytes {
    let mix = number.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ sender as u64;
    (offset..offset + length).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ mix >> (at & 31)) as u8).collect()
}

fn crowds() -> impl Strategy<Value = Crowd> {
    let counts = prop_oneof![0u64..4, 0u64..40];
    let limits = prop_oneof![1u32..3, 3u32..100];
    let parameters = (1u64..100_000, limits.clone(), limits);
    (scenarios(), counts.clone(), counts, prop_oneof![1u64..2_000, 2_000u64..100_000], parameters).prop_map(
        |(scenario, first, second, longest, (stream_window, max_bi, max_uni))| {
            let window = scenario.window.max(1_000);
            let least = window.min(scenario.longest_chunk as u64).min(scenario.send_buffer as u64);
            let least = least.min(scenario.max_unacknowledged).min(stream_window);
            // Windows and buffers of a few bytes are for streams of a few bytes.
            let longest = longest.min(least.saturating_mul(100));
            let parameters = StreamParameters { window: stream_window, max_bi, max_uni };
            // The other policies send nothing again, so an acknowledgement that is stuck in a lane which died
            // on the way back is waited for without end.
            let (policy, max_unacknowledged) = (Policy::Adaptive, scenario.max_unacknowledged.max(window));
            let scenario = Scenario { window, policy, max_unacknowledged, ..scenario };
            Crowd { scenario, streams: [first, second], longest, parameters }
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
    Crowd { scenario, streams: [60, 40], longest: 200_000, parameters }.check();
}

const CODE: u64 = 77;
const REASON: &[u8] = b"all is done";
