//! Two ends of a session and the lanes between them, one step at a time. Each end is the object
//! that runs elsewhere.

use crate::instance::Instance;
use bytes::Bytes;
use rails_proto::{
    chunk::{Chunk, ChunkKind},
    control::{self, Record, Subject},
    parameters::{ACK_TIMER, StreamParameters, TransportParameters},
    policy::{Decision, SchedulerView, StripePolicy, Wait},
    session::{Config, Failure, LaneEnd, LaneId, LaneTraits, Session, Transmit},
    stream_number::{Direction, Side, StreamNumber},
    wire::{Ack, DataHeader, FRAME_LEN, Frame},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt::{self, Write as _},
    hash::{DefaultHasher, Hasher},
    sync::LazyLock,
    time::{Duration, Instant},
};

/// A step of the world. `stream` is the index of a stream, `lane` that of a lane, and `end` that of
/// an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The sender of the second stream begins to write.
    Begin,
    /// The sender of a stream, which has written everything, finishes it.
    Finish(usize),
    /// The sender of a stream resets it.
    Reset(usize),
    /// The receiver of a stream reads until there is nothing more.
    Read(usize),
    /// The receiver of a stream stops it.
    Stop(usize),
    /// The oldest parcel on its way to an end arrives.
    Deliver { lane: usize, end: usize },
    /// An end loses a lane. What is on its way to that end is lost.
    Lose { lane: usize, end: usize },
    /// A lost lane joins again, at both ends.
    Return { lane: usize },
    /// An end learns that the link under a lane went down. The lane may deliver all the same.
    Stall { lane: usize, end: usize },
}

/// What is wrong in a state, or has been on the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wrong {
    /// An end has failed, though both keep the rules.
    Failed,
    /// A receiver reads other bytes than were written, or an end that is not behind them.
    OtherBytes,
    /// A sender sends beyond a limit, or a limit is not what the receiver gave.
    BeyondCredit,
    /// A receiver holds more than its window.
    TooMuchMemory,
    /// The end of a stream is told in two ways.
    EndMoved,
    /// A record with an older value goes out behind a newer one.
    OldRecord,
    /// The ends do not agree how a stream came to its end.
    OtherOutcome,
    /// All is over, and the peer does not know a limit, or may not open as many streams as before.
    LimitUnknown,
}

/// How a receiver sees the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Complete,
    Reset,
    Stopped,
}

pub(crate) struct World {
    instance: Instance,
    ends: [End; 2],
    lanes: Vec<Lane>,
    streams: [Stream; 2],
    losses: u8,
    stalls: u8,
    wrong: Option<Wrong>,
}

struct End {
    session: Session,
    /// The greatest value of each record that this end has put on a lane, and that has arrived
    /// here.
    told: BTreeMap<Subject, u64>,
    heard: BTreeMap<Subject, u64>,
    /// How much the peer lets this end send in all streams together, and how much it has sent.
    limit: u64,
    sent: u64,
}

/// A lane, by end.
#[derive(Debug)]
struct Lane {
    sides: [Option<LaneSide>; 2],
    /// What is on its way to each end.
    pipes: [VecDeque<Parcel>; 2],
}

#[derive(Debug)]
struct LaneSide {
    id: LaneId,
    /// The lane has found nothing to send, and was not woken since.
    is_idle: bool,
    /// An acknowledgement will be due, whatever happens.
    has_timer: bool,
}

#[derive(Debug)]
struct Parcel {
    acks: Vec<Ack>,
    chunk: Option<Chunk>,
}

/// A stream, with the state of the applications at its ends.
#[derive(Debug)]
struct Stream {
    number: StreamNumber,
    /// The end that opened the stream, and sends in it.
    sender: usize,
    written: u64,
    is_finished: bool,
    was_reset: bool,
    was_stopped: bool,
    /// The sender has dropped its handle.
    is_sent: bool,
    /// The bytes that lanes have taken, and where the stream ends as its sender has told.
    highest: u64,
    end: Option<u64>,
    /// Whether the receiver has accepted the stream.
    is_accepted: bool,
    /// Whether the reader may find something.
    is_reader_awake: bool,
    read: u64,
    stops: bool,
    outcome: Option<Outcome>,
}

impl World {
    pub(crate) fn new(instance: &Instance) -> Self {
        let senders = [0, usize::from(instance.both_ways)];
        let ends = [Side::Initiator, Side::Responder].map(|side| End::new(instance, side));
        let stream = |index: usize| Stream {
            number: StreamNumber(u64::MAX),
            sender: senders[index],
            written: 0,
            is_finished: false,
            was_reset: false,
            was_stopped: false,
            is_sent: false,
            highest: 0,
            end: None,
            is_accepted: false,
            is_reader_awake: false,
            read: 0,
            stops: false,
            outcome: None,
        };
        let lanes = (0..instance.lanes).map(|_| Lane { sides: [None, None], pipes: Default::default() }).collect();
        let mut world = Self {
            instance: instance.clone(),
            ends,
            lanes,
            streams: [0, 1].map(stream),
            losses: 0,
            stalls: 0,
            wrong: None,
        };
        (0..world.lanes.len()).for_each(|lane| world.join(lane));
        for stream in &mut world.streams {
            let session = &mut world.ends[stream.sender].session;
            stream.number = session.open(Direction::Uni).expect("the peer allows two");
        }
        world.write(0);
        if !instance.begins_later {
            world.write(1);
        }
        (0..2).for_each(|end| world.settle(end));
        world.transmit();
        world
    }

    /// The steps that are possible now.
    pub(crate) fn steps(&self) -> Vec<Step> {
        if self.wrong.is_some() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        if self.instance.begins_later && self.streams[1].written == 0 && !self.streams[1].was_reset {
            steps.push(Step::Begin);
        }
        for (index, stream) in self.streams.iter().enumerate() {
            let (instance, is_sending) = (&self.instance, !stream.was_reset && !stream.was_stopped && !stream.is_sent);
            if index == 1 && !stream.is_finished && is_sending && stream.written == instance.totals[index] {
                steps.push(Step::Finish(index));
            }
            if index == 0 && instance.resets && is_sending {
                steps.push(Step::Reset(index));
            }
            let is_reading = stream.is_accepted && stream.outcome.is_none();
            if is_reading && stream.is_reader_awake && instance.unread != Some(index) {
                steps.push(Step::Read(index));
            }
            if index == 0 && instance.stops && is_reading {
                steps.push(Step::Stop(index));
            }
        }
        for (lane, state) in self.lanes.iter().enumerate() {
            for end in 0..2 {
                let is_whole = state.sides.iter().all(Option::is_some);
                if !state.pipes[end].is_empty() {
                    steps.push(Step::Deliver { lane, end });
                }
                if state.sides[end].is_some() {
                    if !is_whole || lane == 0 && self.losses < self.instance.losses {
                        steps.push(Step::Lose { lane, end });
                    }
                    if lane == 0 && is_whole && self.stalls < self.instance.stalls {
                        steps.push(Step::Stall { lane, end });
                    }
                }
            }
            if self.instance.returns && state.sides.iter().all(Option::is_none) {
                steps.push(Step::Return { lane });
            }
        }
        steps
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Begin => {
                self.write(1);
                self.settle(self.streams[1].sender);
            }
            Step::Finish(index) => {
                let Stream { number, sender, .. } = self.streams[index];
                self.streams[index].is_finished = true;
                self.ends[sender].session.finish(now(), number);
                self.settle(sender);
            }
            Step::Reset(index) => {
                let Stream { number, sender, .. } = self.streams[index];
                self.streams[index].was_reset = true;
                // The application drops its handle at once.
                self.streams[index].is_sent = true;
                self.ends[sender].session.reset(now(), number, RESET_CODE);
                self.ends[sender].session.release_sending(now(), number);
                self.settle(sender);
            }
            Step::Read(index) => {
                self.read(index);
                self.settle(1 - self.streams[index].sender);
            }
            Step::Stop(index) => {
                let Stream { number, sender, .. } = self.streams[index];
                self.streams[index].stops = true;
                self.ends[1 - sender].session.stop(now(), number, STOP_CODE);
                self.end_reading(index, Outcome::Stopped);
                self.settle(1 - sender);
            }
            Step::Deliver { lane, end } => {
                self.deliver(lane, end);
                self.settle(end);
            }
            Step::Lose { lane, end } => {
                let side = self.lanes[lane].sides[end].take().expect("the lane is up at this end");
                self.losses += u8::from(self.lanes[lane].sides[1 - end].is_some());
                self.lanes[lane].pipes[end].clear();
                self.ends[end].session.lane_down(now(), side.id, LaneEnd::Lost);
                self.settle(end);
            }
            Step::Return { lane } => {
                self.join(lane);
                (0..2).for_each(|end| self.settle(end));
            }
            Step::Stall { lane, end } => {
                let id = self.lanes[lane].sides[end].as_ref().expect("the lane is up at this end").id;
                self.stalls += 1;
                self.ends[end].session.link_down(now(), id);
                self.settle(end);
            }
        }
        self.transmit();
        if self.is_settled() {
            self.check_the_end();
        }
    }

    /// Lets every lane send that is awake and has room: what is on its way takes any time.
    fn transmit(&mut self) {
        while let Some((lane, end)) = self.next_sender() {
            self.send(lane, end);
            self.settle(end);
        }
    }

    fn next_sender(&self) -> Option<(usize, usize)> {
        let all = (0..self.lanes.len()).flat_map(|lane| [(lane, 0), (lane, 1)]);
        let may_send = |(lane, end): &(usize, usize)| {
            let Lane { sides, pipes } = &self.lanes[*lane];
            let is_awake = |side: &LaneSide| !side.is_idle || side.has_timer;
            sides.iter().all(Option::is_some)
                && sides[*end].as_ref().is_some_and(is_awake)
                && pipes[1 - end].len() < self.instance.max_parcels
        };
        all.into_iter().find(may_send)
    }

    /// What is wrong here or has been on the way here.
    pub(crate) fn wrong(&self) -> Option<Wrong> {
        self.wrong
    }

    /// Whether both ends know how each stream ended, and nothing is left to do.
    pub(crate) fn is_settled(&self) -> bool {
        let is_over = |(index, stream): (usize, &Stream)| {
            stream.is_sent && stream.outcome.is_some() || self.instance.unread == Some(index)
        };
        let is_at_rest = |lane: &Lane| {
            lane.pipes.iter().all(VecDeque::is_empty)
                && lane.sides.iter().flatten().all(|side| side.is_idle && !side.has_timer)
        };
        let is_whole = |lane: &Lane| lane.sides.iter().all(Option::is_some);
        self.streams.iter().enumerate().all(is_over)
            && self.lanes.iter().all(is_at_rest)
            && self.lanes.iter().any(is_whole)
    }

    /// Identifies the state: two worlds with the same value behave alike.
    pub(crate) fn fingerprint(&self) -> u64 {
        let Self { instance: _, ends, lanes, streams, losses, stalls, wrong } = self;
        let mut hasher = HashedText { hasher: DefaultHasher::new(), skipped: None };
        for End { session, told, heard, limit, sent } in ends {
            write!(hasher, "{session:?}{told:?}{heard:?}{limit}/{sent}").expect("a hasher takes all");
        }
        write!(hasher, "{lanes:?}{streams:?}{losses}/{stalls}{wrong:?}").expect("a hasher takes all");
        hasher.hasher.finish()
    }

    fn join(&mut self, lane: usize) {
        for end in 0..2 {
            self.lanes[lane].pipes[end].clear();
            let traits = LaneTraits { number: lane as u16, ..LaneTraits::default() };
            let id = self.ends[end].session.lane_up(now(), traits).expect("the session is open");
            self.lanes[lane].sides[end] = Some(LaneSide { id, is_idle: false, has_timer: false });
        }
    }

    /// The sender of a stream writes as much as there is room for.
    fn write(&mut self, index: usize) {
        let Stream { number, sender, written, .. } = self.streams[index];
        let session = &mut self.ends[sender].session;
        let length = (self.instance.totals[index] - written).min(session.writable_bytes(number) as u64);
        if length > 0 {
            session.write(now(), number, pattern(index, written, length));
            self.streams[index].written += length;
        }
        let is_whole = self.streams[index].written == self.instance.totals[index];
        let is_late = index == 1 && self.instance.late_finish;
        if is_whole && !is_late && !self.streams[index].is_finished {
            self.streams[index].is_finished = true;
            session.finish(now(), number);
        }
    }

    fn read(&mut self, index: usize) {
        let Stream { number, sender, .. } = self.streams[index];
        self.streams[index].is_reader_awake = false;
        let session = &mut self.ends[1 - sender].session;
        while let Some(bytes) = session.read(now(), number) {
            let stream = &mut self.streams[index];
            let is_right = bytes == pattern(index, stream.read, bytes.len() as u64);
            stream.read += bytes.len() as u64;
            if !is_right || stream.read > stream.written {
                self.wrong.get_or_insert(Wrong::OtherBytes);
            }
        }
        if session.is_read(number) {
            let stream = &self.streams[index];
            if !stream.is_finished || stream.read != self.instance.totals[index] {
                self.wrong.get_or_insert(Wrong::OtherBytes);
            }
            self.end_reading(index, Outcome::Complete);
        } else if let Some(failure) = session.read_failure(number) {
            if failure != (Failure::ResetWith { code: RESET_CODE }) || !self.streams[index].was_reset {
                self.wrong.get_or_insert(Wrong::OtherOutcome);
            }
            self.end_reading(index, Outcome::Reset);
        }
    }

    fn end_reading(&mut self, index: usize, outcome: Outcome) {
        let Stream { number, sender, .. } = self.streams[index];
        self.streams[index].outcome = Some(outcome);
        self.ends[1 - sender].session.release_receiving(now(), number);
    }

    fn send(&mut self, lane: usize, end: usize) {
        let side = self.lanes[lane].sides[end].as_ref().expect("only a lane that is up asks");
        let at = if side.is_idle { later() } else { now() };
        let mut control = Vec::new();
        let sent = self.ends[end].session.poll_transmit(at, side.id, &mut control);
        let chunk = match sent {
            Transmit::Send(chunk) => chunk,
            Transmit::Idle | Transmit::Close => {
                self.lanes[lane].sides[end].as_mut().expect("the lane is up").is_idle = true;
                return;
            }
        };
        let (frames, rest) = control.as_chunks::<FRAME_LEN>();
        assert!(rest.is_empty(), "frames are whole");
        let ack = |frame: &[u8; FRAME_LEN]| match Frame::decode(frame) {
            Ok(Frame::Ack(ack)) => ack,
            other => panic!("neither end sends {other:?} here"),
        };
        let acks = frames.iter().map(ack).collect();
        if let Some(chunk) = &chunk {
            self.note_sent(end, chunk);
        }
        self.lanes[lane].pipes[1 - end].push_back(Parcel { acks, chunk });
    }

    /// Checks a chunk that goes out.
    fn note_sent(&mut self, end: usize, chunk: &Chunk) {
        if chunk.kind == ChunkKind::Control {
            return records(chunk).into_iter().for_each(|record| self.note_record(end, record));
        }
        let of_chunk = |stream: &&mut Stream| stream.number == chunk.stream && stream.sender == end;
        let stream = self.streams.iter_mut().find(of_chunk).expect("there are two streams");
        let last = chunk.offset + u64::from(chunk.length);
        let peer = &mut self.ends[end];
        peer.sent += last.saturating_sub(stream.highest);
        stream.highest = stream.highest.max(last);
        let first = self.instance.stream_window.min(self.instance.window);
        let limit = peer.heard.get(&Subject::Limit(stream.number)).map_or(first, |limit| first.max(*limit));
        if last > limit || peer.sent > peer.limit {
            self.wrong.get_or_insert(Wrong::BeyondCredit);
        }
        if chunk.fin && stream.end.is_some_and(|end| end != last) || stream.end.is_some_and(|end| end < last) {
            self.wrong.get_or_insert(Wrong::EndMoved);
        }
        if chunk.fin {
            stream.end = Some(last);
        }
    }

    /// Checks a record that goes out.
    fn note_record(&mut self, end: usize, record: Record) {
        let Record { subject, value, .. } = record;
        if let Subject::Reset(number) = subject {
            let stream = self.streams.iter_mut().find(|stream| stream.number == number).expect("there are two");
            // A stream whose reset the peer knows may be forgotten, and is told no more.
            if stream.end.is_some_and(|end| end != value) || value != stream.highest {
                self.wrong.get_or_insert(Wrong::EndMoved);
            }
            stream.end = Some(value);
        }
        // The limit of a stream that has come to its end matters no more.
        let is_over = matches!(subject, Subject::Limit(number) if value == 0 && self.is_received(number));
        let told = self.ends[end].told.entry(subject).or_default();
        if value < *told && !is_over {
            self.wrong.get_or_insert(Wrong::OldRecord);
        }
        *told = value.max(*told);
    }

    fn is_received(&self, number: StreamNumber) -> bool {
        self.streams.iter().any(|stream| stream.number == number && stream.outcome.is_some())
    }

    fn deliver(&mut self, lane: usize, end: usize) {
        let Parcel { acks, chunk } = self.lanes[lane].pipes[end].pop_front().expect("something is on its way");
        let Some(LaneSide { id, .. }) = self.lanes[lane].sides[end] else { return };
        let End { session, heard, limit, .. } = &mut self.ends[end];
        let mut is_right = true;
        for ack in acks {
            *limit = ack.limit.max(*limit);
            is_right &= session.handle_ack(now(), id, &ack).is_ok();
        }
        if let Some(chunk) = chunk {
            let payload = Bytes::from(chunk.payload.concat());
            is_right &= if chunk.kind == ChunkKind::Control {
                for record in records(&chunk) {
                    let value = heard.entry(record.subject).or_default();
                    *value = record.value.max(*value);
                }
                session.handle_control(now(), id, &payload).is_ok()
            } else {
                let header = DataHeader::of(chunk.stream, chunk.offset, &chunk.payload, chunk.fin);
                let admitted = session.admit(now(), &header).is_ok();
                admitted && session.handle_data(now(), id, &header, payload).is_ok()
            };
        }
        if !is_right {
            self.wrong.get_or_insert(Wrong::Failed);
        }
    }

    /// Performs the wakes of an end, and lets the applications that were woken go on.
    fn settle(&mut self, end: usize) {
        loop {
            let wakes = self.ends[end].session.take_wakes();
            for lane in wakes.lanes() {
                let sides = self.lanes.iter_mut().filter_map(|state| state.sides[end].as_mut());
                sides.filter(|side| side.id == lane).for_each(|side| side.is_idle = false);
            }
            if wakes.accept {
                self.accept(end);
            }
            let woken = if wakes.streams { self.ends[end].session.take_stream_wakes() } else { Default::default() };
            if woken.is_empty() {
                break;
            }
            for wake in woken {
                let index = self.streams.iter().position(|stream| stream.number == wake.stream).expect("one of two");
                if wake.reader && self.streams[index].sender != end {
                    self.streams[index].is_reader_awake = true;
                }
                if wake.writer && self.streams[index].sender == end {
                    self.go_on_writing(index);
                }
            }
        }
        for side in self.lanes.iter_mut().filter_map(|lane| lane.sides[end].as_mut()) {
            side.has_timer = self.ends[end].session.lane_timeouts(side.id).acknowledge.is_some();
        }
        let session = &mut self.ends[end].session;
        while session.poll_event().is_some() {}
        if session.failure().is_some() {
            self.wrong.get_or_insert(Wrong::Failed);
        } else if session.memory_held() > self.instance.window {
            self.wrong.get_or_insert(Wrong::TooMuchMemory);
        }
    }

    fn accept(&mut self, end: usize) {
        while let Some(number) = self.ends[end].session.accept(Direction::Uni) {
            let of_number = |stream: &&mut Stream| stream.number == number && stream.sender != end;
            let stream = self.streams.iter_mut().find(of_number).expect("there are two streams");
            (stream.is_accepted, stream.is_reader_awake) = (true, true);
        }
    }

    fn go_on_writing(&mut self, index: usize) {
        let Stream { number, sender, is_sent, was_reset, .. } = self.streams[index];
        if is_sent {
            return;
        }
        let session = &mut self.ends[sender].session;
        if let Some(code) = session.stopped_with(number) {
            if code != STOP_CODE || !self.streams[index].stops {
                self.wrong.get_or_insert(Wrong::OtherOutcome);
            }
            self.streams[index].was_stopped = true;
        }
        if session.is_send_settled(number) {
            self.streams[index].is_sent = true;
            session.release_sending(now(), number);
        } else if !was_reset && !self.streams[index].was_stopped {
            self.write(index);
        }
    }

    /// All is over: checks that the ends agree.
    fn check_the_end(&mut self) {
        let read = self.streams.iter().enumerate().filter(|(index, _)| self.instance.unread != Some(*index));
        for (index, stream) in read {
            let is_right = match stream.outcome {
                Some(Outcome::Complete) => stream.highest == self.instance.totals[index],
                Some(Outcome::Reset) => stream.was_reset,
                // A sender that had delivered everything, or had reset the stream, need not hear of a stop.
                Some(Outcome::Stopped) => stream.was_stopped || stream.was_reset || stream.is_finished,
                None => false,
            };
            if !is_right {
                self.wrong.get_or_insert(Wrong::OtherOutcome);
            }
        }
        for end in 0..2 {
            let (near, far) = (&self.ends[end], &self.ends[1 - end]);
            let peers = self.streams.iter().filter(|stream| stream.sender != end);
            let closed = peers.filter(|stream| stream.is_sent && stream.outcome.is_some()).count() as u64;
            let subject = Subject::Streams(Direction::Uni);
            let is_told = closed == 0 || far.heard.get(&subject) == Some(&(closed + MAX_STREAMS));
            // The limit of a stream that has come to its end matters no more.
            let matters = |(subject, _): &(&Subject, &u64)| !matches!(subject, Subject::Limit(_));
            let mut told = near.told.iter().filter(matters);
            let is_heard = told.all(|(subject, value)| far.heard.get(subject) == Some(value));
            let is_empty = self.instance.unread.is_some() || near.session.memory_held() == 0;
            if !is_told || !is_heard || !is_empty {
                self.wrong.get_or_insert(Wrong::LimitUnknown);
            }
        }
    }
}

impl End {
    fn new(instance: &Instance, side: Side) -> Self {
        let max_uni = MAX_STREAMS as u32;
        let streams = StreamParameters { window: instance.stream_window, max_bi: 0, max_uni };
        let parameters = TransportParameters {
            longest_chunk: instance.longest_chunk,
            window: instance.window,
            streams: Some(streams),
        };
        let config = Config {
            longest_chunk: instance.longest_chunk as usize,
            send_buffer: instance.send_buffer,
            max_unacknowledged: 1 << 10,
            parameters,
            side,
            outage_limit: Duration::from_secs(10),
            linger: Duration::from_secs(10),
        };
        let policy = Box::new(Greedy { reinjects: instance.reinjects });
        let session = Session::new(config, policy, parameters);
        let (told, heard) = (BTreeMap::new(), BTreeMap::new());
        Self { session, told, heard, limit: instance.window, sent: 0 }
    }
}

/// A lane that asks gets what there is, whatever the lanes' speed: the order of the steps decides
/// which lane asks.
#[derive(Debug)]
struct Greedy {
    /// Whether a lane sends what another has in flight, once there is nothing else.
    reinjects: bool,
}

impl StripePolicy for Greedy {
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        if view.requeued.is_some() {
            return Decision::Requeue(view.longest_chunk);
        }
        if view.waiting.is_some() {
            return Decision::New(view.longest_chunk);
        }
        match view.first(lane).filter(|first| self.reinjects && first.lane != lane) {
            Some(first) => Decision::Reinject(first.offset),
            None => Decision::Wait(Wait::NothingToSend),
        }
    }
}

/// Hashes what is written to it as `{:?}` writes an object, without the fields that decide nothing.
struct HashedText {
    hasher: DefaultHasher,
    /// How many brackets are open in a field that is left out.
    skipped: Option<i32>,
}

impl fmt::Write for HashedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(depth) = &mut self.skipped {
            let opened = text.chars().filter(|c| matches!(c, '{' | '[' | '(')).count() as i32;
            let closed = text.chars().filter(|c| matches!(c, '}' | ']' | ')')).count() as i32;
            if *depth == 0 && (text == ", " || closed > opened) {
                self.skipped = None;
            } else {
                *depth += opened - closed;
            }
        } else if HISTORY.contains(&text) {
            self.skipped = Some(0);
        } else {
            self.hasher.write(text.as_bytes());
        }
        Ok(())
    }
}

/// The fields that count what has happened, or that only time decides.
const HISTORY: [&str; 17] = [
    "arrived_at",
    "clock",
    "clocks",
    "delivered",
    "duplicated",
    "duplicates",
    "forgotten",
    "max_out_of_order",
    "max_window_used",
    "pace",
    "reissued",
    "short",
    "standstill",
    "streak",
    "taken",
    "through",
    "views",
];

fn records(chunk: &Chunk) -> Vec<Record> {
    control::decode(&chunk.payload.concat()).expect("an honest end sends records")
}

/// The bytes of a stream from an offset on.
fn pattern(index: usize, offset: u64, length: u64) -> Bytes {
    (offset..offset + length).map(|at| (at * 2) as u8 + index as u8).collect()
}

/// Time stands still.
fn now() -> Instant {
    static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
    *NOW
}

/// When an idle lane asks because its timer rings.
fn later() -> Instant {
    now() + ACK_TIMER
}

const RESET_CODE: u64 = 5;
const STOP_CODE: u64 = 6;
/// The streams that each end may have open at a time.
const MAX_STREAMS: u64 = 2;
