//! A session of many streams that its application drops: it closes once its peer has everything.

use crate::victim::{LANE, STREAM_WINDOW, WINDOW, data, drain_acks, drain_lane, responder, theirs};
use bytes::Bytes;
use rails_proto::{
    chunk::ChunkKind,
    session::{Failure, LaneId, LaneTraits, Session, Transmit},
    stream_number::Direction,
    wire::{Ack, FRAME_LEN, Frame},
};
use std::time::Instant;

/// A session with a second lane. A stream has arrived whole on the first one and was read, and the
/// answer is delivered on the second one.
fn answered() -> Session {
    let (mut session, now) = (responder(4), Instant::now());
    let second = session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() }).expect("there is room");
    data(&mut session, theirs(0), 0, 10, true).unwrap();
    let stream = session.accept(Direction::Bi).expect("it was opened");
    assert!(session.read(now, stream).is_some() && session.is_read(stream));
    session.write(now, stream, Bytes::from_static(b"answer"));
    session.release_receiving(now, stream);
    session.release_sending(now, stream);
    deliver(&mut session, second);
    session
}

/// Has a lane deliver all that there is.
fn deliver(session: &mut Session, lane: LaneId) {
    let mut chunks = 0;
    loop {
        let taken = drain_lane(session, lane).len() as u64;
        if taken == 0 {
            return;
        }
        chunks += taken;
        session.handle_ack(Instant::now(), lane, &Ack { chunks, limit: WINDOW, complete: false }).unwrap();
    }
}

fn is_closed(session: &Session) -> bool {
    matches!(session.failure(), Some(Failure::Closed { code: 0, .. }))
}

/// The peer learns that its stream has arrived before it hears of the end.
#[test]
fn a_lane_acknowledges_before_the_session_closes() {
    let (mut session, now) = (answered(), Instant::now());
    session.drop_application(now, 0);
    assert_eq!(session.failure(), None);
    let due = session.lane_timeouts(LANE).acknowledge.expect("a chunk has arrived");
    assert_eq!(drain_acks(&mut session, due).len(), 1);
    assert!(is_closed(&session));
}

/// A lane that has stalled sends nothing: the session closes on the others.
#[test]
fn a_stalled_lane_holds_up_no_end() {
    let (mut session, now) = (answered(), Instant::now());
    session.drop_application(now, 0);
    assert_eq!(session.failure(), None);
    session.link_down(now, LANE);
    assert!(is_closed(&session), "the lane stalls after the drop");

    let (mut session, now) = (answered(), Instant::now());
    session.link_down(now, LANE);
    session.drop_application(now, 0);
    assert!(is_closed(&session), "the lane stalls before the drop");
}

/// A lane is about to tell its peer the limit, which nobody needs any more.
#[test]
fn credit_that_is_owed_holds_up_no_end() {
    let (mut session, now) = (responder(20), Instant::now());
    for index in 0..WINDOW / STREAM_WINDOW {
        for at in (0..STREAM_WINDOW).step_by(1_000) {
            data(&mut session, theirs(index), at, 1_000, false).unwrap();
        }
    }
    drain_acks(&mut session, now);
    let stream = session.accept(Direction::Bi).expect("it was opened");
    assert!(session.read(now, stream).is_some());
    deliver(&mut session, LANE);
    assert!(session.lane_timeouts(LANE).acknowledge.is_some(), "the peer waits for the limit");
    session.drop_application(now, 0);
    assert!(is_closed(&session));
}

/// A peer that waits for its stream to arrive learns that it did, though the session is closed at
/// once.
#[test]
fn a_close_comes_behind_the_acknowledgement() {
    let (mut session, now) = (responder(4), Instant::now());
    data(&mut session, theirs(0), 0, 10, true).unwrap();
    session.close(now, 5, Bytes::from_static(b"enough"));
    let mut control = Vec::new();
    let Transmit::Send(Some(chunk)) = session.poll_transmit(now, LANE, &mut control) else { panic!("nothing is said") };
    assert_eq!(chunk.kind, ChunkKind::Close { code: 5 });
    let [frame] = control.as_chunks::<FRAME_LEN>().0 else { panic!("one frame goes before it") };
    assert_eq!(Frame::decode(frame), Ok(Frame::Ack(Ack { chunks: 1, limit: WINDOW, complete: false })));
}
