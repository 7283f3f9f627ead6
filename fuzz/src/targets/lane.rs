//! Two lanes of a stream of messages against a peer that sends frames in any order, cut and
//! corrupted in any way, while both lanes may receive the same part.

use super::messages::{byte_of, chunk};
use crate::script::Script;
use bytes::Bytes;
use rails_multirail::Policy;
use rails_proto::{
    chunk::Priority,
    lane::{LaneError, LaneProtocol, Next, TransportSample},
    messages::{Delivery, next_of_packet},
    parameters::TransportParameters,
    session::{Config, LaneEnd, LaneId, LaneTraits, Session},
    stream_number::{Side, StreamNumber},
    wire::{Ack, DataHeader, Frame, ResetReason},
};
use std::{
    io,
    time::{Duration, Instant},
};

/// No input makes the end panic, hold more than its window, wait for a time that has passed, or
/// give the application a large message with a wrong byte.
pub(crate) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let parameters = TransportParameters::one_stream(1 << 16, WINDOW);
    let config = Config {
        longest_chunk: 1 << 16,
        send_buffer: 1 << 16,
        max_unacknowledged: WINDOW,
        parameters,
        side: Side::Initiator,
        outage_limit: Duration::from_secs(10),
        linger: Duration::from_secs(2),
    };
    let now = Instant::now();
    let mut session = Session::new(config, Policy::Adaptive.build(), parameters);
    if session.carry_messages(now, StreamNumber::FIRST).is_err() {
        return;
    }
    let lanes = [0, 1].map(|number| Lane::up(&mut session, now, number).expect("there are two"));
    let mut world = World { session, lanes, now, next: [0; Priority::LEVELS] };
    while let Some(step) = script.step() {
        world.step(step, &mut script);
        assert!(world.session.memory_held() <= WINDOW + WINDOW / 10, "{}", world.session.memory_held());
    }
}

struct World {
    session: Session,
    lanes: [Lane; 2],
    now: Instant,
    /// The number of the next message of each priority.
    next: [u64; Priority::LEVELS],
}

struct Lane {
    id: LaneId,
    number: u16,
    protocol: LaneProtocol<Vec<u8>>,
    arrived: Vec<u8>,
    is_closed: bool,
}

impl Lane {
    fn up(session: &mut Session, now: Instant, number: u16) -> Option<Self> {
        let id = session.lane_up(now, LaneTraits { number, ..LaneTraits::default() }).ok()?;
        let protocol = LaneProtocol::new(id, None, None);
        Some(Self { id, number, protocol, arrived: Vec::new(), is_closed: false })
    }
}

impl World {
    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let which = usize::from(step >> 7);
        let lane = &mut self.lanes[which];
        match step & 0xf {
            0..=3 => {
                let (offset, content, payload) = chunk(script);
                let payload = [Bytes::from(payload)];
                let announced = Frame::of_content(content).map(|frame| frame.encode()).into_iter().flatten();
                let header = DataHeader::of(StreamNumber::FIRST, offset, &payload, false);
                lane.arrived.extend(announced.chain(Frame::Data(header).encode()).chain(payload.concat()));
            }
            4 => {
                let frame = match script.byte() % 5 {
                    0 => Frame::Ack(Ack { chunks: script.number(), limit: script.number(), complete: script.flag() }),
                    1 => Frame::Leave { drained: script.flag() },
                    2 => Frame::Stop { read: script.number() },
                    3 => Frame::Reset(ResetReason::Dropped),
                    _ => Frame::Data(DataHeader::of(StreamNumber::FIRST, script.number(), &[], true)),
                };
                lane.arrived.extend(frame.encode());
            }
            5 => lane.arrived.extend(script.array::<32>()),
            6 => lane.arrived.truncate(script.number() as usize),
            7 => lane.is_closed = script.flag(),
            8 | 9 => self.receive(which, script.number() as usize),
            10 | 11 => self.transmit(which),
            12 => self.deliver(),
            13 if self.session.is_finished(StreamNumber::FIRST)
                || self.session.writable_bytes(StreamNumber::FIRST) == 0 => {}
            13 => self.session.send(
                self.now,
                StreamNumber::FIRST,
                Priority::default(),
                Bytes::from_static(b"a small message"),
            ),
            14 => self.now += Duration::from_micros(script.number().min(1 << 24)),
            _ => self.rare(script.byte()),
        }
        self.wake();
        self.end(which);
    }

    fn rare(&mut self, what: u8) {
        match what {
            0 => self.session.drop_application(self.now, 0),
            1 => self.session.abort(self.now),
            2 => self.session.leave(self.now, self.lanes[0].id),
            3 => self.session.abandon(self.now),
            _ => {
                self.session.handle_timeout(self.now);
                for lane in &mut self.lanes {
                    if lane.protocol.poll_timeout(&mut self.session).is_none_or(|at| at > self.now) {
                        continue;
                    }
                    lane.protocol.handle_timeout(self.now, &mut self.session, TransportSample::default);
                    let next = lane.protocol.poll_timeout(&mut self.session);
                    assert!(next.is_none_or(|at| at > self.now), "a lane waits for a time that has passed");
                }
            }
        }
    }

    /// Reads once, at most `most` bytes.
    fn receive(&mut self, which: usize, most: usize) {
        let Lane { protocol, arrived, is_closed, .. } = &mut self.lanes[which];
        protocol.receive(self.now, &mut self.session, |buffers| {
            if arrived.is_empty() || most == 0 {
                return if *is_closed { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            let mut count = 0;
            for buffer in buffers {
                let length = buffer.len().min(arrived.len()).min(most - count);
                buffer[..length].copy_from_slice(&arrived[..length]);
                arrived.drain(..length);
                count += length;
            }
            Ok(count)
        });
    }

    fn transmit(&mut self, which: usize) {
        let protocol = &mut self.lanes[which].protocol;
        let mut has_room = false;
        for _ in 0..MAX_FRAMES {
            match protocol.transmit(self.now, &mut self.session, std::mem::take(&mut has_room)) {
                Next::AwaitRoom => has_room = true,
                Next::Submit { .. } => {
                    let (control, payload) = protocol.outgoing();
                    let length = control.len() + payload.iter().map(Bytes::len).sum::<usize>();
                    protocol.submitted(length);
                }
                Next::Idle => return,
                Next::Close => return protocol.close_sending(Ok(())),
            }
        }
        panic!("a lane sends without end");
    }

    fn deliver(&mut self) {
        match self.session.receive(self.now, StreamNumber::FIRST) {
            Some(Delivery::Packet { priority, bytes: mut packet }) => {
                let whole = packet.len();
                while next_of_packet(&mut packet, whole).is_some() {
                    self.next[usize::from(priority.level())] += 1;
                }
            }
            Some(Delivery::Message { priority, bytes }) => {
                let number = self.next[usize::from(priority.level())];
                let same = bytes.iter().enumerate().all(|(at, byte)| *byte == byte_of(priority, number, at));
                assert!(same, "message {number} of {priority}");
                self.next[usize::from(priority.level())] += 1;
            }
            None => {}
        }
    }

    fn wake(&mut self) {
        let wakes = self.session.take_wakes();
        for lane in wakes.lanes() {
            self.lanes.iter_mut().filter(|known| known.id == lane).for_each(|known| known.protocol.wake());
        }
        while self.session.poll_event().is_some() {}
    }

    /// Dials a lane again if it has ended.
    fn end(&mut self, which: usize) {
        let lane = &mut self.lanes[which];
        lane.protocol.poll_timeout(&mut self.session);
        let Some(end) = lane.protocol.end() else { return };
        let end = end.as_ref().map_or_else(LaneError::end, |()| LaneEnd::Closed);
        self.session.lane_down(self.now, lane.id, end);
        if let Some(next) = Lane::up(&mut self.session, self.now, lane.number) {
            *lane = next;
        }
    }
}

/// A part on both lanes, in portions; and a part that is cut.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let part = [0, 1, 0, 0, 200, 16, 0, 0, 200, 16, 0];
    let on = |which: u8, step: u8| step | which << 7;
    let mut both = vec![0];
    for which in [0, 1] {
        both.push(on(which, 0));
        both.extend(&part[1..]);
    }
    for which in [0, 1, 0, 1, 0, 1] {
        both.extend([on(which, 8), 200, 4, 0, on(which, 10), 12]);
    }
    let cut = [&both[..20], &[7, 1, 8, 100, 8, 100, 15, 9]].concat();
    vec![both, cut]
}

const WINDOW: u64 = 1 << 20;
/// More frames than a lane sends at once.
const MAX_FRAMES: usize = 1_000;
