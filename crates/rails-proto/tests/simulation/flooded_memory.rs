//! The memory of one end of a session of many streams whose peer is slow or hostile.
//!
//! Each bound is a sum: the windows, buffers and datagrams that the ends agreed on, and a constant
//! for each stream that may be open.

use crate::victim::{LANE, SEND_BUFFER, data, drain, records, responder_of, tell, theirs};
use allocation_counter::measure;
use bytes::Bytes;
use rails_proto::{
    control::{self, Record, Subject},
    parameters::StreamParameters,
    session::{LONGEST_DATAGRAM, Session},
    stream_number::{Direction, Side, StreamNumber},
    wire::Ack,
};
use std::time::Instant;

const WINDOW: u64 = 1 << 20;
/// A stream at rest costs less than this, at either end.
const STREAM: i64 = 1 << 10;
/// The buffer of bytes that have arrived ends within this many bytes.
const PIECE: i64 = 1 << 10;
/// What a session costs beside its streams: its lane, and the chunks that a peer has not
/// acknowledged.
const FIXED: i64 = 512 << 10;

fn session(max: u32) -> Session {
    responder_of(WINDOW, StreamParameters { window: 64 << 10, max_bi: max, max_uni: max })
}

/// How the memory of this test's thread has grown, in bytes.
#[derive(Debug, Clone, Copy)]
struct Growth {
    left: i64,
    most: i64,
}

/// The memory that `act` leaves behind, and the most that it held.
fn grown<T>(act: impl FnOnce() -> T) -> (Growth, T) {
    let mut result = None;
    let counted = measure(|| result = Some(act()));
    let most = counted.bytes_max as i64;
    (Growth { left: counted.bytes_current, most }, result.expect("it was called"))
}

/// Wakes nobody: takes the wakes, as a driver does after each call.
fn settle(session: &mut Session) {
    let _ = session.take_wakes();
    session.take_stream_wakes();
    while session.poll_event().is_some() {}
}

fn acknowledge(session: &mut Session, chunks: u64) {
    session.handle_ack(Instant::now(), LANE, &Ack { chunks, limit: WINDOW, complete: false }).unwrap();
    settle(session);
}

/// Nobody accepts the streams or reads them.
#[test]
fn a_byte_on_each_of_ten_thousand_streams() {
    let streams = 10_000;
    for offset in [0, 7] {
        let (growth, session) = grown(|| {
            let mut session = session(streams);
            for index in 0..u64::from(streams) {
                data(&mut session, theirs(index), offset, 1, false).unwrap();
                settle(&mut session);
            }
            session
        });
        let bound = i64::from(streams) * (STREAM + PIECE) + FIXED;
        assert!(growth.most <= bound, "{growth:?}, where {bound} are the bound");
        assert!(session.memory_held() <= u64::from(streams) * PIECE as u64);
    }
}

/// Nobody reads what fills the window.
#[test]
fn a_window_full_of_crumbs() {
    let (growth, _session) = grown(|| {
        let mut session = session(100);
        // Every other byte, from behind, as far as this end takes so many pieces.
        let mut taken = 0;
        'streams: for index in 0..100 {
            for at in (0..8_000).rev().step_by(2) {
                if data(&mut session, theirs(index), at, 1, false).is_err() {
                    break 'streams;
                }
                settle(&mut session);
                taken += 1;
            }
        }
        assert!(taken > 1_000, "{taken}");
        session
    });
    let bound = 2 * WINDOW as i64 + 100 * (STREAM + PIECE) + FIXED;
    assert!(growth.most <= bound, "{growth:?}, where {bound} are the bound");
}

/// The application takes each stream and lets it go. Places are told as they become free.
#[test]
fn streams_that_are_opened_and_reset_at_once() {
    let rounds = |from: u64, session: &mut Session, chunks: &mut u64| {
        for index in from..from + 20_000 {
            tell(session, Subject::Reset(theirs(index)), 0, 1).unwrap();
            let stream = session.accept(Direction::Bi).expect("it was opened");
            session.release_receiving(Instant::now(), stream);
            session.release_sending(Instant::now(), stream);
            *chunks += drain(session).len() as u64;
            acknowledge(session, *chunks);
            *chunks += drain(session).len() as u64;
            acknowledge(session, *chunks);
        }
    };
    let (mut session, mut chunks) = (session(100), 0);
    rounds(0, &mut session, &mut chunks);
    let (growth, ()) = grown(|| rounds(20_000, &mut session, &mut chunks));
    assert!(growth.left <= 4_096, "{growth:?}: closed streams leave nothing behind");
    assert!(growth.most <= 64 << 10, "{growth:?}");
}

/// The peer opens and resets as much as it may, and acknowledges nothing: its streams keep their
/// places.
#[test]
fn streams_that_are_reset_by_a_peer_that_acknowledges_nothing() {
    let max = 1_000;
    let (growth, ()) = grown(|| {
        let mut session = session(max);
        let mut index = 0;
        while tell(&mut session, Subject::Reset(theirs(index)), 0, 1).is_ok() {
            let stream = session.accept(Direction::Bi).expect("it was opened");
            session.stop(Instant::now(), stream, 1);
            session.reset(Instant::now(), stream, 1);
            session.release_receiving(Instant::now(), stream);
            session.release_sending(Instant::now(), stream);
            drain(&mut session);
            settle(&mut session);
            index += 1;
        }
        assert_eq!(index, u64::from(max));
    });
    let bound = i64::from(max) * STREAM + FIXED;
    assert!(growth.most <= bound, "{growth:?}, where {bound} are the bound");
}

/// The peer ends each stream well, so that its places become free, and acknowledges nothing: it
/// hears of them in chunks that this end keeps.
#[test]
fn places_that_are_told_to_a_peer_that_acknowledges_nothing() {
    let uni = |index| StreamNumber::new(Side::Initiator, Direction::Uni, index);
    let (growth, opened) = grown(|| {
        let mut session = session(2);
        let mut index = 0;
        while index < 100_000 && data(&mut session, uni(index), 0, 0, true).is_ok() {
            let stream = session.accept(Direction::Uni).expect("it was opened");
            session.release_receiving(Instant::now(), stream);
            drain(&mut session);
            settle(&mut session);
            index += 1;
        }
        index
    });
    assert!(growth.most <= FIXED, "{growth:?}");
    assert!((100..100_000).contains(&opened), "{opened} streams: this end keeps so many chunks and no more");
}

/// The peer gives no credit for any stream, and acknowledges nothing.
#[test]
fn a_thousand_writers_without_credit() {
    let streams = 1_000;
    let (growth, _session) = grown(|| {
        let mut session = session(streams);
        let opened: Vec<_> = std::iter::from_fn(|| session.open(Direction::Bi)).collect();
        assert_eq!(opened.len(), streams as usize, "the peer lets this end open no more");
        for _ in 0..20 {
            for stream in opened.iter().copied() {
                let room = session.writable_bytes(stream);
                // In pieces, of which each would cost an allocation.
                (0..room.div_ceil(100))
                    .for_each(|_| session.write(Instant::now(), stream, Bytes::from(vec![7; room.min(100)])));
                drain(&mut session);
                settle(&mut session);
            }
        }
        session
    });
    // A buffer of small writes grows by doubling.
    let buffers = 2 * i64::from(streams) * (SEND_BUFFER as i64 + 100);
    let bound = buffers + WINDOW as i64 + i64::from(streams) * STREAM + FIXED;
    assert!(growth.most <= bound, "{growth:?}, where {bound} are the bound");
}

/// The peer stops each stream again and again, and says the same credit.
#[test]
fn control_records_without_end() {
    let (mut session, now) = (session(64), Instant::now());
    let opened: Vec<_> = std::iter::from_fn(|| session.open(Direction::Bi)).collect();
    let of_all = |subject: fn(StreamNumber) -> Subject| {
        let value = |subject| u64::from(matches!(subject, Subject::Limit(_))) * 10;
        let record =
            |stream: &StreamNumber| Record { subject: subject(*stream), value: value(subject(*stream)), code: 0 };
        control::encode(opened.iter().map(record))
    };
    let (limits, stops) = (of_all(Subject::Limit), of_all(Subject::Stop));
    let (growth, ()) = grown(|| {
        for _ in 0..1_000 {
            session.handle_control(now, LANE, &limits).unwrap();
            session.handle_control(now, LANE, &stops).unwrap();
            settle(&mut session);
        }
    });
    assert!(growth.most <= 64 << 10, "{growth:?}");
    let told = records(&drain(&mut session));
    let resets = told.iter().filter(|record| matches!(record.subject, Subject::Reset(_)));
    assert_eq!(resets.count(), opened.len(), "each stream is reset once");
}

/// Neither end takes the datagrams.
#[test]
fn datagrams_that_nobody_takes() {
    let (growth, _session) = grown(|| {
        let mut session = session(4);
        for length in [LONGEST_DATAGRAM, 1, 0] {
            for _ in 0..10_000 {
                session.handle_datagram(Bytes::from(vec![7; length]));
                session.send_datagram(Bytes::from(vec![7; length]));
                settle(&mut session);
            }
        }
        session
    });
    // Those of each direction have 256 KiB, in which each counts 64 bytes more than it has.
    assert!(growth.most <= 2 * (256 << 10) + 2 * LONGEST_DATAGRAM as i64 + FIXED, "{growth:?}");
}

/// A thousand streams on which a byte has come and gone each way.
#[test]
fn a_thousand_streams_at_rest() {
    let (streams, now) = (1_000, Instant::now());
    let mut session = session(streams);
    let mut chunks = 0;
    let (growth, ()) = grown(|| {
        for index in 0..u64::from(streams) {
            data(&mut session, theirs(index), 0, 1, false).unwrap();
            let stream = session.accept(Direction::Bi).expect("it was opened");
            assert!(session.read(now, stream).is_some());
            session.write(now, stream, Bytes::from_static(b"1"));
            chunks += drain(&mut session).len() as u64;
            acknowledge(&mut session, chunks);
        }
    });
    assert!(growth.left <= i64::from(streams) * STREAM, "{growth:?}");
    // The lane acknowledges what has arrived.
    let due = session.lane_timeouts(LANE).acknowledge.unwrap_or(now);
    let _ = session.poll_transmit(due, LANE, &mut Vec::new());
    drain(&mut session);
    settle(&mut session);
    // The last check of a lane that had something in flight, and of a session that waited.
    session.rest(LANE);
    while let Some(at) = session.poll_timeout() {
        session.handle_timeout(at);
    }
    settle(&mut session);
    let timeouts = session.lane_timeouts(LANE);
    assert_eq!((timeouts.acknowledge, timeouts.progress), (None, None), "streams at rest need no time");
    assert_eq!(session.poll_timeout(), None, "streams at rest need no time");
    // One of them is used: nobody but its reader is woken.
    data(&mut session, theirs(500), 1, 1, false).unwrap();
    assert!(session.take_wakes().streams);
    let woken = session.take_stream_wakes();
    let named: Vec<_> = woken.iter().map(|wake| (wake.stream, wake.reader, wake.writer)).collect();
    assert_eq!(named, [(theirs(500), true, false)]);

    let (growth, ()) = grown(|| {
        for index in 0..u64::from(streams) {
            let stream = theirs(index);
            let read = if index == 500 { 2 } else { 1 };
            data(&mut session, stream, read, 0, true).unwrap();
            while session.read(now, stream).is_some() {}
            assert!(session.is_read(stream));
            session.release_receiving(now, stream);
            session.release_sending(now, stream);
            chunks += drain(&mut session).len() as u64;
            acknowledge(&mut session, chunks);
        }
    });
    assert!(growth.left <= -i64::from(streams) * STREAM / 4, "{growth:?}: their memory is given back");
    data(&mut session, theirs(u64::from(streams)), 0, 1, false).expect("their places are free");
}
