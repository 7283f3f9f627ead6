//! Which bytes a free lane takes next, and which come back when a lane is lost or falls silent.

mod check;
mod estimate;
mod lane;
mod outstanding;
mod pending;
mod probe;
mod reinject;
mod reissued;
mod requeued;
mod waiting;

pub(super) use lane::ACK_DELAY;
pub use lane::LaneTraits;
pub use reissued::{ByteCount, Reissued};

use crate::{
    chunk::{Chunk, Priority},
    parameters::{MOST_KEPT, most_chunks},
    policy::{LaneView, SchedulerView, StripePolicy},
    violation::Violation,
    wire::Ack,
};
use bytes::Bytes;
use lane::{Lane, Transmission};
use outstanding::Outstanding;
use std::time::{Duration, Instant};
use waiting::Waiting;

/// The sending side of one direction of a stream.
///
/// Bytes wait in it until a lane has room ([`Scheduler::take`]) and the [policy](super::policy) gives it some of them; then they are in flight
/// on that lane until the peer acknowledges them ([`Scheduler::handle_ack`]) or the lane is lost ([`Scheduler::lane_lost`])
/// or silent ([`Scheduler::silence`]), in which case they are the first to be taken by another.
///
/// A slow lane must not hold up the fast ones, be it at the end of the stream or because the window is full behind its
/// chunk. So a lane sends a chunk once more that another has in flight: where nothing else waits, if it will have it there
/// sooner, going by how long chunks took on either lane before; and at once where that chunk is overdue and the first that the
/// peer waits for. The peer drops what comes second.
///
/// It never lets out more than the peer's window, so that what it keeps is bounded
/// by that window and its own buffer.
#[derive(Debug)]
pub struct Scheduler {
    policy: Box<dyn StripePolicy>,
    longest_chunk: usize,
    buffer: usize,
    /// The peer's window, by which a limit tells what it has read.
    window: u64,
    /// The offset that must not be passed.
    limit: u64,
    pending: Waiting,
    /// Which lane holds which of the bytes that were sent and are not known to be delivered.
    outstanding: Outstanding,
    lanes: Vec<Lane>,
    /// How the lanes stand, as the policy sees them, and the last time that was told.
    standings: Vec<LaneView>,
    now: Option<Instant>,
    /// Everything below has been read by the peer.
    consumed: u64,
    /// What was given to a lane more than once.
    reissued: Reissued,
    /// The peer reads no more, and so many of the bytes that were written no lane will be given.
    abandoned: Option<u64>,
}

impl Scheduler {
    /// Shares out bytes by `policy` in chunks of at most `longest_chunk` bytes, keeps at most `buffer` bytes that no lane has
    /// taken, and starts with the peer's `window`.
    pub fn new(policy: Box<dyn StripePolicy>, longest_chunk: usize, buffer: usize, window: u64) -> Self {
        Self {
            policy,
            longest_chunk: longest_chunk.max(1),
            buffer,
            window,
            limit: window.min(MOST_KEPT),
            pending: Waiting::default(),
            outstanding: Outstanding::default(),
            lanes: Vec::new(),
            standings: Vec::new(),
            now: None,
            consumed: 0,
            reissued: Reissued::default(),
            abandoned: None,
        }
    }

    /// How many bytes may be written now.
    pub fn room(&self) -> usize {
        if self.is_finished() { 0 } else { self.buffer.saturating_sub(self.pending.bytes()) }
    }

    /// Whether there is so much room that a writer who waits for it is worth a wake: a quarter of the buffer.
    pub fn has_much_room(&self) -> bool {
        self.room() >= self.buffer / 4
    }

    /// Takes bytes to send, all of them: the caller asks for [`Scheduler::room`] first.
    ///
    /// # Panics
    /// After [`Scheduler::finish`].
    pub fn write(&mut self, bytes: Bytes) {
        self.pending.write(bytes);
    }

    /// From here on there are messages to send; not where something was written or finished before.
    pub fn carry_messages(&mut self) -> bool {
        self.pending.carry_messages(self.longest_chunk, self.window)
    }

    /// Takes a message to send; it waits behind more urgent ones.
    ///
    /// # Panics
    /// Where the stream carries bytes, and after [`Scheduler::finish`].
    pub fn send(&mut self, priority: Priority, message: Bytes) {
        self.pending.send(priority, message);
    }

    /// The peer's window, and the longest chunk that both ends take.
    pub(crate) fn bounds(&self) -> (u64, usize) {
        (self.window, self.longest_chunk)
    }

    /// No more bytes will be written.
    pub fn finish(&mut self) {
        self.pending.finish();
    }

    /// The peer has read up to the offset `read` and reads no more: nothing more is sent. Gives how many of the bytes that were written it has not read.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] where it cannot have read so much.
    pub fn give_up(&mut self, read: u64) -> Result<u64, Violation> {
        let sent = self.pending.next();
        if read > sent {
            return Err(Violation::NeverSent { acknowledged: read, sent });
        }
        self.consumed = self.consumed.max(read);
        let abandoned = self.pending.give_up();
        self.abandoned = Some(abandoned);
        self.outstanding.clear();
        self.lanes.iter_mut().for_each(Lane::forget_in_flight);
        self.check();
        Ok(sent + abandoned - read)
    }

    /// Whether [`Scheduler::finish`] was called.
    pub fn is_finished(&self) -> bool {
        self.pending.is_finished()
    }

    /// Whether the peer has every byte, and knows that there are no more.
    pub fn is_complete(&self) -> bool {
        self.abandoned.is_none() && self.pending.is_end_cut() && self.outstanding.is_empty()
    }

    /// How many bytes have been written.
    pub fn bytes_written(&self) -> u64 {
        self.pending.next() + self.pending.bytes() as u64 + self.abandoned.unwrap_or(0)
    }

    /// How many bytes the peer has read, as far as this end knows.
    pub fn bytes_consumed(&self) -> u64 {
        self.consumed
    }

    /// How many bytes were given to a lane more than once: those of lost and silent lanes, and those that were taken over from slow ones.
    pub fn bytes_sent_again(&self) -> u64 {
        self.reissued.total().bytes
    }

    /// The same by cause, with the chunks.
    pub fn reissued(&self) -> Reissued {
        self.reissued
    }

    /// What lane number `lane` was given of that since it joined.
    pub fn reissued_by(&self, lane: usize) -> Reissued {
        self.lanes[lane].reissued
    }

    /// How many bytes wait to be taken by a lane for the first time.
    pub fn bytes_waiting(&self) -> usize {
        self.pending.bytes()
    }

    /// How much of the peer's window is in use, as far as this end knows.
    pub fn window_used(&self) -> u64 {
        self.pending.next() - self.consumed
    }

    /// Lane number `lane` has joined.
    pub fn lane_up(&mut self, lane: usize, traits: LaneTraits) {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
            self.standings.resize_with(lane + 1, LaneView::default);
        }
        self.lanes[lane] = Lane { up: true, weight: traits.weight, rtt: traits.rtt, ..Lane::default() };
    }

    /// Lane number `lane` is lost: what it had and the peer is not known to have is for the others.
    pub fn lane_lost(&mut self, lane: usize) {
        self.lanes[lane] = Lane::default();
        self.outstanding.lose(lane, self.heard());
        self.check();
    }

    /// Lane number `lane` has fallen silent: what it has is for the others too, and it is given nothing until an acknowledgement comes on
    /// it or [`Scheduler::restore`] says that it is well.
    pub fn silence(&mut self, lane: usize) {
        self.lanes[lane].silent = true;
        self.outstanding.release(lane, self.heard());
        self.check();
    }

    /// Lane number `lane` is no longer silent: what no other lane has taken meanwhile is on its way still. What was known of its speed is not believed any more.
    pub fn restore(&mut self, lane: usize) {
        let state = &mut self.lanes[lane];
        state.silent = false;
        (state.rate, state.service, state.service_at_least) = Default::default();
        self.outstanding.resume(lane);
        self.check();
    }

    /// Lane number `lane` is to be given nothing more; what it has stays with it.
    pub fn retire(&mut self, lane: usize) {
        self.lanes[lane].retired = true;
    }

    /// Lane number `lane` stands idle: it will ask as soon as it is woken.
    pub fn set_resting(&mut self, now: Instant, lane: usize) {
        let lane = &mut self.lanes[lane];
        (lane.resting, lane.rested_at) = (true, Some(now));
    }

    /// Whether lane number `lane` may be given something: it is up, and neither silent nor retired.
    pub fn is_usable(&self, lane: usize) -> bool {
        self.lanes[lane].is_usable()
    }

    /// Whether lane number `lane` is silent.
    pub fn is_silent(&self, lane: usize) -> bool {
        self.lanes[lane].silent
    }

    /// The round trip of lane number `lane`, as the driver measured it. The least is kept: the others met queues.
    pub fn observe_rtt(&mut self, lane: usize, rtt: Duration) {
        let lane = &mut self.lanes[lane];
        lane.rtt = Some(lane.rtt.map_or(rtt, |known| known.min(rtt)));
    }

    /// How lane number `lane` stands.
    pub fn lane_view(&self, lane: usize) -> LaneView {
        self.lanes[lane].lane_view(self.now)
    }

    /// When lane number `lane` last made progress: an acknowledgement came, or it was given something while it had nothing. `None`
    /// while it has nothing in flight.
    pub fn progress_at(&self, lane: usize) -> Option<Instant> {
        let lane = &self.lanes[lane];
        let oldest = lane.in_flight.front()?.taken;
        Some(lane.acknowledged_at.map_or(oldest, |at| at.max(oldest)))
    }

    /// How many lanes could be kept busy by what waits. An estimate from above: a lane that asks may still be given none.
    pub fn waiting(&self) -> usize {
        let ready = self.pending.ready(self.limit).filter(|_| self.may_keep_more());
        self.outstanding.returned_size().0 + ready.map_or(0, |ready| ready.div_ceil(self.longest_chunk).max(1))
    }

    /// Whether lane number `lane` would be given something that waits, had it room now.
    pub fn wants(&mut self, lane: usize) -> bool {
        if !self.lanes[lane].is_usable() || self.is_overfull(lane) {
            return false;
        }
        self.look_at_lanes();
        let requeued = self.outstanding.requeued().any(|segment| self.may_return_to(segment, lane));
        requeued || self.share(lane).is_some()
    }

    /// The next chunk for a lane that has room, if there is one. It is in flight on that lane from here on.
    pub fn take(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        debug_assert!(self.lanes[lane].up, "a lane that is down asks for nothing");
        self.now = self.now.max(Some(now));
        self.lanes[lane].resting = false;
        if !self.lanes[lane].is_usable() || self.is_overfull(lane) || !self.has_anything_for(lane) {
            return None;
        }
        self.look_at_lanes();
        let mut reissued = Reissued::default();
        let chunk = if let Some(chunk) = self.take_returned(lane) {
            reissued.requeued.add(chunk.length.into());
            chunk
        } else if let Some(chunk) = self.reinject_overdue(now, lane) {
            reissued.reinjected.add(chunk.length.into());
            chunk
        } else if let Some(chunk) = self.cut(lane) {
            chunk
        } else {
            let chunk = self.reinject_slower(now, lane)?;
            reissued.reinjected.add(chunk.length.into());
            chunk
        };
        self.reissued += reissued;
        self.lanes[lane].reissued += reissued;
        self.lanes[lane].put(Transmission::of(&chunk, now));
        self.check();
        Some(chunk)
    }

    /// Whether there is anything that `lane` might be given: most of the time a lane that asks again has just taken the last of it.
    fn has_anything_for(&self, lane: usize) -> bool {
        let others =
            || self.lanes.iter().enumerate().any(|(other, state)| other != lane && !state.in_flight.is_empty());
        self.outstanding.returned_size().0 > 0 || self.pending.ready(self.limit).is_some() || others()
    }

    /// The longest chunk that `lane` is given, which may follow how fast it is.
    pub fn chunk_length(&mut self, lane: usize) -> usize {
        self.look_at_lanes();
        self.policy.longest_chunk(&self.offer(0), lane).clamp(1, self.longest_chunk)
    }

    /// Takes an acknowledgement that came on `lane`.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] where it speaks of what was not sent.
    pub fn handle_ack(&mut self, now: Instant, lane: usize, ack: &Ack) -> Result<(), Violation> {
        self.now = self.now.max(Some(now));
        let sent = self.lanes[lane].first + self.lanes[lane].in_flight.len() as u64;
        let never_sent = || Violation::NeverSent { acknowledged: ack.chunks, sent };
        let consumed = ack.limit.saturating_sub(self.window);
        if ack.chunks > sent || consumed > self.pending.next() || ack.complete && !self.pending.is_end_cut() {
            return Err(never_sent());
        }
        self.limit = self.limit.max(ack.limit.min(consumed.saturating_add(MOST_KEPT)));
        self.consumed = self.consumed.max(consumed);
        let answers = self.lanes[lane].silent && ack.chunks > self.lanes[lane].first;
        self.lanes[lane].observe(now, ack.chunks);
        while let Some(sent) = self.lanes[lane].pop_before(ack.chunks) {
            self.outstanding.deliver(sent.range());
        }
        if ack.complete {
            self.outstanding.clear();
            self.lanes.iter_mut().for_each(Lane::forget_in_flight);
        } else {
            for (number, state) in self.lanes.iter_mut().enumerate() {
                state.settle(now, number, self.consumed, &self.outstanding);
            }
            self.outstanding.deliver_below(self.consumed);
        }
        if answers {
            self.restore(lane);
        }
        self.check();
        Ok(())
    }

    /// How many bytes were given to lanes and are not known to have arrived.
    pub fn bytes_unacknowledged(&self) -> u64 {
        self.outstanding.bytes()
    }

    /// How many chunks are in flight on `lane`.
    pub fn in_flight_chunks(&self, lane: usize) -> usize {
        self.lanes[lane].in_flight.len()
    }

    /// How many of the bytes in flight on `lane` the peer is not known to have from elsewhere.
    pub fn at_risk(&self, lane: usize) -> u64 {
        self.outstanding.bytes_carried_by(lane)
    }

    /// How many bytes are in flight on `lane`.
    pub fn in_flight(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(0, |lane| lane.bytes)
    }

    /// Cuts a new chunk for `lane` from what waits.
    fn cut(&mut self, lane: usize) -> Option<Chunk> {
        let most = self.share(lane)?.clamp(1, self.longest_chunk);
        let chunk = self.pending.cut(self.limit, most)?;
        self.policy.took(lane, chunk.length as usize);
        self.outstanding.send(chunk.clone(), lane);
        Some(chunk)
    }

    /// What the policy gives `lane` of what waits.
    fn share(&self, lane: usize) -> Option<usize> {
        let waiting = self.pending.ready(self.limit).filter(|_| self.may_keep_more())?;
        self.policy.share(&self.offer(waiting), lane)
    }

    fn offer(&self, waiting: usize) -> SchedulerView<'_> {
        SchedulerView { waiting, longest_chunk: self.longest_chunk, lanes: &self.standings }
    }

    fn look_at_lanes(&mut self) {
        for (lane_view, lane) in self.standings.iter_mut().zip(&self.lanes) {
            *lane_view = lane.lane_view(self.now);
        }
    }

    /// Whether a lane has so many chunks to carry that it is given no more, be they there by other lanes or not: each is remembered.
    fn is_overfull(&self, lane: usize) -> bool {
        self.lanes[lane].in_flight.len() >= most_chunks(self.window)
    }

    /// Whether so few chunks are kept until they are acknowledged that there may be one more. Tiny chunks cost more memory than they have
    /// bytes, at either end; where the window is full of chunks of two kibibytes, this does not bind.
    fn may_keep_more(&self) -> bool {
        self.outstanding.len() < most_chunks(self.window)
    }

    /// The lanes that may answer for what they carry.
    fn heard(&self) -> u64 {
        let heard = self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_heard());
        heard.fold(0, |lanes, (lane, _)| lanes | bit(lane))
    }
}

/// A lane in a set of lanes; a stream has at most 64.
fn bit(lane: usize) -> u64 {
    1 << lane
}

#[cfg(test)]
mod tests;
