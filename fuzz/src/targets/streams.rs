//! One end of a session of many streams against a peer that sends well-formed frames of any stream,
//! and control records of any content, while the application does anything.

use crate::script::Script;
use bytes::Bytes;
use rails_multirail::Policy;
use rails_proto::{
    chunk::ChunkKind,
    control::{self, Record, Subject},
    parameters::{StreamParameters, TransportParameters},
    session::{Config, LaneEnd, LaneId, LaneTraits, Session, Transmit},
    stream_number::{Direction, Side, StreamNumber},
    wire::{Ack, DataHeader},
};
use std::time::{Duration, Instant};

/// No input makes the end panic, hold more than its window and a piece for each stream, have more
/// streams of the peer than it allows, send without end, or report another failure than the first.
pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let streams = StreamParameters { window: 1 + script.number() % WINDOW, max_bi: MAX, max_uni: MAX };
    let ours = TransportParameters { longest_chunk: LONGEST_CHUNK, window: WINDOW, streams: Some(streams) };
    let streams = StreamParameters { window: script.number().max(1), max_bi: MAX, max_uni: MAX };
    let theirs = TransportParameters { longest_chunk: 100, window: script.number().max(1), streams: Some(streams) };
    let side = if script.flag() { Side::Initiator } else { Side::Responder };
    let config = Config {
        longest_chunk: 100,
        send_buffer: 1_000,
        max_unacknowledged: 1 << 16,
        parameters: ours,
        side,
        outage_limit: Duration::from_secs(1),
        linger: Duration::from_secs(1),
    };
    let mut end = End {
        session: Session::new(config, Policy::Adaptive.build(), theirs),
        now: Instant::now(),
        known: Vec::new(),
        accepted: [0; 2],
        failure: None,
    };
    end.session.lane_up(end.now, LaneTraits::default()).expect("the lane is the first");
    while let Some(step) = script.step() {
        end.step(step, &mut script);
        end.check();
    }
}

struct End {
    session: Session,
    now: Instant,
    /// The streams that the application has opened or accepted.
    known: Vec<StreamNumber>,
    accepted: [u64; 2],
    failure: Option<rails_proto::session::Failure>,
}

impl End {
    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let (now, session) = (self.now, &mut self.session);
        let lanes: Vec<LaneId> = session.lanes().collect();
        let lane = lanes.get(usize::from(step >> 5) % lanes.len().max(1)).copied();
        let stream = match self.known.get(usize::from(script.byte()) % self.known.len().max(1)) {
            Some(known) if script.flag() => *known,
            _ => StreamNumber(script.number() % 2_000),
        };
        match (step & 0x1f, lane) {
            (0..=5, Some(lane)) => {
                let payload = Bytes::from(vec![7; usize::from(script.byte())]);
                let header = DataHeader::of(stream, script.number(), std::slice::from_ref(&payload), script.flag());
                if session.admit(now, &header).is_ok() {
                    drop(session.handle_data(now, lane, &header, payload));
                }
            }
            (6..=9, Some(lane)) => {
                let records = (0..1 + script.byte() % 4).map(|_| record(stream, script)).collect::<Vec<_>>();
                self.control(lane, &control::encode(records.into_iter()));
            }
            (10, Some(lane)) => {
                let bytes: Vec<u8> = (0..script.byte()).map(|_| script.byte()).collect();
                self.control(lane, &bytes);
            }
            (11, Some(lane)) => {
                let ack = Ack { chunks: script.number(), limit: script.number(), complete: script.byte() > 250 };
                drop(session.handle_ack(now, lane, &ack));
            }
            (12 | 13, Some(lane)) => self.transmit(lane),
            (14, _) => {
                let direction = Direction::ALL[usize::from(script.flag())];
                self.known.extend(session.open(direction));
            }
            (15 | 16, _) => {
                let direction = Direction::ALL[usize::from(script.flag())];
                let accepted = session.accept(direction);
                self.accepted[direction as usize] += u64::from(accepted.is_some());
                self.known.extend(accepted);
            }
            (17 | 18, _) => {
                let room = session.writable_bytes(stream).min(usize::from(script.byte()));
                if room > 0 && session.write_failure(stream).is_none() && !session.is_finished(stream) {
                    session.write(now, stream, Bytes::from(vec![1; room]));
                }
            }
            (19, _) if !session.is_finished(stream) => session.finish(now, stream),
            (20, _) => while session.read(now, stream).is_some() {},
            (21, _) => session.reset(now, stream, script.number()),
            (22, _) => session.stop(now, stream, script.number()),
            (23, _) => session.release_sending(now, stream),
            (24, _) => session.release_receiving(now, stream),
            (25, _) => session.set_urgency(stream, i32::from(script.byte()) - 100),
            (26, _) => session.send_datagram(Bytes::from(vec![2; usize::from(script.byte())])),
            (27, _) => session.handle_datagram(Bytes::from(vec![3; usize::from(script.byte())])),
            (28, Some(lane)) if script.byte() > 200 => {
                session.lane_down(now, lane, LaneEnd::Lost);
            }
            (28, _) => drop(session.lane_up(now, LaneTraits { number: 1, ..LaneTraits::default() })),
            (29, _) => {
                self.now += Duration::from_millis(script.number().min(10_000));
                session.handle_timeout(self.now);
            }
            (30, _) if script.byte() > 250 => session.close(now, script.number(), Bytes::from_static(b"done")),
            (30, _) if script.byte() > 250 => session.handle_close(now, script.number(), Bytes::new()),
            (31, _) if script.byte() > 250 => session.drop_application(now, 0),
            _ => {}
        }
    }

    fn control(&mut self, lane: LaneId, payload: &[u8]) {
        let (stream, length) = (StreamNumber::FIRST, payload.len() as u32);
        let header = DataHeader { stream, offset: 0, length, fin: false, checksum: 0 };
        if self.session.admit_special(self.now, &header, ChunkKind::Control).is_ok() {
            drop(self.session.handle_control(self.now, lane, payload));
        }
    }

    fn transmit(&mut self, lane: LaneId) {
        for _ in 0..10_000 {
            let mut control = Vec::new();
            match self.session.poll_transmit(self.now, lane, &mut control) {
                Transmit::Send(None) => assert!(!control.is_empty(), "a step that sends has nothing to send"),
                Transmit::Send(Some(chunk)) if chunk.kind == ChunkKind::Control => {
                    control::decode(&chunk.payload.concat()).expect("an honest end sends records");
                }
                Transmit::Send(Some(chunk)) => {
                    let bytes = chunk.payload.iter().map(Bytes::len).sum::<usize>();
                    assert_eq!(bytes, chunk.length as usize, "{chunk:?}");
                }
                Transmit::Idle | Transmit::Close => return,
            }
        }
        panic!("a lane sends without end");
    }

    fn check(&mut self) {
        let held = self.session.memory_held();
        assert!(held <= WINDOW + 1_024 * 4 * u64::from(MAX), "the end holds {held} bytes");
        let (written, consumed) = self.session.sent();
        assert!(consumed <= written);
        if self.failure.is_some() {
            assert_eq!(self.session.failure(), self.failure.as_ref(), "the end reports the first failure");
        }
        self.failure = self.session.failure().cloned();
        while self.session.poll_event().is_some() {}
        if self.session.take_wakes().streams {
            self.session.take_stream_wakes();
        }
    }
}

fn record(stream: StreamNumber, script: &mut Script<'_>) -> Record {
    let (value, code) = (script.number(), script.number());
    match script.byte() % 5 {
        0 => Record { subject: Subject::Limit(stream), value, code: 0 },
        1 => Record { subject: Subject::Streams(Direction::ALL[usize::from(script.flag())]), value, code: 0 },
        2 => Record { subject: Subject::Reset(stream), value, code },
        3 => Record { subject: Subject::Blocked(Direction::ALL[usize::from(script.flag())]), value, code: 0 },
        _ => Record { subject: Subject::Stop(stream), value: 0, code },
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![vec![0x5a; 200], (0..=255).collect()]
}

const WINDOW: u64 = 10_000;
const LONGEST_CHUNK: u32 = 256;
const MAX: u32 = 20;
