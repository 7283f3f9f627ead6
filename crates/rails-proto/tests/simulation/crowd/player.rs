//! The application of one end of a crowd.

use super::{
    CODE, Crowd, Ending, REASON,
    story::{Story, pattern},
};
use crate::{
    application::Task,
    pair::{Party, World},
};
use bytes::Bytes;
use rails_proto::{
    session::{Failure, Session, Wakes},
    stream_number::{Direction, Side, StreamNumber},
    wire::ResetReason,
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The application of one end.
#[derive(Debug)]
pub(crate) struct Player {
    crowd: Crowd,
    pub(super) side: Side,
    random: ChaCha8Rng,
    began: Option<Instant>,
    pub(super) opened: u64,
    /// How many of the peer's streams were accepted.
    accepted: u64,
    pub(super) sent: BTreeMap<StreamNumber, Sent>,
    pub(super) received: BTreeMap<StreamNumber, Received>,
    /// The streams with something to do for the writing task, and for the reading one.
    to_write: BTreeSet<StreamNumber>,
    to_read: BTreeSet<StreamNumber>,
    /// The streams that are to be read from a time on.
    later: BTreeSet<(Instant, StreamNumber)>,
    may_open: bool,
    may_accept: bool,
    /// The reader sleeps once, from a time on and for so long.
    nap: Option<(Duration, Duration)>,
    sleeps_until: Option<Instant>,
    /// This end lets its peer have so many streams open from a time on.
    places: Option<(Duration, u64)>,
    has_left: bool,
    writer: Task,
    reader: Task,
    datagrams: u64,
    heard: BTreeSet<u64>,
}

/// The sending direction of a stream.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) written: u64,
    is_over: bool,
    is_finished: bool,
    pub(super) was_stopped: bool,
    is_released: bool,
}

/// The receiving direction of a stream.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) read: u64,
    pub(super) outcome: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Complete,
    Reset(u64),
    /// The reader stopped the stream, or dropped it.
    Left,
}

impl Player {
    pub(super) fn new(crowd: &Crowd, end: usize) -> Self {
        Self {
            crowd: crowd.clone(),
            side: if end == 0 { Side::Initiator } else { Side::Responder },
            random: ChaCha8Rng::seed_from_u64(crowd.scenario.seed ^ end as u64),
            began: None,
            opened: 0,
            accepted: 0,
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            to_write: BTreeSet::new(),
            to_read: BTreeSet::new(),
            later: BTreeSet::new(),
            may_open: true,
            may_accept: true,
            nap: crowd.naps[end],
            sleeps_until: None,
            places: crowd.places,
            has_left: false,
            writer: Task::Ready,
            reader: Task::Ready,
            datagrams: 0,
            heard: BTreeSet::new(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        (self.writer, self.reader) == (Task::Done, Task::Done)
    }

    fn index(&self) -> usize {
        if self.side == Side::Initiator { 0 } else { 1 }
    }

    fn peers(&self) -> u64 {
        self.crowd.streams[1 - self.index()]
    }

    /// How many streams this end opens.
    fn own(&self) -> u64 {
        self.crowd.streams[self.index()]
    }

    /// The time `after` the beginning.
    fn at(&mut self, now: Instant, after: Duration) -> Instant {
        *self.began.get_or_insert(now) + after
    }

    /// When this end closes the session in the middle of everything.
    fn cuts_at(&mut self, now: Instant) -> Option<Instant> {
        match self.crowd.ending {
            Ending::Cut { end, at } if end == self.index() => Some(self.at(now, at)),
            _ => None,
        }
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
            if story.resets_finished && std::mem::take(&mut sent.is_finished) {
                session.reset(now, number, story.code);
            }
            if session.is_send_settled(number) && !std::mem::replace(&mut sent.is_released, true) {
                session.release_sending(now, number);
            }
            self.to_write.remove(&number);
            return;
        }
        if let Some(Failure::StoppedWith { code }) = session.write_failure(number) {
            let is_left = code == 0 && self.crowd.ending == Ending::DroppedUnread;
            assert!(is_left || story.stops_with(code), "the peer stops with its own code, not {code}");
            (sent.is_over, sent.was_stopped) = (true, true);
            return;
        }
        if story.reset_at.is_some_and(|at| sent.written >= at) {
            session.reset(now, number, story.code);
            sent.is_over = true;
            return;
        }
        if sent.written == story.total {
            return self.finish(now, session, number);
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
        if story.ends_with_bytes && sent.written == story.total && story.reset_at.is_none() {
            self.finish(now, session, number);
        }
    }

    fn finish(&mut self, now: Instant, session: &mut Session, number: StreamNumber) {
        let sent = self.sent.get_mut(&number).expect("the stream is one of those to write to");
        (sent.is_over, sent.is_finished) = (true, true);
        // A handle that is dropped delivers as well, and finishes the stream if that was not done.
        let drops = self.random.random_bool(0.3);
        if !drops || self.random.random_bool(0.5) {
            session.finish(now, number);
        }
        if drops {
            session.release_sending(now, number);
            sent.is_released = true;
            self.to_write.remove(&number);
        }
    }

    fn read_from(&mut self, now: Instant, session: &mut Session, number: StreamNumber) {
        let peer = self.side.peer();
        let story = Story::of(&self.crowd, number, peer);
        let received = self.received.get_mut(&number).expect("the stream is one of those to read from");
        let stops = story.stop_at.is_some_and(|at| received.read >= at);
        if stops || story.stops_whole && session.is_received(number) {
            session.stop(now, number, story.code ^ 1);
            session.stop(now, number, story.code ^ 2);
            received.outcome = Some(Outcome::Left);
        } else if story.drop_at.is_some_and(|at| received.read >= at) {
            received.outcome = Some(Outcome::Left);
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

    /// Whether all streams of both ends have come to their end, as far as this end knows. An end
    /// that drops the session need not wait until its peer has everything.
    fn is_done(&self, session: &Session) -> bool {
        let is_settled = |number| self.drops() || session.is_send_settled(number);
        let is_read = || {
            let mut received = self.received.values();
            self.accepted == self.peers() && received.all(|received| received.outcome.is_some())
        };
        self.opened == self.own()
            && self.sent.iter().all(|(number, sent)| sent.is_over && is_settled(*number))
            && (self.crowd.ending == Ending::DroppedUnread || is_read())
    }

    /// Whether the first end drops the session.
    fn drops(&self) -> bool {
        matches!(self.crowd.ending, Ending::Dropped | Ending::DroppedUnread)
    }

    /// Ends the session. The peer hears of the end on a lane: one that lasts has joined by then.
    fn leave(&mut self, now: Instant, session: &mut Session, is_cut: bool) {
        let slowest = self.crowd.scenario.lanes.iter().map(|lane| lane.delay).max().unwrap_or_default();
        let have_joined = self.at(now, slowest);
        if session.lanes().next().is_none() || now <= have_joined {
            self.writer = Task::Until(now.max(have_joined) + Duration::from_millis(5));
        } else if self.drops() && !is_cut {
            self.has_left = true;
            // No handle is left.
            for (number, received) in self.received.iter_mut().filter(|(_, received)| received.outcome.is_none()) {
                received.outcome = Some(Outcome::Left);
                session.release_receiving(now, *number);
            }
            for (number, sent) in self.sent.iter_mut().filter(|(_, sent)| !sent.is_released) {
                sent.is_released = true;
                session.release_sending(now, *number);
            }
            self.to_read.clear();
            self.to_write.clear();
            self.later.clear();
            session.drop_application(now, 0);
        } else {
            self.has_left = true;
            session.close(now, CODE, Bytes::from_static(REASON));
        }
    }

    fn pick(&mut self, of_writer: bool) -> Option<StreamNumber> {
        let set = if of_writer { &self.to_write } else { &self.to_read };
        if set.is_empty() {
            return None;
        }
        set.iter().nth(self.random.random_range(0..set.len())).copied()
    }

    /// Does now and then what a stream does not need.
    fn play(&mut self, session: &mut Session) {
        if self.random.random_bool(0.02) {
            let datagram = self.datagrams.to_be_bytes();
            self.datagrams += 1;
            session.send_datagram(Bytes::copy_from_slice(&datagram));
        }
        if self.random.random_bool(0.05) && !self.sent.is_empty() {
            let number = *self.sent.keys().nth(self.random.random_range(0..self.sent.len())).expect("it has so many");
            session.set_urgency(number, self.random.random_range(-2..3));
        }
    }

    /// Does what is due at a time. Returns when to come again.
    fn keep_time(&mut self, now: Instant, session: &mut Session) -> Option<Instant> {
        let places_at = self.places.map(|(after, _)| self.at(now, after));
        if let Some((_, max)) = self.places.take_if(|_| places_at.is_some_and(|at| at <= now)) {
            Direction::ALL.into_iter().for_each(|direction| session.set_max_streams(now, direction, max));
        }
        let cuts_at = self.cuts_at(now).filter(|_| !self.has_left);
        if cuts_at.is_some_and(|at| at <= now) {
            self.leave(now, session, true);
        }
        [places_at, cuts_at].into_iter().flatten().filter(|at| *at > now).min()
    }

    fn hear(&mut self, session: &mut Session) {
        while let Some(datagram) = session.read_datagram() {
            let number = u64::from_be_bytes(datagram[..].try_into().expect("the datagrams are as long as a number"));
            assert!(self.heard.insert(number), "datagram {number} came twice");
        }
    }

    fn accept(&mut self, now: Instant, session: &mut Session) {
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
        let next = self.keep_time(now, session);
        if session.failure().is_some() {
            self.writer = Task::Done;
            return;
        }
        let opens = self.may_open && self.opened < self.own();
        match self.pick(true) {
            Some(number) if !opens || self.random.random_bool(0.7) => self.write_to(now, session, number),
            _ if opens => self.open(now, session),
            _ => {
                self.writer = next.map_or(Task::Waiting, Task::Until);
                if self.side == Side::Initiator && !self.has_left && self.is_done(session) {
                    self.leave(now, session, false);
                }
            }
        }
        self.play(session);
    }

    fn read(&mut self, now: Instant, session: &mut Session) {
        let nap_at = self.nap.map(|(after, _)| self.at(now, after));
        if let Some((_, time)) = self.nap.take_if(|_| nap_at.is_some_and(|at| at <= now)) {
            self.sleeps_until = Some(now + time);
        }
        self.sleeps_until = self.sleeps_until.filter(|until| *until > now);
        if let Some(until) = self.sleeps_until {
            self.reader = Task::Until(until);
            return;
        }
        self.hear(session);
        if self.may_accept && !self.has_left {
            return self.accept(now, session);
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
            let later = self.later.first().map(|(at, _)| *at);
            self.reader = later.map_or(Task::Waiting, Task::Until);
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
        let is_over = session.failure().is_some();
        let reads = wakes.accept || wakes.datagrams || !self.to_read.is_empty() || is_over;
        if reads && matches!(self.reader, Task::Waiting | Task::Until(_)) && self.sleeps_until.is_none() {
            self.reader = Task::Ready;
        }
        if (wakes.open || wakes.streams || is_over) && matches!(self.writer, Task::Waiting | Task::Until(_)) {
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
            Some(failure) => panic!(
                "end {end} failed: {failure}: {:?}\n{session:?}\nthe other: {:?}\n{other:?}",
                world.ends[end].application,
                world.ends[1 - end].application
            ),
        }
    }
}
