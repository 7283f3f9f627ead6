//! Which bytes a free lane takes next, and which come back when a lane is lost.

use super::{reassembler::Violation, wire::Ack};
use bytes::{Bytes, BytesMut};
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

#[derive(Debug, Default)]
struct Lane {
    up: bool,
    /// Chunks given to this lane, oldest first; the first of them was the lane's `first`-th.
    in_flight: VecDeque<InFlight>,
    first: u64,
    /// How long a chunk takes on this lane from being taken to being acknowledged, smoothed.
    service: Option<Duration>,
    /// That was not seen to the end: chunks take longer.
    service_is_least: bool,
    /// Bytes per second that were acknowledged while there was something to acknowledge, smoothed.
    rate: Option<f64>,
    /// When the last news of an acknowledgement came.
    acknowledged_at: Option<Instant>,
    /// Chunks dealt to this lane that it has not taken yet ([`Policy::Static`]).
    dealt: VecDeque<Chunk>,
}

#[derive(Debug)]
struct InFlight {
    chunk: Chunk,
    taken: Instant,
    /// Another lane has taken it over, and is the one to be watched.
    passed_on: bool,
    /// The lanes that it was on when this one took it, and this one: none of them takes it again.
    carriers: u64,
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

impl Lane {
    /// Notes how long the last of the first `chunks` took and how fast they went, if there is news of them.
    fn observe(&mut self, now: Instant, chunks: u64) {
        let news = chunks.saturating_sub(self.first) as usize;
        let Some(newest) = news.checked_sub(1).and_then(|index| self.in_flight.get(index)) else { return };
        let took = now.saturating_duration_since(newest.taken);
        // The lane was busy with these since the first of them was taken, or since those before it were acknowledged.
        let bytes: u64 = self.in_flight.iter().take(news).map(|sent| u64::from(sent.chunk.length)).sum();
        let since = self.acknowledged_at.map_or(self.in_flight[0].taken, |at| at.max(self.in_flight[0].taken));
        let time = now.saturating_duration_since(since).max(SHORTEST_SAMPLE);
        let rate = bytes as f64 / time.as_secs_f64();
        // A quarter for the newest: a lane that has slowed down is known for it within a few acknowledgements.
        let before = self.service.filter(|_| !self.service_is_least);
        self.service = Some(before.map_or(took, |service| (service * 3 + took) / 4));
        self.service_is_least = false;
        self.rate = Some(self.rate.map_or(rate, |known| (known * 3.0 + rate) / 4.0));
        self.acknowledged_at = Some(now);
    }

    /// How long a chunk should take: no less than the oldest has taken up to now, for the lane keeps them in order.
    fn expected(&self, now: Instant) -> Option<Duration> {
        let oldest = self.in_flight.front().map(|sent| now.saturating_duration_since(sent.taken));
        self.service.max(oldest)
    }

    /// When the chunk at `index` has taken so much longer than chunks did before that something must be wrong. Where none was
    /// seen to arrive, that is four times as long as they take on a lane that would take it over, for which chunks take `others`.
    fn overdue_at(&self, index: usize, others: Option<Duration>) -> Instant {
        let unknown = || others.map_or(UNKNOWN_SERVICE, |others| (4 * others).clamp(LEAST_GAIN, UNKNOWN_SERVICE));
        let known = self.service.filter(|_| !self.service_is_least);
        self.in_flight[index].taken + known.map_or_else(unknown, |service| (2 * service).max(LEAST_OVERDUE))
    }

    /// Lets go of the first `chunks` that this lane was given, and of those that lie below `consumed`.
    fn release(&mut self, now: Instant, chunks: u64, consumed: u64) {
        while let Some(front) = self.in_flight.front()
            && (self.first < chunks || front.chunk.is_known_below(consumed))
        {
            if self.first >= chunks && front.passed_on {
                // It came by the lane that took it over. How long this one takes is not known, but that it is longer.
                let least = now.saturating_duration_since(front.taken);
                if self.service.is_none_or(|service| service < least) {
                    (self.service, self.service_is_least) = (Some(least), true);
                }
            }
            self.in_flight.pop_front();
            self.first += 1;
        }
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
/// The shortest time a rate is taken from: two acknowledgements that come together say nothing of it.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);
/// How long a chunk may take at most on a lane that has not had one acknowledged yet.
const UNKNOWN_SERVICE: Duration = Duration::from_millis(500);
/// No chunk is overdue before this on a lane that is known: acknowledgements wait for 10 ms, and a busy machine schedules as it likes. TCP waits as long before
/// it sends again for want of news (`TCP_RTO_MIN` in Linux).
const LEAST_OVERDUE: Duration = Duration::from_millis(200);
/// Less time than this is not worth sending a chunk twice.
const LEAST_GAIN: Duration = Duration::from_millis(50);
/// The most bytes that are kept for the other end, whatever window it claims: the largest that can be set.
const MOST_KEPT: u64 = 1 << 30;
/// The most slices a chunk is made of: one `writev` takes them all (the kernel takes 1,024, `IOV_MAX`).
const MOST_SLICES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scheduler(policy: Policy) -> Scheduler {
        let mut scheduler = Scheduler::new(policy, 10, 1000, 100);
        scheduler.lane_up(0);
        scheduler.lane_up(1);
        scheduler
    }

    /// A moment; always the same one, so that nothing is ever overdue.
    fn now() -> Instant {
        static NOW: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *NOW.get_or_init(Instant::now)
    }

    fn ack(chunks: u64, limit: u64) -> Ack {
        Ack { chunks, limit, complete: false }
    }

    fn offsets(chunks: &[Option<Chunk>]) -> Vec<Option<u64>> {
        chunks.iter().map(|chunk| chunk.as_ref().map(|chunk| chunk.offset)).collect()
    }

    #[test]
    fn a_free_lane_takes_the_next_chunk() {
        let mut scheduler = scheduler(Policy::Adaptive);
        scheduler.write(Bytes::from(vec![1; 35]));
        let taken = [
            scheduler.take(now(), 0),
            scheduler.take(now(), 0),
            scheduler.take(now(), 1),
            scheduler.take(now(), 0),
            scheduler.take(now(), 1),
        ];
        assert_eq!(offsets(&taken), [Some(0), Some(10), Some(20), Some(30), None]);
    }

    #[test]
    fn static_shares_are_equal_whoever_asks() {
        let mut scheduler = scheduler(Policy::Static);
        scheduler.write(Bytes::from(vec![1; 40]));
        let taken = [scheduler.take(now(), 0), scheduler.take(now(), 0), scheduler.take(now(), 0)];
        assert_eq!(offsets(&taken), [Some(0), Some(20), None]);
        let taken = [scheduler.take(now(), 1), scheduler.take(now(), 1), scheduler.take(now(), 1)];
        assert_eq!(offsets(&taken), [Some(10), Some(30), None]);
    }

    #[test]
    fn static_shares_are_equal_however_it_was_written() {
        let mut scheduler = scheduler(Policy::Static);
        let mut bytes = [0; 2];
        for _ in 0..16 {
            scheduler.write(Bytes::from_static(b"12345"));
            // The first lane always asks first.
            for (lane, bytes) in bytes.iter_mut().enumerate() {
                *bytes += std::iter::from_fn(|| scheduler.take(now(), lane)).map(|chunk| chunk.length).sum::<u32>();
            }
        }
        assert_eq!(bytes, [40, 40]);
    }

    #[test]
    fn nothing_passes_the_limit_and_nothing_waits_for_ever() {
        let mut scheduler = scheduler(Policy::Adaptive);
        scheduler.write(Bytes::from(vec![1; 150]));
        let mut taken = 0;
        while let Some(chunk) = scheduler.take(now(), taken % 2) {
            assert!(chunk.offset + u64::from(chunk.length) <= 100);
            taken += 1;
        }
        assert_eq!(taken, 10);
        scheduler.handle_ack(now(), 0, &ack(1, 105)).unwrap();
        let chunk = scheduler.take(now(), 0).unwrap();
        assert_eq!((chunk.offset, chunk.length), (100, 5));
    }

    #[test]
    fn chunks_of_a_lost_lane_go_to_another_first() {
        let mut scheduler = scheduler(Policy::Adaptive);
        scheduler.write(Bytes::from(vec![1; 60]));
        let _ =
            [scheduler.take(now(), 0), scheduler.take(now(), 1), scheduler.take(now(), 1), scheduler.take(now(), 1)];
        scheduler.handle_ack(now(), 1, &ack(1, 100)).unwrap();
        scheduler.lane_lost(1);
        let taken = [scheduler.take(now(), 0), scheduler.take(now(), 0), scheduler.take(now(), 0)];
        assert_eq!(offsets(&taken), [Some(20), Some(30), Some(40)]);
    }

    #[test]
    fn the_end_is_sent_once_all_is_and_is_complete_when_acknowledged() {
        let mut scheduler = scheduler(Policy::Adaptive);
        scheduler.write(Bytes::from_static(b"hello"));
        assert!(!scheduler.take(now(), 0).unwrap().fin);
        scheduler.finish();
        let fin = scheduler.take(now(), 1).unwrap();
        assert_eq!((fin.offset, fin.length, fin.fin), (5, 0, true));
        assert_eq!(scheduler.take(now(), 0), None);
        scheduler.handle_ack(now(), 0, &ack(1, 105)).unwrap();
        assert!(!scheduler.is_complete());
        scheduler.handle_ack(now(), 1, &ack(1, 105)).unwrap();
        assert!(scheduler.is_complete());
    }

    #[test]
    fn an_idle_lane_takes_over_what_a_much_slower_one_is_busy_with() {
        let mut scheduler = scheduler(Policy::Adaptive);
        let after = |milliseconds| now() + Duration::from_millis(milliseconds);
        scheduler.write(Bytes::from(vec![1; 40]));
        let _ = [scheduler.take(now(), 0), scheduler.take(now(), 1)];
        scheduler.handle_ack(after(10), 0, &ack(1, 100)).unwrap();
        scheduler.handle_ack(after(100), 1, &ack(1, 100)).unwrap();
        let slow = scheduler.take(after(100), 1).unwrap();
        scheduler.take(after(100), 0).unwrap();
        let again = scheduler.take(after(101), 0);
        assert_eq!(again.as_ref(), Some(&slow), "20 ms are less than the 99 that are left");
        assert_eq!(scheduler.take(after(101), 0), None, "it is on two lanes already");
        assert_eq!(scheduler.take(after(101), 1), None, "the slow lane takes nothing over");
        scheduler.finish();
        assert!(scheduler.take(after(102), 0).unwrap().fin);
        scheduler.handle_ack(after(110), 0, &Ack { chunks: 4, limit: 100, complete: true }).unwrap();
        assert!(scheduler.is_complete(), "the slow lane's copy is not waited for");
    }

    #[test]
    fn a_slow_lane_is_given_short_chunks() {
        let mut scheduler = Scheduler::new(Policy::Adaptive, 256 << 10, 64 << 20, 64 << 20);
        (0..2).for_each(|lane| scheduler.lane_up(lane));
        scheduler.write(Bytes::from(vec![0; 32 << 20]));
        assert_eq!(scheduler.chunk_length(0), FIRST_CHUNK);
        for round in 1..100 {
            let at = now() + Duration::from_millis(10) * round;
            // 100 MB/s on lane 0; a tenth of it on lane 1.
            while scheduler.in_flight(0) < 1_000_000 {
                scheduler.take(at - Duration::from_millis(10), 0).unwrap();
            }
            while scheduler.in_flight(1) < 100_000 {
                scheduler.take(at - Duration::from_millis(10), 1).unwrap();
            }
            for lane in 0..2 {
                let all = scheduler.lanes[lane].first + scheduler.lanes[lane].in_flight.len() as u64;
                scheduler.handle_ack(at, lane, &ack(all, 64 << 20)).unwrap();
            }
            if scheduler.pending_bytes < 2 << 20 {
                break;
            }
        }
        assert_eq!(scheduler.chunk_length(0), 256 << 10);
        let slow = scheduler.chunk_length(1);
        assert!((40 << 10..80 << 10).contains(&slow), "5 ms at some 10 MB/s are about 50 KiB, not {slow}");
    }

    #[test]
    fn an_overdue_chunk_is_asked_for_again_in_time() {
        let mut scheduler = scheduler(Policy::Adaptive);
        scheduler.write(Bytes::from(vec![1; 10]));
        scheduler.take(now(), 1).unwrap();
        let at = scheduler.ask_again_at(0).unwrap();
        assert_eq!(at, now() + UNKNOWN_SERVICE);
        assert_eq!(scheduler.take(at - Duration::from_millis(1), 0), None);
        assert_eq!(scheduler.take(at, 0).unwrap().offset, 0);
        assert_eq!(scheduler.ask_again_at(0), None);
    }

    #[test]
    fn an_acknowledgement_of_what_was_not_sent_is_a_violation() {
        let mut scheduler = scheduler(Policy::Adaptive);
        scheduler.write(Bytes::from_static(b"hello"));
        scheduler.take(now(), 0).unwrap();
        assert_eq!(
            scheduler.handle_ack(now(), 0, &ack(2, 100)),
            Err(Violation::NeverSent { acknowledged: 2, sent: 1 })
        );
        assert!(scheduler.handle_ack(now(), 0, &ack(0, 106)).is_err(), "read more than was sent");
        assert!(
            scheduler.handle_ack(now(), 0, &Ack { chunks: 1, limit: 100, complete: true }).is_err(),
            "no end was sent"
        );
        scheduler.handle_ack(now(), 0, &ack(1, 105)).unwrap();
    }

    proptest! {
        /// Whatever lanes ask, die and come back, each byte is handed out, and what is kept stays within the bounds.
        #[test]
        fn every_byte_is_handed_out(
            adaptive in any::<bool>(),
            steps in prop::collection::vec((0u8..6, 0usize..3, 1usize..40), 1..300),
        ) {
            let policy = if adaptive { Policy::Adaptive } else { Policy::Static };
            let mut scheduler = Scheduler::new(policy, 16, 64, 128);
            (0..3).for_each(|lane| scheduler.lane_up(lane));
            let mut written = 0u8;
            let mut expected = Vec::new();
            let mut received = vec![None; 300 * 40];
            let mut counts = [0u64; 3];
            let mut deliver = |chunk: &Chunk| {
                for (index, byte) in chunk.payload.concat().into_iter().enumerate() {
                    received[chunk.offset as usize + index] = Some(byte);
                }
            };
            for (step, lane, amount) in steps {
                match step {
                    0 | 1 => {
                        let amount = amount.min(scheduler.room());
                        let bytes: Vec<u8> = (0..amount).map(|_| { written = written.wrapping_add(1); written }).collect();
                        expected.extend_from_slice(&bytes);
                        scheduler.write(bytes.into());
                    }
                    2 | 3 => if let Some(chunk) = scheduler.take(now(), lane) {
                        prop_assert!(chunk.length <= 16);
                        deliver(&chunk);
                        counts[lane] += 1;
                    },
                    4 => {
                        let limit = scheduler.limit;
                        scheduler.handle_ack(now(), lane, &ack(counts[lane], limit)).unwrap();
                    }
                    _ => {
                        scheduler.lane_lost(lane);
                        scheduler.lane_up(lane);
                        counts[lane] = 0;
                    }
                }
                let in_flight: u64 = (0..3).map(|lane| scheduler.in_flight(lane)).sum();
                prop_assert!(in_flight <= 128 && scheduler.pending_bytes <= 64);
            }
            scheduler.finish();
            // From here on lane 1 alone is left, and the other end reads everything.
            scheduler.lane_lost(0);
            scheduler.lane_lost(2);
            let mut rounds = 0;
            while !scheduler.is_complete() {
                while let Some(chunk) = scheduler.take(now(), 1) {
                    deliver(&chunk);
                    counts[1] += 1;
                }
                let limit = scheduler.next + 128;
                scheduler.handle_ack(now(), 1, &ack(counts[1], limit)).unwrap();
                rounds += 1;
                prop_assert!(rounds < 10_000);
            }
            let received: Vec<u8> = received.into_iter().take(expected.len()).map(|byte| byte.expect("each byte was sent")).collect();
            prop_assert_eq!(received, expected);
        }
    }
}
