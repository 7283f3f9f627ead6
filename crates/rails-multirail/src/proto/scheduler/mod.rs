//! Which bytes a free lane takes next, and which come back when a lane is lost.

mod lane;

use super::{reassembler::Violation, wire::Ack};
use bytes::{Bytes, BytesMut};
use lane::{InFlight, LEAST_GAIN, Lane};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// How the bytes of a stream are shared out among its lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Late binding: a lane with room takes the next chunk, so that each lane carries what it can. A lane that has nothing else to
    /// do takes over what a much slower one is still busy with.
    #[default]
    Adaptive,
    /// Equal shares, chunk by chunk in turn, whatever the lanes can carry: the static striping of the paper
    /// (section II.A). It is as slow as its slowest lane, and here to be compared with.
    Static,
}

/// Some of a stream's bytes, to be sent on one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where its first byte belongs in the stream.
    pub offset: u64,
    /// Its bytes, in slices as they were written.
    pub payload: Vec<Bytes>,
    /// Its length in bytes.
    pub length: u32,
    /// The stream ends behind it.
    pub fin: bool,
}

/// The sending side of one direction of a stream.
///
/// Bytes wait in it until a lane has room ([`Scheduler::take`]); then they are in flight on that lane until the other end
/// acknowledges them ([`Scheduler::handle_ack`]) or the lane is lost ([`Scheduler::lane_lost`]), in which case they are the
/// first to be taken by another.
///
/// A slow lane must not hold up the fast ones, be it at the end of the stream or because the window is full behind its
/// chunk. So a lane for which nothing waits sends a chunk once more that another has in flight, if it will have it there
/// sooner, going by how long chunks took on either lane before; the other end drops what comes second.
///
/// It never lets out more than the other end's window, so that what it keeps is bounded
/// by that window and its own buffer.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    longest_chunk: usize,
    buffer: usize,
    /// The other end's window, by which a limit tells what it has read.
    window: u64,
    /// The offset that must not be passed.
    limit: u64,
    /// Bytes that no lane has been given, from `next` on.
    pending: VecDeque<Bytes>,
    /// Small writes that come behind those, copied together: each for itself would cost more memory than it has bytes.
    gathered: BytesMut,
    /// Bytes of both.
    pending_bytes: usize,
    next: u64,
    /// Bytes dealt to lanes that have not taken them yet.
    dealt_bytes: usize,
    /// No more bytes will be written.
    finished: bool,
    /// The end has been given to a lane.
    fin_taken: bool,
    /// Chunks of lost lanes, by offset.
    returned: BTreeMap<u64, Returned>,
    lanes: Vec<Lane>,
    /// Whose turn it is under [`Policy::Static`], and how many bytes of its stripe are left.
    turn: usize,
    stripe_left: usize,
    /// Everything below has been read by the other end.
    consumed: u64,
    /// Bytes that were given to a lane more than once.
    sent_again: u64,
    /// The other end has all of the stream.
    complete: bool,
}

/// A chunk of a lane that was lost.
#[derive(Debug)]
struct Returned {
    chunk: Chunk,
    /// The lane had sent some of it, perhaps all.
    sent: bool,
}

impl Scheduler {
    /// Shares out bytes by `policy` in chunks of at most `longest_chunk` bytes, keeps at most `buffer` bytes that no lane has
    /// taken, and starts with the other end's `window`.
    pub fn new(policy: Policy, longest_chunk: usize, buffer: usize, window: u64) -> Self {
        Self {
            policy,
            longest_chunk: longest_chunk.max(1),
            buffer,
            window,
            limit: window.min(MOST_KEPT),
            pending: VecDeque::new(),
            gathered: BytesMut::new(),
            pending_bytes: 0,
            next: 0,
            dealt_bytes: 0,
            finished: false,
            fin_taken: false,
            returned: BTreeMap::new(),
            lanes: Vec::new(),
            turn: 0,
            stripe_left: longest_chunk.max(1),
            consumed: 0,
            sent_again: 0,
            complete: false,
        }
    }

    /// How many bytes may be written now.
    pub fn room(&self) -> usize {
        if self.finished { 0 } else { self.buffer.saturating_sub(self.pending_bytes + self.dealt_bytes) }
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
        assert!(!self.finished, "nothing is written to a stream that was finished");
        self.pending_bytes += bytes.len();
        if bytes.len() < SMALL {
            if self.gathered.len() + bytes.len() > GATHERED {
                self.end_gathering();
            }
            self.gathered.extend_from_slice(&bytes);
        } else {
            self.end_gathering();
            self.pending.push_back(bytes);
        }
    }

    fn end_gathering(&mut self) {
        if !self.gathered.is_empty() {
            self.pending.push_back(self.gathered.split().freeze());
        }
    }

    /// No more bytes will be written.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether [`Scheduler::finish`] was called.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether the other end has every byte, and knows that there are no more.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// How many bytes have been written.
    pub fn bytes_written(&self) -> u64 {
        self.next + self.pending_bytes as u64
    }

    /// How many bytes the other end has read, as far as this end knows.
    pub fn bytes_consumed(&self) -> u64 {
        self.consumed
    }

    /// How many bytes were given to a lane more than once: those of lost lanes, and those that were taken over from slow ones.
    pub fn bytes_sent_again(&self) -> u64 {
        self.sent_again
    }

    /// Lane number `lane` has joined.
    pub fn lane_up(&mut self, lane: usize) {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        self.lanes[lane] = Lane { up: true, ..Lane::default() };
    }

    /// Lane number `lane` is lost: what it had and the other end is not known to have is for the others.
    pub fn lane_lost(&mut self, lane: usize) {
        let lost = std::mem::take(&mut self.lanes[lane]);
        self.dealt_bytes -= lost.dealt.iter().map(|chunk| chunk.length as usize).sum::<usize>();
        if self.complete {
            return;
        }
        let sent = lost.in_flight.into_iter().map(|sent| Returned { chunk: sent.chunk, sent: true });
        let dealt = lost.dealt.into_iter().map(|chunk| Returned { chunk, sent: false });
        for returned in sent.chain(dealt) {
            if !returned.chunk.is_known_below(self.consumed) {
                self.returned.insert(returned.chunk.offset, returned);
            }
        }
    }

    /// How many lanes could be kept busy by what waits. An estimate from above: a lane that asks may still be given none.
    pub fn waiting(&self) -> usize {
        let ready = (self.limit - self.next).min(self.pending_bytes as u64) as usize;
        let cuttable = if self.can_cut() { ready.div_ceil(self.longest_chunk).max(1) } else { 0 };
        let dealt = self.lanes.iter().filter(|lane| !lane.dealt.is_empty()).count();
        let ready = self.returned.len() + cuttable + dealt;
        // Under the static policy it matters which lane asks, so all of them are to.
        if self.policy == Policy::Static && ready > 0 { self.lanes.len() } else { ready }
    }

    /// The next chunk for a lane that has room, if there is one. It is in flight on that lane from here on.
    pub fn take(&mut self, now: Instant, lane: usize) -> Option<Chunk> {
        debug_assert!(self.lanes[lane].up, "a lane that is down asks for nothing");
        let (chunk, again, carriers) = match (self.returned.pop_first(), self.policy) {
            (Some((_, Returned { chunk, sent })), _) => (chunk, sent, 0),
            (None, Policy::Adaptive) => match self.cut(self.chunk_length(lane)) {
                Some(chunk) => (chunk, false, 0),
                None => {
                    let (chunk, carriers) = self.take_over(now, lane)?;
                    (chunk, true, carriers)
                }
            },
            (None, Policy::Static) => {
                self.deal();
                let chunk = self.lanes[lane].dealt.pop_front()?;
                self.dealt_bytes -= chunk.length as usize;
                (chunk, false, 0)
            }
        };
        self.sent_again += if again { u64::from(chunk.length) } else { 0 };
        let carriers = carriers | bit(lane);
        self.lanes[lane].in_flight.push_back(InFlight { chunk: chunk.clone(), taken: now, passed_on: false, carriers });
        Some(chunk)
    }

    /// The longest chunk that `lane` is given: what it carries in a few milliseconds, so that a slow lane holds the stream up for no longer
    /// than a fast one, within bounds.
    pub fn chunk_length(&self, lane: usize) -> usize {
        let of_rate = |rate: f64| (rate * CHUNK_TIME.as_secs_f64()) as usize;
        let wanted = match self.policy {
            Policy::Adaptive => self.lanes[lane].rate.map_or(FIRST_CHUNK, of_rate),
            Policy::Static => self.longest_chunk,
        };
        wanted.max(SHORTEST_CHUNK).min(self.longest_chunk)
    }

    /// When a lane for which nothing waits should ask again, for what another is overdue with.
    pub fn ask_again_at(&self, lane: usize) -> Option<Instant> {
        if self.policy == Policy::Static || self.complete {
            return None;
        }
        let own = self.lanes[lane].service;
        self.others_oldest(lane).map(|(carrier, index)| self.lanes[carrier].overdue_at(index, own)).min()
    }

    /// When the oldest chunk that `lane` has in flight and no other has taken over will have taken so long that another should take it over.
    pub fn overdue_at(&self, lane: usize) -> Option<Instant> {
        if self.policy == Policy::Static {
            return None;
        }
        let lane = &self.lanes[lane];
        lane.in_flight.iter().position(|sent| !sent.passed_on).map(|index| lane.overdue_at(index, None))
    }

    /// Whether the last chunk that `lane` was given is one that it took over.
    pub fn has_taken_over(&self, lane: usize) -> bool {
        self.lanes[lane].in_flight.back().is_some_and(|sent| sent.carriers != bit(lane))
    }

    /// Takes an acknowledgement that came on `lane`.
    ///
    /// # Errors
    /// [`Violation::NeverSent`] where it speaks of what was not sent.
    pub fn handle_ack(&mut self, now: Instant, lane: usize, ack: &Ack) -> Result<(), Violation> {
        let sent = self.lanes[lane].first + self.lanes[lane].in_flight.len() as u64;
        let never_sent = || Violation::NeverSent { acknowledged: ack.chunks, sent };
        let consumed = ack.limit.saturating_sub(self.window);
        if ack.chunks > sent || consumed > self.next || ack.complete && !self.fin_taken {
            return Err(never_sent());
        }
        self.limit = self.limit.max(ack.limit.min(consumed.saturating_add(MOST_KEPT)));
        self.consumed = self.consumed.max(consumed);
        if ack.complete {
            self.complete = true;
            self.returned.clear();
            self.lanes.iter_mut().for_each(|lane| lane.release(now, u64::MAX, 0));
        } else {
            self.lanes[lane].observe(now, ack.chunks);
            self.lanes[lane].release(now, ack.chunks, self.consumed);
            let consumed = self.consumed;
            self.lanes.iter_mut().for_each(|lane| lane.release(now, 0, consumed));
            // They lie in order and do not overlap, so that an acknowledgement costs no look at those that stay.
            while self.returned.first_entry().is_some_and(|first| first.get().chunk.is_known_below(consumed)) {
                self.returned.pop_first();
            }
            let settled = self.lanes.iter().all(|lane| lane.in_flight.is_empty() && lane.dealt.is_empty());
            self.complete = self.fin_taken && self.returned.is_empty() && settled;
        }
        Ok(())
    }

    /// How many bytes are in flight on `lane`.
    pub fn in_flight(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(0, |lane| lane.in_flight.iter().map(|sent| u64::from(sent.chunk.length)).sum())
    }

    /// Whether a chunk could be cut from what waits.
    fn can_cut(&self) -> bool {
        if self.chunks_kept() >= self.most_chunks() {
            return false;
        }
        if self.pending_bytes > 0 { self.next < self.limit } else { self.finished && !self.fin_taken }
    }

    /// How many chunks are kept until they are acknowledged.
    fn chunks_kept(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| lane.in_flight.len() + lane.dealt.len());
        self.returned.len() + lanes.sum::<usize>()
    }

    /// How many may be. Tiny chunks cost more memory than they have bytes, at either end; where the window is full of chunks
    /// of a kibibyte, this does not bind.
    fn most_chunks(&self) -> usize {
        (self.window.min(MOST_KEPT) >> 10).max(1 << 13) as usize
    }

    /// Cuts the next chunk, of at most `most` bytes, from what waits.
    fn cut(&mut self, most: usize) -> Option<Chunk> {
        if !self.can_cut() {
            return None;
        }
        let allowed = (self.limit - self.next).min(most as u64) as usize;
        let mut payload = Vec::new();
        let mut length = 0;
        while length < allowed && payload.len() < MOST_SLICES {
            if self.pending.is_empty() {
                self.end_gathering();
            }
            let Some(front) = self.pending.front_mut() else { break };
            let slice = if front.len() <= allowed - length {
                self.pending.pop_front().expect("it was just seen")
            } else {
                front.split_to(allowed - length)
            };
            length += slice.len();
            payload.push(slice);
        }
        let offset = self.next;
        self.next += length as u64;
        self.pending_bytes -= length;
        let fin = self.finished && self.pending_bytes == 0;
        self.fin_taken |= fin;
        Some(Chunk { offset, payload, length: length as u32, fin })
    }

    /// The chunk of lowest offset that another lane has in flight and `lane` would have there sooner.
    fn take_over(&mut self, now: Instant, lane: usize) -> Option<(Chunk, u64)> {
        let own = self.lanes[lane].service;
        let slower = |(carrier, index): &(usize, usize)| {
            let (carrier, sent) = (&self.lanes[*carrier], &self.lanes[*carrier].in_flight[*index]);
            let age = now.saturating_duration_since(sent.taken);
            let sooner =
                own.zip(carrier.expected(now)).is_some_and(|(own, theirs)| age + 2 * own + LEAST_GAIN < theirs);
            sooner || now >= carrier.overdue_at(*index, own)
        };
        let offset = |(carrier, index): &(usize, usize)| self.lanes[*carrier].in_flight[*index].chunk.offset;
        let (carrier, index) = self.others_oldest(lane).filter(slower).min_by_key(offset)?;
        let sent = &mut self.lanes[carrier].in_flight[index];
        sent.passed_on = true;
        Some((sent.chunk.clone(), sent.carriers))
    }

    /// Of each lane but `lane`, the oldest chunk that was not passed on and that `lane` has not had.
    fn others_oldest(&self, lane: usize) -> impl Iterator<Item = (usize, usize)> {
        let others = self.lanes.iter().enumerate().filter(move |(index, _)| *index != lane);
        let is_new = move |sent: &InFlight| !sent.passed_on && sent.carriers & bit(lane) == 0;
        others.filter_map(move |(index, other)| Some((index, other.in_flight.iter().position(is_new)?)))
    }

    /// Gives each lane in turn an equal share of what waits: stripes of the longest chunk's length. One that was not written
    /// whole may go out in several chunks, all of them on the one lane.
    fn deal(&mut self) {
        while self.can_cut()
            && let Some(lane) = self.next_in_turn()
        {
            if lane != self.turn % self.lanes.len() {
                (self.turn, self.stripe_left) = (lane, self.longest_chunk);
            }
            // What does not fill its stripe waits for more, unless its lane would stand idle without it.
            let full = self.pending_bytes >= self.stripe_left || self.finished;
            if !full && !self.lanes[lane].dealt.is_empty() {
                break;
            }
            let Some(chunk) = self.cut(self.stripe_left) else { break };
            self.dealt_bytes += chunk.length as usize;
            self.stripe_left -= chunk.length as usize;
            self.lanes[lane].dealt.push_back(chunk);
            if self.stripe_left == 0 {
                (self.turn, self.stripe_left) = (lane + 1, self.longest_chunk);
            }
        }
    }

    /// The lane that comes next under [`Policy::Static`].
    fn next_in_turn(&self) -> Option<usize> {
        let count = self.lanes.len();
        (0..count).map(|step| (self.turn + step) % count).find(|lane| self.lanes[*lane].up)
    }
}

impl Chunk {
    /// Whether the other end has it for certain, having read everything below `consumed`. That the stream ends is not
    /// read, so the chunk that says it has to be acknowledged itself.
    fn is_known_below(&self, consumed: u64) -> bool {
        self.offset + u64::from(self.length) <= consumed && !self.fin
    }
}

/// A lane in a set of lanes; a stream has at most 64.
fn bit(lane: usize) -> u64 {
    1 << lane
}

/// Writes below this many bytes are copied together.
const SMALL: usize = 4 << 10;
/// How many bytes are copied together at most.
const GATHERED: usize = 64 << 10;
/// How long a lane should be busy with a chunk. At 400 Mbit/s that is 240 KiB.
const CHUNK_TIME: Duration = Duration::from_millis(5);
/// A chunk on a lane whose rate is not known yet, in bytes.
const FIRST_CHUNK: usize = 64 << 10;
/// Below this many bytes the cost of a chunk outweighs what is gained: it is 11 packets of 1,500 bytes.
const SHORTEST_CHUNK: usize = 16 << 10;
/// The most bytes that are kept for the other end, whatever window it claims: the largest that can be set.
const MOST_KEPT: u64 = 1 << 30;
/// The most slices a chunk is made of: one `writev` takes them all (the kernel takes 1,024, `IOV_MAX`).
const MOST_SLICES: usize = 64;

#[cfg(test)]
mod tests;
