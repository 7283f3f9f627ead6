//! A network in virtual time: two ends, a lossy path for segments each way, and a control channel
//! each way.

use crate::oracle::Oracle;
use bytes::BytesMut;
use rails_celeritas::proto::{
    connection::{ConnectionProtocol, Event, Failure, Parameters},
    control::Broken,
    incoming::Outcome,
    rate::RateController,
    receiver::{Arrival, Payload},
    round::{Io, Round},
    sender::Segment,
    wire::{Control, HEADER_LEN, Header, ProbeHeader, SegmentHeader, Token},
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    io, mem,
    time::{Duration, Instant},
};

/// A path in one direction. Chances are those of one segment.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) delay: Duration,
    pub(crate) bits_per_second: u64,
    /// The bytes that may wait for the line.
    pub(crate) queue: u64,
    pub(crate) loss: f64,
    pub(crate) reordering: f64,
    pub(crate) duplication: f64,
    /// The chance that one bit of a header is flipped, and not noticed by a checksum.
    pub(crate) corruption: f64,
    /// The largest IP packet that passes, in bytes. The others are lost without a word.
    pub(crate) largest: u64,
}

/// The counters of a path.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PathCounts {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) overflowed: u64,
}

/// The number of an end.
pub(crate) type End = usize;

pub(crate) struct Network {
    pub(crate) ends: [ConnectionProtocol; 2],
    pub(crate) oracles: [Oracle; 2],
    pub(crate) counts: [PathCounts; 2],
    pub(crate) paths: [Path; 2],
    /// Whether the control channel to this end delivers.
    pub(crate) control_works: [bool; 2],
    pub(crate) now: Instant,
    /// How far the clock of an end has jumped ahead.
    ahead: [Duration; 2],
    /// Until when the process of an end is stopped.
    stopped: [Option<Instant>; 2],
    begin: Instant,
    free_at: [Instant; 2],
    /// When the last bytes of the control channel from each end arrive: those behind them come no
    /// earlier.
    control_at: [Instant; 2],
    /// Whether bytes of the control channel from each end are never acknowledged.
    is_unacknowledged: [bool; 2],
    /// When the bytes from each end are acknowledged, if they are.
    acknowledged_at: [VecDeque<Instant>; 2],
    rounds: [Round; 2],
    inboxes: [Inbox; 2],
    /// Whether the driver of each end has ended.
    is_over: [bool; 2],
    arrivals: BinaryHeap<Reverse<(Instant, u64, End, u64)>>,
    under_way: HashMap<u64, Item>,
    next_item: u64,
    rng: ChaCha8Rng,
    pub(crate) failures: [Option<Failure>; 2],
    /// Which ends have closed well.
    pub(crate) closed: [bool; 2],
    /// Which ends were abandoned by their application.
    pub(crate) abandoned: [bool; 2],
    pub(crate) refused: [Vec<u32>; 2],
    max_unacknowledged: u64,
}

/// The buffers of an end's kernel.
#[derive(Default)]
struct Inbox {
    datagrams: VecDeque<Item>,
    control: VecDeque<u8>,
    /// The peer has closed its sending side of the control channel.
    is_shut: bool,
}

/// The sockets of an end, for one round.
struct Sockets<'a> {
    end: End,
    now: Instant,
    inbox: &'a mut Inbox,
    oracles: &'a mut [Oracle; 2],
    max_unacknowledged: u64,
    is_blind: bool,
    /// Whether all bytes of the control channel were acknowledged, and when the last of those that
    /// were.
    is_answered: bool,
    answered_at: Option<Instant>,
    segments: Vec<Segment>,
    probes: Vec<(ProbeHeader, u32)>,
    control: Vec<u8>,
    is_shut: bool,
}

#[derive(Clone)]
enum Item {
    /// The bytes of the header, and the segment that it was made from.
    Segment {
        header: Vec<u8>,
        true_header: SegmentHeader,
        payload: u32,
    },
    Probe([u8; HEADER_LEN]),
    Control(Vec<u8>),
    /// The end of the control channel.
    Close,
}

/// The byte of a message at that place. Compilers make one instruction for many of them, as without
/// a division.
fn pattern(message: u32, place: u64) -> u8 {
    let [low, middle, high, ..] = place.to_le_bytes();
    (message as u8).wrapping_mul(7) ^ low.wrapping_mul(13) ^ middle.wrapping_mul(31) ^ high.wrapping_mul(57)
}

pub(crate) fn parameters(rtt: Duration, end: End) -> Parameters {
    Parameters {
        peer_token: Token(71 + (1 - end as u64)),
        max_payload: 1432,
        base_payload: 1432,
        floor_payload: None,
        overhead: 28,
        max_unacknowledged: 8 << 20,
        window: u64::MAX,
        max_message: u64::MAX,
        rtt,
        max_silence: Duration::from_secs(5),
        keep_alive: None,
        depth: Duration::from_millis(1),
        burst: Duration::from_micros(250),
    }
}

impl Network {
    pub(crate) fn new(
        seed: u64,
        paths: [Path; 2],
        parameters: [Parameters; 2],
        rate: impl Fn() -> Box<dyn RateController>,
    ) -> Self {
        let now = Instant::now();
        let max_unacknowledged = parameters[0].max_unacknowledged.max(parameters[0].max_payload.into());
        Self {
            ends: parameters.map(|parameters| ConnectionProtocol::new(now, parameters, rate())),
            oracles: Default::default(),
            counts: Default::default(),
            paths,
            control_works: [true; 2],
            now,
            ahead: [Duration::ZERO; 2],
            stopped: [None; 2],
            begin: now,
            free_at: [now; 2],
            control_at: [now; 2],
            is_unacknowledged: [false; 2],
            acknowledged_at: Default::default(),
            rounds: Default::default(),
            inboxes: Default::default(),
            is_over: [false; 2],
            arrivals: BinaryHeap::new(),
            under_way: Default::default(),
            next_item: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            failures: [None, None],
            closed: [false; 2],
            abandoned: [false; 2],
            refused: Default::default(),
            max_unacknowledged,
        }
    }

    pub(crate) fn passed(&self) -> Duration {
        self.now - self.begin
    }

    /// The clock of an end.
    fn time(&self, end: End) -> Instant {
        self.now + self.ahead[end]
    }

    /// Puts the clock of `end` forward.
    pub(crate) fn jump(&mut self, end: End, by: Duration) {
        self.ahead[end] += by;
    }

    /// Stops the process of `end` for `time`. Its kernel goes on.
    pub(crate) fn stop(&mut self, end: End, time: Duration) {
        self.stopped[end] = Some(self.now + time);
    }

    pub(crate) fn is_stopped(&self, end: End) -> bool {
        self.stopped[end].is_some()
    }

    /// Submits a message at the end `from`.
    pub(crate) fn send(&mut self, from: End, length: u64) -> u32 {
        let now = self.time(from);
        let number = self.ends[from].submit(now, length).expect("it can be sent");
        self.oracles[from].submitted(number, length);
        number
    }

    /// Gives up a message of the end `from`. Returns whether it was under way.
    pub(crate) fn give_up(&mut self, from: End, message: u32) -> bool {
        let now = self.time(from);
        let was_under_way = self.ends[from].give_up(now, message);
        if was_under_way {
            self.oracles[from].abandoned(message);
            self.work();
        }
        was_under_way
    }

    /// Has `end` send no further message.
    pub(crate) fn finish(&mut self, end: End) {
        self.ends[end].finish();
        self.work();
    }

    /// Has a caller at `end` wait for the peer, for at most `limit` without progress.
    pub(crate) fn close(&mut self, end: End, limit: Duration) {
        let now = self.time(end);
        self.ends[end].close(now, limit);
        self.work();
    }

    /// Has the application of `end` go.
    pub(crate) fn abandon(&mut self, end: End) {
        self.abandoned[end] = true;
        let now = self.time(end);
        self.ends[end].abandon(now);
        self.work();
    }

    /// Reserves the next message at the end `at`, for a caller with blocks of `blocks` bytes or
    /// without blocks.
    pub(crate) fn reserve(&mut self, at: End, blocks: Option<usize>) -> u32 {
        let blocks = blocks.map(|bytes| vec![BytesMut::zeroed(bytes / 3), BytesMut::zeroed(bytes - bytes / 3)]);
        let now = self.time(at);
        self.ends[at].reserve(now, blocks)
    }

    /// Has the caller of a reserved message go.
    pub(crate) fn release(&mut self, at: End, number: u32) {
        self.ends[at].release(number);
    }

    /// Takes a reserved message at the end `at`, whose bytes have to be those that were sent.
    pub(crate) fn take(&mut self, at: End, number: u32) -> Option<Outcome> {
        let now = self.time(at);
        let outcome = self.ends[at].take(now, number);
        if let Some(Outcome::Message(message)) = &outcome {
            let (oracle, bytes) = (&self.oracles[1 - at], message.blocks.concat());
            assert_eq!((message.number, bytes.len() as u64), (number, oracle.length(number)));
            let is_intact = bytes.iter().zip(0..).all(|(byte, place)| *byte == pattern(number, place));
            assert!(is_intact || oracle.deceived, "message {number} has other bytes");
            self.oracles[1 - at].taken(number);
        }
        if let Some(Outcome::TooLong { .. }) = &outcome {
            self.oracles[1 - at].too_long(number);
        }
        outcome
    }

    /// Runs until `is_over` or nothing is left to happen, and not beyond `limit`. Returns whether
    /// it was over.
    pub(crate) fn run(&mut self, limit: Duration, mut is_over: impl FnMut(&mut Self) -> bool) -> bool {
        let mut standing = 0;
        loop {
            self.work();
            if is_over(self) {
                return true;
            }
            let arrival = self.arrivals.peek().map(|Reverse((at, ..))| *at);
            let timers = [0, 1].map(|end| {
                let due = self.rounds[end].poll_timeout(&self.ends[end], false).map(|due| due - self.ahead[end]);
                self.stopped[end].or(due)
            });
            let Some(next) = timers.into_iter().flatten().chain(arrival).min() else { return false };
            if next > self.begin + limit {
                return false;
            }
            standing = if next > self.now { 0 } else { standing + 1 };
            assert!(standing < 100_000, "time stands still: {:?}", self.ends);
            self.now = self.now.max(next);
            while self.arrivals.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Reverse((_, _, to, key)) = self.arrivals.pop().unwrap();
                let item = self.under_way.remove(&key).unwrap();
                self.inboxes[to].take(item);
            }
        }
    }

    /// Both drivers do all that they can do now.
    fn work(&mut self) {
        for end in 0..2 {
            if self.stopped[end].is_some_and(|until| until > self.now) {
                continue;
            }
            // Packets arrived while the end was stopped, and its runtime has yet to poll the socket for them.
            if self.stopped[end].take().is_some() && !self.is_over[end] {
                self.round(end, true);
            }
            while !self.is_over[end] && self.round(end, false) {}
            // The end waits.
            self.rounds[end].poll_timeout(&self.ends[end], false);
        }
    }

    /// The driver of an end does one round, perhaps blind for its input. Returns whether another
    /// one may find more.
    fn round(&mut self, end: End, is_blind: bool) -> bool {
        let now = self.time(end);
        let acknowledged = &mut self.acknowledged_at[end];
        while acknowledged.get(1).is_some_and(|next| *next <= self.now) {
            acknowledged.pop_front();
        }
        let is_answered = !self.is_unacknowledged[end] && acknowledged.back().is_none_or(|last| *last <= self.now);
        let answered_at = acknowledged.front().copied().filter(|first| *first <= self.now);
        let mut sockets = Sockets {
            end,
            now,
            inbox: &mut self.inboxes[end],
            oracles: &mut self.oracles,
            max_unacknowledged: self.max_unacknowledged,
            is_blind,
            is_answered,
            answered_at: answered_at.map(|at| at + self.ahead[end]),
            segments: Vec::new(),
            probes: Vec::new(),
            control: Vec::new(),
            is_shut: false,
        };
        let worked = self.rounds[end].run(now, &mut self.ends[end], &mut sockets);
        let Sockets { segments, probes, control, is_shut, .. } = sockets;
        segments.iter().for_each(|segment| self.transmit(end, segment));
        for (header, padding) in probes {
            if let Some(at) = self.pass(end, u64::from(padding) + 28 + HEADER_LEN as u64) {
                self.put(at, 1 - end, Item::Probe(header.encode()));
            }
        }
        if !control.is_empty() {
            self.put_control(end, Item::Control(control));
        }
        if is_shut {
            self.put_control(end, Item::Close);
        }
        while let Some(event) = self.ends[end].poll_event() {
            self.event(end, event);
        }
        self.is_over[end] = self.ends[end].is_over();
        match worked {
            Ok(is_worthwhile) => is_worthwhile,
            Err(Broken::Stream(_)) => false,
            Err(broken) => panic!("{broken}"),
        }
    }

    /// Puts a packet of `wire` bytes on the path. Returns when it arrives, if it does.
    fn pass(&mut self, from: End, wire: u64) -> Option<Instant> {
        let path = self.paths[from].clone();
        let count = &mut self.counts[from];
        count.sent += 1;
        if wire > path.largest || self.rng.random_bool(path.loss) {
            count.lost += 1;
            return None;
        }
        let waits = self.free_at[from].saturating_duration_since(self.now);
        if waits.as_nanos() * u128::from(path.bits_per_second) > u128::from(path.queue) * 8_000_000_000 {
            count.overflowed += 1;
            return None;
        }
        let line = Duration::from_nanos(wire * 8_000_000_000 / path.bits_per_second);
        self.free_at[from] = self.free_at[from].max(self.now) + line;
        let mut at = self.free_at[from] + path.delay;
        if self.rng.random_bool(path.reordering) {
            at += path.delay.mul_f64(self.rng.random_range(0.0..2.0));
        }
        Some(at)
    }

    fn transmit(&mut self, from: End, segment: &Segment) {
        let Some(at) = self.pass(from, u64::from(segment.payload_len) + 28 + segment.header_len() as u64) else {
            return;
        };
        let path = self.paths[from].clone();
        let mut header = segment.encode_header()[..segment.header_len()].to_vec();
        if self.rng.random_bool(path.corruption) {
            let bit = self.rng.random_range(0..8 * header.len());
            header[bit / 8] ^= 1 << (bit % 8);
        }
        let item = Item::Segment { header, true_header: segment.header, payload: segment.payload_len };
        if self.rng.random_bool(path.duplication) {
            let later = at + path.delay.mul_f64(self.rng.random_range(0.0..1.0));
            self.put(later, 1 - from, item.clone());
        }
        self.put(at, 1 - from, item);
    }

    fn put_control(&mut self, from: End, item: Item) {
        self.is_unacknowledged[from] |= self.control_works != [true; 2];
        if self.control_works[1 - from] {
            self.control_at[from] = self.control_at[from].max(self.now + self.paths[from].delay);
            if !self.is_unacknowledged[from] {
                self.acknowledged_at[from].push_back(self.control_at[from] + self.paths[1 - from].delay);
            }
            self.put(self.control_at[from], 1 - from, item);
        }
    }

    fn put(&mut self, at: Instant, to: End, item: Item) {
        let key = self.next_item;
        self.next_item += 1;
        self.under_way.insert(key, item);
        self.arrivals.push(Reverse((at, key, to, key)));
    }

    /// A frame arrives, perhaps from a peer without this protocol.
    pub(crate) fn control(&mut self, to: End, frame: &Control) {
        self.inboxes[to].control.extend(frame.encode());
    }

    fn event(&mut self, at: End, event: Event) {
        match event {
            Event::Delivered { message } => self.oracles[at].delivered(message),
            Event::Expired { message } => self.oracles[at].abandoned(message),
            Event::Refused { message } => {
                self.oracles[at].abandoned(message);
                self.refused[at].push(message);
            }
            Event::Arrival(Arrival::Begun { message, length }) => self.oracles[1 - at].begun(message, length),
            Event::Arrival(Arrival::Whole { message }) => self.oracles[1 - at].whole(message),
            Event::Arrival(Arrival::GivenUp { message, .. }) => self.oracles[1 - at].given_up(message),
            Event::Closed => {
                // An end that was abandoned takes nothing any more, and does not wait until the peer has heard all.
                let is_cut = self.abandoned.contains(&true) && self.oracles[at].is_settled();
                let own = self.oracles[at].is_satisfied() || is_cut;
                let peers = self.abandoned[at] || self.oracles[1 - at].is_satisfied();
                assert!(own && peers, "end {at} closes with messages missing");
                assert!(!std::mem::replace(&mut self.closed[at], true));
            }
            Event::Failed(failure) => assert!(self.failures[at].replace(failure).is_none()),
            _ => {}
        }
    }
}

impl Inbox {
    fn take(&mut self, item: Item) {
        match item {
            Item::Control(bytes) => self.control.extend(bytes),
            Item::Close => self.is_shut = true,
            datagram if self.datagrams.len() < RECEIVE_BUFFER => self.datagrams.push_back(datagram),
            _ => {}
        }
    }
}

impl Io for Sockets<'_> {
    fn receive(&mut self, now: Instant, protocol: &mut ConnectionProtocol) -> bool {
        if self.is_blind {
            return false;
        }
        for datagram in self.inbox.datagrams.drain(..self.inbox.datagrams.len().min(DATAGRAMS)).collect::<Vec<_>>() {
            self.take(now, datagram, protocol);
        }
        !self.inbox.datagrams.is_empty()
    }

    fn transmit(&mut self, now: Instant, protocol: &mut ConnectionProtocol) -> bool {
        self.probes.extend(std::iter::from_fn(|| protocol.poll_probe(now)));
        let mut burst = Vec::new();
        protocol.poll_transmit(now, 44, &mut burst);
        let size = |segment: &Segment| segment.header_len() + segment.payload_len as usize;
        for segment in &burst {
            assert!(size(segment) == size(&burst[0]) || segment == burst.last().unwrap(), "{burst:?}");
            assert!(size(segment) <= size(&burst[0]));
            self.oracles[self.end].sent(segment);
        }
        assert!(protocol.unacknowledged() <= self.max_unacknowledged);
        self.segments.extend(&burst);
        !burst.is_empty()
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.is_blind {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match io::Read::read(&mut self.inbox.control, bytes)? {
            0 if !self.inbox.is_shut => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.control.extend(bytes);
        Ok(bytes.len())
    }

    fn shut(&mut self) -> io::Result<()> {
        assert!(!mem::replace(&mut self.is_shut, true));
        Ok(())
    }

    fn peer_host_lives(&mut self, within: Duration) -> bool {
        self.is_answered || self.answered_at.is_some_and(|at| self.now < at + within)
    }
}

impl Sockets<'_> {
    /// A datagram is received, as by the driver's scatter.
    fn take(&mut self, now: Instant, datagram: Item, protocol: &mut ConnectionProtocol) {
        let (header, true_header, payload) = match datagram {
            Item::Segment { header, true_header, payload } => (header, true_header, payload),
            Item::Probe(header) => {
                let Ok(Header::Probe(probe)) = Header::decode(&header, 1) else { panic!("a probe stays one") };
                assert_eq!(probe.token, Token(71 + self.end as u64));
                return protocol.handle_probe(&probe);
            }
            Item::Control(_) | Item::Close => unreachable!("it has no datagram"),
        };
        let oracle = &mut self.oracles[1 - self.end];
        let Ok(header) = Header::decode(&header, payload as usize) else { return };
        // Another connection's segments go elsewhere.
        if header.token() != Token(71 + self.end as u64) {
            return;
        }
        let header = match header {
            Header::Segment(header) => header,
            Header::Short(short) => match protocol.expand(&short, payload) {
                Ok(header) => header,
                Err(_) => return,
            },
            Header::Probe(_) => return,
        };
        let Ok(taken) = protocol.handle_segment(now, &header, payload) else { return };
        // A duplicate has no place of its own any more if its header is short.
        let is_duplicate = taken == Payload::Duplicate && header.offset == true_header.offset;
        // Nothing but a checksum or a seal can tell it; the packet number alone does no harm.
        if !is_duplicate && header != (SegmentHeader { packet: header.packet, ..true_header }) {
            oracle.deceived = true;
            return;
        }
        let header = true_header;
        let whole = header.in_message..header.in_message + u64::from(payload);
        let new = match taken {
            Payload::New => vec![whole],
            Payload::Partly(new) => new,
            Payload::Duplicate => return oracle.duplicate(header.message, whole),
        };
        oracle.arrived(header.message, &new);
        if header.message_len <= MAX_WRITTEN
            && let Some(memory) = protocol.memory(header.message)
        {
            for part in new {
                let bytes: Vec<u8> = part.clone().map(|place| pattern(header.message, place)).collect();
                memory.write(part.start, &bytes);
            }
        }
    }
}

/// The datagrams that the kernel keeps for a socket.
const RECEIVE_BUFFER: usize = 5_000;
/// The datagrams that a round receives.
const DATAGRAMS: usize = 64;
/// The longest message whose bytes are put into memory.
const MAX_WRITTEN: u64 = 1 << 20;
