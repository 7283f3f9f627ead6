//! A session of many streams: they are opened and accepted, end early, get credit, and are
//! forgotten.

use super::{
    Failure, LaneId, Session, StreamWake,
    datagrams::{Datagrams, LONGEST_DATAGRAM},
    numbers::{Named, Numbers},
    receive_stream::ReceiveStream,
};
use crate::{
    chunk::{Chunk, ChunkKind},
    control::{self, MAX_RECORDS, RECORD_LEN, Record, Subject},
    mutation::{self, Mutation},
    parameters::StreamParameters,
    stream_number::{Direction, Side, StreamNumber},
    violation::Violation,
    wire::{DataHeader, LONGEST_REASON},
};
use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use std::time::{Duration, Instant};

/// The state that only a session of many streams has.
#[derive(Debug)]
pub(super) struct Many {
    numbers: Numbers,
    /// The first windows of streams: this end's, and the peer's.
    our_window: u64,
    pub(super) their_window: u64,
    /// Datagrams to send, and those that have arrived.
    pub(super) outgoing: Datagrams,
    incoming: Datagrams,
    wakes: SmallVec<[StreamWake; 2]>,
    /// The lanes, as a set, that have not acknowledged what had arrived before the application
    /// dropped the session.
    owing: u64,
    /// Streams that this end has opened, and whose handles were both dropped before the peer's end
    /// came. Some of them may have come to it since.
    left: Vec<StreamNumber>,
}

/// The streams that an end has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Those of which a direction has not come to its end.
    pub open: u64,
    /// How many more the peer lets it open now.
    pub available: u64,
}

impl Many {
    /// The state of that side, with the parameters of both ends.
    pub(super) fn new(side: Side, ours: StreamParameters, theirs: StreamParameters) -> Box<Self> {
        let limits = |parameters: StreamParameters| [parameters.max_bi, parameters.max_uni];
        Box::new(Self {
            numbers: Numbers::new(side, limits(ours), limits(theirs)),
            our_window: ours.window,
            their_window: theirs.window,
            outgoing: Datagrams::default(),
            incoming: Datagrams::default(),
            wakes: SmallVec::new(),
            owing: 0,
            left: Vec::new(),
        })
    }

    /// Whether this end sends in a stream, and whether it receives in it.
    fn directions(&self, stream: StreamNumber) -> (bool, bool) {
        let (is_bi, is_own) = (stream.direction() == Direction::Bi, stream.side() == self.numbers.side());
        (is_bi || is_own, is_bi || !is_own)
    }
}

impl Session {
    // The application's side.

    /// Whether the session has many streams.
    pub fn has_many(&self) -> bool {
        self.many.is_some()
    }

    /// Opens a stream. The peer learns of it with its first chunk. `None` if the peer allows no
    /// more streams yet ([`Wakes::open`](super::Wakes::open) tells when it does), or the
    /// session has one stream only.
    pub fn open(&mut self, direction: Direction) -> Option<StreamNumber> {
        let numbers = &mut self.many.as_mut()?.numbers;
        let Some(stream) = numbers.open(direction) else {
            if numbers.asks(direction) {
                self.scheduler.tell(Subject::Blocked(direction), 0);
                self.lanes.wake_any(&self.scheduler);
            }
            self.stop_left();
            return None;
        };
        self.begin(stream);
        Some(stream)
    }

    /// The peer's next stream, in the order of their numbers. `None` if there is none yet.
    pub fn accept(&mut self, direction: Direction) -> Option<StreamNumber> {
        self.many.as_mut()?.numbers.accept(direction)
    }

    /// Lets the peer have that many streams open at a time.
    pub fn set_max_streams(&mut self, now: Instant, direction: Direction, max: u64) {
        if self.many.as_mut().is_some_and(|many| many.numbers.set_concurrent(direction, max)) {
            self.tell(now, Subject::Streams(direction), 0);
        }
    }

    /// Resets the sending side of a stream: bytes that the peer does not have are lost, and its
    /// reads fail with the code.
    pub fn reset(&mut self, now: Instant, stream: StreamNumber, code: u64) {
        self.cut_short(now, stream, code, false);
    }

    /// Reads no more of a stream, and has the peer reset it with the code.
    pub fn stop(&mut self, now: Instant, stream: StreamNumber, code: u64) {
        if self.receiving.act(stream, ReceiveStream::stop) == Some(true) {
            self.tell(now, Subject::Stop(stream), code);
        }
        self.tell_limit(now);
        self.observe_application(now);
    }

    /// Whether every byte and the end of a stream have arrived: the peer can reset it no more.
    pub fn is_received(&self, stream: StreamNumber) -> bool {
        let is_received = |stream: &ReceiveStream| stream.is_complete() && stream.reset_code().is_none();
        self.receiving.get(stream).is_some_and(is_received)
    }

    /// The streams that this end has opened in that direction. `None` of a session with one stream.
    pub fn opened(&self, direction: Direction) -> Option<Opened> {
        let numbers = &self.many.as_ref()?.numbers;
        let is_own = |stream: &StreamNumber| stream.side() == numbers.side() && stream.direction() == direction;
        let is_sending = |stream: &StreamNumber| !self.is_send_settled(*stream);
        let is_receiving = |stream: &StreamNumber| self.receiving.get(*stream).is_some_and(|stream| !stream.is_over());
        let sending = self.scheduler.streams().numbers().filter(is_own).filter(is_sending);
        let only_receiving =
            self.receiving.numbers().filter(is_own).filter(is_receiving).filter(|stream| !is_sending(stream));
        let open = (sending.count() + only_receiving.count()) as u64;
        Some(Opened { open, available: numbers.available(direction) })
    }

    /// Sets the urgency of a stream, 0 at first: of two streams with something to send, that with
    /// the greater value goes first.
    pub fn set_urgency(&mut self, stream: StreamNumber, urgency: i32) {
        self.scheduler.set_urgency(stream, urgency);
    }

    /// The urgency of a stream.
    pub fn urgency(&self, stream: StreamNumber) -> i32 {
        self.scheduler.streams().get(stream).map_or(0, |stream| stream.urgency())
    }

    /// Whether the peer has every byte and the end of a stream, or this end has reset it and the
    /// peer knows.
    pub fn is_send_settled(&self, stream: StreamNumber) -> bool {
        self.scheduler.streams().get(stream).is_none() || self.scheduler.buffer().is_settled(stream)
    }

    /// Whether the peer has closed the session, and a lane may still bring acknowledgements that
    /// the close on another lane has overtaken.
    pub fn may_still_settle(&self) -> bool {
        matches!(self.failure(), Some(Failure::ClosedByPeer { .. })) && self.lanes.is_any_up()
    }

    /// The application drops its handle of a stream's sending side, which is finished by that.
    pub fn release_sending(&mut self, now: Instant, stream: StreamNumber) {
        if self.scheduler.streams().get(stream).is_some_and(|stream| !stream.is_cut_short())
            && !self.is_finished(stream)
        {
            self.finish(now, stream);
        }
        self.scheduler.release(stream);
        self.note_left(stream);
        self.forget(now, stream);
    }

    /// The application drops its handle of a stream's receiving side. The stream is stopped with
    /// code 0 as soon as bytes are there that nobody reads, or this end needs the place of the
    /// stream, whose other handle was dropped too. Until then, a peer that sends nothing more can
    /// end its direction as usual.
    pub fn release_receiving(&mut self, now: Instant, stream: StreamNumber) {
        self.receiving.act(stream, ReceiveStream::release);
        self.stop_unread(now, stream);
        self.note_left(stream);
        self.forget(now, stream);
    }

    /// Stops a stream without a handle that has bytes.
    pub(super) fn stop_unread(&mut self, now: Instant, stream: StreamNumber) {
        if self.receiving.get(stream).is_some_and(ReceiveStream::is_unread) {
            self.stop(now, stream, 0);
        }
    }

    /// Notes a stream of this end whose handles were both dropped, and of which the peer's end has
    /// not come.
    fn note_left(&mut self, stream: StreamNumber) {
        let receiving = &self.receiving;
        let is_left = |stream: &StreamNumber| receiving.get(*stream).is_some_and(ReceiveStream::is_left);
        let is_written = self.scheduler.streams().get(stream).is_some_and(|stream| !stream.is_released());
        let Some(many) = self.many.as_mut().filter(|many| stream.side() == many.numbers.side()) else { return };
        if is_written || !is_left(&stream) {
            return;
        }
        // Nearly all of the others have come to their end.
        if many.left.len() >= FEW_LEFT && many.left.len().is_power_of_two() {
            many.left.retain(is_left);
        }
        many.left.push(stream);
        if many.numbers.available(stream.direction()) == 0 {
            self.stop_left();
        }
    }

    /// Stops the streams of this end without handles: their places are needed.
    fn stop_left(&mut self) {
        let Some(left) = self.many.as_mut().map(|many| std::mem::take(&mut many.left)) else { return };
        for stream in left {
            if self.receiving.act(stream, ReceiveStream::stop) == Some(true) {
                self.scheduler.tell(Subject::Stop(stream), 0);
                self.lanes.wake_any(&self.scheduler);
            }
        }
    }

    /// Sends a datagram of at most [`LONGEST_DATAGRAM`] bytes. It may be dropped: if too many wait,
    /// or with its lane.
    pub fn send_datagram(&mut self, datagram: Bytes) {
        debug_assert!(datagram.len() <= LONGEST_DATAGRAM);
        if let Some(many) = &mut self.many {
            many.outgoing.push(datagram);
            self.lanes.wake_any(&self.scheduler);
        }
    }

    /// The oldest datagram that has arrived.
    pub fn read_datagram(&mut self) -> Option<Bytes> {
        self.many.as_mut()?.incoming.pop()
    }

    /// Closes the session at both ends, with a code and a reason of at most [`LONGEST_REASON`]
    /// bytes. All that was not delivered is lost.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        if !self.is_over() {
            let reason = reason.slice(..reason.len().min(LONGEST_REASON));
            self.fail(now, Failure::Closed { code, reason });
        }
    }

    /// Takes the tasks to wake that wait for a stream, if [`Wakes::streams`](super::Wakes::streams)
    /// says that there are any.
    pub fn take_stream_wakes(&mut self) -> SmallVec<[StreamWake; 2]> {
        self.many.as_mut().map_or_else(SmallVec::new, |many| std::mem::take(&mut many.wakes))
    }

    // The lanes' side.

    /// Checks the header of a control chunk, a datagram or a close.
    ///
    /// # Errors
    /// [`Violation`]; the session has failed with it.
    pub fn admit_special(&mut self, now: Instant, header: &DataHeader, kind: ChunkKind) -> Result<(), Violation> {
        let longest = match kind {
            ChunkKind::Control => MAX_RECORDS * RECORD_LEN,
            ChunkKind::Close { .. } => LONGEST_REASON,
            _ => LONGEST_DATAGRAM,
        } as u32;
        let length = header.length;
        let admitted = match () {
            () if self.many.is_none() => Err(Violation::Kind),
            () if length > longest => Err(Violation::TooLong { length, longest }),
            () => Ok(()),
        };
        self.or_fail(now, admitted)
    }

    /// Takes a chunk of control records that has arrived on `lane`.
    ///
    /// # Errors
    /// [`Violation`]; the session has failed with it.
    pub fn handle_control(&mut self, now: Instant, lane: LaneId, payload: &[u8]) -> Result<(), Violation> {
        if self.has_failed() {
            return Ok(());
        }
        let handled = control::decode(payload)
            .and_then(|records| records.into_iter().try_for_each(|record| self.handle_record(now, record)));
        self.or_fail(now, handled)?;
        self.lanes.arrived(now, lane, payload.len() as u32, self.receiving.window());
        self.lanes.wake_for_limit(self.receiving.limit(), self.receiving.window());
        self.has_moved(now, now);
        self.wake_for_work(now);
        self.observe(now);
        Ok(())
    }

    fn handle_record(&mut self, now: Instant, record: Record) -> Result<(), Violation> {
        let Record { subject, value, code } = record;
        match subject {
            Subject::Limit(stream) => {
                self.name_for(now, stream, |sends, _| sends)?;
                self.scheduler.extend(stream, value);
            }
            Subject::Streams(direction) => {
                let many = self.many.as_mut().ok_or(Violation::Kind)?;
                self.wakes.open |= many.numbers.may_open(direction, value);
            }
            Subject::Blocked(direction) => {
                let many = self.many.as_mut().ok_or(Violation::Kind)?;
                many.numbers.claim(direction, value)?;
                if many.numbers.is_news(direction) {
                    self.tell(now, Subject::Streams(direction), 0);
                }
            }
            Subject::Reset(stream) => {
                self.name_for(now, stream, |_, receives| receives)?;
                self.receiving.take(stream, |stream| stream.reset(code, value))?;
                self.wake_reader(stream);
                self.forget(now, stream);
            }
            Subject::Stop(stream) => {
                self.name_for(now, stream, |sends, _| sends)?;
                self.cut_short(now, stream, code, true);
                self.wake_writer(stream);
            }
        }
        Ok(())
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, datagram: Bytes) {
        if let Some(many) = self.many.as_mut().filter(|_| self.ending.failure().is_none()) {
            many.incoming.push(datagram);
            self.wakes.datagrams = true;
        }
    }

    /// The peer has closed the session.
    pub fn handle_close(&mut self, now: Instant, code: u64, reason: Bytes) {
        if !self.is_over() {
            self.fail(now, Failure::ClosedByPeer { code, reason });
        }
    }

    // Parts of other calls.

    /// A frame with bytes names a stream, and may open it.
    ///
    /// # Errors
    /// [`Violation`] if the peer may not send in the stream.
    pub(super) fn name(&mut self, now: Instant, stream: StreamNumber) -> Result<(), Violation> {
        if self.many.is_none() {
            return if stream == StreamNumber::FIRST { Ok(()) } else { Err(Violation::Stream { stream }) };
        }
        self.name_for(now, stream, |_, receives| receives)
    }

    /// As [`name`](Self::name), for a frame of a stream in whose directions the frame makes sense.
    fn name_for(
        &mut self,
        now: Instant,
        stream: StreamNumber,
        fits: impl FnOnce(bool, bool) -> bool,
    ) -> Result<(), Violation> {
        let many = self.many.as_mut().ok_or(Violation::Kind)?;
        let (sends, receives) = many.directions(stream);
        if !fits(sends, receives) {
            return Err(Violation::Stream { stream });
        }
        if let Named::Opened { from, to } = many.numbers.name(stream)? {
            let is_news = many.numbers.is_news(stream.direction());
            (from..to).for_each(|index| self.begin(StreamNumber::new(stream.side(), stream.direction(), index)));
            self.wakes.accept = true;
            if is_news {
                self.tell(now, Subject::Streams(stream.direction()), 0);
            }
        }
        Ok(())
    }

    /// A stream begins.
    fn begin(&mut self, stream: StreamNumber) {
        let Some(many) = &self.many else { return };
        let (sends, receives) = many.directions(stream);
        if sends {
            self.scheduler.open(stream, many.their_window);
        }
        if receives {
            self.receiving.open(stream, many.our_window);
        }
    }

    fn cut_short(&mut self, now: Instant, stream: StreamNumber, code: u64, is_by_peer: bool) {
        let is_open = self.scheduler.streams().get(stream).is_some_and(|stream| !stream.is_cut_short());
        if is_open && !self.scheduler.buffer().is_complete(stream) {
            self.scheduler.reset(stream, code, is_by_peer);
            self.note_settled(now);
            self.lanes.wake_all();
            self.observe_application(now);
        }
    }

    /// Has lanes send a control record, with the application's code or 0.
    fn tell(&mut self, now: Instant, subject: Subject, code: u64) {
        self.scheduler.tell(subject, code);
        self.wake_for_work(now);
    }

    /// Lanes tell the peer how much it may send in all streams together, once that is worth it.
    pub(super) fn tell_limit(&mut self, now: Instant) {
        self.lanes.wake_for_limit(self.receiving.limit(), self.receiving.window());
        if self.many.is_some() {
            self.lanes.owe_limit(now, self.receiving.limit(), self.receiving.arrived());
        }
    }

    /// The application has read some of a stream.
    pub(super) fn has_made_room(&mut self, now: Instant, stream: StreamNumber) {
        if self.receiving.get(stream).is_some_and(ReceiveStream::needs_limit_update) {
            self.tell(now, Subject::Limit(stream), 0);
        }
        self.forget(now, stream);
    }

    /// A lane has taken a chunk: gives control records their newest values, and wakes a writer.
    pub(super) fn note_taken(&mut self, now: Instant, chunk: &mut Chunk) {
        if self.many.is_none() {
            return;
        }
        if chunk.kind == ChunkKind::Control {
            let records = control::decode(&chunk.payload.concat()).unwrap_or_default();
            chunk.payload = smallvec![control::encode(records.into_iter().map(|record| self.renew(now, record)))];
        } else if self.scheduler.streams().unsent(chunk.stream).is_some_and(|unsent| unsent.has_made_room(chunk.length))
            && !mutation::has(Mutation::RoomWakesNobody)
        {
            self.wake_writer(chunk.stream);
        }
    }

    /// The control record with the value of now. Its code is that of the application's call: the
    /// stream may be forgotten meanwhile.
    fn renew(&mut self, now: Instant, record: Record) -> Record {
        let value = match record.subject {
            Subject::Limit(stream) => {
                let soon = SOON.max(4 * self.lanes.longest_round_trip(&self.scheduler));
                let max = self.receiving.window();
                self.receiving.act(stream, |stream| stream.tell_limit(now, soon, max)).unwrap_or(0)
            }
            Subject::Streams(direction) => self.many.as_mut().map_or(0, |many| many.numbers.tell(direction)),
            Subject::Reset(stream) => self.scheduler.streams().unsent(stream).map_or(0, |unsent| {
                if mutation::has(Mutation::ResetAtWritten) { unsent.bytes_written() } else { unsent.next() }
            }),
            Subject::Stop(_) => 0,
            Subject::Blocked(direction) => self.many.as_ref().map_or(0, |many| many.numbers.opened(direction)),
        };
        Record { value, ..record }
    }

    /// Notes the streams of which the peer has got everything, and the control records that it has
    /// got.
    pub(super) fn note_settled(&mut self, now: Instant) {
        let settled = self.scheduler.take_settled();
        if self.many.is_none() {
            return;
        }
        for payload in settled.control {
            for Record { subject, .. } in control::decode(&payload).unwrap_or_default() {
                if let Subject::Reset(stream) = subject {
                    self.scheduler.reset_is_known(stream);
                    self.wake_writer(stream);
                    self.forget(now, stream);
                }
            }
        }
        for stream in settled.streams {
            if self.scheduler.buffer().is_complete(stream) {
                self.wake_writer(stream);
            }
            self.forget(now, stream);
        }
        self.close_if_delivered(now);
    }

    /// Forgets the sides of a stream that need nothing more.
    pub(super) fn forget(&mut self, now: Instant, stream: StreamNumber) {
        let (sending, receiving) = (self.scheduler.forget(stream), self.receiving.forget(stream));
        let is_gone = self.scheduler.streams().get(stream).is_none() && self.receiving.get(stream).is_none();
        if (sending || receiving) && is_gone && self.many.as_mut().is_some_and(|many| many.numbers.close(stream)) {
            self.tell(now, Subject::Streams(stream.direction()), 0);
        }
    }

    /// The application has dropped the session, which closes once its peer has all that was
    /// written, and knows what had arrived here: the peer waits for that with its own streams. What
    /// came on a lane that has stalled the peer sends again on another, and nobody waits for it.
    pub(super) fn close_when_delivered(&mut self, now: Instant) {
        let owe = |lane: &LaneId| self.lanes[*lane].acknowledger().has_unacknowledged() && !self.is_stalled(*lane);
        let owing = self.lanes().filter(owe).fold(0, |set, lane| set | 1 << lane.0);
        if let Some(many) = &mut self.many {
            many.owing = owing;
        }
        self.close_if_delivered(now);
    }

    /// The lane has acknowledged what had arrived on it, has stalled or has ended.
    pub(super) fn owes_no_acknowledgement(&mut self, lane: LaneId) {
        if let Some(many) = &mut self.many {
            many.owing &= !(1 << lane.0);
        }
    }

    /// Closes a session that the application has dropped, if its peer has and knows everything.
    pub(super) fn close_if_delivered(&mut self, now: Instant) {
        let owes_nothing = self.many.as_ref().is_some_and(|many| many.owing == 0) && !self.owes_streams();
        if self.ending.is_dropped() && owes_nothing {
            self.close(now, 0, Bytes::new());
        }
    }

    /// Whether the peer lacks anything of a stream or of the control records. A stream may wait for
    /// credit, with nothing that a lane could take.
    pub(super) fn owes_streams(&self) -> bool {
        self.awaits_sending() || self.scheduler.streams().bytes() > 0
    }

    pub(super) fn wake_reader(&mut self, stream: StreamNumber) {
        self.wake_task(stream, true);
    }

    fn wake_writer(&mut self, stream: StreamNumber) {
        self.wake_task(stream, false);
    }

    fn wake_task(&mut self, stream: StreamNumber, is_reader: bool) {
        let Some(many) = &mut self.many else {
            self.wakes.reader |= is_reader;
            self.wakes.writer |= !is_reader;
            return;
        };
        self.wakes.streams = true;
        match many.wakes.last_mut().filter(|last| last.stream == stream) {
            Some(last) if is_reader => last.reader = true,
            Some(last) => last.writer = true,
            None => many.wakes.push(StreamWake { stream, reader: is_reader, writer: !is_reader }),
        }
    }

    /// Wakes every task that waits for the session.
    pub(super) fn wake_all_tasks(&mut self) {
        let Some(many) = &mut self.many else { return };
        let sending = self.scheduler.streams().numbers();
        many.wakes =
            self.receiving.numbers().map(|stream| StreamWake { stream, reader: true, writer: false }).collect();
        many.wakes.extend(sending.map(|stream| StreamWake { stream, reader: false, writer: true }));
        (self.wakes.streams, self.wakes.accept, self.wakes.open, self.wakes.datagrams) = (true, true, true, true);
    }
}

/// A window whose last quarter was read within this time, or within four round trips, is worth
/// doubling: the stream may have waited for credit.
const SOON: Duration = Duration::from_millis(100);

/// The number of streams without handles below which this end does not look for those that have
/// come to their end.
const FEW_LEFT: usize = 64;
