//! One end of a session of many streams, whose peer is a test.

use bytes::Bytes;
use rails_proto::{
    chunk::{Chunk, ChunkKind},
    control::{self, Record, Subject},
    parameters::{StreamParameters, TransportParameters},
    policy::Policy,
    session::{Config, LaneId, LaneTraits, Session, Transmit},
    stream_number::{Direction, Side, StreamNumber},
    violation::Violation,
    wire::{Ack, DataHeader, FRAME_LEN, Frame},
};
use std::time::{Duration, Instant};

pub(crate) const WINDOW: u64 = 100_000;
pub(crate) const STREAM_WINDOW: u64 = 10_000;
pub(crate) const SEND_BUFFER: usize = 5_000;
pub(crate) const LANE: LaneId = LaneId(0);

/// A responder that lets its peer have `max` streams of each kind open, with one lane.
pub(crate) fn responder(max: u32) -> Session {
    responder_of(WINDOW, StreamParameters { window: STREAM_WINDOW, max_bi: max, max_uni: max })
}

/// A responder with that window of all streams together, and with one lane. Its peer has the same
/// parameters.
pub(crate) fn responder_of(window: u64, streams: StreamParameters) -> Session {
    let parameters = TransportParameters { longest_chunk: 1_000, window, streams: Some(streams) };
    let config = Config {
        longest_chunk: 1_000,
        send_buffer: SEND_BUFFER,
        max_unacknowledged: 1 << 20,
        parameters,
        side: Side::Responder,
        outage_limit: Duration::from_secs(10),
        linger: Duration::from_secs(10),
    };
    let mut session = Session::new(config, Policy::Adaptive.build(), parameters);
    assert_eq!(session.lane_up(Instant::now(), LaneTraits::default()), Ok(LANE));
    session
}

/// A stream of the peer in both directions.
pub(crate) fn theirs(index: u64) -> StreamNumber {
    StreamNumber::new(Side::Initiator, Direction::Bi, index)
}

pub(crate) fn data(
    session: &mut Session,
    stream: StreamNumber,
    offset: u64,
    length: usize,
    fin: bool,
) -> Result<(), Violation> {
    let payload = Bytes::from(vec![7; length]);
    let header = DataHeader::of(stream, offset, std::slice::from_ref(&payload), fin);
    session.admit(Instant::now(), &header)?;
    session.handle_data(Instant::now(), LANE, &header, payload)
}

pub(crate) fn tell(session: &mut Session, subject: Subject, value: u64, code: u64) -> Result<(), Violation> {
    session.handle_control(Instant::now(), LANE, &control::encode([Record { subject, value, code }].into_iter()))
}

/// Takes all that the lane has to send now.
pub(crate) fn drain(session: &mut Session) -> Vec<Chunk> {
    drain_lane(session, LANE)
}

/// Takes all that a lane has to send now.
pub(crate) fn drain_lane(session: &mut Session, lane: LaneId) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while let Transmit::Send(chunk) = session.poll_transmit(Instant::now(), lane, &mut Vec::new()) {
        chunks.extend(chunk);
    }
    chunks
}

/// Takes the acknowledgements that the lane has to send at that time.
pub(crate) fn drain_acks(session: &mut Session, now: Instant) -> Vec<Ack> {
    let mut control = Vec::new();
    while let Transmit::Send(_) = session.poll_transmit(now, LANE, &mut control) {}
    let (frames, _) = control.as_chunks::<FRAME_LEN>();
    let acks = frames.iter().filter_map(|frame| match Frame::decode(frame) {
        Ok(Frame::Ack(ack)) => Some(ack),
        _ => None,
    });
    acks.collect()
}

/// The control records among chunks.
pub(crate) fn records(chunks: &[Chunk]) -> Vec<Record> {
    let control = chunks.iter().filter(|chunk| chunk.kind == ChunkKind::Control);
    control.flat_map(|chunk| control::decode(&chunk.payload.concat()).expect("they are records")).collect()
}
