use super::*;
use crate::{
    chunk::{Chunk, Part},
    messages::{MIN_WINDOW, Outbox, longest_message, message_space, next_of_packet},
    stream_number::StreamNumber,
};
use bytes::BytesMut;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::collections::VecDeque;

const WINDOW: u64 = 64 << 10;

fn header(offset: u64, length: u32) -> DataHeader {
    DataHeader { stream: StreamNumber::FIRST, offset, length, fin: false, checksum: 0 }
}

fn packet(first: u64, count: u32) -> Content {
    Content::Packet(Packet { priority: Priority::NORMAL, first, count })
}

fn part(number: u64, total: u32, at: u32) -> Content {
    Content::Part(Part { priority: Priority::NORMAL, number, total, at })
}

/// Takes a chunk as a lane does if it reads the whole chunk at once.
fn take(inbox: &mut Inbox, lane: usize, header: &DataHeader, content: &Content, bytes: &[u8]) -> Result<(), Violation> {
    let mut spare = None;
    let place = loop {
        match inbox.admit(lane, header, content, &mut spare)? {
            Place::NeedsBuffer(length) => spare = Some(MessageBuffer::zeroed(length)),
            place => break place,
        }
    };
    match if place == Place::Message { inbox.lend(lane) } else { None } {
        Some(Lent::Piece(mut piece)) => {
            piece.copy_from_slice(bytes);
            inbox.fill(lane, piece);
            inbox.check_the_end()
        }
        _ => inbox.insert(header, content, Bytes::copy_from_slice(bytes)),
    }
}

fn encoded(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|message| [&(message.len() as u32).to_be_bytes(), *message].concat()).collect()
}

fn conflict(offset: u64) -> Result<(), Violation> {
    Err(MessageViolation::Conflict { offset }.into())
}

fn number(number: u64, offset: u64) -> Result<(), Violation> {
    Err(MessageViolation::Number { priority: Priority::NORMAL, number, offset }.into())
}

#[test]
fn order_within_a_priority_and_between_priorities() {
    let mut inbox = Inbox::new(WINDOW, None);
    let small = encoded(&[b"first", b""]);
    let urgent = Content::Packet(Packet { priority: Priority::HIGHEST, first: 0, count: 1 });
    take(&mut inbox, 0, &header(512, 1_000), &part(2, 1_000, 0), &[7; 1_000]).unwrap();
    assert_eq!((inbox.read(), inbox.is_readable()), (None, false));
    take(&mut inbox, 0, &header(2_560, 5), &urgent, &encoded(&[b"!"])).unwrap();
    assert!(matches!(inbox.read(), Some(Delivery::Packet { priority: Priority::HIGHEST, .. })));
    assert_eq!(inbox.bytes_read(), 0);
    take(&mut inbox, 1, &header(0, small.len() as u32), &packet(0, 2), &small).unwrap();
    assert!(matches!(inbox.read(), Some(Delivery::Packet { priority: Priority::NORMAL, .. })));
    let delivered = inbox.read();
    assert!(matches!(&delivered, Some(Delivery::Message { bytes, .. }) if bytes[..] == [7; 1_000]), "{delivered:?}");
    assert_eq!((inbox.bytes_read(), inbox.bytes_held(), inbox.items.len()), (3_072, 0, 0));
    let end = DataHeader { fin: true, ..header(3_072, 0) };
    inbox.insert(&end, &Content::Bytes, Bytes::new()).unwrap();
    assert!(inbox.is_complete() && inbox.is_finished());
}

#[test]
fn nothing_lies_beyond_the_window_or_the_end() {
    let mut inbox = Inbox::new(WINDOW, None);
    let mut spare = None;
    let mut admit = |header: DataHeader, content| inbox.admit(0, &header, &content, &mut spare);
    for (offset, total, at) in [(0, 1 << 17, 0), (WINDOW - 100, 1_000, 0), (u64::MAX - 5, u32::MAX, 0)] {
        let refused = admit(header(offset, 1), part(0, total, at));
        assert!(matches!(refused, Err(Violation::BeyondWindow { .. })), "{refused:?}");
    }
    assert!(matches!(admit(header(WINDOW - 100, 200), packet(0, 1)), Err(Violation::BeyondWindow { .. })));
    let end = DataHeader { fin: true, ..header(1_024, 0) };
    inbox.insert(&end, &Content::Bytes, Bytes::new()).unwrap();
    let refused = inbox.admit(0, &header(1_024, 10), &packet(0, 1), &mut None);
    assert_eq!(refused, Err(Violation::BeyondEnd { chunk_end: 1_536, end: 1_024 }));
    let moved = DataHeader { fin: true, ..header(512, 0) };
    assert_eq!(inbox.insert(&moved, &Content::Bytes, Bytes::new()), Err(Violation::EndMoved { end: 512 }));
}

#[test]
fn impossible_lengths_reserve_no_memory() {
    let mut inbox = Inbox::new(WINDOW, None);
    let mut refused = |header: DataHeader, content| {
        assert!(matches!(inbox.admit(0, &header, &content, &mut None), Err(Violation::Message(_))));
    };
    refused(header(0, 7), packet(0, 2));
    refused(header(0, 100), packet(0, 0));
    refused(header(0, u32::MAX), packet(0, u32::MAX));
    refused(header(0, 0), part(0, 10, 0));
    refused(header(0, 11), part(0, 10, 0));
    refused(header(10, 1), part(0, 10, 10));
    refused(header(3, 1), part(0, 10, 5));
    refused(header(0, 2), part(0, u32::MAX, u32::MAX));
    refused(DataHeader { fin: true, ..header(0, 10) }, packet(0, 1));
    refused(DataHeader { fin: true, ..header(0, 10) }, part(0, 10, 0));
}

#[test]
fn a_packet_holds_what_it_is_said_to() {
    for (bytes, count) in [
        (vec![0, 0, 0, 9, 1, 2, 3], 1),
        (encoded(&[b"one", b"two"]), 1),
        (encoded(&[b"one"]), 2),
        (vec![0, 0, 0, 0, 0], 1),
        (vec![255; 8], 1),
    ] {
        let mut inbox = Inbox::new(WINDOW, None);
        let length = bytes.len() as u32;
        let taken = inbox.insert(&header(0, length), &packet(0, count), bytes.into());
        assert!(matches!(taken, Err(Violation::Message(MessageViolation::Packet { .. }))), "{taken:?}");
        assert!(inbox.is_untouched());
    }
}

#[test]
fn chunks_at_odds_with_each_other_are_refused() {
    let mut inbox = Inbox::new(WINDOW, None);
    take(&mut inbox, 0, &header(1_024, 100), &part(1, 1_000, 0), &[1; 100]).unwrap();
    let bytes = encoded(&[&[0; 96]]);
    assert_eq!(take(&mut inbox, 0, &header(1_124, 100), &part(1, 1_001, 100), &[1; 100]), conflict(1_024));
    assert_eq!(take(&mut inbox, 0, &header(1_124, 100), &part(2, 1_000, 100), &[1; 100]), conflict(1_024));
    assert_eq!(take(&mut inbox, 0, &header(1_123, 100), &part(1, 1_000, 100), &[1; 100]), conflict(1_023));
    assert_eq!(take(&mut inbox, 0, &header(1_024, 100), &packet(1, 1), &bytes), conflict(1_024));
    assert_eq!(take(&mut inbox, 0, &header(600, 1_000), &part(0, 1_000, 0), &[1; 1_000]), conflict(600));
    // A copy is no violation, and neither is a chunk that has been read.
    take(&mut inbox, 0, &header(1_024, 100), &part(1, 1_000, 0), &[1; 100]).unwrap();
    take(&mut inbox, 0, &header(0, 100), &packet(0, 1), &bytes).unwrap();
    assert!(inbox.read().is_some());
    take(&mut inbox, 0, &header(0, 100), &packet(0, 1), &bytes).unwrap();
    assert_eq!(inbox.bytes_duplicated(), 200);
    assert_eq!(take(&mut inbox, 0, &header(100, 1_000), &part(0, 1_000, 0), &[1; 1_000]), conflict(100));
}

#[test]
fn numbers_that_jump_or_run_backwards_are_refused() {
    let bytes = encoded(&[b"one"]);
    let send = |inbox: &mut Inbox, offset, first| take(inbox, 0, &header(offset, 7), &packet(first, 1), &bytes);
    let mut inbox = Inbox::new(WINDOW, None);
    assert_eq!(send(&mut inbox, 0, 1), number(1, 0), "there is no message before it");
    assert_eq!(send(&mut inbox, 1_024, u64::MAX), number(u64::MAX, 1_024));
    assert_eq!(send(&mut inbox, 1_024, 257), number(257, 1_024), "no room for so many");
    send(&mut inbox, 1_024, 100).unwrap();
    assert_eq!(send(&mut inbox, 512, 100), number(100, 512), "the same number twice");
    assert_eq!(send(&mut inbox, 512, 101), number(101, 512), "a later number before an earlier one");
    assert_eq!(send(&mut inbox, 512, 129), number(129, 512), "the messages before it do not fit");
    send(&mut inbox, 0, 0).unwrap();
    inbox.read().unwrap();
    assert_eq!(send(&mut inbox, 2_048, 0), number(0, 2_048), "the message has been received");
}

#[test]
fn end_of_a_stream_with_messages_missing() {
    let bytes = encoded(&[b"one"]);
    let mut inbox = Inbox::new(WINDOW, None);
    let urgent = Content::Packet(Packet { priority: Priority::HIGHEST, first: 0, count: 1 });
    take(&mut inbox, 0, &header(0, 7), &urgent, &bytes).unwrap();
    take(&mut inbox, 0, &header(512, 7), &packet(1, 1), &bytes).unwrap();
    let end = DataHeader { fin: true, ..header(1_024, 0) };
    let missing = MessageViolation::Missing { priority: Priority::NORMAL, number: 0 };
    assert_eq!(inbox.insert(&end, &Content::Bytes, Bytes::new()), Err(missing.into()));
}

/// Each message that has begun takes its part of the window.
#[test]
fn thousands_of_unfinished_messages_in_a_window() {
    let mut inbox = Inbox::new(WINDOW, None);
    let begun = (0u64..)
        .take_while(|index| {
            take(&mut inbox, 0, &header(index * message_space(2), 1), &part(*index, 2, 0), &[1]).is_ok()
        })
        .count() as u64;
    assert_eq!(begun, WINDOW / message_space(2));
    assert_eq!(inbox.bytes_held(), begun * message_space(2));
    assert!(matches!(
        take(&mut inbox, 0, &header(begun * message_space(2), 1), &part(begun, 2, 0), &[1]),
        Err(Violation::BeyondWindow { .. })
    ));
}

#[test]
fn a_peer_that_sends_every_other_byte_is_stopped() {
    let mut inbox = Inbox::new(WINDOW, None);
    let max = inbox.max_pieces();
    let stopped = (0..)
        .find_map(|index| take(&mut inbox, 0, &header(2 * index, 1), &part(0, 60_000, 2 * index as u32), &[1]).err());
    assert_eq!(stopped, Some(Violation::Fragmented { max }));
}

/// A lane gets stuck in the middle of a part; another brings the same part, and the message
/// arrives.
#[test]
fn a_message_does_not_wait_for_a_stuck_lane() {
    let mut inbox = Inbox::new(WINDOW, None);
    let whole = header(0, 10_000);
    let content = part(0, 10_000, 0);
    let mut spare = Some(MessageBuffer::zeroed(10_000));
    assert_eq!(inbox.admit(0, &whole, &content, &mut spare), Ok(Place::Message));
    let Some(Lent::Piece(mut piece)) = inbox.lend(0) else { panic!("the piece is the lane's") };
    piece[..4_000].fill(9);
    inbox.give_back(0, piece, 4_000);
    // The other lane brings the part in two halves.
    for at in [5_000, 0] {
        take(&mut inbox, 1, &header(at.into(), 5_000), &part(0, 10_000, at), &[9; 5_000]).unwrap();
    }
    let delivered = inbox.read();
    assert!(matches!(&delivered, Some(Delivery::Message { bytes, .. }) if bytes[..] == [9; 10_000]));
    let Some(Lent::Own(own)) = inbox.lend(0) else { panic!("the lane goes on in its own buffer") };
    assert!(own.len() == 10_000 && own[..4_000] == [9; 4_000]);
    inbox.insert(&whole, &content, own.freeze()).unwrap();
    assert_eq!((inbox.bytes_duplicated(), inbox.read(), inbox.bytes_held()), (10_000, None, 0));
}

/// A lane that receives a chunk.
struct Receiving {
    chunk: Chunk,
    place: Place,
    own: BytesMut,
    filled: usize,
}

/// An outbox, an inbox, and lanes between them that lose, duplicate and delay chunks.
struct World {
    outbox: Outbox,
    inbox: Inbox,
    waiting: Vec<Chunk>,
    sent: Vec<Chunk>,
    lanes: [Option<Receiving>; 3],
    random: ChaCha8Rng,
    received: Vec<(Priority, Bytes)>,
}

impl World {
    fn header(chunk: &Chunk) -> DataHeader {
        DataHeader {
            stream: StreamNumber::FIRST,
            offset: chunk.offset,
            length: chunk.length,
            fin: chunk.fin,
            checksum: 0,
        }
    }

    fn start(&mut self, lane: usize, chunk: Chunk) {
        let header = Self::header(&chunk);
        if chunk.content == Content::Bytes {
            return self.inbox.insert(&header, &Content::Bytes, Bytes::new()).unwrap();
        }
        let mut spare = None;
        let place = loop {
            match self.inbox.admit(lane, &header, &chunk.content, &mut spare).unwrap() {
                Place::NeedsBuffer(length) => spare = Some(MessageBuffer::zeroed(length)),
                place => break place,
            }
        };
        let own = BytesMut::zeroed(chunk.length as usize);
        self.lanes[lane] = Some(Receiving { chunk, place, own, filled: 0 });
    }

    fn go_on(&mut self, lane: usize, max: usize) {
        let Some(mut receiving) = self.lanes[lane].take() else { return };
        let bytes = receiving.chunk.payload.concat();
        let to = (receiving.filled + max).min(bytes.len());
        let (header, content) = (Self::header(&receiving.chunk), receiving.chunk.content);
        if receiving.place == Place::Message {
            match self.inbox.lend(lane).expect("the lane fills a part") {
                Lent::Piece(mut piece) => {
                    piece[receiving.filled..to].copy_from_slice(&bytes[receiving.filled..to]);
                    receiving.filled = to;
                    if to == bytes.len() {
                        assert!(piece[..] == bytes[..]);
                        self.inbox.fill(lane, piece);
                        return self.inbox.check_the_end().unwrap();
                    }
                    self.inbox.give_back(lane, piece, to);
                    self.lanes[lane] = Some(receiving);
                    return;
                }
                Lent::Own(own) => {
                    receiving.own = own;
                    receiving.place = Place::Own;
                }
            }
        }
        receiving.own[receiving.filled..to].copy_from_slice(&bytes[receiving.filled..to]);
        receiving.filled = to;
        if to == bytes.len() {
            assert!(
                receiving.own[..] == bytes[..],
                "the bytes received before another lane brought the part are there"
            );
            self.inbox.insert(&header, &content, receiving.own.freeze()).unwrap();
        } else {
            self.lanes[lane] = Some(receiving);
        }
    }

    fn lose(&mut self, lane: usize) {
        self.inbox.release(lane);
        if let Some(receiving) = self.lanes[lane].take() {
            self.waiting.push(receiving.chunk);
        }
    }

    fn read(&mut self) {
        match self.inbox.read() {
            Some(Delivery::Message { priority, bytes }) => self.received.push((priority, bytes)),
            Some(Delivery::Packet { priority, bytes: mut packet }) => {
                let whole = packet.len();
                while let Some(message) = next_of_packet(&mut packet, whole) {
                    self.received.push((priority, message));
                }
            }
            None => {}
        }
    }

    fn step(&mut self, max: usize) {
        let lane = self.random.random_range(0..3);
        match self.random.random_range(0..12) {
            0..3 => self.waiting.extend(self.outbox.cut(self.inbox.limit(), max, self.outbox.next())),
            3..6 if self.lanes[lane].is_none() && !self.waiting.is_empty() => {
                let index = self.random.random_range(0..self.waiting.len());
                let chunk = self.waiting.swap_remove(index);
                self.sent.push(chunk.clone());
                self.start(lane, chunk);
            }
            6 if self.lanes[lane].is_none() && !self.sent.is_empty() => {
                // Send a chunk again, and sometimes only half of it.
                let index = self.random.random_range(0..self.sent.len());
                let mut chunk = self.sent[index].clone();
                if self.random.random_bool(0.5) && chunk.length > 1 {
                    let rest = chunk.split_off(chunk.length as usize / 2);
                    chunk = rest.filter(|_| self.random.random_bool(0.5)).unwrap_or(chunk);
                }
                self.start(lane, chunk);
            }
            7..10 => self.go_on(lane, max),
            10 if self.random.random_bool(0.1) => self.lose(lane),
            11 => self.read(),
            _ => {}
        }
        assert!(self.inbox.bytes_held() <= self.inbox.window.size());
    }
}

/// A copy costs the same for any number of waiting messages. With a pass over all of them for each
/// copy, this test takes minutes.
#[test]
fn copies_behind_the_end_of_many_messages() {
    let window = if cfg!(miri) { 64 << 10 } else { 16 << 20 };
    let mut inbox = Inbox::new(window, None);
    let payload = Bytes::from_static(&[0; 4]);
    let space = packet_space(4);
    for _ in 0..4 {
        for first in 0..window / space {
            let packet = self::packet(first, 1);
            let header = DataHeader::of(StreamNumber::FIRST, first * space, std::slice::from_ref(&payload), false);
            inbox.insert(&header, &packet, payload.clone()).unwrap();
        }
        let end = DataHeader { stream: StreamNumber::FIRST, offset: window, length: 0, fin: true, checksum: 0 };
        inbox.insert(&end, &Content::Bytes, Bytes::new()).unwrap();
    }
    assert!(inbox.is_complete());
}

proptest! {
    /// Chunks arrive in any order, any number of times and on several lanes: the application receives each message once, whole, and in its order.
    #[test]
    fn each_message_is_received_once_and_in_its_order(
        messages in prop::collection::vec((0u8..8, prop_oneof![0usize..100, 0usize..20_000]), 0..60),
        chunk in 64usize..30_000,
        window in prop_oneof![MIN_WINDOW..32_768, 32_768u64..200_000],
        seed in any::<u64>(),
    ) {
        let mut world = World {
            outbox: Outbox::new(chunk, window),
            inbox: Inbox::new(window, None),
            waiting: Vec::new(),
            sent: Vec::new(),
            lanes: [const { None }; 3],
            random: ChaCha8Rng::seed_from_u64(seed),
            received: Vec::new(),
        };
        let mut sent: [VecDeque<Bytes>; 8] = Default::default();
        for (index, (level, length)) in messages.iter().enumerate() {
            let length = (*length).min(longest_message(window) as usize);
            let bytes = Bytes::from(vec![index as u8; length]);
            world.outbox.send(Priority::new(*level).unwrap(), bytes.clone());
            sent[usize::from(*level)].push_back(bytes);
        }
        world.outbox.finish();
        let mut steps = 0;
        while !world.inbox.is_finished() {
            world.step(chunk);
            steps += 1;
            prop_assert!(steps < 1_000_000, "the messages make no progress: {:?} {:?}", world.outbox, world.inbox);
        }
        for (priority, message) in world.received {
            prop_assert_eq!(sent[usize::from(priority.level())].pop_front(), Some(message));
        }
        prop_assert!(sent.iter().all(VecDeque::is_empty));
        prop_assert_eq!((world.inbox.bytes_held(), world.inbox.items.len(), world.inbox.pieces), (0, 0, 0));
    }

    #[test]
    fn hostile_chunks_within_the_window(
        chunks in prop::collection::vec(
            (0usize..3, 0u64..20, 0u32..3_000, (any::<bool>(), 0u8..3, 0u64..5, 0u32..3_000, 0u32..2_000)), 0..200),
    ) {
        let mut inbox = Inbox::new(8_000, None);
        for (lane, slot, length, (large, level, number, total, at)) in chunks {
            let priority = Priority::new(level).unwrap();
            let (content, offset) = if large {
                (Content::Part(Part { priority, number, total, at }), slot * 512 + u64::from(at))
            } else {
                (Content::Packet(Packet { priority, first: number, count: total % 5 }), slot * 512)
            };
            let fin = length == 0;
            let header = DataHeader { fin, ..header(offset, length) };
            let content = if fin { Content::Bytes } else { content };
            let _ = take(&mut inbox, lane, &header, &content, &vec![0; length as usize]);
            prop_assert!(inbox.bytes_held() <= 8_000);
            if total % 3 == 0 {
                inbox.read();
            }
            if at % 7 == 0 {
                inbox.release(lane);
            }
        }
    }
}
