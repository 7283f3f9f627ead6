//! One end against a peer that breaks the protocol. The peer's frames are well-formed: the codec's
//! tests cover malformed ones.

use bytes::Bytes;
use proptest::prelude::*;
use rails_proto::{
    chunk::{Chunk, Content, Packet, Part, Priority},
    messages::{MessageBuffer, Place},
    parameters::TransportParameters,
    policy::Policy,
    session::{Admission, Config, Failure, LaneEnd, LaneId, LaneTraits, NotForMessages, Session, Transmit},
    stream_number::{self, StreamNumber},
    violation::{Form, MessageViolation, Violation},
    wire::{Ack, DataHeader, FRAME_LEN, Frame, ResetReason},
};
use std::time::{Duration, Instant};

const WINDOW: u64 = 10_000;
const LONGEST_CHUNK: u32 = 1_000;
/// The most bytes that an end keeps unacknowledged.
const UNACKNOWLEDGED: u64 = 4 << 20;
const LINGER: Duration = Duration::from_secs(10);

fn connection_to(theirs: TransportParameters) -> Session {
    connection_with(1_000, 5_000, theirs)
}

fn connection_with(longest_chunk: usize, send_buffer: usize, theirs: TransportParameters) -> Session {
    let parameters = TransportParameters::one_stream(LONGEST_CHUNK, WINDOW);
    let (max_unacknowledged, outage_limit, linger) = (UNACKNOWLEDGED, Duration::ZERO, LINGER);
    let config = Config {
        longest_chunk,
        send_buffer,
        max_unacknowledged,
        parameters,
        side: stream_number::Side::Initiator,
        outage_limit,
        linger,
    };
    Session::new(config, Policy::Adaptive.build(), theirs)
}

/// Creates an end with `lanes` lanes.
fn session(lanes: usize) -> Session {
    let mut session = connection_to(TransportParameters::one_stream(LONGEST_CHUNK, WINDOW));
    (0..lanes).for_each(|lane| assert_eq!(session.lane_up(Instant::now(), LaneTraits::default()), Ok(LaneId(lane))));
    session
}

fn chunk(offset: u64, length: usize, fin: bool) -> (DataHeader, Bytes) {
    let payload = Bytes::from(vec![7; length]);
    (DataHeader::of(StreamNumber::FIRST, offset, std::slice::from_ref(&payload), fin), payload)
}

fn data(session: &mut Session, now: Instant, (header, payload): (DataHeader, Bytes)) -> Result<(), Violation> {
    session.admit(now, &header)?;
    session.handle_data(now, LaneId(0), &header, payload)
}

fn ack(chunks: u64, limit: u64) -> Ack {
    Ack { chunks, limit, complete: false }
}

/// Takes everything that the lane has to send now. Returns the number of bytes.
fn drain(session: &mut Session, now: Instant, lane: LaneId) -> u64 {
    let mut bytes = 0;
    let mut control = Vec::new();
    while let Transmit::Send(chunk) = session.poll_transmit(now, lane, &mut control) {
        bytes += chunk.map_or(0, |chunk| u64::from(chunk.length));
        control.chunks(FRAME_LEN).for_each(|frame| assert!(Frame::decode(frame.try_into().unwrap()).is_ok()));
        control.clear();
    }
    bytes
}

#[test]
fn chunks_that_were_not_sent_cannot_be_acknowledged() {
    for wrong in [ack(2, WINDOW), ack(u64::MAX, WINDOW), ack(0, WINDOW + 101), ack(0, u64::MAX)] {
        let now = Instant::now();
        let mut session = session(1);
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 100]));
        assert_eq!(drain(&mut session, now, LaneId(0)), 100);
        let violation = session.handle_ack(now, LaneId(0), &wrong).unwrap_err();
        assert!(matches!(violation, Violation::NeverSent { .. }));
        assert_eq!(session.failure(), Some(&Failure::Violation(violation)));
        let mut control = Vec::new();
        assert_eq!(session.poll_transmit(now, LaneId(0), &mut control), Transmit::Send(None));
        assert_eq!(Frame::decode(control[..].try_into().unwrap()), Ok(Frame::Reset(ResetReason::Violation)));
        assert_eq!(session.poll_transmit(now, LaneId(0), &mut control), Transmit::Close);
    }
}

#[test]
fn a_stream_that_goes_on_is_not_complete() {
    let mut session = session(1);
    let complete = Ack { chunks: 0, limit: WINDOW, complete: true };
    assert!(matches!(session.handle_ack(Instant::now(), LaneId(0), &complete), Err(Violation::NeverSent { .. })));
}

#[test]
fn a_limit_that_runs_backwards_is_ignored() {
    let now = Instant::now();
    let mut session = session(1);
    session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 5_000]));
    drain(&mut session, now, LaneId(0));
    session.handle_ack(now, LaneId(0), &ack(5, WINDOW + 5_000)).unwrap();
    session.handle_ack(now, LaneId(0), &ack(3, WINDOW)).unwrap();
    session.handle_ack(now, LaneId(0), &ack(0, 0)).unwrap();
    let mut sent = 0;
    for _ in 0..4 {
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; session.writable_bytes(StreamNumber::FIRST)]));
        sent += drain(&mut session, now, LaneId(0));
    }
    assert_eq!((sent, session.failure()), (WINDOW, None), "the first limit still holds");
}

#[test]
fn the_end_may_be_told_twice_but_in_one_place_only() {
    let now = Instant::now();
    let mut session = session(1);
    data(&mut session, now, chunk(0, 10, true)).unwrap();
    data(&mut session, now, chunk(0, 10, true)).unwrap();
    data(&mut session, now, chunk(10, 0, true)).unwrap();
    data(&mut session, now, chunk(3, 7, false)).unwrap();
    assert_eq!(session.read(now, StreamNumber::FIRST).map(|bytes| bytes.len()), Some(10));
    assert!(session.is_read(StreamNumber::FIRST));
    assert_eq!(data(&mut session, now, chunk(0, 9, true)), Err(Violation::EndMoved { end: 9 }));
    assert!(matches!(session.failure(), Some(Failure::Violation(_))));
    assert_eq!(session.read(now, StreamNumber::FIRST), None);
}

#[test]
fn data_beyond_the_end_is_refused() {
    let now = Instant::now();
    let mut session = session(1);
    data(&mut session, now, chunk(0, 10, true)).unwrap();
    assert_eq!(data(&mut session, now, chunk(10, 1, false)), Err(Violation::BeyondEnd { chunk_end: 11, end: 10 }));
}

#[test]
fn offsets_at_the_end_of_the_numbers_do_not_wrap() {
    for offset in [WINDOW, u64::MAX - 1_000, u64::MAX - 1, u64::MAX] {
        let (header, payload) = chunk(offset, 1_000, true);
        let refused = data(&mut session(1), Instant::now(), (header, payload));
        assert!(matches!(refused, Err(Violation::BeyondWindow { .. })), "{refused:?}");
    }
}

/// The driver takes memory for a chunk by its length, so an end checks the length even after the
/// stream is over.
#[test]
fn overlong_chunk_for_a_stream_that_is_over() {
    let now = Instant::now();
    let long = DataHeader { stream: StreamNumber::FIRST, offset: 0, length: u32::MAX, fin: false, checksum: 0 };
    let refused = Err(Violation::TooLong { length: u32::MAX, longest: LONGEST_CHUNK });
    let mut session = session(1);
    session.handle_reset(now, ResetReason::Dropped);
    assert_eq!(session.admit(now, &chunk(0, 10, false).0), Ok(Admission::Duplicate));
    assert_eq!(session.admit(now, &long), refused);
    assert_eq!(session.failure(), Some(&Failure::Reset(ResetReason::Dropped)), "the first reason counts");

    let mut session = self::session(1);
    session.finish(now, StreamNumber::FIRST);
    drain(&mut session, now, LaneId(0));
    data(&mut session, now, chunk(0, 0, true)).unwrap();
    session.handle_ack(now, LaneId(0), &Ack { chunks: 1, limit: WINDOW, complete: true }).unwrap();
    assert!(session.is_done());
    assert_eq!(session.admit(now, &long), refused);
}

/// An application that has read everything and finished may drop the stream: the lanes still
/// deliver its bytes.
#[test]
fn duplicate_chunk_after_the_application_has_gone() {
    let now = Instant::now();
    let mut session = session(1);
    session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 100]));
    session.finish(now, StreamNumber::FIRST);
    data(&mut session, now, chunk(0, 10, true)).unwrap();
    assert!(session.read(now, StreamNumber::FIRST).is_some());
    session.drop_application(now, 0);
    data(&mut session, now, chunk(0, 10, true)).unwrap();
    assert_eq!(session.failure(), None);
    assert_eq!(drain(&mut session, now, LaneId(0)), 100);
}

/// The lanes still deliver the bytes of an application that dropped the stream, and tell the peer
/// how far it had read.
#[test]
fn bytes_for_an_application_that_has_gone_are_refused() {
    let now = Instant::now();
    let mut session = session(1);
    data(&mut session, now, chunk(0, 10, false)).unwrap();
    assert!(session.read(now, StreamNumber::FIRST).is_some());
    session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 100]));
    session.drop_application(now, 3);
    data(&mut session, now, chunk(10, 10, true)).unwrap();
    assert_eq!((session.failure(), session.is_done()), (None, false));
    let mut control = Vec::new();
    let Transmit::Send(Some(chunk)) = session.poll_transmit(now, LaneId(0), &mut control) else { panic!() };
    assert!((chunk.length, chunk.fin) == (100, true));
    assert_eq!(Frame::decode(control[..FRAME_LEN].try_into().unwrap()), Ok(Frame::Stop { read: 7 }));
    session.handle_ack(now, LaneId(0), &Ack { chunks: 1, limit: WINDOW, complete: true }).unwrap();
    assert!(session.is_done());
}

#[test]
fn a_peer_that_stops_reading_gets_no_more() {
    let now = Instant::now();
    let mut session = session(2);
    for read in [1_001, u64::MAX] {
        let mut session = self::session(1);
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 5_000]));
        assert!(matches!(
            session.poll_transmit(now, LaneId(0), &mut Vec::new()),
            Transmit::Send(Some(Chunk { length: 1_000, .. }))
        ));
        assert!(matches!(session.handle_stop(now, read), Err(Violation::NeverSent { .. })));
    }
    session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 5_000]));
    session.poll_transmit(now, LaneId(0), &mut Vec::new());
    session.handle_stop(now, 400).unwrap();
    assert_eq!(session.write_failure(StreamNumber::FIRST), Some(Failure::Stopped { unread: 4_600 }));
    assert_eq!(
        (session.writable_bytes(StreamNumber::FIRST), session.sent(), session.failure()),
        (0, (5_000, 400), None)
    );
    assert_eq!((drain(&mut session, now, LaneId(0)), drain(&mut session, now, LaneId(1))), (0, 0));
    // Late acknowledgements change nothing, and the peer's bytes still arrive.
    session.handle_ack(now, LaneId(0), &ack(1, WINDOW + 400)).unwrap();
    data(&mut session, now, chunk(0, 10, true)).unwrap();
    assert_eq!(session.read(now, StreamNumber::FIRST).map(|bytes| bytes.len()), Some(10));
    assert!(session.is_done() && session.is_read(StreamNumber::FIRST));
}

#[test]
fn a_stop_behind_the_last_byte_loses_nothing() {
    let now = Instant::now();
    let mut session = session(1);
    session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 100]));
    drain(&mut session, now, LaneId(0));
    session.handle_stop(now, 100).unwrap();
    assert_eq!(session.write_failure(StreamNumber::FIRST), Some(Failure::Stopped { unread: 0 }));
    session.finish(now, StreamNumber::FIRST);
    assert!(session.is_sent());
}

#[test]
fn a_stream_lingers_no_longer_than_it_may() {
    let now = Instant::now();
    for delivered in [false, true] {
        let mut session = session(1);
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 100]));
        session.drop_application(now, 0);
        assert_eq!(drain(&mut session, now, LaneId(0)), 100);
        if delivered {
            session.handle_ack(now, LaneId(0), &Ack { chunks: 1, limit: WINDOW, complete: true }).unwrap();
        }
        // Before that, the stream counts the time, and reports a standstill.
        while let Some(at) = session.poll_timeout().filter(|at| *at != now + LINGER) {
            assert!(at < now + LINGER);
            session.handle_timeout(at);
        }
        assert!(!session.is_done() && session.failure().is_none());
        session.handle_timeout(now + LINGER);
        // If the peer only does not end its own direction, the stream has not failed.
        assert_eq!((session.is_done(), session.failure().is_some()), (delivered, !delivered));
        assert_eq!(session.undelivered(), if delivered { 0 } else { 100 });
        let told = if delivered { Frame::Stop { read: 0 } } else { Frame::Reset(ResetReason::Dropped) };
        assert_eq!(farewell(&mut session), told);
        assert_eq!(session.poll_transmit(now, LaneId(0), &mut Vec::new()), Transmit::Close);
    }
}

#[test]
fn reset_before_and_after_the_end() {
    let now = Instant::now();
    let mut session = session(2);
    session.write(now, StreamNumber::FIRST, Bytes::from_static(b"hello"));
    session.handle_reset(now, ResetReason::Violation);
    assert_eq!(session.failure(), Some(&Failure::Reset(ResetReason::Violation)));
    let wakes = session.take_wakes();
    assert!(wakes.reader && wakes.writer && wakes.lanes().count() == 2);
    let mut control = Vec::new();
    assert_eq!(session.poll_transmit(now, LaneId(1), &mut control), Transmit::Close, "this end sends no answer");
    data(&mut session, now, chunk(0, 10, false)).unwrap();
    assert_eq!(session.read(now, StreamNumber::FIRST), None);
}

/// Writes as much as the end takes, and sends it on `lane`. Returns the number of bytes that the
/// end keeps then.
fn fill(session: &mut Session, now: Instant, lane: LaneId) -> u64 {
    while session.writable_bytes(StreamNumber::FIRST) > 0 {
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; session.writable_bytes(StreamNumber::FIRST)]));
        drain(session, now, lane);
    }
    session.stats(now).kept
}

/// A peer may claim a window of any size, and acknowledge nothing.
#[test]
fn bytes_kept_for_a_peer_that_never_acknowledges() {
    let now = Instant::now();
    for window in [1 << 40, 1 << 62, u64::MAX] {
        let theirs = TransportParameters::one_stream(u32::MAX, window);
        let mut session = connection_with(1 << 20, 1 << 20, theirs);
        let lane = session.lane_up(now, LaneTraits::default()).unwrap();
        assert_eq!(fill(&mut session, now, lane), UNACKNOWLEDGED + (1 << 20));
        // The peer says that it takes more, and has received nothing.
        session.handle_ack(now, lane, &ack(0, window)).unwrap();
        assert_eq!(fill(&mut session, now, lane), UNACKNOWLEDGED + (1 << 20));
        session.handle_ack(now, lane, &ack(1, window)).unwrap();
        assert!(drain(&mut session, now, lane) > 0, "the end sends on when the peer acknowledges");
    }
}

/// One missing byte keeps the whole buffer in memory that the application has written it in.
#[test]
fn bytes_kept_for_a_peer_that_leaves_one_out() {
    let now = Instant::now();
    let theirs = TransportParameters::one_stream(1_000, 1 << 62);
    let mut session = connection_with(1 << 20, 1 << 20, theirs);
    let [slow, lane] = [0, 1].map(|number| {
        session.lane_up(now, LaneTraits { number, ..LaneTraits::default() }).expect("there is room for the lane")
    });
    session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; 1_000]));
    assert_eq!(drain(&mut session, now, slow), 1_000);
    let (mut sent, mut chunks) = (0, 0);
    while sent < 4 * UNACKNOWLEDGED {
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; session.writable_bytes(StreamNumber::FIRST)]));
        let bytes = drain(&mut session, now, lane);
        if bytes == 0 {
            break;
        }
        (sent, chunks) = (sent + bytes, chunks + bytes.div_ceil(1_000));
        session.handle_ack(now, lane, &ack(chunks, 1 << 62)).unwrap();
    }
    assert_eq!((sent + 1_000, session.stats(now).kept), (UNACKNOWLEDGED, UNACKNOWLEDGED + (1 << 20)));
}

/// A peer acknowledges no messages, some of which wait until there is room for all of them.
#[test]
fn messages_kept_for_a_peer_that_never_acknowledges() {
    let now = Instant::now();
    for length in [0, 100, 20_000, 300_000] {
        let theirs = TransportParameters::one_stream(u32::MAX, 1 << 62);
        let mut session = connection_with(1 << 20, 1 << 20, theirs);
        session.carry_messages(now, StreamNumber::FIRST).unwrap();
        assert!(session.longest_message().0 < UNACKNOWLEDGED);
        let lane = session.lane_up(now, LaneTraits::default()).unwrap();
        while session.writable_bytes(StreamNumber::FIRST) > 0 {
            session.send(now, StreamNumber::FIRST, Priority::NORMAL, Bytes::from(vec![1; length]));
            drain(&mut session, now, lane);
        }
        let kept = session.stats(now).kept;
        assert!(kept <= UNACKNOWLEDGED + (1 << 20) + length as u64, "{kept} bytes in messages of {length}");
    }
}

/// An end whose peer reads nothing has one answer to all that has arrived, and none that waits.
#[test]
fn answers_for_a_peer_that_does_not_read() {
    let now = Instant::now();
    let mut session = session(1);
    for offset in 0..10 * WINDOW {
        data(&mut session, now, chunk(offset, 1, false)).unwrap();
        assert!(session.read(now, StreamNumber::FIRST).is_some());
        session.handle_leave(now, LaneId(0), offset % 2 == 0);
    }
    let mut control = Vec::new();
    assert_eq!(session.poll_transmit(now, LaneId(0), &mut control), Transmit::Send(None));
    let frames = control.chunks(FRAME_LEN).map(|frame| Frame::decode(frame.try_into().unwrap()).unwrap());
    let told = Ack { chunks: 10 * WINDOW, limit: 11 * WINDOW, complete: false };
    assert_eq!(frames.collect::<Vec<_>>(), [Frame::Ack(told), Frame::Leave { drained: true }]);
    assert_eq!(session.poll_transmit(now, LaneId(0), &mut control), Transmit::Close);
}

/// Tiny chunks cost more memory than they have bytes.
#[test]
fn memory_for_a_peer_that_wants_tiny_chunks() {
    let now = Instant::now();
    let mut session = connection_to(TransportParameters::one_stream(1, 1 << 24));
    let lane = session.lane_up(now, LaneTraits::default()).unwrap();
    let mut sent = 0;
    while session.writable_bytes(StreamNumber::FIRST) > 0 {
        session.write(now, StreamNumber::FIRST, Bytes::from(vec![1; session.writable_bytes(StreamNumber::FIRST)]));
        sent += drain(&mut session, now, lane);
        assert!(sent <= 1 << 16, "{sent} chunks are in flight");
    }
    // When the peer acknowledges them, the end sends on.
    session.handle_ack(now, lane, &ack(sent, 1 << 24)).unwrap();
    assert!(session.take_wakes().lanes().count() == 1);
    assert!(drain(&mut session, now, lane) > 0);
}

/// An action of the peer, drawn so that many actions are almost right.
#[derive(Debug, Clone)]
enum Attack {
    Data { offset: u64, length: u32, fin: bool },
    Ack(Ack),
    Reset,
    Stop(u64),
    LaneUp,
    LaneDown,
    Write(usize),
    Finish,
    Read,
    Drop,
    Wait(u64),
}

fn number(max: u64) -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..max, 1 => max..3 * max, 1 => (0u64..3).prop_map(|below| u64::MAX - below), 1 => any::<u64>()]
}

fn attacks() -> impl Strategy<Value = Attack> {
    let length = prop_oneof![8 => 0u32..1_000, 1 => Just(LONGEST_CHUNK), 1 => any::<u32>()];
    let fin = prop::bool::weighted(0.05);
    prop_oneof![
        8 => (number(2 * WINDOW), length, fin).prop_map(|(offset, length, fin)| Attack::Data { offset, length, fin }),
        4 => (number(5), number(2 * WINDOW), prop::bool::weighted(0.1))
            .prop_map(|(chunks, limit, complete)| Attack::Ack(Ack { chunks, limit, complete })),
        1 => prop_oneof![18 => Just(Attack::Read), 2 => Just(Attack::Reset), 1 => number(5_000).prop_map(Attack::Stop)],
        2 => prop_oneof![Just(Attack::LaneUp), Just(Attack::LaneDown)],
        4 => (0usize..5_000).prop_map(Attack::Write),
        1 => prop_oneof![9 => Just(Attack::Read), 1 => Just(Attack::Finish), 1 => Just(Attack::Drop)],
        4 => Just(Attack::Read),
        2 => (0u64..1_000).prop_map(Attack::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// No input makes the end panic, hold more than its window, send beyond the peer's, or go on after a failure.
    #[test]
    fn hostile_frames_in_any_order(attacks in prop::collection::vec((attacks(), 0usize..4), 1..200)) {
        let mut now = Instant::now();
        let mut session = session(2);
        let mut failure: Option<Failure> = None;
        for (attack, lane) in attacks {
            let up: Vec<LaneId> = session.lanes().collect();
            let Some(lane) = up.get(lane % up.len().max(1)).copied() else { break };
            match attack {
                Attack::Data { offset, length, fin } => {
                    // A lane reads no chunk that is not admitted, so the test makes no payload of that length.
                    let header = DataHeader { stream: StreamNumber::FIRST, offset, length, fin, checksum: 0 };
                    if session.admit(now, &header).is_ok() {
                        prop_assert!(length <= LONGEST_CHUNK);
                        let _ = session.handle_data(now, lane, &header, vec![7; length as usize].into());
                    }
                }
                Attack::Ack(ack) => drop(session.handle_ack(now, lane, &ack)),
                Attack::Reset => session.handle_reset(now, ResetReason::Dropped),
                Attack::Stop(read) => drop(session.handle_stop(now, read)),
                Attack::LaneUp => drop(session.lane_up(now, LaneTraits::default())),
                Attack::LaneDown => session.lane_down(now, lane, LaneEnd::Lost),
                Attack::Write(length) => {
                    if !session.is_finished(StreamNumber::FIRST) {
                        session.write(now, StreamNumber::FIRST, vec![1; length.min(session.writable_bytes(StreamNumber::FIRST))].into());
                    }
                    drain(&mut session, now, lane);
                }
                Attack::Finish => session.finish(now, StreamNumber::FIRST),
                Attack::Read => drop(session.read(now, StreamNumber::FIRST)),
                Attack::Drop => session.drop_application(now, 0),
                Attack::Wait(milliseconds) => now += Duration::from_millis(milliseconds),
            }
            for lane in session.take_wakes().lanes() {
                if session.lanes().any(|up| up == lane) {
                    drain(&mut session, now, lane);
                }
            }
            let (written, consumed) = session.sent();
            prop_assert!(consumed <= written && written - consumed <= WINDOW + 5_000);
            if failure.is_some() {
                prop_assert_eq!(session.failure(), failure.as_ref(), "the end reports the first failure");
            }
            failure = session.failure().cloned();
        }
        let mut left = 0;
        while let Some(bytes) = session.read(now, StreamNumber::FIRST) {
            left += bytes.len() as u64;
        }
        prop_assert!(left <= WINDOW);
    }
}

fn part(total: u32, at: u32) -> Content {
    Content::Part(Part { priority: Priority::NORMAL, number: 0, total, at })
}

/// The frame that a lane sends after its stream has failed.
fn farewell(session: &mut Session) -> Frame {
    let mut control = Vec::new();
    assert_eq!(session.poll_transmit(Instant::now(), LaneId(0), &mut control), Transmit::Send(None));
    Frame::decode(control[..].try_into().unwrap()).unwrap()
}

#[test]
fn messages_and_bytes_do_not_mix() {
    let form = |arrived, expected| Violation::Form { arrived, expected };
    let packet = Content::Packet(Packet { priority: Priority::NORMAL, first: 0, count: 1 });
    // Messages for an application that reads bytes, before and after it begins to.
    let mut session = session(1);
    assert_eq!(session.read(Instant::now(), StreamNumber::FIRST), None);
    let refused = session.admit_content(Instant::now(), LaneId(0), &chunk(0, 10, false).0, &packet, &mut None);
    assert_eq!(refused, Err(form(Form::Messages, Form::Bytes)));
    assert_eq!(farewell(&mut session), Frame::Reset(ResetReason::Mismatch));
    let mut session = self::session(1);
    session
        .admit_content(
            Instant::now(),
            LaneId(0),
            &chunk(0, 10, false).0,
            &part(10, 0),
            &mut Some(MessageBuffer::zeroed(10)),
        )
        .unwrap();
    assert_eq!(session.failure(), None);
    assert_eq!(session.read(Instant::now(), StreamNumber::FIRST), None);
    assert_eq!(session.failure(), Some(&Failure::Violation(form(Form::Messages, Form::Bytes))));
    // Bytes for an application that receives messages, before and after it begins to.
    let mut session = self::session(1);
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    let refused = data(&mut session, Instant::now(), chunk(0, 10, false));
    assert_eq!(refused, Err(form(Form::Bytes, Form::Messages)));
    let mut session = self::session(1);
    data(&mut session, Instant::now(), chunk(0, 10, false)).unwrap();
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    assert_eq!(session.failure(), Some(&Failure::Violation(form(Form::Bytes, Form::Messages))));
    // The end of the stream fits either form.
    let mut session = self::session(1);
    data(&mut session, Instant::now(), chunk(0, 0, true)).unwrap();
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    assert!(session.is_read(StreamNumber::FIRST) && session.failure().is_none());
}

#[test]
fn streams_that_cannot_carry_messages() {
    let mut session = session(1);
    session.write(Instant::now(), StreamNumber::FIRST, Bytes::from_static(b"x"));
    assert_eq!(session.carry_messages(Instant::now(), StreamNumber::FIRST), Err(NotForMessages::InUse));
    let mut session = connection_to(TransportParameters::one_stream(1, WINDOW));
    assert_eq!(
        session.carry_messages(Instant::now(), StreamNumber::FIRST),
        Err(NotForMessages::TooSmall { chunk: 1, window: WINDOW })
    );
}

/// An end spends no memory on an impossible message or on a chunk that is too long, even after the
/// stream is over.
#[test]
fn messages_that_cannot_be_cost_nothing() {
    let mut session = session(1);
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    let long = DataHeader { stream: StreamNumber::FIRST, offset: 0, length: u32::MAX, fin: false, checksum: 0 };
    let refused = session.admit_content(Instant::now(), LaneId(0), &long, &part(u32::MAX, 0), &mut None);
    assert_eq!(refused, Err(Violation::TooLong { length: u32::MAX, longest: LONGEST_CHUNK }));
    let again = session.admit_content(Instant::now(), LaneId(0), &long, &part(u32::MAX, 0), &mut None);
    assert!(again.is_err());
    let mut session = self::session(1);
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    let refused = session.admit_content(Instant::now(), LaneId(0), &chunk(0, 10, false).0, &part(20_000, 0), &mut None);
    assert_eq!(refused, Err(Violation::BeyondWindow { end: 21_504, limit: WINDOW }));
    let mut session = self::session(1);
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    let refused = session.admit_content(Instant::now(), LaneId(0), &chunk(0, 0, false).0, &part(20_000, 0), &mut None);
    assert_eq!(refused, Err(MessageViolation::Part { length: 0, at: 0, total: 20_000 }.into()));
}

/// Another lane can fill the part that a lost lane had begun.
#[test]
fn a_lane_that_is_lost_leaves_its_part_to_the_others() {
    let mut session = session(2);
    session.carry_messages(Instant::now(), StreamNumber::FIRST).unwrap();
    let header = chunk(0, 1_000, false).0;
    let mut spare = None;
    let needs = session.admit_content(Instant::now(), LaneId(0), &header, &part(1_000, 0), &mut spare);
    assert_eq!(needs, Ok(Place::NeedsBuffer(1_000)));
    spare = Some(MessageBuffer::zeroed(1_000));
    assert_eq!(
        session.admit_content(Instant::now(), LaneId(0), &header, &part(1_000, 0), &mut spare),
        Ok(Place::Message)
    );
    assert_eq!(session.admit_content(Instant::now(), LaneId(1), &header, &part(1_000, 0), &mut spare), Ok(Place::Own));
    session.lane_down(Instant::now(), LaneId(0), LaneEnd::Lost);
    assert_eq!(
        session.admit_content(Instant::now(), LaneId(1), &header, &part(1_000, 0), &mut spare),
        Ok(Place::Message)
    );
}
