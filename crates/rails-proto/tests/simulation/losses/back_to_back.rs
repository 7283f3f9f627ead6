//! The two connections, and the lanes between them.

use super::{LONGEST_WRITE, Step, Story, log::Log};
use bytes::Bytes;
use rails_proto::{
    chunk::{Chunk, Content, Priority},
    messages::{Lent, MessageBuffer, Place},
    parameters::TransportParameters,
    session::{Config, LaneEnd, LaneId, LaneTraits, LinkSample, Session, Transmit},
    stream_number::{self, StreamNumber},
    wire::{DataHeader, FRAME_LEN, Frame},
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The sender, the peer, and the lanes between them.
pub(super) struct Pair {
    now: Instant,
    ends: [Session; 2],
    lines: Vec<Line>,
    sent: Log,
    received: Log,
    messages: bool,
}

/// A lane between the ends.
#[derive(Default)]
struct Line {
    /// The lane's slot at each end, while it is up there.
    ids: [Option<LaneId>; 2],
    /// The frames that wait to arrive, by sender.
    pipes: [VecDeque<Parcel>; 2],
    /// Whether the lane is broken: no more frames arrive.
    broken: bool,
    /// Whether each end has closed its sending side.
    closed: [bool; 2],
    /// The chunk of which a part has arrived at the peer, and its place.
    arriving: Option<(Chunk, Place)>,
}

enum Parcel {
    Chunk(Chunk),
    Control(Frame),
}

impl Pair {
    pub(super) fn new(story: &Story) -> Self {
        let Story { messages, policy, longest_chunk, window, lanes, .. } = *story;
        let parameters = TransportParameters::one_stream(longest_chunk as u32, window);
        let (send_buffer, outage_limit, linger) = (1 << 20, FOR_EVER, FOR_EVER);
        let config = Config {
            longest_chunk,
            send_buffer,
            max_unacknowledged: parameters.window,
            parameters,
            side: stream_number::Side::Initiator,
            outage_limit,
            linger,
        };
        let mut ends = [0, 1].map(|_| Session::new(config, policy.build(), parameters));
        let now = Instant::now();
        if messages {
            ends.iter_mut().for_each(|end| end.carry_messages(now, StreamNumber::FIRST).expect("nothing was written"));
        }
        ends[1].finish(now, StreamNumber::FIRST);
        let mut pair = Self { now, ends, lines: Vec::new(), sent: Log::default(), received: Log::default(), messages };
        pair.lines.resize_with(lanes, Line::default);
        (0..lanes).for_each(|lane| pair.join(lane));
        pair
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Write { length, level } => self.write(length, level),
            Step::Finish => self.ends[0].finish(self.now, StreamNumber::FIRST),
            Step::Send { lane, chunks } => self.send(lane, chunks),
            Step::Exchange { lane, chunks, microseconds } => self.exchange(lane, chunks, microseconds),
            Step::Answer { lane } => {
                self.transmit(lane, 1);
            }
            Step::Deliver { lane, frames, part } => {
                let _ = (0..frames).take_while(|_| self.deliver(lane)).count();
                if part {
                    self.deliver_part(lane);
                }
            }
            Step::Hear { lane } => {
                self.hear(lane);
            }
            Step::Read => self.read(),
            Step::Wait { microseconds } => self.now += Duration::from_micros(microseconds),
            Step::Stall { lane } => self.stall(lane),
            Step::Restore { lane } => self.restore(lane),
            Step::Flap { lane, other, chunks } => {
                self.stall(lane);
                self.send(other, chunks);
                self.restore(lane);
            }
            Step::Lose { lane, end } => self.lose(lane, end),
            Step::Join { lane } => self.join(lane),
            Step::Retire { lane, end } => {
                if let Some(id) = self.lines[lane].ids[end] {
                    self.ends[end].leave(self.now, id);
                }
            }
        }
        self.check();
    }

    /// Checks the invariants after every step.
    fn check(&mut self) {
        for end in &mut self.ends {
            assert_eq!(end.failure(), None);
            let _ = end.take_wakes();
            while end.poll_event().is_some() {}
        }
        if self.ends[0].is_sent() {
            self.read();
            assert!(
                self.ends[1].is_read(StreamNumber::FIRST),
                "complete, but the peer lacks bytes: {:?}",
                self.ends[0]
            );
        }
    }

    fn write(&mut self, length: usize, level: u8) {
        let sender = &mut self.ends[0];
        if sender.is_finished(StreamNumber::FIRST) || sender.writable_bytes(StreamNumber::FIRST) == 0 {
            return;
        }
        if self.messages {
            // Messages of the four lower priorities are small.
            let length = if level < 4 { length % 2_000 } else { length };
            let length = length.min(sender.longest_message().0 as usize);
            let priority = Priority::new(level).expect("there are eight");
            sender.send(self.now, StreamNumber::FIRST, priority, self.sent.send(priority, length));
        } else {
            let length = length.min(sender.writable_bytes(StreamNumber::FIRST));
            sender.write(self.now, StreamNumber::FIRST, self.sent.write(length));
        }
    }

    fn send(&mut self, lane: usize, chunks: usize) {
        let _ = (0..chunks).take_while(|_| self.transmit(lane, 0)).count();
    }

    fn exchange(&mut self, lane: usize, chunks: usize, microseconds: u64) {
        self.write(LONGEST_WRITE, 4);
        self.send(lane, chunks);
        while self.deliver(lane) {}
        self.read();
        self.now += Duration::from_micros(microseconds);
        while self.transmit(lane, 1) {}
        while self.hear(lane) {}
    }

    /// Sends once. Returns whether there was anything to send.
    fn transmit(&mut self, lane: usize, end: usize) -> bool {
        let line = &mut self.lines[lane];
        let Some(id) = line.ids[end].filter(|_| !line.closed[end]) else { return false };
        let mut control = Vec::new();
        let chunk = match self.ends[end].poll_transmit(self.now, id, &mut control) {
            Transmit::Send(chunk) => chunk,
            Transmit::Idle => return false,
            Transmit::Close => {
                line.closed[end] = true;
                return false;
            }
        };
        if !line.broken {
            for frame in control.chunks_exact(FRAME_LEN) {
                let frame = Frame::decode(frame.try_into().expect("a frame has this length"));
                line.pipes[end].push_back(Parcel::Control(frame.expect("an honest end sends frames")));
            }
            line.pipes[end].extend(chunk.map(Parcel::Chunk));
        }
        true
    }

    /// The next frame of the sender arrives at the peer, if there is one.
    fn deliver(&mut self, lane: usize) -> bool {
        let line = &mut self.lines[lane];
        let Some(id) = line.ids[1] else { return false };
        match line.arriving.take() {
            Some((chunk, place)) => self.take_in(id, chunk, Some(place)),
            None => match line.pipes[0].pop_front() {
                None => return false,
                Some(Parcel::Chunk(chunk)) => self.take_in(id, chunk, None),
                Some(Parcel::Control(frame)) => self.control(1, id, frame),
            },
        }
        self.close(lane);
        true
    }

    /// Half of the next chunk arrives.
    fn deliver_part(&mut self, lane: usize) {
        let line = &mut self.lines[lane];
        let Some(id) = line.ids[1].filter(|_| line.arriving.is_none()) else { return };
        if !matches!(line.pipes[0].front(), Some(Parcel::Chunk(_))) {
            return;
        }
        let Some(Parcel::Chunk(chunk)) = line.pipes[0].pop_front() else { return };
        let peer = &mut self.ends[1];
        let place = admit(self.now, peer, id, &chunk);
        let (half, header) = (chunk.length as usize / 2, header(&chunk));
        if place == Place::Message
            && let Lent::Piece(mut piece) = peer.lend(id, &header)
        {
            piece[..half].copy_from_slice(&whole(&chunk)[..half]);
            peer.give_back(self.now, id, &header, piece, half).expect("an honest end breaks no rule");
        }
        self.lines[lane].arriving = Some((chunk, place));
    }

    /// A chunk has arrived whole.
    fn take_in(&mut self, id: LaneId, chunk: Chunk, place: Option<Place>) {
        let peer = &mut self.ends[1];
        let place = place.unwrap_or_else(|| admit(self.now, peer, id, &chunk));
        let (header, payload) = (header(&chunk), whole(&chunk));
        let taken = match (place, chunk.content) {
            (Place::Message, content) => match peer.lend(id, &header) {
                Lent::Piece(mut piece) => {
                    piece.copy_from_slice(&payload);
                    peer.handle_part(self.now, id, &header, piece)
                }
                Lent::Own(_) => peer.handle_content(self.now, id, &header, &content, payload),
            },
            (_, Content::Bytes) => peer.handle_data(self.now, id, &header, payload),
            (_, content) => peer.handle_content(self.now, id, &header, &content, payload),
        };
        taken.expect("an honest end breaks no rule");
    }

    /// The next frame of the peer arrives at the sender, if there is one.
    fn hear(&mut self, lane: usize) -> bool {
        let line = &mut self.lines[lane];
        let Some(id) = line.ids[0] else { return false };
        match line.pipes[1].pop_front() {
            None => return false,
            Some(Parcel::Control(frame)) => self.control(0, id, frame),
            Some(Parcel::Chunk(chunk)) => {
                assert!(chunk.length == 0 && chunk.fin, "the peer has nothing to send but the end");
                let taken = self.ends[0].handle_data(self.now, id, &header(&chunk), Bytes::new());
                taken.expect("an honest end breaks no rule");
            }
        }
        self.close(lane);
        true
    }

    fn control(&mut self, end: usize, id: LaneId, frame: Frame) {
        let end = &mut self.ends[end];
        match frame {
            Frame::Ack(ack) => end.handle_ack(self.now, id, &ack).expect("an honest end's acknowledgement is right"),
            Frame::Leave { drained } => end.handle_leave(self.now, id, drained),
            frame => panic!("no end sends {frame:?}"),
        }
    }

    /// A lane that both ends have closed ends once everything has arrived.
    fn close(&mut self, lane: usize) {
        let line = &self.lines[lane];
        if line.closed == [true; 2] && line.pipes.iter().all(VecDeque::is_empty) {
            (0..2).for_each(|end| self.lose(lane, end));
        }
    }

    fn read(&mut self) {
        let peer = &mut self.ends[1];
        while let Some(bytes) = if self.messages { None } else { peer.read(self.now, StreamNumber::FIRST) } {
            self.received.read(&bytes);
        }
        while let Some(delivery) = if self.messages { peer.receive(self.now, StreamNumber::FIRST) } else { None } {
            self.received.receive(delivery);
        }
    }

    fn stall(&mut self, lane: usize) {
        if let Some(id) = self.lines[lane].ids[0] {
            self.ends[0].link_down(self.now, id);
        }
    }

    fn restore(&mut self, lane: usize) {
        if let Some(id) = self.lines[lane].ids[0] {
            self.ends[0].link_up(self.now, id);
            self.ends[0].check_progress(self.now, id, &WELL, None);
        }
    }

    fn lose(&mut self, lane: usize, end: usize) {
        let line = &mut self.lines[lane];
        line.broken = true;
        line.pipes.iter_mut().for_each(VecDeque::clear);
        line.arriving = line.arriving.take().filter(|_| end == 0);
        if let Some(id) = line.ids[end].take() {
            self.ends[end].lane_down(self.now, id, LaneEnd::Lost);
        }
    }

    fn join(&mut self, lane: usize) {
        let is_up = |line: &Line| !line.broken && line.ids.iter().all(Option::is_some);
        if is_up(&self.lines[lane]) {
            return;
        }
        (0..2).for_each(|end| self.lose(lane, end));
        let traits =
            LaneTraits { number: lane as u16, weight: 1 + lane as u32, rtt: Some(Duration::from_micros(100 << lane)) };
        let ids = [1, 0].map(|end: usize| self.ends[end].lane_up(self.now, traits).ok());
        self.lines[lane] = Line { ids: [ids[1], ids[0]], ..Line::default() };
    }

    /// Runs the stream to its end without further losses.
    pub(super) fn come_to_the_end(&mut self) {
        self.ends[0].finish(self.now, StreamNumber::FIRST);
        for _ in 0..MAX_ROUNDS {
            if self.ends.iter().all(Session::is_done) {
                break;
            }
            for lane in 0..self.lines.len() {
                self.join(lane);
                self.restore(lane);
                while self.transmit(lane, 0) {}
                while self.deliver(lane) {}
                self.read();
                while self.transmit(lane, 1) {}
                while self.hear(lane) {}
                self.close(lane);
            }
            self.check();
            self.now += Duration::from_millis(10);
        }
        assert!(self.ends.iter().all(Session::is_done), "no progress over healthy lanes: {:?}", self.ends);
        self.read();
        assert_eq!(self.received, self.sent);
    }
}

fn admit(now: Instant, peer: &mut Session, id: LaneId, chunk: &Chunk) -> Place {
    let header = header(chunk);
    if chunk.content == Content::Bytes {
        peer.admit(now, &header).expect("an honest end stays inside the window");
        return Place::Own;
    }
    let mut spare = None;
    loop {
        let place = peer.admit_content(now, id, &header, &chunk.content, &mut spare);
        match place.expect("an honest end stays inside the window") {
            Place::NeedsBuffer(length) => spare = Some(MessageBuffer::zeroed(length)),
            place => return place,
        }
    }
}

/// The header has no checksum: only the drivers check it.
fn header(chunk: &Chunk) -> DataHeader {
    DataHeader { stream: StreamNumber::FIRST, offset: chunk.offset, length: chunk.length, fin: chunk.fin, checksum: 0 }
}

fn whole(chunk: &Chunk) -> Bytes {
    match &chunk.payload[..] {
        [bytes] => bytes.clone(),
        several => several.concat().into(),
    }
}

/// The sample of a lane whose transport reports no problem.
const WELL: LinkSample = LinkSample { rtt: Some(ROUND_TRIP), rtt_variation: None, min_rtt: Some(ROUND_TRIP) };
const ROUND_TRIP: Duration = Duration::from_micros(200);
const FOR_EVER: Duration = Duration::from_secs(1 << 20);
/// A window of chunks of 16 KiB, several times over.
const MAX_ROUNDS: usize = 1_000;
