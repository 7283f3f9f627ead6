//! One end of a session of many streams against a peer that breaks the rules of streams.

use crate::victim::{LANE, STREAM_WINDOW, WINDOW, data, drain, drain_acks, records, responder, tell, theirs};
use bytes::Bytes;
use rails_proto::{
    chunk::{Chunk, ChunkKind},
    control::{Record, Subject},
    session::{Failure, Session, Transmit},
    stream_number::{Direction, Side, StreamNumber},
    violation::Violation,
    wire::{Ack, DataHeader},
};
use std::time::Instant;

#[test]
fn streams_that_the_peer_may_not_use() {
    let own = StreamNumber::new(Side::Responder, Direction::Bi, 0);
    let own_uni = StreamNumber::new(Side::Responder, Direction::Uni, 0);
    let their_uni = StreamNumber::new(Side::Initiator, Direction::Uni, 0);
    let mut session = responder(4);
    assert_eq!(data(&mut session, own, 0, 1, false), Err(Violation::Stream { stream: own }), "it is not open");
    let mut session = responder(4);
    assert_eq!(session.open(Direction::Uni), Some(own_uni));
    assert_eq!(data(&mut session, own_uni, 0, 1, false), Err(Violation::Stream { stream: own_uni }));
    for subject in [Subject::Limit(their_uni), Subject::Stop(their_uni)] {
        let value = u64::from(matches!(subject, Subject::Limit(_)));
        assert_eq!(tell(&mut responder(4), subject, value, 0), Err(Violation::Stream { stream: their_uni }));
    }
    let refused = Violation::TooManyStreams { stream: theirs(4), max: 4 };
    let mut session = responder(4);
    assert_eq!(data(&mut session, theirs(4), 0, 1, false), Err(refused.clone()));
    assert_eq!(session.failure(), Some(&Failure::Violation(refused)));
}

#[test]
fn a_flood_of_resets_makes_no_room() {
    let mut session = responder(4);
    for index in 0..4 {
        data(&mut session, theirs(index), 0, 10, false).unwrap();
        tell(&mut session, Subject::Reset(theirs(index)), 10, 1).unwrap();
    }
    drain(&mut session);
    assert!(data(&mut session, theirs(4), 0, 1, false).is_err(), "the application has not taken notice of any");

    let mut session = responder(4);
    let now = Instant::now();
    for index in 0..4 {
        tell(&mut session, Subject::Reset(theirs(index)), 0, 1).unwrap();
        let stream = session.accept(Direction::Bi).expect("it was opened");
        assert_eq!(session.read_failure(stream), Some(Failure::ResetWith { code: 1 }));
        session.release_receiving(now, stream);
        session.release_sending(now, stream);
    }
    let chunks = drain(&mut session);
    assert!(data(&mut session, theirs(4), 0, 1, false).is_err(), "this end's own ends are not acknowledged");
    assert!(!records(&chunks).iter().any(|record| matches!(record.subject, Subject::Streams(_))));
}

#[test]
fn closed_streams_make_room() {
    let (mut session, now) = (responder(4), Instant::now());
    for index in 0..4 {
        data(&mut session, theirs(index), 0, 10, true).unwrap();
        let stream = session.accept(Direction::Bi).expect("it was opened");
        assert!(session.read(now, stream).is_some() && session.is_read(stream));
        session.release_receiving(now, stream);
        session.release_sending(now, stream);
    }
    let sent = drain(&mut session).len() as u64;
    session.handle_ack(now, LANE, &Ack { chunks: sent, limit: WINDOW, complete: false }).unwrap();
    let told = records(&drain(&mut session));
    assert_eq!(told, [Record { subject: Subject::Streams(Direction::Bi), value: 8, code: 0 }]);
    data(&mut session, theirs(7), 0, 1, false).unwrap();
    data(&mut session, theirs(0), 0, 10, true).unwrap();
    assert_eq!(session.memory_held(), 1, "a copy for a closed stream is thrown away");
}

#[test]
fn bytes_beyond_a_limit() {
    let beyond = STREAM_WINDOW + 1;
    assert_eq!(
        data(&mut responder(4), theirs(0), STREAM_WINDOW - 9, 10, false),
        Err(Violation::BeyondWindow { end: beyond, limit: STREAM_WINDOW })
    );
    // Each stream is within its own limit, and all together are not.
    let mut session = responder(20);
    let sent = (0..20).map(|index| data(&mut session, theirs(index), STREAM_WINDOW - 1, 1, false));
    let outcomes: Vec<_> = sent.collect();
    assert!(outcomes[..10].iter().all(Result::is_ok));
    assert_eq!(outcomes[10], Err(Violation::BeyondWindow { end: WINDOW + STREAM_WINDOW, limit: WINDOW }));
}

/// A byte behind a hole, on each of a thousand streams.
#[test]
fn a_thousand_streams_with_a_byte_each() {
    let mut session = responder(1_000);
    for index in 0..1_000 {
        data(&mut session, theirs(index), 99, 1, false).unwrap();
    }
    let held = session.memory_held();
    assert!((1_000..=1_000 * 1_024).contains(&held), "{held}");
    assert!(data(&mut session, theirs(0), 1_000, 1, false).is_err(), "the window is full: {WINDOW} bytes were sent");
}

#[test]
fn resets_that_contradict() {
    let end_moved = |end| Err(Violation::EndMoved { end });
    let mut session = responder(4);
    data(&mut session, theirs(0), 0, 10, false).unwrap();
    assert_eq!(tell(&mut session, Subject::Reset(theirs(0)), 9, 1), end_moved(9), "ten bytes have arrived");
    let mut session = responder(4);
    data(&mut session, theirs(0), 5, 5, true).unwrap();
    assert_eq!(tell(&mut session, Subject::Reset(theirs(0)), 11, 1), end_moved(11), "the end was told");
    let mut session = responder(4);
    tell(&mut session, Subject::Reset(theirs(0)), 10, 1).unwrap();
    tell(&mut session, Subject::Reset(theirs(0)), 10, 2).unwrap();
    assert_eq!(session.read_failure(theirs(0)), Some(Failure::ResetWith { code: 1 }), "the first code stays");
    assert!(tell(&mut session, Subject::Reset(theirs(0)), 12, 1).is_err());
    let mut session = responder(4);
    tell(&mut session, Subject::Reset(theirs(0)), 10, 1).unwrap();
    assert!(data(&mut session, theirs(0), 9, 2, false).is_err(), "bytes behind the end");
    let mut session = responder(4);
    assert!(tell(&mut session, Subject::Reset(theirs(0)), STREAM_WINDOW + 1, 1).is_err(), "beyond the limit");
}

/// The peer gets no credit for what is thrown away.
#[test]
fn bytes_beyond_the_limit_of_a_stream_that_was_stopped() {
    let (mut session, now) = (responder(4), Instant::now());
    data(&mut session, theirs(0), 0, 10, false).unwrap();
    session.stop(now, theirs(0), 1);
    data(&mut session, theirs(0), STREAM_WINDOW - 10, 10, false).unwrap();
    assert_eq!(
        data(&mut session, theirs(0), STREAM_WINDOW, 1, false),
        Err(Violation::BeyondWindow { end: STREAM_WINDOW + 1, limit: STREAM_WINDOW })
    );
    // A stop tells its code, though the stream is forgotten meanwhile.
    let mut session = responder(4);
    data(&mut session, theirs(0), 0, 10, false).unwrap();
    session.stop(now, theirs(0), 7);
    session.release_receiving(now, theirs(0));
    data(&mut session, theirs(0), 10, 0, true).unwrap();
    assert_eq!(records(&drain(&mut session)), [Record { subject: Subject::Stop(theirs(0)), value: 0, code: 7 }]);
}

#[test]
fn credit_that_shrinks_changes_nothing() {
    let (mut session, now) = (responder(4), Instant::now());
    let stream = session.open(Direction::Bi).expect("the peer allows it");
    tell(&mut session, Subject::Limit(stream), STREAM_WINDOW + 100, 0).unwrap();
    tell(&mut session, Subject::Limit(stream), 0, 0).unwrap();
    let mut sent = 0;
    while sent < STREAM_WINDOW + 100 {
        let room = session.writable_bytes(stream);
        session.write(now, stream, Bytes::from(vec![1; room]));
        let taken: u64 = drain(&mut session).iter().map(|chunk| u64::from(chunk.length)).sum();
        assert!(taken > 0, "credit that was given is taken back");
        sent += taken;
    }
    assert_eq!(sent, STREAM_WINDOW + 100);
    tell(&mut session, Subject::Streams(Direction::Bi), 0, 0).unwrap();
    assert!(session.open(Direction::Bi).is_some(), "a limit of streams does not shrink");
}

/// A peer that gives no credit for one stream holds no other back, and what this end keeps is
/// bounded.
#[test]
fn a_stream_without_credit_holds_no_other_back() {
    let (mut session, now) = (responder(4), Instant::now());
    let [stuck, other] = [(); 2].map(|()| session.open(Direction::Bi).expect("the peer allows it"));
    let fill = |session: &mut Session, stream| {
        let room = session.writable_bytes(stream);
        session.write(now, stream, Bytes::from(vec![1; room]));
    };
    for _ in 0..10 {
        fill(&mut session, stuck);
        drain(&mut session);
    }
    assert_eq!(session.writable_bytes(stuck), 0);
    fill(&mut session, other);
    let taken = drain(&mut session);
    assert!(!taken.is_empty() && taken.iter().all(|chunk| chunk.stream == other), "{taken:?}");
}

/// The window is full of bytes that a peer does not read, and more wait. A stream of which only the
/// end is left needs no room.
#[test]
fn an_end_needs_no_room() {
    let (mut session, now) = (responder(20), Instant::now());
    let [other, kept] = [Direction::Bi, Direction::Uni].map(|direction| session.open(direction).expect("it may"));
    let mut sent = 0;
    for _ in 0..12 {
        let stream = session.open(Direction::Bi).expect("the peer allows it");
        for _ in 0..3 {
            let room = session.writable_bytes(stream);
            session.write(now, stream, Bytes::from(vec![1; room]));
            let chunks = drain(&mut session);
            sent += chunks.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>();
        }
    }
    assert_eq!(sent, WINDOW, "all streams together have more");
    [other, kept].into_iter().for_each(|stream| session.finish(now, stream));
    let ends = drain(&mut session);
    let ended: Vec<_> = ends.iter().map(|chunk| (chunk.stream, chunk.length, chunk.fin)).collect();
    assert_eq!(ended, [(other, 0, true), (kept, 0, true)]);
}

/// A peer whose every byte was sent and not read, but for one stream, learns how far it may send
/// as soon as bytes of that one are read.
#[test]
fn a_full_window_is_told_as_it_empties() {
    let (mut session, now) = (responder(20), Instant::now());
    for index in 0..10 {
        for at in (0..STREAM_WINDOW).step_by(1_000) {
            data(&mut session, theirs(index), at, 1_000, false).unwrap();
        }
    }
    drain_acks(&mut session, now);
    let accepted = session.accept(Direction::Bi).expect("it was opened");
    let read = session.read(now, accepted).expect("bytes have arrived").len() as u64;
    assert!(read < WINDOW / 4, "so little is not worth a frame");
    let due = session.lane_timeouts(LANE).acknowledge.expect("the peer waits for the limit");
    let acks = drain_acks(&mut session, due);
    assert_eq!(acks.last().map(|ack| ack.limit), Some(WINDOW + read));
}

/// Each frame breaks one rule. The session fails with the violation that names it, tells the peer,
/// and takes nothing more.
#[test]
fn every_broken_rule_is_named() {
    type Attack = fn(&mut Session) -> Result<(), Violation>;
    let own = |direction| StreamNumber::new(Side::Responder, direction, 0);
    let their_uni = |index| StreamNumber::new(Side::Initiator, Direction::Uni, index);
    let no_stream = |stream| Violation::Stream { stream };
    let too_many = |stream| Violation::TooManyStreams { stream, max: 4 };
    let attacks: [(&str, Attack, Violation); 20] = [
        (
            "more streams said to be open than allowed",
            |s| tell(s, Subject::Blocked(Direction::Bi), 5, 0),
            too_many(theirs(4)),
        ),
        ("credit for a stream never opened", |s| tell(s, Subject::Limit(OWN), 1, 0), no_stream(OWN)),
        ("a stop of a stream never opened", |s| tell(s, Subject::Stop(OWN), 0, 1), no_stream(OWN)),
        ("a reset of a stream never opened", |s| tell(s, Subject::Reset(OWN), 0, 1), no_stream(OWN)),
        ("the end of a stream never opened", |s| data(s, OWN, 0, 0, true), no_stream(OWN)),
        (
            "a reset of a stream in which this end alone sends",
            |s| {
                let stream = s.open(Direction::Uni).expect("the peer allows it");
                tell(s, Subject::Reset(stream), 0, 1)
            },
            no_stream(own(Direction::Uni)),
        ),
        ("credit beyond the limit of streams", |s| tell(s, Subject::Limit(theirs(4)), 1, 0), too_many(theirs(4))),
        ("a reset beyond the limit of streams", |s| tell(s, Subject::Reset(theirs(4)), 0, 1), too_many(theirs(4))),
        ("a stop beyond the limit of streams", |s| tell(s, Subject::Stop(theirs(4)), 0, 1), too_many(theirs(4))),
        ("the largest number", |s| data(s, theirs(LAST), 0, 1, false), too_many(theirs(LAST))),
        (
            "bytes beyond the limit of streams in one direction",
            |s| data(s, StreamNumber::new(Side::Initiator, Direction::Uni, 4), 0, 1, false),
            too_many(their_uni(4)),
        ),
        (
            "two ends",
            |s| data(s, theirs(0), 0, 10, true).and_then(|()| data(s, theirs(0), 0, 9, true)),
            Violation::EndMoved { end: 9 },
        ),
        (
            "an end before bytes that have arrived",
            |s| data(s, theirs(0), 5, 5, false).and_then(|()| data(s, theirs(0), 0, 9, true)),
            Violation::EndMoved { end: 9 },
        ),
        (
            "bytes behind the end",
            |s| data(s, theirs(0), 5, 5, true).and_then(|()| data(s, theirs(0), 8, 3, false)),
            Violation::BeyondEnd { chunk_end: 11, end: 10 },
        ),
        (
            "two ends of a stream that was stopped",
            |s| {
                data(s, theirs(0), 5, 5, true)?;
                s.stop(Instant::now(), theirs(0), 1);
                data(s, theirs(0), 0, 9, true)
            },
            Violation::EndMoved { end: 9 },
        ),
        (
            "bytes behind the end of a stream that was stopped",
            |s| {
                data(s, theirs(0), 5, 5, true)?;
                s.stop(Instant::now(), theirs(0), 1);
                data(s, theirs(0), 8, 3, false)
            },
            Violation::BeyondEnd { chunk_end: 11, end: 10 },
        ),
        (
            "a reset before bytes of a stream that was stopped",
            |s| {
                data(s, theirs(0), 5, 5, false)?;
                s.stop(Instant::now(), theirs(0), 1);
                tell(s, Subject::Reset(theirs(0)), 9, 1)
            },
            Violation::EndMoved { end: 9 },
        ),
        (
            "an end that is not that of the reset",
            |s| tell(s, Subject::Reset(theirs(0)), 10, 1).and_then(|()| data(s, theirs(0), 0, 9, true)),
            Violation::EndMoved { end: 9 },
        ),
        (
            "bytes that no arithmetic takes",
            |s| data(s, theirs(0), u64::MAX, 1, true),
            Violation::BeyondWindow { end: u64::MAX, limit: STREAM_WINDOW },
        ),
        (
            "credit for more than was sent",
            |s| s.handle_ack(Instant::now(), LANE, &Ack { chunks: 0, limit: WINDOW + 1, complete: false }),
            Violation::NeverSent { acknowledged: 0, sent: 0 },
        ),
    ];
    for (name, attack, expected) in attacks {
        let mut session = responder(4);
        assert_eq!(attack(&mut session), Err(expected.clone()), "{name}");
        assert_eq!(session.failure(), Some(&Failure::Violation(expected)), "{name}");
        let mut told = Vec::new();
        let reset = session.poll_transmit(Instant::now(), LANE, &mut told);
        assert!(matches!(reset, Transmit::Send(None)) && !told.is_empty(), "{name}: the peer is told");
        assert_eq!(session.poll_transmit(Instant::now(), LANE, &mut told), Transmit::Close, "{name}");
        let held = session.memory_held();
        data(&mut session, theirs(1), 0, 1, false).expect("what comes behind the end is thrown away");
        assert_eq!(session.memory_held(), held, "{name}");
    }
}

/// A limit of all streams together that shrinks is an old one, which came late.
#[test]
fn credit_of_the_session_that_shrinks_changes_nothing() {
    let (mut session, now) = (responder(20), Instant::now());
    let limit = |limit| Ack { chunks: 0, limit, complete: false };
    session.handle_ack(now, LANE, &limit(0)).unwrap();
    let mut sent = 0;
    while let Some(stream) = session.open(Direction::Bi) {
        for _ in 0..3 {
            let room = session.writable_bytes(stream);
            session.write(now, stream, Bytes::from(vec![1; room]));
            sent += bytes(&drain(&mut session));
        }
    }
    assert_eq!(sent, WINDOW, "the first window counts");
    session.handle_ack(now, LANE, &limit(WINDOW + 10)).unwrap();
    session.handle_ack(now, LANE, &limit(WINDOW)).unwrap();
    assert_eq!(bytes(&drain(&mut session)), 10);
    assert!(session.handle_ack(now, LANE, &limit(2 * WINDOW + 11)).is_err(), "so much was not sent");
}

/// The peer opens all that it may without using the streams, and asks for more.
#[test]
fn streams_that_were_opened_and_not_used() {
    let (mut session, now) = (responder(16), Instant::now());
    let mut acknowledged = 0;
    for index in 0..2 {
        data(&mut session, theirs(index), 0, 0, true).unwrap();
        let stream = session.accept(Direction::Bi).expect("it was opened");
        session.release_receiving(now, stream);
        session.release_sending(now, stream);
        acknowledged += drain(&mut session).len() as u64;
        session.handle_ack(now, LANE, &Ack { chunks: acknowledged, limit: WINDOW, complete: false }).unwrap();
    }
    assert!(drain(&mut session).is_empty(), "two places are not worth a frame");
    tell(&mut session, Subject::Blocked(Direction::Bi), 16, 0).unwrap();
    let place = Record { subject: Subject::Streams(Direction::Bi), value: 18, code: 0 };
    assert_eq!(records(&drain(&mut session)), [place]);
    tell(&mut session, Subject::Blocked(Direction::Bi), 16, 0).unwrap();
    assert!(drain(&mut session).is_empty(), "it was told");

    // This end asks, too: once.
    while session.open(Direction::Bi).is_some() {}
    assert_eq!(session.open(Direction::Bi), None);
    let asked = Record { subject: Subject::Blocked(Direction::Bi), value: 16, code: 0 };
    assert_eq!(records(&drain(&mut session)), [asked]);
}

/// A stream that the peer has reset keeps its place until this end's own direction is known to have
/// ended, too: a flood of resets waits for its own acknowledgements.
#[test]
fn a_reset_counts_until_the_answer_is_acknowledged() {
    let (mut session, now) = (responder(1), Instant::now());
    let mut acknowledged = 0;
    for index in 0..50 {
        tell(&mut session, Subject::Reset(theirs(index)), 0, 1).unwrap();
        let stream = session.accept(Direction::Bi).expect("it was opened");
        session.reset(now, stream, 2);
        session.release_receiving(now, stream);
        session.release_sending(now, stream);
        let sent = drain(&mut session);
        assert!(records(&sent).iter().all(|record| record.subject == Subject::Reset(stream)), "no place is free");
        acknowledged += sent.len() as u64;
        session.handle_ack(now, LANE, &Ack { chunks: acknowledged, limit: WINDOW, complete: false }).unwrap();
        let told = drain(&mut session);
        let place = Record { subject: Subject::Streams(Direction::Bi), value: index + 2, code: 0 };
        assert_eq!(records(&told), [place]);
        acknowledged += told.len() as u64;
        session.handle_ack(now, LANE, &Ack { chunks: acknowledged, limit: WINDOW, complete: false }).unwrap();
    }
    let refused = Violation::TooManyStreams { stream: theirs(51), max: 51 };
    assert_eq!(tell(&mut session, Subject::Reset(theirs(51)), 0, 1), Err(refused));
}

#[test]
fn frames_of_another_kind_of_session() {
    let ack = Ack { chunks: 0, limit: WINDOW, complete: true };
    assert_eq!(responder(4).handle_ack(Instant::now(), LANE, &ack), Err(Violation::Kind));
    assert_eq!(responder(4).handle_stop(Instant::now(), 0), Err(Violation::Kind));
    assert_eq!(responder(4).handle_control(Instant::now(), LANE, &[1; 31]), Err(Violation::Control));
    let long = DataHeader { stream: StreamNumber::FIRST, offset: 0, length: u32::MAX, fin: false, checksum: 0 };
    for kind in [ChunkKind::Control, ChunkKind::Datagram, ChunkKind::Close { code: 0 }] {
        let refused = responder(4).admit_special(Instant::now(), &long, kind);
        assert!(matches!(refused, Err(Violation::TooLong { .. })), "{refused:?}");
    }
}

/// A session that is closed in the middle of everything takes nothing more.
#[test]
fn closed_in_the_middle_of_everything() {
    let (mut session, now) = (responder(4), Instant::now());
    let stream = session.open(Direction::Bi).expect("the peer allows it");
    session.write(now, stream, Bytes::from_static(b"lost"));
    data(&mut session, theirs(0), 5, 5, false).unwrap();
    session.handle_close(now, 9, Bytes::from_static(b"enough"));
    let closed = Failure::ClosedByPeer { code: 9, reason: Bytes::from_static(b"enough") };
    assert_eq!(session.failure(), Some(&closed));
    data(&mut session, theirs(1), 0, 5, false).unwrap();
    tell(&mut session, Subject::Reset(theirs(0)), 10, 1).unwrap();
    session.handle_datagram(Bytes::from_static(b"late"));
    assert_eq!((session.read_datagram(), session.accept(Direction::Uni)), (None, None));
    session.reset(now, stream, 1);
    session.stop(now, theirs(0), 1);
    session.release_sending(now, stream);
    session.release_receiving(now, stream);
    session.close(now, 1, Bytes::new());
    assert_eq!(session.failure(), Some(&closed), "the first end stays");
    assert_eq!(session.poll_transmit(now, LANE, &mut Vec::new()), Transmit::Close);
}

/// An application that always has a datagram to send still acknowledges what arrives.
#[test]
fn datagrams_hold_up_no_acknowledgement() {
    let (mut session, now) = (responder(4), Instant::now());
    data(&mut session, theirs(0), 0, 1_000, false).unwrap();
    let due = session.lane_timeouts(LANE).acknowledge.expect("a chunk has arrived");
    let mut control = Vec::new();
    for _ in 0..100 {
        session.send_datagram(Bytes::from_static(b"now"));
        assert!(matches!(session.poll_transmit(due, LANE, &mut control), Transmit::Send(Some(_))));
    }
    assert!(!control.is_empty(), "{} ms late", (due - now).as_millis());
}

/// The peer may have opened the streams before it hears of the smaller limit.
#[test]
fn a_smaller_limit_takes_nothing_back() {
    let (mut session, now) = (responder(4), Instant::now());
    session.set_max_streams(now, Direction::Bi, 1);
    assert_eq!(data(&mut session, theirs(3), 0, 1, false), Ok(()));
    assert!(data(&mut session, theirs(4), 0, 1, false).is_err());
}

/// The bytes of a stream that is reset count with those that came before the reset, and not as
/// read.
#[test]
fn a_reset_beyond_the_limit_of_the_session() {
    let mut session = responder(20);
    for index in 0..WINDOW / STREAM_WINDOW {
        data(&mut session, theirs(index), STREAM_WINDOW - 1, 1, false).unwrap();
    }
    let reset = tell(&mut session, Subject::Reset(theirs(19)), STREAM_WINDOW, 1);
    assert_eq!(reset, Err(Violation::BeyondWindow { end: WINDOW + STREAM_WINDOW, limit: WINDOW }));
}

/// The bytes of streams among chunks.
fn bytes(chunks: &[Chunk]) -> u64 {
    chunks.iter().filter(|chunk| chunk.kind == ChunkKind::Stream).map(|chunk| u64::from(chunk.length)).sum()
}

/// A stream of this end that it has not opened.
const OWN: StreamNumber = StreamNumber(1);
/// The last index of a stream.
const LAST: u64 = (1 << 62) - 1;
