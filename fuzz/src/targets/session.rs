//! One end of a stream against a peer that sends well-formed frames of any content in any order,
//! over lanes that come and go, while the application does anything.

use crate::script::Script;
use bytes::Bytes;
use rails_multirail::Policy;
use rails_proto::{
    parameters::TransportParameters,
    session::{Config, EventKind, Failure, LaneEnd, LaneId, LaneTraits, LinkSample, Refused, Session, Transmit},
    stream_number::{Side, StreamNumber},
    wire::{Ack, DataHeader, FRAME_LEN, Frame, ResetReason},
};
use std::time::{Duration, Instant};

/// No input makes the end panic, hold more than its window, send beyond the peer's, report another
/// failure than the first, or give the application a wrong byte.
pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let policy = match script.byte() % 3 {
        0 => Policy::Adaptive,
        1 => Policy::Static,
        _ => Policy::Weighted,
    };
    let linger = Duration::from_millis(script.number().min(60_000));
    let outage_limit = Duration::from_millis(script.number().min(60_000));
    let theirs = TransportParameters::one_stream(1 + u32::from(script.byte()), script.number().max(1));
    let ours = TransportParameters::one_stream(LONGEST_CHUNK, WINDOW);
    let config = Config {
        longest_chunk: OWN_CHUNK,
        send_buffer: SEND_BUFFER,
        max_unacknowledged: 1 + script.number() % (1 << 20),
        parameters: ours,
        side: Side::Initiator,
        outage_limit,
        linger,
    };
    let now = Instant::now();
    let mut end = End {
        session: Session::new(config, policy.build(), theirs),
        now,
        read: 0,
        longest: OWN_CHUNK.min(theirs.longest_chunk as usize),
        limit: theirs.window,
        failure: None,
        in_outage: false,
        stands_still: false,
    };
    end.session.lane_up(now, LaneTraits::default()).expect("the lane is the first");
    while let Some(step) = script.step() {
        end.step(step, &mut script);
        end.check();
    }
    while let Some(bytes) = end.session.read(end.now, StreamNumber::FIRST) {
        end.take(&bytes);
    }
}

struct End {
    session: Session,
    now: Instant,
    /// The number of bytes that the application has read.
    read: u64,
    /// The longest chunk that both ends take.
    longest: usize,
    /// The offset up to which the peer lets it send.
    limit: u64,
    failure: Option<Failure>,
    in_outage: bool,
    /// Whether the last event of its kind told of a standstill.
    stands_still: bool,
}

impl End {
    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let session = &mut self.session;
        let lanes: Vec<LaneId> = session.lanes().collect();
        let lane = lanes.get(usize::from(step >> 4) % lanes.len().max(1)).copied();
        match (step & 0xf, lane) {
            (0..=3, Some(lane)) => {
                let (offset, length, fin) = (script.number(), script.number() as u32, script.byte() == 7);
                self.data(lane, offset, length, fin);
            }
            (4 | 5, Some(lane)) => {
                let ack = Ack { chunks: script.number(), limit: script.number(), complete: script.byte() == 7 };
                if session.handle_ack(self.now, lane, &ack).is_ok() {
                    self.limit = self.limit.max(ack.limit);
                }
            }
            (6, _) => {
                let length = usize::from(script.byte()).min(session.writable_bytes(StreamNumber::FIRST));
                if !session.is_finished(StreamNumber::FIRST) && length > 0 {
                    session.write(self.now, StreamNumber::FIRST, Bytes::from(vec![1; length]));
                }
            }
            (7 | 8, Some(lane)) => self.transmit(lane),
            (9, _) => {
                if let Some(bytes) = session.read(self.now, StreamNumber::FIRST) {
                    self.take(&bytes);
                }
            }
            (10, _) => self.now += Duration::from_micros(script.number().min(1 << 32)),
            (11, _) => {
                let number = u16::from(script.byte() % 64);
                let rtt = script.flag().then(|| Duration::from_micros(script.number()));
                let _ = session.lane_up(self.now, LaneTraits { number, weight: u32::from(script.byte()), rtt });
            }
            (12, Some(lane)) => {
                let end =
                    [LaneEnd::Own, LaneEnd::ByPeer, LaneEnd::Lost, LaneEnd::Closed][usize::from(script.byte() % 4)];
                session.lane_down(self.now, lane, end);
            }
            (13, _) => session.finish(self.now, StreamNumber::FIRST),
            (14, lane) => self.seldom(lane, script),
            _ => {
                let woken: Vec<LaneId> = session.take_wakes().lanes().collect();
                woken.into_iter().filter(|lane| lanes.contains(lane)).for_each(|lane| self.transmit(lane));
            }
        }
    }

    fn seldom(&mut self, lane: Option<LaneId>, script: &mut Script<'_>) {
        let session = &mut self.session;
        match (script.byte(), lane) {
            (0, _) => session.handle_reset(self.now, ResetReason::Dropped),
            (1, _) => session.handle_reset(self.now, ResetReason::Violation),
            (2, _) => session.drop_application(self.now, u64::from(script.byte())),
            (3, Some(lane)) => session.leave(self.now, lane),
            (4, Some(lane)) => session.handle_leave(self.now, lane, script.flag()),
            (5, Some(lane)) => {
                let mut time = |most: u64| script.flag().then(|| Duration::from_micros(script.number().min(most)));
                let link = LinkSample { rtt: time(1 << 40), rtt_variation: time(1 << 40), min_rtt: time(1 << 40) };
                session.check_progress(self.now, lane, &link, time(u64::MAX));
                assert!(
                    session.lane_timeouts(lane).progress.is_none_or(|at| at > self.now),
                    "the lane's progress is checked without end"
                );
            }
            (6, Some(lane)) => session.link_down(self.now, lane),
            (7, Some(lane)) => session.link_up(self.now, lane),
            (8, _) => {
                self.now = session.poll_timeout().map_or(self.now, |at| at.max(self.now));
                session.handle_timeout(self.now);
                assert!(session.poll_timeout().is_none_or(|at| at > self.now), "a timeout is still due");
            }
            (9, _) => {
                let refused = if script.flag() { Refused::Stream } else { Refused::Connection };
                let (number, is_refused) = (u16::from(script.byte() % 64), script.flag());
                if script.flag() {
                    session.dialled(number);
                }
                session.dial_failed(self.now, number, is_refused.then_some(refused));
            }
            (11, _) => session.abort(self.now),
            (12, _) => drop(session.handle_stop(self.now, script.number())),
            (10, Some(lane)) => {
                self.now = session.lane_timeouts(lane).progress.map_or(self.now, |at| at.max(self.now));
            }
            _ => {}
        }
    }

    /// Takes a chunk as a lane does: no memory before the end has admitted the header.
    fn data(&mut self, lane: LaneId, offset: u64, length: u32, fin: bool) {
        let header = DataHeader { stream: StreamNumber::FIRST, offset, length, fin, checksum: 0 };
        if self.session.admit(self.now, &header).is_ok() {
            assert!(length <= LONGEST_CHUNK, "{header:?} was admitted");
            let payload: Vec<u8> = (0..u64::from(length)).map(|index| byte_at(offset.wrapping_add(index))).collect();
            drop(self.session.handle_data(self.now, lane, &header, payload.into()));
        }
    }

    fn transmit(&mut self, lane: LaneId) {
        for _ in 0..MAX_FRAMES {
            let mut control = Vec::new();
            match self.session.poll_transmit(self.now, lane, &mut control) {
                Transmit::Send(None) => assert!(!control.is_empty(), "a step that sends has nothing to send"),
                Transmit::Send(Some(chunk)) => {
                    assert!(chunk.length as usize <= self.longest, "{chunk:?} is too long");
                    assert!(chunk.offset + u64::from(chunk.length) <= self.limit, "{chunk:?} is beyond the window");
                }
                Transmit::Idle | Transmit::Close => return,
            }
            for frame in control.chunks(FRAME_LEN) {
                let frame: &[u8; FRAME_LEN] = frame.try_into().expect("control frames are of one length");
                assert!(Frame::decode(frame).is_ok());
            }
        }
        panic!("a lane sends without end");
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            assert_eq!(*byte, byte_at(self.read), "at offset {}", self.read);
            self.read += 1;
        }
    }

    fn check(&mut self) {
        let (written, consumed) = self.session.sent();
        assert!(consumed <= written);
        let (read, _) = self.session.received();
        assert_eq!(read, self.read);
        if self.failure.is_some() {
            assert_eq!(self.session.failure(), self.failure.as_ref(), "the end reports the first failure");
        }
        self.failure = self.session.failure().cloned();
        while let Some(event) = self.session.poll_event() {
            assert!(event.at <= self.now, "{event:?} has not happened yet");
            match event.kind {
                EventKind::Outage => assert!(!std::mem::replace(&mut self.in_outage, true)),
                EventKind::Resumed { .. } => assert!(std::mem::take(&mut self.in_outage)),
                EventKind::Standstill { .. } => self.stands_still = true,
                EventKind::Moved { .. } => assert!(std::mem::take(&mut self.stands_still)),
                _ => assert!(event.lane.is_some(), "{event:?} is about no lane"),
            }
        }
    }
}

/// The byte at an offset of the stream that the peer sends, the same in every chunk.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Hand-written scripts: a stream without faults, one whose lane is lost in the middle, one that is
/// reset, one that stands still for two seconds.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let begin = [0, 100, 100, 228, 0, 1, 0, 0];
    let write = [6, 250, 7];
    let data = |offset: u8, fin| [0, offset, 50, if fin { 7 } else { 0 }];
    let ack = |chunks, complete| [4, chunks, 228, 0, 1, 0, 0, if complete { 7 } else { 0 }];
    let well = [
        &begin[..],
        &write,
        &data(50, false),
        &data(0, false),
        &[9, 9],
        &data(100, true),
        &[9, 13, 7],
        &ack(3, true),
        &[15, 9, 7],
    ];
    let lost =
        [&begin[..], &[11, 0, 1], &write, &[0x17, 0x10, 0, 20, 0, 12, 10, 200, 0, 50, 15, 9], &ack(1, false), &[15]];
    let reset = [&begin[..], &write, &data(50, false), &[14, 1, 9, 7]];
    // The first lane leaves, the second stalls and is checked, then there is none until one joins, and
    // none again.
    let leaves = [
        &begin[..],
        &[11, 0, 1],
        &write,
        &[7, 14, 3, 7, 14, 4, 1],
        &ack(1, false),
        &[15, 12, 7, 10, 228, 0, 1, 0, 0, 14, 5, 50, 10, 1, 228, 0, 1, 0, 0, 14, 6, 14, 7],
        &[12, 14, 9, 11, 1, 200, 1, 0, 1, 15, 12, 14, 8, 9],
    ];
    let stands_still = [&begin[..], &write, &[7, 10, 228, 0, 0x20, 0, 0, 14, 8], &ack(1, false), &[14, 8]];
    vec![well.concat(), lost.concat(), reset.concat(), leaves.concat(), stands_still.concat()]
}

const WINDOW: u64 = 10_000;
const LONGEST_CHUNK: u32 = 1_000;
/// The longest chunk that the end sends.
const OWN_CHUNK: usize = 200;
const SEND_BUFFER: usize = 2_000;
/// More frames than a lane can send at once: as many chunks of one byte as may be in flight.
const MAX_FRAMES: usize = 1 << 17;
