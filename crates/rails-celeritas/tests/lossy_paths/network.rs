//! A network in virtual time: two ends, a lossy path for segments each way, and a control channel each way.

use crate::oracle::Oracle;
use bytes::BytesMut;
use rails_celeritas::proto::{
    connection::{ConnectionProtocol, Event, Failure, Parameters},
    incoming::Outcome,
    rate::RateController,
    receiver::{Arrival, Payload},
    sender::Segment,
    wire::{Control, FrameReader, HEADER_LEN, Header, SegmentHeader, Token},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
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
    begin: Instant,
    free_at: [Instant; 2],
    /// When the last bytes of the control channel from each end arrive: those behind them come no earlier.
    control_at: [Instant; 2],
    readers: [FrameReader; 2],
    arrivals: BinaryHeap<Reverse<(Instant, u64, End, u64)>>,
    under_way: std::collections::HashMap<u64, Item>,
    next_item: u64,
    rng: ChaCha8Rng,
    pub(crate) failures: [Option<Failure>; 2],
    /// Which ends have closed well.
    pub(crate) closed: [bool; 2],
    /// Which ends were abandoned by their application.
    pub(crate) abandoned: [bool; 2],
    pub(crate) refused: [Vec<u32>; 2],
    most_unacknowledged: u64,
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

/// The byte of a message at that place.
fn pattern(message: u32, place: u64) -> u8 {
    (u64::from(message) * 7 + place * 13 % 251) as u8
}

pub(crate) fn parameters(round_trip: Duration, end: End) -> Parameters {
    Parameters {
        peer_token: Token(71 + (1 - end as u64)),
        most_payload: 1432,
        base_payload: 1432,
        floor_payload: None,
        overhead: 28,
        most_unacknowledged: 8 << 20,
        window: u64::MAX,
        most_message: u64::MAX,
        round_trip,
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
        let most_unacknowledged = parameters[0].most_unacknowledged.max(parameters[0].most_payload.into());
        Self {
            ends: parameters.map(|parameters| ConnectionProtocol::new(now, parameters, rate())),
            oracles: Default::default(),
            counts: Default::default(),
            paths,
            control_works: [true; 2],
            now,
            begin: now,
            free_at: [now; 2],
            control_at: [now; 2],
            readers: Default::default(),
            arrivals: BinaryHeap::new(),
            under_way: Default::default(),
            next_item: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            failures: [None, None],
            closed: [false; 2],
            abandoned: [false; 2],
            refused: Default::default(),
            most_unacknowledged,
        }
    }

    pub(crate) fn passed(&self) -> Duration {
        self.now - self.begin
    }

    /// Submits a message at that end.
    pub(crate) fn send(&mut self, from: End, length: u64) -> u32 {
        let number = self.ends[from].submit(self.now, length).expect("it can be sent");
        self.oracles[from].submitted(number, length);
        number
    }

    /// Gives a message of that end up. Returns whether it was under way.
    pub(crate) fn give_up(&mut self, from: End, message: u32) -> bool {
        let was_under_way = self.ends[from].give_up(self.now, message);
        if was_under_way {
            self.oracles[from].abandoned(message);
            self.work();
        }
        was_under_way
    }

    /// That end sends no further message.
    pub(crate) fn finish(&mut self, end: End) {
        self.ends[end].finish();
        self.work();
    }

    /// The application of that end is gone.
    pub(crate) fn abandon(&mut self, end: End) {
        self.abandoned[end] = true;
        self.ends[end].abandon(self.now);
        self.work();
    }

    /// The next message at that end is reserved, for a caller with blocks of that many bytes or without blocks.
    pub(crate) fn reserve(&mut self, at: End, blocks: Option<usize>) -> u32 {
        let blocks = blocks.map(|bytes| vec![BytesMut::zeroed(bytes / 3), BytesMut::zeroed(bytes - bytes / 3)]);
        self.ends[at].reserve(self.now, blocks)
    }

    /// The caller of a reserved message has gone.
    pub(crate) fn release(&mut self, at: End, number: u32) {
        self.ends[at].release(self.now, number);
    }

    /// Takes a reserved message at that end, whose bytes have to be those that were sent.
    pub(crate) fn take(&mut self, at: End, number: u32) -> Option<Outcome> {
        let outcome = self.ends[at].take(self.now, number);
        if let Some(Outcome::Message(message)) = &outcome {
            let (oracle, bytes) = (&self.oracles[1 - at], message.blocks.concat());
            assert_eq!((message.number, bytes.len() as u64), (number, oracle.length(number)));
            let is_intact = bytes.iter().zip(0..).all(|(byte, place)| *byte == pattern(number, place));
            assert!(is_intact || oracle.deceived, "message {number} has other bytes");
        }
        outcome
    }

    /// Runs until `is_over` or nothing is left to happen, and not beyond that time. Returns whether it was over.
    pub(crate) fn run(&mut self, limit: Duration, mut is_over: impl FnMut(&mut Self) -> bool) -> bool {
        let mut standing = 0;
        loop {
            self.work();
            if is_over(self) {
                return true;
            }
            let arrival = self.arrivals.peek().map(|Reverse((at, ..))| *at);
            let timers = self.ends.iter().filter_map(ConnectionProtocol::poll_timeout);
            let Some(next) = timers.chain(arrival).min() else { return false };
            if next > self.begin + limit {
                return false;
            }
            standing = if next > self.now { 0 } else { standing + 1 };
            assert!(standing < 100_000, "time stands still: {:?}", self.ends);
            self.now = self.now.max(next);
            while self.arrivals.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Reverse((_, _, to, key)) = self.arrivals.pop().unwrap();
                let item = self.under_way.remove(&key).unwrap();
                self.arrive(to, item);
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
    }

    /// Everything that can leave now leaves.
    fn work(&mut self) {
        let mut burst: Vec<Segment> = Vec::new();
        for end in 0..2 {
            loop {
                burst.clear();
                self.ends[end].poll_transmit(self.now, 44, &mut burst);
                if burst.is_empty() {
                    break;
                }
                let size = |segment: &Segment| segment.header_len() + segment.payload_len as usize;
                let first = size(&burst[0]);
                assert!(burst[..burst.len() - 1].iter().all(|segment| size(segment) == first), "{burst:?}");
                assert!(size(burst.last().unwrap()) <= first);
                for segment in burst.clone() {
                    self.oracles[end].sent(&segment);
                    self.transmit(end, &segment);
                }
                assert!(self.ends[end].unacknowledged() <= self.most_unacknowledged);
            }
            while let Some((header, padding)) = self.ends[end].poll_probe(self.now) {
                if let Some(at) = self.pass(end, u64::from(padding) + 28 + HEADER_LEN as u64) {
                    self.put(at, 1 - end, Item::Probe(header.encode()));
                }
            }
            while let Some(frame) = self.ends[end].poll_control(self.now) {
                self.put_control(end, Item::Control(frame.encode()));
            }
            if self.ends[end].poll_close() {
                self.put_control(end, Item::Close);
            }
            while let Some(event) = self.ends[end].poll_event() {
                self.event(end, event);
            }
        }
    }

    /// A packet of so many bytes enters the path. Returns when it arrives, if it does.
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
        if self.control_works[1 - from] {
            self.control_at[from] = self.control_at[from].max(self.now + self.paths[from].delay);
            self.put(self.control_at[from], 1 - from, item);
        }
    }

    fn put(&mut self, at: Instant, to: End, item: Item) {
        let key = self.next_item;
        self.next_item += 1;
        self.under_way.insert(key, item);
        self.arrivals.push(Reverse((at, key, to, key)));
    }

    fn arrive(&mut self, to: End, item: Item) {
        match item {
            Item::Segment { header, true_header, payload } => {
                // The driver's part: another connection's segments go elsewhere.
                let Ok(header) = Header::decode(&header, payload as usize) else { return };
                if header.token() != Token(71 + to as u64) {
                    return;
                }
                let header = match header {
                    Header::Segment(header) => header,
                    Header::Short(short) => match self.ends[to].expand(&short, payload) {
                        Ok(header) => header,
                        Err(_) => return,
                    },
                    Header::Probe(_) => return,
                };
                let Ok(taken) = self.ends[to].handle_segment(self.now, &header, payload) else { return };
                // A duplicate has no place of its own any more if its header is short.
                let is_duplicate = taken == Payload::Duplicate && header.offset == true_header.offset;
                // Nothing but a checksum or a seal can tell it; the packet number alone does no harm.
                if !is_duplicate && header != (SegmentHeader { packet: header.packet, ..true_header }) {
                    self.oracles[1 - to].deceived = true;
                    return;
                }
                let header = true_header;
                let whole = header.in_message..header.in_message + u64::from(payload);
                let new = match taken {
                    Payload::New => vec![whole],
                    Payload::Partly(new) => new,
                    Payload::Duplicate => return self.oracles[1 - to].duplicate(header.message, whole),
                };
                self.oracles[1 - to].arrived(header.message, &new);
                // The driver's part: the payload is put to its place.
                if header.message_len <= MOST_WRITTEN
                    && let Some(memory) = self.ends[to].memory(header.message)
                {
                    for part in new {
                        let bytes: Vec<u8> = part.clone().map(|place| pattern(header.message, place)).collect();
                        memory.write(part.start, &bytes);
                    }
                }
            }
            Item::Probe(header) => {
                let Ok(Header::Probe(probe)) = Header::decode(&header, 1) else { panic!("a probe stays one") };
                assert_eq!(probe.token, Token(71 + to as u64));
                self.ends[to].handle_probe(&probe);
            }
            Item::Close => self.ends[to].handle_close(),
            Item::Control(bytes) => {
                self.readers[to].push(&bytes);
                while let Some(frame) = self.readers[to].next_frame().expect("the peer encoded it") {
                    self.control(to, &frame);
                }
            }
        }
    }

    /// A frame arrives, perhaps from a peer without this protocol.
    pub(crate) fn control(&mut self, to: End, frame: &Control) {
        self.ends[to].handle_control(self.now, frame);
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

/// The longest message whose bytes are put into memory.
const MOST_WRITTEN: u64 = 1 << 20;
