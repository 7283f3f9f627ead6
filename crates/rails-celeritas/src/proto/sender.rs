//! The sending half of a connection: which bytes go next, and which of those sent have arrived.
//!
//! Every byte that was submitted and is not known to have arrived is in exactly one place: not sent
//! yet, in flight in one packet, or lost and to be sent again. A transmission has a number of its
//! own, so each is judged once: as arrived, or as lost.

use super::{
    in_flight::{InFlight, Packet},
    receiver::MIN_INTERVAL,
    rtt::RttEstimator,
    skipped::Skipped,
    windowed_min::WindowedMin,
    wire::{ErrorList, HEADER_LEN, MAX_MESSAGE, SHORT_HEADER_LEN, SegmentHeader, ShortHeader, Token},
};
use rangemap::RangeSet;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Range, RangeInclusive},
    time::{Duration, Instant},
};

/// The sending half.
#[derive(Debug)]
pub struct Sender {
    token: Token,
    max_payload: u32,
    max_unacknowledged: u64,
    /// The controller's limit of unacknowledged bytes.
    window: u64,
    limit: u64,
    message_limit: u32,
    /// Messages of which bytes were sent and may be missing, by the places of their first bytes.
    begun: BTreeMap<u64, Outgoing>,
    /// The places of these messages by number.
    places: BTreeMap<u32, u64>,
    /// The bytes of begun messages, those that have arrived included: the caller's memory that
    /// cannot be freed.
    kept: u64,
    /// The lengths of messages of which no byte was sent, by number.
    waiting: BTreeMap<u32, u64>,
    /// Messages that were given up with bytes sent, and the places of those: the peer has to know
    /// of them.
    given_up: VecDeque<(u32, Range<u64>)>,
    /// Messages that were given up before a byte was sent. The peer has to know of them once it
    /// takes their numbers.
    dropped: RangeSet<u32>,
    next_message: u32,
    /// The bytes of all messages that were submitted.
    submitted: u64,
    /// Submitted bytes that were never sent, and not given up.
    unsent: u64,
    /// The first byte that was never sent.
    next: u64,
    /// Packets with a number above the highest that has arrived, by number.
    in_flight: InFlight,
    /// The other packets.
    overtaken: Overtaken,
    next_packet: u64,
    skipped: Option<Skipped>,
    lost: RangeSet<u64>,
    unacknowledged: u64,
    /// The highest packet number that has arrived, by the latest error list.
    largest: Option<u64>,
    /// The segments that have arrived by it, those that came twice included.
    received: u64,
    latest_list: LatestList,
    rtt: RttEstimator,
    min_rtt: WindowedMin,
    /// Probes since the last news.
    probes: u32,
    /// Payloads above this size count as large.
    small_payload: u32,
    /// The large packets that were lost since the last one arrived.
    large_losses: u32,
    /// Packets below this number were sent before, or while, there was less to send than the rate
    /// allowed.
    limited_until: u64,
    delivered: VecDeque<u32>,
    /// Packets below this number give no sample above the smoothed round trip: an end was stopped
    /// while they were under way.
    sampled_from: u64,
    stats: SenderStats,
    /// The packets that lists were compared with.
    #[cfg(test)]
    looked_at: usize,
}

/// A message that is being sent.
#[derive(Debug)]
struct Outgoing {
    number: u32,
    start: u64,
    length: u64,
    /// The numbers of the message's packets in flight lie between these.
    packets: RangeInclusive<u64>,
}

/// The bytes that have arrived, by the latest error list.
#[derive(Debug, Default)]
struct LatestList {
    complete: u64,
    known: u64,
    missing: RangeSet<u64>,
}

/// Packets that later ones have overtaken, and whose fate is not known: a list did not reach so
/// far, or was too early to tell. A list looks at those that it can tell of, and at no others.
#[derive(Debug, Default)]
struct Overtaken {
    /// The packets by their first bytes.
    packets: BTreeMap<u64, Packet>,
    /// The packets' first bytes by number.
    starts: BTreeMap<u64, u64>,
}

/// The next segment.
struct Next {
    offset: u64,
    payload_len: u32,
    is_short: bool,
    is_again: bool,
}

/// The packets whose fate is known: the bytes of those that have arrived, and the lost ones.
#[derive(Debug, Default)]
struct Resolved {
    arrived: u64,
    segments: u64,
    /// The bytes of their headers.
    headers: u64,
    lost: u64,
    lost_segments: u64,
}

/// A segment to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The segment's header.
    pub header: SegmentHeader,
    /// Whether a [`ShortHeader`] takes its place: the peer knows the message.
    pub is_short: bool,
    /// The segment's bytes behind the header.
    pub payload_len: u32,
    /// Whether these bytes were sent before.
    pub is_again: bool,
}

/// Counters of a sending half.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderStats {
    /// Segments sent, retransmitted ones included.
    pub segments: u64,
    /// Payload bytes sent, retransmitted ones included.
    pub bytes: u64,
    /// Segments whose bytes had been sent before.
    pub retransmitted_segments: u64,
    /// Payload bytes of those segments.
    pub retransmitted_bytes: u64,
    /// Bytes that the peer has told to have arrived.
    pub acknowledged_bytes: u64,
    /// Segments that were sent again because nothing was heard of the last ones.
    pub probes: u64,
    /// Error lists that were newer than the last.
    pub error_lists: u64,
}

/// The news of an error list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Feedback {
    /// Bytes that have arrived, by this list.
    pub acknowledged: u64,
    /// Bytes that are taken to be lost, by this list.
    pub lost: u64,
    /// The bytes of the packets in which the acknowledged bytes have arrived: with their headers,
    /// and those of IP and UDP, which the connection adds.
    pub delivered: u64,
    /// Bytes among `acknowledged` of segments that were taken to be lost before: they count among
    /// `lost_segments` of an earlier list, and not among `segments`.
    pub regained: u64,
    /// Segments that have arrived, by this list.
    pub segments: u64,
    /// Segments that are taken to be lost, by this list.
    pub lost_segments: u64,
    /// Whether segments have arrived since the list before.
    pub has_arrivals: bool,
    /// Whether the latest packet that has arrived was sent while the rate allowed more than there
    /// was to send: while the caller had nothing, or a limit held it up.
    pub is_limited: bool,
    /// The round trip of the latest packet that has arrived, without the peer's delay.
    pub rtt: Option<Duration>,
}

/// An error list that a peer with this protocol does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The list names bytes that were not sent.
    #[error("the peer has received up to byte {claimed}, and {sent} were sent")]
    Bytes {
        /// The end of the bytes that the list names.
        claimed: u64,
        /// The end of the bytes that were sent.
        sent: u64,
    },
    /// The list knows of fewer bytes than one before.
    #[error("the peer has received all up to byte {claimed}, and said {before} before")]
    Regressed {
        /// The end of the bytes that have all arrived.
        claimed: u64,
        /// The end in an earlier list.
        before: u64,
    },
    /// The list names a packet that was left out: the peer acknowledges packets that have not
    /// arrived.
    #[error("the peer has received packet {claimed}, which was left out")]
    Skipped {
        /// The packet number.
        claimed: u64,
    },
    /// The list names a packet that was not sent.
    #[error("the peer has received packet {claimed}, and {sent} were sent")]
    Packet {
        /// The packet number.
        claimed: u64,
        /// The number of packets that were sent.
        sent: u64,
    },
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The message has no bytes, or more than [`MAX_MESSAGE`].
    #[error("a message of {0} bytes (1 to {MAX_MESSAGE} are allowed)")]
    Length(u64),
    /// The peer has closed: it takes no more messages.
    #[error("the peer has closed the connection")]
    PeerClosed,
    /// The connection has had as many messages or bytes as it can count.
    #[error("the connection has sent all that it can count; open another one")]
    Exhausted,
}

impl Sender {
    /// A half that sends segments of at most `max_payload` bytes, and has at most
    /// `max_unacknowledged` bytes sent and not acknowledged: room for one segment at least. A
    /// message begins only if there is room for [`MESSAGE_COST`] too, for it and for each of
    /// those that have not arrived; and only if these, but the first of them, have no more than
    /// [`MAX_KEPT`] times `max_unacknowledged` bytes with it, or there is but one.
    pub fn new(token: Token, max_payload: u32, max_unacknowledged: u64, rtt: RttEstimator) -> Self {
        let max_payload = max_payload.max(1);
        Self {
            token,
            max_payload,
            max_unacknowledged: max_unacknowledged.max(max_payload.into()),
            window: u64::MAX,
            limit: 0,
            message_limit: 0,
            begun: BTreeMap::new(),
            places: BTreeMap::new(),
            kept: 0,
            waiting: BTreeMap::new(),
            given_up: VecDeque::new(),
            dropped: RangeSet::new(),
            next_message: 0,
            submitted: 0,
            unsent: 0,
            next: 0,
            in_flight: InFlight::default(),
            overtaken: Overtaken::default(),
            latest_list: LatestList::default(),
            next_packet: 0,
            skipped: None,
            lost: RangeSet::new(),
            unacknowledged: 0,
            largest: None,
            received: 0,
            rtt,
            min_rtt: WindowedMin::default(),
            probes: 0,
            small_payload: max_payload,
            large_losses: 0,
            limited_until: 0,
            delivered: VecDeque::new(),
            sampled_from: 0,
            stats: SenderStats::default(),
            #[cfg(test)]
            looked_at: 0,
        }
    }

    /// Raises the limits of the peer, which takes bytes below this offset, and messages below this
    /// number. They never fall.
    pub fn raise_limits(&mut self, limit: u64, message_limit: u32) {
        self.limit = self.limit.max(limit);
        self.message_limit = self.message_limit.max(message_limit);
    }

    /// Submits a message of that length. Returns its number.
    ///
    /// # Errors
    /// [`SubmitError`].
    pub fn submit(&mut self, length: u64) -> Result<u32, SubmitError> {
        if !(1..=MAX_MESSAGE).contains(&length) {
            return Err(SubmitError::Length(length));
        }
        let number = self.next_message;
        let submitted = self.submitted.checked_add(length).filter(|_| number < u32::MAX);
        self.submitted = submitted.ok_or(SubmitError::Exhausted)?;
        self.unsent += length;
        self.waiting.insert(number, length);
        self.next_message += 1;
        Ok(number)
    }

    /// Gives a message up: no byte of it is sent any more, and the peer [has to
    /// know](Self::poll_given_up). Returns whether it was under way: not if it has arrived, was
    /// given up before or never submitted.
    pub fn give_up(&mut self, number: u32) -> bool {
        let Some(message) = self.places.remove(&number).and_then(|start| self.begun.remove(&start)) else {
            let Some(length) = self.waiting.remove(&number) else { return false };
            self.unsent -= length;
            self.dropped.insert(number..number + 1);
            return true;
        };
        let bytes = message.bytes();
        self.kept -= message.length;
        // Lost bytes of neighbours are one range.
        let lost = self.lost.overlapping(&bytes).map(|lost| lost.end.min(bytes.end) - lost.start.max(bytes.start));
        let mut dropped: u64 = lost.sum();
        self.lost.remove(bytes.clone());
        let in_flight = self.in_flight.give_up(message.packets, &bytes);
        let overtaken = self.overtaken.take(bytes.clone());
        dropped += in_flight + overtaken.iter().map(|packet| len(&packet.bytes)).sum::<u64>();
        self.unacknowledged -= dropped;
        if bytes.contains(&self.next) {
            self.unsent -= bytes.end - self.next;
            self.next = bytes.end;
        }
        self.given_up.push_back((number, bytes));
        true
    }

    /// A message that was given up, of which the peer has to hear now: its number, and its place
    /// among the bytes of the connection, which is empty if none was sent.
    pub fn poll_given_up(&mut self) -> Option<(u32, Range<u64>)> {
        self.given_up.pop_front().or_else(|| {
            let number = self.dropped.first().map(|range| range.start).filter(|number| *number < self.message_limit)?;
            self.dropped.remove(number..number + 1);
            Some((number, 0..0))
        })
    }

    /// Whether the peer does not know of all messages that were given up.
    pub fn has_given_up(&self) -> bool {
        !self.given_up.is_empty() || !self.dropped.is_empty()
    }

    /// The bytes of the next segment, with its header; `None` if nothing is to be sent now.
    pub fn next_len(&self) -> Option<u32> {
        self.next().map(|next| next.payload_len + header_len(next.is_short))
    }

    /// Whether the next segment has bytes that were sent before.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    fn next(&self) -> Option<Next> {
        if let Some(lost) = self.lost.first() {
            let message = self.message_of(lost.start)?;
            return Some(self.cut(
                lost.start..lost.end.min(message.bytes().end),
                self.latest_list.knows(message),
                true,
            ));
        }
        let mut next = match self.message_of(self.next) {
            Some(message) => self.cut(self.next..message.bytes().end, self.latest_list.knows(message), false),
            None => {
                let (number, length) = self.waiting.first_key_value()?;
                if *number >= self.message_limit || !self.may_begin(*length) {
                    return None;
                }
                self.cut(self.next..self.next + length, false, false)
            }
        };
        let room = self.room();
        if u64::from(next.payload_len) > room {
            // A small segment rather than none, once nothing is under way that would raise the limit.
            if self.unacknowledged > 0 || room == 0 {
                return None;
            }
            next.payload_len = room as u32;
        }
        Some(next)
    }

    /// Whether another message may begin, of that length: each takes memory beside that of its
    /// bytes until it has arrived, or the peer has heard that it was given up. This end keeps all
    /// bytes of a message until the last has arrived: a peer that acknowledges all but a byte of
    /// each message gets no further ones.
    fn may_begin(&self, length: u64) -> bool {
        let messages = (self.begun.len() + self.given_up.len()) as u64;
        let cost = (messages + 1).saturating_mul(MESSAGE_COST).saturating_add(self.unacknowledged);
        let first = self.begun.first_key_value().map_or(0, |(_, first)| first.length);
        let max_kept = self.max_unacknowledged.saturating_mul(MAX_KEPT);
        let is_room = self.kept == first || (self.kept - first).saturating_add(length) <= max_kept;
        messages == 0 || cost <= self.max_unacknowledged && is_room
    }

    /// The bytes that could be sent if the rate allowed it, as far as `max`: the lost ones, and
    /// those up to the limits.
    pub fn backlog(&self, max: u64) -> u64 {
        let mut backlog = self.room().min(self.unsent);
        let mut lost = self.lost.iter();
        while backlog < max
            && let Some(lost) = lost.next()
        {
            backlog += len(lost);
        }
        backlog.min(max)
    }

    /// The message of which the next new byte is the first: its number and length.
    pub fn next_message(&self) -> Option<(u32, u64)> {
        let (number, length) = self.waiting.first_key_value()?;
        self.message_of(self.next).is_none().then_some((*number, *length))
    }

    /// The next segment, which leaves now.
    pub fn take(&mut self, now: Instant) -> Option<Segment> {
        let Next { offset, payload_len, is_short, is_again } = self.next()?;
        let packet = self.take_number();
        if self.message_of(offset).is_none() {
            let (number, length) = self.waiting.pop_first()?;
            self.places.insert(number, offset);
            self.kept += length;
            self.begun.insert(offset, Outgoing { number, start: offset, length, packets: packet..=packet });
        }
        let largest = self.largest;
        let message = self.begun.range_mut(..=offset).next_back().map(|(_, message)| message)?;
        // The packets up to the largest that has arrived are in flight no more.
        let is_first = largest.is_some_and(|largest| *message.packets.end() <= largest);
        message.packets = if is_first { packet } else { *message.packets.start() }..=packet;
        let header = SegmentHeader {
            token: self.token,
            packet,
            offset,
            message: message.number,
            message_len: message.length,
            in_message: offset - message.start,
        };
        let length = u64::from(payload_len);
        let bytes = offset..offset + length;
        if is_again {
            self.lost.remove(bytes.clone());
            self.stats.retransmitted_segments += 1;
            self.stats.retransmitted_bytes += length;
        } else {
            self.next = bytes.end;
            self.unsent -= length;
            self.unacknowledged += length;
        }
        self.in_flight.push(Packet { number: packet, sent_at: now, bytes, is_short });
        self.stats.segments += 1;
        self.stats.bytes += length;
        Some(Segment { header, is_short, payload_len, is_again })
    }

    /// Takes an error list. Lists come in order.
    ///
    /// # Errors
    /// [`Violation`]. Nothing has changed then.
    pub fn handle(&mut self, now: Instant, list: &ErrorList) -> Result<Feedback, Violation> {
        let claimed = list.complete.max(list.known);
        if claimed > self.next {
            return Err(Violation::Bytes { claimed, sent: self.next });
        }
        if list.complete < self.latest_list.complete {
            return Err(Violation::Regressed { claimed: list.complete, before: self.latest_list.complete });
        }
        if list.received > 0 && list.largest >= self.next_packet {
            return Err(Violation::Packet { claimed: list.largest, sent: self.next_packet });
        }
        if let Some(skipped) = self.skipped.as_mut().filter(|_| list.received > 0) {
            if skipped.contains(list.largest) {
                return Err(Violation::Skipped { claimed: list.largest });
            }
            skipped.forget_below(list.largest);
        }
        self.raise_limits(list.limit, list.message_limit);
        self.stats.error_lists += 1;
        let has_arrivals = list.received > self.received;
        self.received = self.received.max(list.received);
        let mut feedback = Feedback { has_arrivals, ..Feedback::default() };
        if list.received > 0 {
            feedback.rtt = self.sample(now, list);
            self.largest = self.largest.max(Some(list.largest));
        }
        feedback.is_limited = self.largest.is_none_or(|largest| largest < self.limited_until);
        self.latest_list =
            LatestList { complete: list.complete, known: claimed, missing: list.missing_ranges().collect() };
        feedback.regained = self.clear_lost(list);
        let judged = self.judge(now);
        feedback.acknowledged = feedback.regained + judged.arrived;
        feedback.delivered = feedback.acknowledged + judged.headers;
        (feedback.segments, feedback.lost_segments) = (judged.segments, judged.lost_segments);
        feedback.lost = judged.lost;
        self.unacknowledged -= feedback.acknowledged;
        self.stats.acknowledged_bytes += feedback.acknowledged;
        if feedback.acknowledged > 0 {
            self.probes = 0;
        }
        while let Some(first) = self.begun.first_entry().filter(|first| first.get().bytes().end <= list.complete) {
            let message = first.remove();
            self.places.remove(&message.number);
            self.kept -= message.length;
            self.delivered.push_back(message.number);
        }
        if self.begun.is_empty() {
            // Transmissions of bytes whose earlier ones have arrived.
            self.in_flight.clear();
            self.overtaken = Overtaken::default();
            self.unacknowledged = 0;
        }
        debug_assert_eq!(self.unacknowledged, self.counted(), "a byte is in two places, or in none");
        debug_assert_eq!(self.kept, self.begun.values().map(|message| message.length).sum::<u64>());
        Ok(feedback)
    }

    /// When something is to be done without news: see [`handle_timeout`](Self::handle_timeout). The
    /// peer acknowledges segments within `delay`.
    pub fn poll_timeout(&self, delay: Duration) -> Option<Instant> {
        let first = self.overtaken.first().filter(|first| self.largest.is_some_and(|largest| first.number < largest));
        let lost_at = first.map(|first| first.sent_at + self.rtt.loss_delay());
        lost_at.into_iter().chain(self.probe_at(delay)).min()
    }

    /// Takes packets to be lost that later ones have overtaken for long, and the last one if
    /// nothing was heard for long: sent again, it tells of those before it. Returns the bytes.
    pub fn handle_timeout(&mut self, now: Instant, delay: Duration) -> u64 {
        let (complete, patience) = (self.latest_list.complete, self.rtt.loss_delay());
        let mut judged = Resolved::default();
        while let Some(first) = self.overtaken.first()
            && self.largest.is_some_and(|largest| first.number < largest)
            && first.sent_at + patience <= now
        {
            let Some(first) = self.overtaken.pop_first() else { break };
            let has_arrived = first.bytes.end <= complete;
            self.settle(first, has_arrived, &mut judged);
        }
        self.unacknowledged -= judged.arrived;
        if judged.lost > 0 || self.probe_at(delay).is_none_or(|at| now < at) {
            return judged.lost;
        }
        self.probes += 1;
        self.stats.probes += 1;
        match self.in_flight.pop_last().or_else(|| self.overtaken.pop_last()) {
            // An earlier transmission of these bytes has arrived.
            Some(last) if last.bytes.end <= complete => self.unacknowledged -= len(&last.bytes),
            Some(last) => self.lost.insert(last.bytes),
            None => {}
        }
        // A probe is no evidence of loss.
        0
    }

    /// The number of a message that has arrived as a whole, each once, in order.
    pub fn poll_delivered(&mut self) -> Option<u32> {
        self.delivered.pop_front()
    }

    /// The number of messages that were submitted.
    pub fn submitted(&self) -> u32 {
        self.next_message
    }

    /// The bytes that were sent and are not known to have arrived.
    pub fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// The cost of all that was submitted and never sent: the bytes, and [`MESSAGE_COST`] for each
    /// message of which none was sent.
    pub fn unsent_cost(&self) -> u64 {
        self.unsent.saturating_add((self.waiting.len() as u64).saturating_mul(MESSAGE_COST))
    }

    /// The bytes that were submitted and are not known to have arrived.
    pub fn undelivered(&self) -> u64 {
        self.unsent + self.unacknowledged
    }

    /// The packets that were sent, and are neither known to have arrived nor taken to be lost.
    pub fn packets_in_flight(&self) -> u64 {
        (self.in_flight.len() + self.overtaken.packets.len()) as u64
    }

    /// Whether everything that was submitted has arrived.
    pub fn is_done(&self) -> bool {
        self.begun.is_empty() && self.waiting.is_empty()
    }

    /// Whether something may be sent, or is under way.
    pub fn is_busy(&self) -> bool {
        self.unacknowledged > 0 || self.next().is_some()
    }

    /// All bytes of the peer have arrived below this offset: the memory of messages below it is
    /// free.
    pub fn complete(&self) -> u64 {
        self.latest_list.complete
    }

    /// The round-trip time.
    pub fn rtt(&self) -> RttEstimator {
        self.rtt
    }

    /// The least round trip of the last 10 s; `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get()
    }

    /// Limits the bytes that are sent and not acknowledged further. Lost bytes are sent again all
    /// the same.
    pub fn set_window(&mut self, bytes: u64) {
        self.window = bytes;
    }

    /// Notes that the rate allows more than there is to send: the next arrivals are no evidence of
    /// the path's rate. Does nothing if the window alone is in the way.
    pub fn set_limited(&mut self) {
        if self.unacknowledged.saturating_add(self.max_payload.into()) <= self.window {
            self.limited_until = self.next_packet;
        }
    }

    /// Distrusts the samples of packets under way, after one of the ends was stopped: they may show
    /// a shorter path, but no longer one.
    pub fn distrust_samples(&mut self) {
        self.sampled_from = self.next_packet;
    }

    /// Changes the most bytes of a segment, for those that are sent from now on.
    pub fn set_max_payload(&mut self, bytes: u32) {
        self.max_payload = bytes.max(1);
        self.max_unacknowledged = self.max_unacknowledged.max(self.max_payload.into());
    }

    /// Whether the path may have become too small for large segments: none of them arrives any
    /// more. Asking begins the count anew.
    pub fn take_suspicion(&mut self) -> bool {
        let is_suspect = self.large_losses >= SUSPECT_LOSSES;
        if is_suspect {
            self.large_losses = 0;
        }
        is_suspect
    }

    /// The number of a packet that is no segment, which leaves now.
    pub fn take_number(&mut self) -> u64 {
        let number = self.skipped.as_mut().map_or(self.next_packet, |skipped| skipped.pass(self.next_packet));
        self.next_packet = number + 1;
        number
    }

    /// Leaves packet numbers out from the beginning on, chosen by a seed that the peer does not
    /// know: a peer that acknowledges packets before they arrive names one of these sooner or
    /// later.
    pub fn skip_numbers(&mut self, seed: u64) {
        self.skipped = Some(Skipped::new(seed));
    }

    /// The counters.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// When the last packet is sent again if nothing is heard.
    fn probe_at(&self, delay: Duration) -> Option<Instant> {
        let last = self.in_flight.last().or_else(|| self.overtaken.last())?;
        let first = self.rtt.pto(delay);
        let doubled = first.saturating_mul(1 << self.probes.min(31));
        Some(last.sent_at + doubled.min(LONGEST_PROBE.max(MAX_BACKOFF * first)))
    }

    fn sample(&mut self, now: Instant, list: &ErrorList) -> Option<Duration> {
        if self.largest.is_some_and(|largest| list.largest <= largest) {
            return None;
        }
        let whole = now.saturating_duration_since(self.in_flight.get(list.largest)?.sent_at);
        let delay = Duration::from_micros(list.delay_us.into());
        // With a pause of an end it is longer than the path, or as long.
        if list.largest < self.sampled_from && whole.saturating_sub(delay) > self.rtt.smoothed() {
            return None;
        }
        self.rtt.sample(whole, delay);
        // A peer that claims a longer one would hide the queues on the path.
        let sample = whole.saturating_sub(delay.min(self.max_delay()));
        self.min_rtt.sample(now, sample);
        Some(sample)
    }

    /// The longest delay of a list that is believed: twice the pause between two.
    fn max_delay(&self) -> Duration {
        2 * (self.rtt.smoothed() / 8).max(MIN_INTERVAL)
    }

    /// Moves lost bytes that have arrived after all to the arrived ones. Returns their number.
    fn clear_lost(&mut self, list: &ErrorList) -> u64 {
        let mut cleared = 0;
        for arrived in list.arrived_ranges() {
            if self.lost.is_empty() {
                break;
            }
            let lost = self.lost.overlapping(&arrived);
            cleared += lost.map(|lost| lost.end.min(arrived.end) - lost.start.max(arrived.start)).sum::<u64>();
            self.lost.remove(arrived);
        }
        cleared
    }

    /// Judges the packets up to the largest that has arrived, as far as the latest list tells of
    /// their bytes: whether all of them have arrived. Those that have not are lost if later
    /// ones have overtaken them by number or by time. Each packet is looked at once or twice,
    /// for any lists.
    fn judge(&mut self, now: Instant) -> Resolved {
        let mut judged = Resolved::default();
        let Some(largest) = self.largest else { return judged };
        let patience = self.rtt.loss_delay();
        let is_late = |packet: &Packet| packet.number + REORDERING <= largest || packet.sent_at + patience <= now;
        let mut packets = self.overtaken.take(0..self.latest_list.known);
        self.in_flight.take_until(largest, &mut packets);
        #[cfg(test)]
        (self.looked_at += packets.len());
        for packet in packets {
            match self.latest_list.has_arrived(&packet.bytes) {
                Some(true) => self.settle(packet, true, &mut judged),
                Some(false) if packet.number < largest && is_late(&packet) => self.settle(packet, false, &mut judged),
                _ => self.overtaken.insert(packet),
            }
        }
        judged
    }

    /// Settles a packet that has arrived, or is lost.
    fn settle(&mut self, packet: Packet, has_arrived: bool, judged: &mut Resolved) {
        let size = len(&packet.bytes) + u64::from(header_len(packet.is_short));
        let is_large = size > u64::from(self.small_payload + header_len(false));
        if has_arrived {
            judged.arrived += len(&packet.bytes);
            judged.segments += 1;
            judged.headers += u64::from(header_len(packet.is_short));
            self.large_losses = if is_large { 0 } else { self.large_losses };
        } else {
            judged.lost += len(&packet.bytes);
            judged.lost_segments += 1;
            self.large_losses += u32::from(is_large);
            self.lost.insert(packet.bytes);
        }
    }

    /// The new bytes that the limits leave room for.
    fn room(&self) -> u64 {
        let max = self.max_unacknowledged.min(self.window);
        self.limit.saturating_sub(self.next).min(max.saturating_sub(self.unacknowledged))
    }

    fn counted(&self) -> u64 {
        let packets = self.in_flight.iter().chain(self.overtaken.packets.values());
        packets.map(|packet| len(&packet.bytes)).chain(self.lost.iter().map(len)).sum()
    }

    /// The segment that begins a range of a message.
    fn cut(&self, range: Range<u64>, is_known: bool, is_again: bool) -> Next {
        // The peer tells offsets apart that lie closer together than half of the numbers that a short
        // header has.
        let is_short = is_known && range.start.max(self.next) < self.latest_list.complete + SHORT_REACH;
        let max = self.max_payload + header_len(false) - header_len(is_short);
        let payload_len = (range.end - range.start).min(max.into()) as u32;
        Next { offset: range.start, payload_len, is_short, is_again }
    }

    /// The message of that byte, if one of its bytes was sent.
    fn message_of(&self, offset: u64) -> Option<&Outgoing> {
        self.begun
            .range(..=offset)
            .next_back()
            .map(|(_, message)| message)
            .filter(|message| offset < message.bytes().end)
    }
}

impl LatestList {
    /// Whether all of these bytes have arrived; `None` if that is not known.
    fn has_arrived(&self, bytes: &Range<u64>) -> Option<bool> {
        match bytes.end <= self.complete {
            true => Some(true),
            false => (bytes.end <= self.known).then(|| !self.missing.overlaps(bytes)),
        }
    }

    /// Whether the peer has bytes of a message, and so knows its place.
    fn knows(&self, message: &Outgoing) -> bool {
        let claimed = message.start..message.bytes().end.min(self.known);
        message.start < self.complete || !claimed.is_empty() && self.missing.gaps(&claimed).next().is_some()
    }
}

impl Overtaken {
    fn insert(&mut self, packet: Packet) {
        self.starts.insert(packet.number, packet.bytes.start);
        self.packets.insert(packet.bytes.start, packet);
    }

    /// Takes the packets out that begin in this range.
    fn take(&mut self, starts: Range<u64>) -> Vec<Packet> {
        let mut taken = Vec::new();
        while let Some((&start, _)) = self.packets.range(starts.clone()).next() {
            taken.extend(self.packets.remove(&start));
        }
        for packet in &taken {
            self.starts.remove(&packet.number);
        }
        taken
    }

    /// The packet with the lowest number.
    fn first(&self) -> Option<&Packet> {
        self.packets.get(self.starts.first_key_value()?.1)
    }

    /// The packet with the highest number.
    fn last(&self) -> Option<&Packet> {
        self.packets.get(self.starts.last_key_value()?.1)
    }

    fn pop_first(&mut self) -> Option<Packet> {
        self.packets.remove(&self.starts.pop_first()?.1)
    }

    fn pop_last(&mut self) -> Option<Packet> {
        self.packets.remove(&self.starts.pop_last()?.1)
    }
}

impl Outgoing {
    fn bytes(&self) -> Range<u64> {
        self.start..self.start + self.length
    }
}

impl Segment {
    /// The bytes of the segment's header.
    pub fn header_len(&self) -> usize {
        header_len(self.is_short) as usize
    }

    /// Encodes the header, which are the first [`header_len`](Self::header_len) of these bytes.
    pub fn encode_header(&self) -> [u8; HEADER_LEN] {
        if !self.is_short {
            return self.header.encode();
        }
        let SegmentHeader { token, packet, offset, .. } = self.header;
        let mut header = [0; HEADER_LEN];
        let short = ShortHeader { token, packet, offset: offset as u32 };
        header[..SHORT_HEADER_LEN].copy_from_slice(&short.encode());
        header
    }
}

fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn header_len(is_short: bool) -> u32 {
    (if is_short { SHORT_HEADER_LEN } else { HEADER_LEN }) as u32
}

/// The cost of a message beside its bytes, from its submission until it has arrived. By measurement
/// it takes 370 bytes of memory with one block, and 490 with a deadline.
pub const MESSAGE_COST: u64 = 512;
/// Messages that have begun keep no more than this multiple of the bytes that may be
/// unacknowledged. A segment that is lost several times in a row holds back, for as many round
/// trips, the messages that have arrived behind it: of a million segments in a round trip, at a
/// loss of 1 %, hardly one is lost four times.
pub const MAX_KEPT: u64 = 4;
/// How far the bytes of short headers lie above those that have all arrived: a receiver takes an
/// offset for the one next to its own that has these low 32 bits.
const SHORT_REACH: u64 = 1 << 30;
/// A packet that this many later ones have overtaken is lost (RFC 9002, section 6.1.1).
const REORDERING: u64 = 3;
/// If this number of large packets is lost in a row, the path has become too small: a loss of 20 %
/// alone does so once in ten million.
const SUSPECT_LOSSES: u32 = 10;
/// The pauses between probes double (RFC 9002, section 6.2.1) up to this time, or up to
/// `MAX_BACKOFF` probe timeouts if that is longer. On a short path this end sends fifty in five
/// seconds of silence, to tell a path that loses most packets from a dead one.
const LONGEST_PROBE: Duration = Duration::from_millis(100);
const MAX_BACKOFF: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists without news, which tell as little as they can of the packets under way.
    #[test]
    fn lists_cost_no_walk_over_all_packets() {
        let now = Instant::now();
        let mut sender = Sender::new(Token(71), 1_000, u64::MAX, RttEstimator::new(Duration::from_millis(1)));
        sender.raise_limits(u64::MAX, u32::MAX);
        let (packets, lists) = (4_000, 1_000);
        sender.submit(1 << 40).unwrap();
        let list = |largest, complete, known, missing| ErrorList {
            received: 1,
            largest,
            complete,
            known,
            missing,
            ..ErrorList::default()
        };
        let take = |sender: &mut Sender| {
            for _ in 0..packets {
                sender.take(now).unwrap();
            }
        };
        let handle = |sender: &mut Sender, known, missing: Vec<(u64, u64)>| {
            for _ in 0..lists {
                sender.handle(now, &list(packets - 1, 0, known, missing.clone())).unwrap();
            }
        };
        take(&mut sender);
        // The highest has arrived, and nothing is known of the others.
        handle(&mut sender, 0, Vec::new());
        assert_eq!(sender.looked_at, packets as usize);
        // Half of them are lost, and are sent again, of which nothing is known.
        let half = packets * 500;
        handle(&mut sender, half, vec![(0, half)]);
        take(&mut sender);
        handle(&mut sender, half, vec![(0, half)]);
        assert_eq!(sender.looked_at, packets as usize * 3 / 2);
    }

    /// A peer may refuse each of many messages while all of them are under way.
    #[test]
    fn refused_messages_cost_their_own_packets() {
        let now = Instant::now();
        let mut sender = Sender::new(Token(71), 1_000, u64::MAX, RttEstimator::new(Duration::from_millis(1)));
        sender.raise_limits(u64::MAX, u32::MAX);
        let (messages, segments) = (1_000, 4);
        for _ in 0..messages {
            sender.submit(segments * 1_000).unwrap();
        }
        while sender.take(now).is_some() {}
        // Half of the messages are lost, and are sent again behind the others.
        let packets = u64::from(messages) * segments;
        let half = packets / 2 * 1_000;
        let list = ErrorList {
            received: 1,
            largest: packets / 2 + 2,
            known: half,
            missing: vec![(0, half)],
            ..ErrorList::default()
        };
        sender.handle(now, &list).unwrap();
        while sender.take(now).is_some() {}
        // From the middle to both sides, so that none of them is next to an end.
        for number in (messages / 2..messages).chain((0..messages / 2).rev()) {
            assert!(sender.give_up(number));
        }
        let looked_at = sender.in_flight.looked_at as u64;
        assert!(looked_at <= packets, "{looked_at} packets were looked at, of {packets}");
        assert_eq!((sender.unacknowledged(), sender.packets_in_flight()), (0, 0));
    }

    #[test]
    fn begun_messages_are_bounded_in_number() {
        let now = Instant::now();
        let max = 64;
        let rtt = RttEstimator::new(Duration::from_millis(1));
        let mut sender = Sender::new(Token(71), 1_000, u64::from(max) * MESSAGE_COST, rtt);
        sender.raise_limits(u64::MAX, u32::MAX);
        for _ in 0..2 * max {
            sender.submit(1).unwrap();
        }
        let take = |sender: &mut Sender| std::iter::from_fn(|| sender.take(now)).count() as u32;
        let begun = take(&mut sender);
        assert!((max - 2..=max).contains(&begun), "{begun} messages of a byte each");
        // The first one is missing, and the peer has all others.
        let list = |complete| ErrorList { received: 9, known: begun.into(), complete, ..ErrorList::default() };
        let largest = u64::from(begun) - 1;
        sender.handle(now, &ErrorList { largest, missing: vec![(0, 1)], ..list(0) }).unwrap();
        assert_eq!(take(&mut sender), 1, "the first one again");
        sender.handle(now, &ErrorList { largest: largest + 1, ..list(begun.into()) }).unwrap();
        assert_eq!(take(&mut sender), begun);
    }

    /// The peer tells of all bytes but the first of each message.
    #[test]
    fn begun_messages_are_bounded_in_bytes() {
        let now = Instant::now();
        let (segment, max) = (1_000, 100_000);
        // A message that is longer than all the room is followed by another one, and short ones follow
        // until it is full.
        for length in [10_000, 300_000, 1_000_000] {
            let mut sender = Sender::new(Token(71), segment, max, RttEstimator::new(Duration::from_millis(1)));
            sender.raise_limits(u64::MAX, u32::MAX);
            for _ in 0..1_000 {
                sender.submit(length).unwrap();
            }
            let (mut kept, mut sent) = (0, 0);
            while let Some(segment) = sender.take(now) {
                sent += u64::from(!segment.is_again);
                kept = kept.max(segment.header.start() + length);
                let known = segment.header.offset + u64::from(segment.payload_len);
                if segment.is_again {
                    continue;
                }
                let first = (0..known.div_ceil(length)).map(|number| (if number == 0 { 0 } else { length - 1 }, 1));
                let list = ErrorList {
                    received: sent,
                    largest: segment.header.packet,
                    known,
                    missing: first.collect(),
                    ..ErrorList::default()
                };
                sender.handle(now, &list).unwrap();
            }
            let bound = length + (MAX_KEPT * max).max(length);
            assert!(kept <= bound && kept + length > bound, "{kept} bytes in messages of {length}");
        }
    }

    /// The peer sets this end no limit, and does not read the frames about messages that are given
    /// up.
    #[test]
    fn untold_messages_are_bounded_in_number() {
        let now = Instant::now();
        let max = 64;
        let rtt = RttEstimator::new(Duration::from_millis(1));
        let mut sender = Sender::new(Token(71), 1_000, max * MESSAGE_COST, rtt);
        sender.raise_limits(u64::MAX, u32::MAX);
        let count = std::iter::from_fn(|| {
            let number = sender.submit(1).unwrap();
            sender.take(now)?;
            sender.give_up(number).then_some(())
        });
        let begun = count.take(2 * max as usize).count() as u64;
        assert!((max - 1..=max).contains(&begun), "{begun} messages");
        assert_eq!(sender.poll_given_up(), Some((0, 0..1)));
        assert!(sender.take(now).is_some());
    }

    #[test]
    fn long_delays_hide_no_queue() {
        let (begin, ms) = (Instant::now(), Duration::from_millis(1));
        let mut sender = Sender::new(Token(71), 1_000, u64::MAX, RttEstimator::new(20 * ms));
        sender.raise_limits(u64::MAX, u32::MAX);
        sender.submit(1_000_000).unwrap();
        for (delay, expected) in [(0, 100), (3, 97), (80, 85)] {
            let packet = sender.take(begin).unwrap().header.packet;
            let list =
                ErrorList { largest: packet, received: packet + 1, delay_us: delay * 1_000, ..ErrorList::default() };
            let sample = sender.handle(begin + 100 * ms, &list).unwrap().rtt.unwrap();
            assert!(sample.abs_diff(expected * ms) < 10 * ms, "{delay} ms: {sample:?}");
        }
    }

    /// The first packet is taken to be lost when three later ones have arrived, and then arrives
    /// after all.
    #[test]
    fn overtaken_segment_that_arrives_is_regained() {
        let (now, ms) = (Instant::now(), Duration::from_millis(1));
        let mut sender = Sender::new(Token(71), 1_000, u64::MAX, RttEstimator::new(20 * ms));
        sender.raise_limits(u64::MAX, u32::MAX);
        sender.submit(10_000).unwrap();
        for _ in 0..4 {
            sender.take(now).unwrap();
        }
        let list = |received, complete, missing| ErrorList {
            received,
            largest: 3,
            complete,
            known: 4_000,
            missing,
            ..ErrorList::default()
        };
        let feedback = sender.handle(now + 20 * ms, &list(3, 0, vec![(0, 1_000)])).unwrap();
        let Feedback { acknowledged, regained, segments, lost_segments, .. } = feedback;
        assert_eq!((acknowledged, regained, segments, lost_segments), (3_000, 0, 3, 1));
        let feedback = sender.handle(now + 22 * ms, &list(4, 4_000, Vec::new())).unwrap();
        let Feedback { acknowledged, regained, segments, lost_segments, .. } = feedback;
        assert_eq!((acknowledged, regained, segments, lost_segments), (1_000, 1_000, 0, 0));
    }

    #[test]
    fn short_headers_go_to_a_peer_that_knows_the_message() {
        let now = Instant::now();
        let mut sender = Sender::new(Token(71), 60_000, u64::MAX, RttEstimator::new(Duration::from_millis(1)));
        sender.raise_limits(u64::MAX, u32::MAX);
        sender.submit(60_020).unwrap();
        sender.submit(u64::from(u32::MAX)).unwrap();
        let mut take = |list: Option<ErrorList>| {
            if let Some(list) = list {
                sender.handle(now, &list).unwrap();
            }
            sender.take(now).unwrap()
        };
        let first = take(None);
        assert_eq!((first.is_short, first.payload_len, first.header_len()), (false, 60_000, 40));
        let list = ErrorList { received: 1, complete: 60_000, known: 60_000, ..ErrorList::default() };
        let second = take(Some(list));
        assert_eq!((second.is_short, second.payload_len, second.header.message), (true, 20, 0));
        // The peer has nothing of the next message, and then the second segment of it.
        let third = take(None);
        assert_eq!((third.is_short, third.header.message), (false, 1));
        assert!(!take(None).is_short);
        let known = ErrorList {
            received: 2,
            largest: 3,
            complete: 60_000,
            known: 180_020,
            missing: vec![(0, 60_020)],
            ..ErrorList::default()
        };
        let short = take(Some(known));
        assert_eq!((short.is_short, short.payload_len, short.encode_header()[0]), (true, 60_020, 0x23));
        // Offsets too far above the bytes that have all arrived are sent in full.
        let far = std::iter::repeat_with(|| take(None)).find(|segment| !segment.is_short).unwrap();
        assert!((1 << 30..(1 << 30) + 200_000).contains(&far.header.offset), "{far:?}");
    }
}
