//! Chunks of messages in any order, on lanes that get stuck, are overtaken and are lost, checked
//! against a plain list of the messages taken.

use crate::script::Script;
use bytes::Bytes;
use rails_proto::{
    chunk::{Content, Packet, Part, Priority},
    internals::Inbox,
    messages::{Delivery, Lent, MessageBuffer, Place, SLOT, next_of_packet},
    stream_number::StreamNumber,
    violation::Violation,
    wire::DataHeader,
};
use std::collections::HashMap;

/// The inbox delivers each message once, whole and in the order of its priority, with the bytes
/// that arrived first, and never holds more than the window.
pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let window = 1 + script.number() % MAX_WINDOW;
    let mut world = World {
        inbox: Inbox::new(window, None),
        window,
        lanes: [const { None }; LANES],
        small: HashMap::new(),
        next: [0; Priority::LEVELS],
    };
    while let Some(step) = script.step() {
        // A violation ends the stream.
        if world.step(step, &mut script).is_err() {
            return;
        }
        world.check();
    }
    while world.inbox.is_readable() {
        world.read();
    }
    assert_eq!(world.inbox.is_complete() && world.inbox.bytes_held() == 0, world.inbox.is_finished());
}

struct World {
    inbox: Inbox,
    window: u64,
    lanes: [Option<Receiving>; LANES],
    /// The small messages that the inbox has taken.
    small: HashMap<(Priority, u64), Bytes>,
    /// The number of the next message of each priority.
    next: [u64; Priority::LEVELS],
}

/// A chunk that a lane receives.
struct Receiving {
    header: DataHeader,
    content: Content,
    payload: Vec<u8>,
    place: Place,
    filled: usize,
}

impl World {
    fn step(&mut self, step: u8, script: &mut Script<'_>) -> Result<(), Violation> {
        let lane = usize::from(step >> 4) % LANES;
        match step & 7 {
            0..=2 if self.lanes[lane].is_none() => self.begin(lane, script),
            0..=5 => self.go_on(lane, script.number() as usize),
            6 => {
                self.read();
                Ok(())
            }
            _ if script.flag() => {
                let header = DataHeader {
                    stream: StreamNumber::FIRST,
                    offset: script.number() % MAX_SLOTS * SLOT,
                    length: 0,
                    fin: true,
                    checksum: 0,
                };
                self.inbox.insert(&header, &Content::Bytes, Bytes::new())
            }
            _ => {
                self.inbox.release(lane);
                self.lanes[lane] = None;
                Ok(())
            }
        }
    }

    /// Begins a chunk as a lane does: no memory before the inbox has admitted the header.
    fn begin(&mut self, lane: usize, script: &mut Script<'_>) -> Result<(), Violation> {
        let (offset, content, payload) = chunk(script);
        let header =
            DataHeader { stream: StreamNumber::FIRST, offset, length: payload.len() as u32, fin: false, checksum: 0 };
        let mut spare = None;
        let place = loop {
            match self.inbox.admit(lane, &header, &content, &mut spare)? {
                Place::NeedsBuffer(length) => {
                    assert!(length as u64 <= self.window, "{content:?} is longer than the window");
                    spare = Some(MessageBuffer::zeroed(length));
                }
                place => break place,
            }
        };
        self.lanes[lane] = Some(Receiving { header, content, payload, place, filled: 0 });
        Ok(())
    }

    fn go_on(&mut self, lane: usize, max: usize) -> Result<(), Violation> {
        let Some(mut receiving) = self.lanes[lane].take() else { return Ok(()) };
        let Receiving { header, content, ref payload, place, filled } = receiving;
        let to = filled.saturating_add(max).min(payload.len());
        receiving.filled = to;
        if place == Place::Message {
            match self.inbox.lend(lane).expect("the lane was told to borrow it") {
                Lent::Piece(mut piece) => {
                    assert_eq!(piece.len(), payload.len());
                    assert!(piece[..filled] == payload[..filled], "the bytes that the lane had filled are there");
                    piece[filled..to].copy_from_slice(&payload[filled..to]);
                    if to == payload.len() {
                        self.inbox.fill(lane, piece);
                    } else {
                        self.inbox.give_back(lane, piece, to);
                        self.lanes[lane] = Some(receiving);
                    }
                    return self.inbox.check_the_end();
                }
                Lent::Own(own) => {
                    assert!(
                        own.len() == payload.len() && own[..filled] == payload[..filled],
                        "the ousted lane lost bytes"
                    );
                    receiving.place = Place::Own;
                }
            }
        }
        if receiving.filled < receiving.payload.len() {
            self.lanes[lane] = Some(receiving);
            return Ok(());
        }
        let (bytes, before) = (Bytes::from(receiving.payload), self.inbox.bytes_duplicated());
        self.inbox.insert(&header, &content, bytes.clone())?;
        if let Content::Packet(packet) = content
            && self.inbox.bytes_duplicated() == before
        {
            let (whole, mut rest) = (bytes.len(), bytes);
            let messages = (packet.first..).zip(std::iter::from_fn(|| next_of_packet(&mut rest, whole)));
            self.small.extend(messages.map(|(number, message)| ((packet.priority, number), message)));
        }
        Ok(())
    }

    fn read(&mut self) {
        let readable = self.inbox.is_readable();
        let delivery = self.inbox.read();
        assert_eq!(delivery.is_some(), readable);
        match delivery {
            Some(Delivery::Packet { priority, bytes: mut packet }) => {
                let whole = packet.len();
                while let Some(message) = next_of_packet(&mut packet, whole) {
                    let number = self.count(priority);
                    assert_eq!(self.small.get(&(priority, number)), Some(&message), "message {number} of {priority}");
                }
                assert!(packet.is_empty());
            }
            Some(Delivery::Message { priority, bytes }) => {
                let number = self.count(priority);
                let same = bytes.iter().enumerate().all(|(at, byte)| *byte == byte_of(priority, number, at));
                assert!(same, "message {number} of {priority}");
            }
            None => {}
        }
    }

    fn count(&mut self, priority: Priority) -> u64 {
        let next = &mut self.next[usize::from(priority.level())];
        *next += 1;
        *next - 1
    }

    fn check(&self) {
        let Self { inbox, window, .. } = self;
        assert!(inbox.bytes_held() <= *window, "{} bytes are held in a window of {window}", inbox.bytes_held());
        assert_eq!(inbox.limit(), inbox.bytes_read() + window);
        assert!(inbox.bytes_in_order() >= inbox.bytes_read() && inbox.bytes_in_order() <= inbox.limit());
        assert!(inbox.is_complete() || !inbox.is_finished());
    }
}

/// A chunk's offset, content and bytes: as an honest peer sends them, except for the fields that
/// the flags corrupt.
pub(super) fn chunk(script: &mut Script<'_>) -> (u64, Content, Vec<u8>) {
    let flags = script.byte();
    let priority = Priority::new(flags >> 5).expect("there are eight");
    let base = if flags & 4 == 0 { script.number() % MAX_SLOTS * SLOT } else { script.number() };
    let number = script.number();
    if flags & 1 == 0 {
        let (count, lie) = (u32::from(script.byte() % 8), u32::from(flags >> 3 & 1));
        let mut payload = Vec::new();
        for index in 0..count {
            let length = script.number() as usize % LONGEST_SMALL;
            payload.extend_from_slice(&(length as u32).to_be_bytes());
            payload.extend((0..length).map(|at| byte_of(priority, number.wrapping_add(index.into()), at)));
        }
        if flags & 2 != 0 && !payload.is_empty() {
            let at = script.number() as usize % payload.len();
            payload[at] ^= script.byte().max(1);
        }
        return (base, Content::Packet(Packet { priority, first: number, count: count + lie }), payload);
    }
    let (total, at) = (script.number() as u32, script.number() as u32);
    let length = script.number() as usize % LONGEST_PART;
    let payload = (0..length).map(|index| byte_of(priority, number, (at as usize).wrapping_add(index))).collect();
    (base.wrapping_add(at.into()), Content::Part(Part { priority, number, total, at }), payload)
}

pub(super) fn byte_of(priority: Priority, number: u64, at: usize) -> u8 {
    let mixed = number.wrapping_mul(31).wrapping_add(u64::from(priority.level())).wrapping_add(at as u64);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Packets that arrive out of order; a large message whose parts arrive on two lanes, one of them
/// twice; an end.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const ALL: [u8; 3] = [200, 255, 255];
    let packet =
        |lane: u8, slot: u8, number: u8| [&[lane << 4, 0, slot, number, 2, 9, 50, lane << 4 | 3][..], &ALL].concat();
    // A part of `length` bytes at `at` of a message of 200 bytes in the slot.
    let part = |lane: u8, at: u8, length: u8| vec![lane << 4, 1, 4, 0, 199, at, length];
    let rest = |lane: u8| [&[lane << 4 | 3][..], &ALL].concat();
    let begin = || vec![228, 0, 0, 127, 255];
    let packets = [begin(), packet(0, 1, 2), packet(1, 0, 0), vec![6, 6, 7, 1, 2, 6]].concat();
    let large =
        [begin(), part(0, 0, 120), vec![3, 50], part(1, 120, 79), rest(1), part(2, 0, 120), rest(2), rest(0), vec![6]];
    let lost = [begin(), part(0, 0, 120), vec![3, 50, 7, 0], part(1, 0, 199), rest(1), vec![6, 7, 1, 1, 6]];
    vec![packets, large.concat(), lost.concat()]
}

const LANES: usize = 3;
const MAX_WINDOW: u64 = 1 << 16;
/// Somewhat more slots than the window has.
const MAX_SLOTS: u64 = 160;
const LONGEST_SMALL: usize = 700;
const LONGEST_PART: usize = 8_000;
