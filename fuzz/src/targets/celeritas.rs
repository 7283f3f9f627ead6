//! Celeritas: the bytes of its control channel and of its segments, and one end whose peer does as
//! it likes.

use crate::script::Script;
use bytes::BytesMut;
use rails_celeritas::proto::{
    connection::{ConnectionProtocol, Event, Parameters},
    incoming::Outcome,
    rate::Fixed,
    receiver::Payload,
    wire::{self, Control, ErrorList, FrameReader, Header, SegmentHeader, ShortHeader, Token},
};
use rails_topo::Bandwidth;
use std::time::{Duration, Instant};

/// Each segment that decodes lies in its message and encodes to the same bytes; each frame that
/// decodes comes back.
pub(crate) fn bytes(data: &[u8]) {
    if let Ok(length) = Header::len_of(data) {
        let (header, payload) = data.split_at(length);
        let decoded = Header::decode(header, payload.len());
        match decoded {
            Ok(Header::Segment(segment)) => {
                assert!(segment.in_message + payload.len() as u64 <= segment.message_len, "{segment:?}");
                assert_eq!(&segment.encode(), header);
            }
            Ok(Header::Short(short)) => assert_eq!(&short.encode(), header),
            Ok(Header::Probe(_)) | Err(_) => {}
        }
        let (head, head_len) = wire::head(header, [payload]);
        let datagram = [&head[..head_len], payload].concat();
        assert_eq!(wire::open(&datagram), decoded.map(|header| (header, payload.len())));
    }
    if let Ok((header, payload_len)) = wire::open(data) {
        assert_eq!(Header::decode(&data[..Header::len_of(data).unwrap()], payload_len), Ok(header));
    }
    let mut reader = FrameReader::default();
    reader.push(data);
    while let Ok(Some(frame)) = reader.next_frame() {
        let mut again = FrameReader::default();
        again.push(&frame.encode());
        assert_eq!(again.next_frame(), Ok(Some(frame)));
    }
}

/// The end never panics, never has more under way than it may, and is silent once it has failed.
/// Nothing that the kernel could write into the places that are offered to it changes a message
/// that has arrived.
pub(crate) fn peer(data: &[u8]) {
    let (mut script, mut now) = (Script::new(data), Instant::now());
    let max_unacknowledged = 1500 + script.number() % 100_000;
    let parameters = Parameters {
        peer_token: Token(1),
        max_payload: 1432,
        base_payload: 1432,
        floor_payload: None,
        overhead: 28,
        max_unacknowledged,
        window: script.number(),
        max_message: 1 << 16,
        rtt: Duration::from_millis(20),
        max_silence: Duration::from_secs(5),
        keep_alive: None,
        depth: Duration::from_millis(2),
        burst: Duration::from_micros(250),
    };
    let mut end = ConnectionProtocol::new(now, parameters, Box::new(Fixed(Bandwidth::mbps(100))));
    let (mut burst, mut reserved, mut has_failed) = (Vec::new(), Vec::new(), false);
    while let Some(step) = script.step() {
        match step % 8 {
            0 => drop(end.submit(now, script.number())),
            1 => {
                burst.clear();
                end.poll_transmit(now, 44, &mut burst);
                assert!(burst.is_empty() || !has_failed);
            }
            2 => {
                offer(&mut script, &mut end);
                segment(&mut script, now, &mut end);
            }
            3 => receive(&mut script, now, &mut end, &mut reserved),
            4 => {
                now += Duration::from_micros(script.number() % 10_000_000);
                end.handle_timeout(now);
            }
            5 => {
                while end.poll_control(now).is_some() {
                    assert!(!has_failed);
                }
            }
            6 => drop(end.give_up(now, script.number() as u32)),
            _ => frame(&mut script, now, &mut end),
        }
        while let Some(event) = end.poll_event() {
            has_failed |= matches!(event, Event::Failed(_));
        }
        assert!(end.unacknowledged() <= max_unacknowledged);
        let _ = end.poll_timeout();
    }
}

/// A caller waits for a message, goes, or takes one.
fn receive(script: &mut Script<'_>, now: Instant, end: &mut ConnectionProtocol, reserved: &mut Vec<u32>) {
    match script.byte() % 5 {
        0 => reserved.push(end.reserve(now, None)),
        1 => reserved.push(end.reserve(now, Some(vec![BytesMut::zeroed(script.number() as usize % 65_536)]))),
        2 => reserved.pop().into_iter().for_each(|message| end.release(message)),
        3 => end.refuse_all(now),
        _ => reserved.retain(|message| {
            let outcome = end.take(now, *message);
            if let Some(Outcome::Message(message)) = &outcome {
                let bytes = message.blocks.iter().flatten();
                assert!(bytes.zip(0..).all(|(byte, place)| *byte == pattern(message.number, place)), "{message:?}");
            }
            outcome.is_none()
        }),
    }
}

fn segment(script: &mut Script<'_>, now: Instant, end: &mut ConnectionProtocol) {
    let header = SegmentHeader {
        token: Token(2),
        packet: script.number() >> 8,
        offset: script.number(),
        message: script.number() as u32,
        message_len: script.number() >> 16,
        in_message: script.number() >> 16,
    };
    let payload_len = script.number() as u32 % 65_536;
    if script.flag() {
        let short = ShortHeader { token: header.token, packet: header.packet, offset: header.offset as u32 };
        let decoded = Header::decode(&short.encode(), payload_len as usize);
        if decoded == Ok(Header::Short(short))
            && let Ok(header) = end.expand(&short, payload_len)
        {
            assert!(header.in_message + u64::from(payload_len) <= header.message_len, "{header:?}");
            assert!(header.in_message <= header.offset && header.offset as u32 == short.offset, "{header:?}");
            land(now, end, &header, payload_len);
        }
        return;
    }
    if let Ok(header) = SegmentHeader::decode(&header.encode(), payload_len as usize) {
        land(now, end, &header, payload_len);
    }
}

/// The driver's part: the payload of a segment lands in its place.
fn land(now: Instant, end: &mut ConnectionProtocol, header: &SegmentHeader, payload_len: u32) {
    let new = match end.handle_segment(now, header, payload_len) {
        Ok(Payload::New) => std::iter::once(header.in_message..header.in_message + u64::from(payload_len)).collect(),
        Ok(Payload::Partly(new)) => new,
        Ok(Payload::Duplicate) | Err(_) => return,
    };
    let Some(memory) = end.memory(header.message) else { return };
    for part in new {
        let bytes: Vec<u8> = part.clone().map(|place| pattern(header.message, place)).collect();
        memory.write(part.start, &bytes);
    }
}

/// The driver's part: the kernel writes any datagram to the places of the bytes that are expected.
fn offer(script: &mut Script<'_>, end: &mut ConnectionProtocol) {
    let Some((message, places)) = end.receiver().expected(script.number()) else { return };
    let places = places.start..places.end.min(places.start + 65_536);
    if let Some(memory) = end.memory(message) {
        let offered = memory.slices(places.clone()).into_iter().map(|slice| {
            slice.fill(0);
            slice.len() as u64
        });
        assert_eq!(offered.sum::<u64>(), places.end - places.start, "{places:?} of message {message}");
    }
}

/// The byte of a message at that place, which is not zero.
fn pattern(message: u32, place: u64) -> u8 {
    ((u64::from(message) * 7 + place % 251 * 13) % 255) as u8 + 1
}

fn frame(script: &mut Script<'_>, now: Instant, end: &mut ConnectionProtocol) {
    let frame = match script.byte() % 5 {
        0 => Control::MinRtt(script.number() as u32),
        1 => Control::GiveUp { message: script.number() as u32, start: script.number(), length: script.number() },
        2 => Control::Refuse { message: script.number() as u32 },
        3 => Control::Finish { messages: script.number() as u32 },
        _ => Control::ErrorList(ErrorList {
            largest: script.number(),
            delay_us: script.number() as u32,
            received: script.number(),
            limit: script.number(),
            message_limit: script.number() as u32,
            complete: script.number(),
            known: script.number(),
            missing: (0..script.byte() % 8).map(|_| (script.number(), script.number())).collect(),
            ..ErrorList::default()
        }),
    };
    let mut reader = FrameReader::default();
    reader.push(&frame.encode());
    if let Ok(Some(frame)) = reader.next_frame() {
        end.handle_control(now, &frame);
    }
}

pub(crate) fn frames() -> Vec<Vec<u8>> {
    let list = ErrorList { largest: 7, complete: 1432, known: 5728, missing: vec![(0, 1432)], ..ErrorList::default() };
    let header = SegmentHeader {
        token: Token(1 << 40),
        packet: 7,
        offset: 100_000,
        message: 1,
        message_len: 50_000,
        in_message: 1432,
    };
    let frames = [
        Control::ErrorList(list),
        Control::MinRtt(19_000),
        Control::GiveUp { message: 1, start: 100, length: 100 },
        Control::Refuse { message: 3 },
        Control::Finish { messages: 9 },
    ];
    let short = ShortHeader { token: Token(1 << 40), packet: 8, offset: 102_864 };
    vec![
        frames.iter().flat_map(Control::encode).collect(),
        [&wire::head(&header.encode(), [&[7; 1428][..]]).0[..], &[7; 1428]].concat(),
        [&wire::head(&short.encode(), [&[7; 1448][..]]).0[..24], &[7; 1448]].concat(),
    ]
}

pub(crate) fn scripts() -> Vec<Vec<u8>> {
    // A message is submitted, the limits come, it leaves, and a list tells that a part of it is
    // missing.
    let send = [0, 228, 0, 0, 100, 0, 7, 4, 0, 0, 0, 228, 1, 0, 0, 0, 50, 0, 0, 0, 4, 200, 100, 1];
    let list = [7, 4, 1, 0, 2, 228, 1, 0, 0, 0, 50, 200, 5, 152, 200, 11, 48, 1, 0, 200, 5, 152, 1];
    let receive = [3, 228, 1, 0, 0, 0, 50, 2, 0, 0, 0, 0, 247, 0, 1, 0, 0, 0, 0, 0, 0, 0, 200, 5, 152, 0, 5];
    vec![[&[100], &send[..], &list].concat(), [&[100], &receive[..]].concat()]
}
