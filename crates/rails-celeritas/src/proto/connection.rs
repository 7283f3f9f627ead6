//! One end of a connection: messages to the peer and from it. It has no clock and no socket: a
//! driver passes the time, moves the bytes and decides nothing.

use super::{
    blocks::Memory,
    closing::{Closing, Limit},
    deadlines::Deadlines,
    incoming::{Incoming, Outcome},
    pacer::Pacer,
    path_mtu::PathMtu,
    rate::RateController,
    receiver::{Arrival, MIN_INTERVAL, Payload, Receiver, ReceiverStats, Rejection},
    rtt::RttEstimator,
    sender::{Segment, Sender, SenderStats, SubmitError, Violation},
    silence::{Patience, Silence},
    wire::{Control, HEADER_LEN, ProbeHeader, SegmentHeader, ShortHeader, Token},
};
use bytes::BytesMut;
use rails_topo::Bandwidth;
use rangemap::RangeSet;
use std::{
    collections::VecDeque,
    task::Waker,
    time::{Duration, Instant},
};

/// The parameters of a connection, as its handshake has settled them.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// The token of the segments that this end sends: the peer drew it.
    pub peer_token: Token,
    /// The most payload bytes of a segment, if the path carries them.
    pub max_payload: u32,
    /// The payload bytes of the first segments: nearly every path carries them.
    pub base_payload: u32,
    /// The payload of a probe that distinguishes a path which does not carry the base from a dead
    /// path; `None` where no packet below the base is sent.
    pub floor_payload: Option<u32>,
    /// The bytes of the IP and UDP headers around a segment: 28 for IPv4, 48 for IPv6.
    pub overhead: u32,
    /// The most bytes that are sent and not acknowledged, with
    /// [`MESSAGE_COST`](super::sender::MESSAGE_COST) for each message of which some may be missing.
    pub max_unacknowledged: u64,
    /// The bytes of the peer's messages that may arrive before a caller asks for them.
    pub window: u64,
    /// The longest message of the peer that is taken without a caller's blocks.
    pub max_message: u64,
    /// The round-trip time that the handshake has taken.
    pub rtt: Duration,
    /// The time without news after which the connection fails, but no less than [`MIN_PROBES`]
    /// probe timeouts.
    pub max_silence: Duration,
    /// The time without a datagram of this end after which it sends an empty one, so that no NAT
    /// forgets it; `None` to send none.
    pub keep_alive: Option<Duration>,
    /// The time whose bytes may leave at once after a pause or a late timer.
    pub depth: Duration,
    /// The most time on the wire of one burst, and so of one system call.
    pub burst: Duration,
}

/// One end of a connection.
#[derive(Debug)]
pub struct ConnectionProtocol {
    parameters: Parameters,
    sender: Sender,
    receiver: Receiver,
    incoming: Incoming,
    controller: Box<dyn RateController>,
    pacer: Pacer,
    path_mtu: PathMtu,
    /// The last segment had a short header.
    was_short: bool,
    /// The probes of the peer that are to be answered.
    arrived_probes: VecDeque<u64>,
    silence: Silence,
    /// Refused messages of the peer, which it does not know of yet.
    refused: RangeSet<u32>,
    /// This end has to tell the peer the round trip, and the peer has to answer.
    must_announce_rtt: bool,
    /// The number of all messages of this end, until the peer has been told.
    unannounced_finish: Option<u32>,
    /// Messages that are given up if they have not arrived by then.
    deadlines: Deadlines,
    /// The round trip that was last sent to the peer.
    announced_rtt: Option<Duration>,
    /// When the last datagram left.
    sent_at: Instant,
    events: VecDeque<Event>,
    /// The number of all messages of the peer, once it is known.
    peer_messages: Option<u32>,
    /// This end sends no further message.
    is_finished: bool,
    /// The sending side of the control channel is closed, here and at the peer.
    is_closed: bool,
    peer_is_closed: bool,
    /// The limit of an abandoned end, which delivers its messages until then and receives none.
    farewell: Option<Limit>,
    /// The wait of a caller that closes.
    closing: Option<Closing>,
    has_failed: bool,
}

/// News for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message of this end has arrived.
    Delivered {
        /// The message's number.
        message: u32,
    },
    /// A message of this end had not arrived by its deadline: it was given up.
    Expired {
        /// The message's number.
        message: u32,
    },
    /// The peer does not want a message of this end: it was given up.
    Refused {
        /// The message's number.
        message: u32,
    },
    /// A message of the peer makes progress.
    Arrival(Arrival),
    /// The peer has sent `messages` messages, and sends no more.
    Finished {
        /// The number of messages.
        messages: u32,
    },
    /// The peer has made no progress for as long as a caller that
    /// [closes](ConnectionProtocol::close) waits. The connection was
    /// [abandoned](ConnectionProtocol::abandon).
    NotClosed {
        /// The bytes of this end that are not known to have arrived; 0 if the end waits for
        /// something else.
        bytes: u64,
    },
    /// Both ends have all messages, and have closed. The peer of an
    /// [abandoned](ConnectionProtocol::abandon) connection has all messages, and has closed or
    /// was silent for 5 s. No event follows.
    Closed,
    /// The connection has failed. No event follows.
    Failed(Failure),
}

/// Why a connection fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer broke the protocol.
    #[error("the peer broke the protocol")]
    Violation(#[from] Violation),
    /// The peer contradicted itself.
    #[error("the peer broke the protocol")]
    Contradiction(#[from] Rejection),
    /// The path does not carry packets of 1,280 bytes.
    #[error("the path does not carry packets of {MIN_MTU} bytes")]
    SmallPath,
    /// This end was [abandoned](ConnectionProtocol::abandon), and the peer does not take the last
    /// messages.
    #[error("the peer did not take the last messages of a connection that was dropped")]
    Abandoned,
    /// The peer closed the control channel with messages missing.
    #[error("the peer has ended the connection before all messages had arrived")]
    Cut,
    /// The peer was not heard of while segments were under way.
    #[error("nothing was heard of the peer for {} s", .0.as_secs())]
    Silent(Duration),
    /// No segment has ever arrived, though the control channel works.
    #[error("no datagram arrives: a firewall may drop UDP")]
    Blocked,
}

impl Parameters {
    /// The bytes of the IP packet of a segment with a long header, or of a probe.
    fn wire_len(&self, payload_len: u32) -> u64 {
        self.packet_len(payload_len) + HEADER_LEN as u64
    }

    /// The bytes of the IP packet around `bytes` bytes.
    fn packet_len(&self, bytes: u32) -> u64 {
        u64::from(bytes) + u64::from(self.overhead)
    }
}

impl ConnectionProtocol {
    /// An end that has just been opened.
    pub fn new(now: Instant, parameters: Parameters, controller: Box<dyn RateController>) -> Self {
        let rtt = RttEstimator::new(parameters.rtt);
        let Parameters { peer_token, max_payload, base_payload, max_unacknowledged, depth, .. } = parameters;
        let around = parameters.overhead + HEADER_LEN as u32;
        let path_mtu = PathMtu::new(base_payload, max_payload, around, parameters.floor_payload);
        let mut protocol = Self {
            sender: Sender::new(peer_token, path_mtu.current(), max_unacknowledged, rtt),
            receiver: Receiver::new(),
            incoming: Incoming::new(parameters.window, parameters.max_message),
            pacer: Pacer::new(now, controller.rate(), depth, 2 * parameters.wire_len(path_mtu.current())),
            controller,
            path_mtu,
            was_short: false,
            arrived_probes: VecDeque::new(),
            silence: Silence::new(now),
            refused: RangeSet::new(),
            must_announce_rtt: false,
            unannounced_finish: None,
            deadlines: Deadlines::default(),
            announced_rtt: None,
            sent_at: now,
            events: VecDeque::new(),
            peer_messages: None,
            is_finished: false,
            is_closed: false,
            peer_is_closed: false,
            farewell: None,
            closing: None,
            has_failed: false,
            parameters,
        };
        protocol.raise_limits(now);
        protocol
    }

    /// Leaves packet numbers out from the beginning on, chosen by a seed that the peer does not
    /// know, to detect a peer that acknowledges packets which have not arrived.
    pub fn skip_numbers(&mut self, seed: u64) {
        self.sender.skip_numbers(seed);
    }

    /// Submits a message of that length. Returns its number.
    ///
    /// # Errors
    /// [`SubmitError`].
    pub fn submit(&mut self, now: Instant, length: u64) -> Result<u32, SubmitError> {
        if self.peer_is_closed {
            return Err(SubmitError::PeerClosed);
        }
        if self.sender.unacknowledged() == 0 {
            self.silence.begin(now, self.patience());
        }
        if self.sender.is_done() {
            self.controller.resume(now);
        }
        let number = self.sender.submit(length)?;
        self.update_busy();
        Ok(number)
    }

    /// Gives a message up, with an [`Event::Expired`], if it has not arrived by then, or cannot any
    /// more.
    pub fn set_deadline(&mut self, message: u32, at: Instant) {
        self.deadlines.set(message, at);
    }

    /// Gives a message of this end up. Returns whether it was still under way.
    pub fn give_up(&mut self, now: Instant, message: u32) -> bool {
        if self.has_ended() {
            return false;
        }
        let was_waiting = self.sender.unacknowledged() > 0;
        if !self.sender.give_up(message) {
            return false;
        }
        self.deadlines.remove(message);
        if was_waiting && self.sender.unacknowledged() == 0 {
            self.silence.end(now);
        }
        self.update_busy();
        true
    }

    /// Reserves the next message of the peer for a caller. It arrives in the caller's blocks, each
    /// as long as it is, or in memory of this end. Returns its number.
    pub fn reserve(&mut self, now: Instant, blocks: Option<Vec<BytesMut>>) -> u32 {
        let (message, is_refused) = self.incoming.reserve(blocks);
        if is_refused {
            self.refuse(message);
        }
        self.raise_limits(now);
        message
    }

    /// The caller that has reserved a message has gone: the next caller gets it.
    pub fn release(&mut self, message: u32) {
        self.incoming.release(message);
    }

    /// Refuses the peer's messages that have not arrived, and all later ones: no caller receives
    /// any more.
    pub fn refuse_all(&mut self, now: Instant) {
        self.incoming.refuse_all().into_iter().for_each(|message| self.refuse(message));
        self.raise_limits(now);
    }

    /// Whether the outcome of a reserved message is known.
    pub fn has_outcome(&self, message: u32) -> bool {
        self.incoming.has_outcome(message)
    }

    /// The outcome of a reserved message, once it is known, and once only.
    pub fn take(&mut self, now: Instant, message: u32) -> Option<Outcome> {
        let outcome = self.incoming.take(message)?;
        self.raise_limits(now);
        Some(outcome)
    }

    /// The memory of a message of the peer: the driver puts the payloads of its segments there,
    /// before a caller takes it. `None` if they are to be dropped.
    pub fn memory(&mut self, message: u32) -> Option<&mut Memory> {
        self.incoming.memory(message)
    }

    /// Tells the peer the number of this end's messages: none follows. A second call does nothing.
    pub fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) && !self.peer_is_closed {
            self.unannounced_finish = Some(self.sender.submitted());
        }
    }

    /// A caller waits until both ends have [closed](Event::Closed), and receives nothing any more.
    /// The connection gives up a peer that makes no progress for `limit`: an [`Event::NotClosed`].
    pub fn close(&mut self, now: Instant, limit: Duration) {
        self.finish();
        self.refuse_all(now);
        self.closing = Some(Closing::new(now, limit, self.sender.undelivered(), self.receiver.stats().bytes));
    }

    /// This end [refuses](Self::refuse_all) the peer's messages, and still delivers its own for a
    /// few seconds: then the connection has [closed](Event::Closed) or
    /// [failed](Failure::Abandoned).
    pub fn abandon(&mut self, now: Instant) {
        if self.has_ended() || self.is_abandoned() {
            return;
        }
        self.finish();
        self.refuse_all(now);
        self.farewell = Some(Limit::new(now, LONGEST_FAREWELL));
    }

    /// The application is gone, and waits for nothing: the connection is over at once, unless it
    /// was abandoned before.
    pub fn drop_at_once(&mut self) {
        if !self.is_abandoned() {
            self.stop();
        }
    }

    /// Whether the connection is over: nothing is sent or taken any more.
    pub fn is_over(&self) -> bool {
        self.has_ended()
    }

    /// The driver cannot go on, as without a control channel. No event follows, and nothing is
    /// sent.
    pub fn stop(&mut self) {
        self.has_failed = true;
        self.controller.set_busy(false);
    }

    /// Whether this end was [abandoned](Self::abandon).
    pub fn is_abandoned(&self) -> bool {
        self.farewell.is_some()
    }

    /// Whether this end sends no further message.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether the sending side of the control channel is to be closed now, once: both ends have
    /// finished and have all messages, and all frames have been taken. No frame follows.
    pub fn poll_close(&mut self) -> bool {
        let has_frames = self.must_announce_rtt || self.unannounced_finish.is_some() || !self.refused.is_empty();
        // A peer that has closed reads no frame.
        let has_told = self.peer_is_closed || !has_frames && !self.sender.has_given_up();
        if self.has_failed || self.is_closed || !has_told || !self.is_finished {
            return false;
        }
        let peer_has_all = self.sender.is_done();
        let has_all = || self.receiver.poll_timeout().is_none() && self.has_all();
        if !peer_has_all || !self.is_abandoned() && !self.peer_is_closed && !has_all() {
            return false;
        }
        self.is_closed = true;
        self.end_if_closed();
        true
    }

    /// The peer has closed its sending side of the control channel.
    pub fn handle_close(&mut self) {
        if self.has_ended() {
            return;
        }
        self.peer_is_closed = true;
        // The peer closes once it has all, and knows that this end has all; or, if abandoned, once this end
        // has all.
        let is_whole = if self.is_abandoned() { self.sender.is_done() } else { self.has_all() };
        if is_whole { self.end_if_closed() } else { self.fail(Failure::Cut) }
    }

    /// Adds the next segments to `burst`, in the order in which they leave: at most `max`, no more
    /// than the rate allows now, and all of one length with their headers but the last, which
    /// may be shorter. So one system call can send them.
    pub fn poll_transmit(&mut self, now: Instant, max: usize, burst: &mut Vec<Segment>) {
        if self.has_failed {
            return;
        }
        // Connections that share the rate may have come or gone.
        self.set_rate(now);
        self.expire_hopeless(now);
        if self.burst_at().is_some_and(|at| now < at) {
            return;
        }
        let mut budget = self.pacer.budget(now).min(self.burst_len());
        let mut first = None;
        while burst.len() < max {
            let Some(length) = self.sender.next_len() else {
                if self.pacer.budget(now) >= self.parameters.wire_len(self.path_mtu.current()) {
                    self.sender.set_limited();
                }
                break;
            };
            let wire = self.parameters.packet_len(length);
            // Segments sent again are not next to the new ones, for which the receiver has laid out the places.
            let is_apart = burst.last().is_some_and(|last| last.is_again != self.sender.has_lost());
            if wire > budget || first.is_some_and(|first| length > first) || is_apart {
                break;
            }
            let Some(segment) = self.sender.take(now) else { break };
            if !segment.is_again && self.sender.unacknowledged() == u64::from(segment.payload_len) {
                // There was nothing to hear of before.
                self.silence.begin(now, self.patience());
            }
            self.pacer.spend(now, wire);
            self.sent_at = now;
            budget -= wire;
            burst.push(segment);
            let was_short = std::mem::replace(&mut self.was_short, segment.is_short);
            // The receiver learns from one segment where those of the next burst belong, and need not copy a
            // whole one.
            let is_start = segment.header.in_message == 0 && segment.header.message_len > LONG_MESSAGE;
            if *first.get_or_insert(length) > length || is_start || segment.is_short && !was_short {
                break;
            }
        }
    }

    /// The next probe, of the path's MTU or to keep a NAT's binding, which leaves now: its header,
    /// and the number of padding bytes behind it.
    pub fn poll_probe(&mut self, now: Instant) -> Option<(ProbeHeader, u32)> {
        let (packet, size) = self.poll_mtu_probe(now).or_else(|| {
            self.keep_alive_at().filter(|at| *at <= now)?;
            Some((self.sender.take_number(), KEEP_ALIVE_PADDING))
        })?;
        self.sent_at = now;
        self.pacer.spend(now, self.parameters.wire_len(size));
        Some((ProbeHeader { token: self.parameters.peer_token, packet }, size))
    }

    /// When a datagram has to leave so that a NAT between the ends keeps its binding.
    fn keep_alive_at(&self) -> Option<Instant> {
        let time = self.parameters.keep_alive.filter(|_| !self.has_ended())?;
        self.sent_at.checked_add(time.max(MIN_KEEP_ALIVE))
    }

    fn poll_mtu_probe(&mut self, now: Instant) -> Option<(u64, u32)> {
        while let Some(size) = self.next_probe()
            && self.pacer.time_of(self.parameters.wire_len(size)) > LONGEST_PROBE
            && !self.path_mtu.is_suspect()
        {
            self.path_mtu.skip(now);
        }
        let size = self.next_probe()?;
        // A probe may overdraw the budget: segments would take it up before there is enough for a large
        // probe.
        if now < self.pacer.ready_at(1) {
            return None;
        }
        let packet = self.sender.take_number();
        let rtt = self.sender.rtt();
        self.path_mtu.take_probe(now, packet, rtt.pto(rtt.smoothed().max(PROBE_DELAY)))?;
        Some((packet, size))
    }

    /// The size of the next probe. A silent path is not searched.
    fn next_probe(&self) -> Option<u32> {
        let may_probe = !self.has_ended() && (self.silence.halvings() == 0 || self.path_mtu.is_suspect());
        self.path_mtu.next_probe().filter(|_| may_probe)
    }

    /// The interface does not take the packet of a probe.
    pub fn handle_refused_probe(&mut self, now: Instant, packet: u64) {
        self.path_mtu.handle_refused(now, packet);
    }

    /// Takes a probe of the peer whose header has this connection's token.
    pub fn handle_probe(&mut self, header: &ProbeHeader) {
        // The peer sends the others again.
        if self.arrived_probes.len() < MAX_ARRIVED_PROBES {
            self.arrived_probes.push_back(header.packet);
        }
    }

    /// The largest IP packet that the path is taken to carry, in bytes.
    pub fn path_mtu(&self) -> u32 {
        self.path_mtu.current() + self.parameters.overhead + HEADER_LEN as u32
    }

    /// The full header of a segment with a short header and `payload` bytes. The driver calls it
    /// before [`handle_segment`](Self::handle_segment), to know the place of the payload.
    ///
    /// # Errors
    /// [`Rejection::UnknownMessage`]. Its payload is to be dropped then.
    pub fn expand(&mut self, short: &ShortHeader, payload: u32) -> Result<SegmentHeader, Rejection> {
        self.receiver.expand(short, payload)
    }

    /// Takes a segment whose header has this connection's token, with `payload` bytes.
    ///
    /// # Errors
    /// [`Rejection`]. Its payload is to be dropped then.
    pub fn handle_segment(&mut self, now: Instant, header: &SegmentHeader, payload: u32) -> Result<Payload, Rejection> {
        let payload = self.receiver.handle(now, header, payload)?;
        self.handle_arrivals(now);
        Ok(payload)
    }

    /// Takes a frame of the control channel.
    pub fn handle_control(&mut self, now: Instant, frame: &Control) {
        if self.has_failed {
            return;
        }
        if self.silence.hear_of_peer(now, self.patience()) {
            self.sender.distrust_samples();
        }
        if let Err(failure) = self.handle_frame(now, frame) {
            self.fail(failure);
        }
    }

    /// The next frame for the control channel.
    pub fn poll_control(&mut self, now: Instant) -> Option<Control> {
        // The peer knows all that matters once an end has closed: the rest is about segments that were sent
        // twice.
        if self.has_failed || self.is_closed || self.peer_is_closed {
            return None;
        }
        if std::mem::take(&mut self.must_announce_rtt) {
            return Some(self.rtt_frame());
        }
        // The peer learns of a refused message before it learns that all of it has arrived, and before it
        // may send further.
        if let Some(message) = self.refused.first().map(|range| range.start) {
            self.refused.remove(message..message + 1);
            self.raise_limits(now);
            return Some(Control::Refuse { message });
        }
        if let Some((message, bytes)) = self.sender.poll_given_up() {
            // Another message may begin in its place.
            self.update_busy();
            return Some(Control::GiveUp { message, start: bytes.start, length: bytes.end - bytes.start });
        }
        let finish = self.unannounced_finish.take().map(|messages| Control::Finish { messages });
        let answer = || self.arrived_probes.pop_front().map(|packet| Control::ProbeArrived { packet });
        finish.or_else(answer).or_else(|| self.receiver.poll_error_list(now).map(Control::ErrorList))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.has_ended() {
            return None;
        }
        let ready = self.burst_at();
        let probe = self.next_probe().map(|_| self.pacer.ready_at(1)).or(self.path_mtu.poll_timeout());
        let silent = self.silence.next_at(self.patience()).filter(|_| self.sender.unacknowledged() > 0);
        let expiry = self.deadlines.first();
        let list = self.receiver.poll_timeout().filter(|_| !self.is_closed && !self.peer_is_closed);
        let overdue = self.sender.poll_timeout(self.peer_delay());
        let closing = self.closing.as_ref().and_then(Closing::poll_timeout);
        let farewell = self.farewell.as_ref().and_then(Limit::poll_timeout);
        let timers = [ready, probe, silent, expiry, overdue, list, closing, farewell, self.keep_alive_at()];
        timers.into_iter().flatten().min()
    }

    /// Serves the timers. A call that comes early does nothing. Segments and frames may be ready
    /// after it.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.has_ended() {
            return;
        }
        self.silence.look(now);
        // The silence is judged before messages are given up: they are under way as long as it
        // lasts.
        let is_waiting = self.sender.unacknowledged() > 0;
        if let Some(silence) = self.silence.is_too_long(now, is_waiting, self.patience()) {
            return self.fail(match () {
                () if self.silence.peer_is_stopped() => Failure::Silent(silence),
                () if self.path_mtu.is_too_small() => Failure::SmallPath,
                () if !self.silence.has_heard() => Failure::Blocked,
                () => Failure::Silent(silence),
            });
        }
        while let Some(message) = self.deadlines.pop(now) {
            self.expire(now, message);
        }
        let (bytes, arrived) = (self.sender.undelivered(), self.receiver.stats().bytes);
        if self.closing.take_if(|closing| closing.is_over(now, bytes, arrived)).is_some() {
            self.events.push_back(Event::NotClosed { bytes });
            self.abandon(now);
        }
        if self.farewell.as_mut().is_some_and(|limit| limit.is_over(now)) {
            if !self.is_closed {
                return self.fail(Failure::Abandoned);
            }
            self.peer_is_closed = true;
            return self.end_if_closed();
        }
        self.sender.handle_timeout(now, self.peer_delay());
        if self.sender.take_suspicion() {
            self.path_mtu.suspect();
        }
        self.path_mtu.handle_timeout(now);
        self.apply_path_mtu();
        if self.sender.unacknowledged() > 0 && self.silence.should_halve(now, self.patience()) {
            self.silence.halve();
            self.path_mtu.suspect();
            self.set_rate(now);
            self.must_announce_rtt |= self.silence.ask(now);
        }
    }

    /// Excuses a time in which this end did not run: its process was stopped, or its clock has
    /// jumped. With a time of zero, it runs but has not read all that has come.
    pub fn handle_absence(&mut self, now: Instant, time: Duration) {
        let patience = self.patience();
        self.silence.excuse(now, time, patience);
        if !time.is_zero() {
            self.farewell.iter_mut().for_each(|limit| limit.excuse(now, time, patience.pause));
            self.closing.iter_mut().for_each(|closing| closing.excuse(now, time, patience.pause));
            self.path_mtu.excuse(now, time, patience.pause);
            self.sender.distrust_samples();
        }
    }

    /// The pause for which the peer has left a question unanswered: then the driver asks the kernel
    /// whether the peer's host [lives](Self::handle_peer_host), in each pause.
    pub fn doubts_peer(&self, now: Instant) -> Option<Duration> {
        let patience = self.patience();
        let doubts = self.sender.unacknowledged() > 0 && self.silence.doubts_peer(now, patience);
        doubts.then_some(patience.pause)
    }

    /// Whether the peer's host has answered all packets of the control channel, or one in the last
    /// pause. A peer whose host has, and whose process has not answered, is stopped: nothing is
    /// judged until it runs again, or its host answers nothing either.
    pub fn handle_peer_host(&mut self, now: Instant, lives: bool) {
        if self.doubts_peer(now).is_some() {
            self.silence.look_at_host(now, lives);
        }
    }

    /// Whether the peer's process is stopped, as far as this end knows: its host lives.
    pub fn peer_is_stopped(&self) -> bool {
        self.silence.peer_is_stopped()
    }

    /// The next news for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The rate at which this end sends now.
    pub fn rate(&self) -> Bandwidth {
        self.pacer.rate()
    }

    /// The name of the controller of the rate.
    pub fn controller(&self) -> &'static str {
        self.controller.name()
    }

    /// The bytes that were sent and are not known to have arrived.
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// The cost of all that was submitted and never sent: the bytes, and
    /// [`MESSAGE_COST`](super::sender::MESSAGE_COST) for each message of which none was sent.
    pub fn unsent_cost(&self) -> u64 {
        self.sender.unsent_cost()
    }

    /// The packets that were sent, and are neither known to have arrived nor taken to be lost.
    pub fn packets_in_flight(&self) -> u64 {
        self.sender.packets_in_flight()
    }

    /// Wakes the task once the rate grows by the acts of other connections. The task calls this
    /// before it works and waits.
    pub fn watch(&mut self, waker: &Waker) {
        self.controller.watch(waker);
    }

    /// The tasks of other connections that have more to do by changes here. The caller wakes them
    /// once it holds no lock.
    pub fn take_woken(&mut self) -> Vec<Waker> {
        self.controller.take_woken()
    }

    /// When the peer's last news came, or this end began to wait for some.
    pub fn heard_at(&self) -> Instant {
        self.silence.since()
    }

    /// The round-trip time.
    pub fn rtt(&self) -> RttEstimator {
        self.sender.rtt()
    }

    /// The counters of both halves.
    pub fn stats(&self) -> (SenderStats, ReceiverStats) {
        (self.sender.stats(), self.receiver.stats())
    }

    /// The receiving half, to look at.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Sets the number of datagrams for which the receiver's socket had no room.
    pub fn set_overflowed(&mut self, datagrams: u64) {
        self.receiver.set_overflowed(datagrams);
    }

    fn handle_frame(&mut self, now: Instant, frame: &Control) -> Result<(), Failure> {
        match frame {
            Control::ErrorList(list) => {
                let mut feedback = self.sender.handle(now, list)?;
                feedback.delivered += feedback.segments * self.parameters.packet_len(0);
                // A list may have other news than arrivals.
                if feedback.has_arrivals {
                    self.silence.hear(now);
                    self.path_mtu.handle_arrivals();
                }
                self.controller.handle(now, &feedback, &self.sender.rtt());
                self.set_rate(now);
                while let Some(message) = self.sender.poll_delivered() {
                    self.deadlines.remove(message);
                    self.events.push_back(Event::Delivered { message });
                }
                self.update_busy();
                self.announce_rtt();
            }
            Control::MinRtt(microseconds) => {
                self.receiver.set_min_rtt(Duration::from_micros((*microseconds).into()));
                self.receiver.answer(now);
            }
            Control::GiveUp { message, start, length } => {
                let end = start.checked_add(*length).ok_or(Rejection::Contradiction)?;
                self.receiver.give_up(now, *message, *start..end)?;
                self.handle_arrivals(now);
            }
            Control::Refuse { message } => {
                if self.give_up(now, *message) {
                    self.events.push_back(Event::Refused { message: *message });
                }
            }
            Control::ProbeArrived { packet } => {
                // A segment of the base would have arrived too.
                if self.path_mtu.handle_answer(now, *packet) {
                    self.silence.hear_of_path(now);
                }
                self.apply_path_mtu();
            }
            Control::Finish { messages } => {
                if self.peer_messages.replace(*messages).is_none() {
                    self.incoming.finished(*messages);
                    self.events.push_back(Event::Finished { messages: *messages });
                }
            }
        }
        Ok(())
    }

    fn handle_arrivals(&mut self, now: Instant) {
        while let Some(arrival) = self.receiver.poll_arrival() {
            match arrival {
                Arrival::Begun { message, length } => {
                    if !self.incoming.begin(message, length) {
                        self.refuse(message);
                    }
                }
                Arrival::Whole { message } => self.incoming.whole(message),
                Arrival::GivenUp { message, length } => self.incoming.given_up(message, length),
            }
            self.raise_limits(now);
            self.events.push_back(Event::Arrival(arrival));
        }
    }

    /// Tells the peer that a message is to be given up.
    fn refuse(&mut self, message: u32) {
        self.refused.insert(message..message + 1);
    }

    /// Tells the peer how far it may send now. Before the peer has heard of all refused messages it
    /// may begin no further ones: so a peer that reads no frame cannot have this end keep a
    /// record of each.
    fn raise_limits(&mut self, now: Instant) {
        if !self.refused.is_empty() {
            return;
        }
        let (limit, message_limit) = self.incoming.limits(self.receiver.first_open());
        self.receiver.raise_limits(now, limit, message_limit);
    }

    /// Whether all messages of this end have arrived, and all of the peer, whose number is known.
    fn has_all(&self) -> bool {
        self.sender.is_done() && self.peer_messages.is_some_and(|messages| self.receiver.has_ended(messages))
    }

    fn end_if_closed(&mut self) {
        if self.has_ended() {
            self.events.push_back(Event::Closed);
        }
    }

    /// Whether the last event has come.
    fn has_ended(&self) -> bool {
        self.has_failed || self.is_closed && self.peer_is_closed
    }

    fn expire(&mut self, now: Instant, message: u32) {
        if self.give_up(now, message) {
            self.events.push_back(Event::Expired { message });
        }
    }

    /// Gives messages up whose turn it is, and that would not arrive in time at this rate: a
    /// message that is given up in the middle has cost those behind it their time.
    fn expire_hopeless(&mut self, now: Instant) {
        // At a rate that silence has halved some are to be sent all the same, or nothing would be heard for
        // ever.
        while self.silence.halvings() == 0
            && let Some((message, length)) = self.sender.next_message()
            && let Some(deadline) = self.deadlines.of(message)
        {
            let segments = length.div_ceil(self.path_mtu.current().into());
            let bytes = length.saturating_add(segments.saturating_mul(self.parameters.wire_len(0)));
            // With the time for a last segment that is sent again.
            let rtt = self.sender.rtt();
            let way = rtt.smoothed() / 2 + rtt.pto(self.peer_delay());
            if now + self.pacer.time_of(bytes) + way <= deadline {
                break;
            }
            self.deadlines.remove(message);
            self.expire(now, message);
        }
    }

    /// When the next segments may leave: as a whole burst, if there is as much to send.
    fn burst_at(&self) -> Option<Instant> {
        let length = self.sender.next_len()?;
        let burst = self.burst_len();
        let segments = (self.sender.backlog(burst) / u64::from(self.path_mtu.current())).max(1);
        let backlog = segments.saturating_mul(self.parameters.packet_len(length));
        Some(self.pacer.ready_at(backlog.min(burst)))
    }

    /// The most bytes of a burst, with the headers: two segments at least.
    fn burst_len(&self) -> u64 {
        let rate = u128::from(self.pacer.rate().as_bits_per_second());
        let line = u64::try_from(rate * self.parameters.burst.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX);
        line.max(self.min_burst())
    }

    /// Two segments, so that bursts save calls at any rate.
    fn min_burst(&self) -> u64 {
        2 * self.parameters.wire_len(self.path_mtu.current())
    }

    fn apply_path_mtu(&mut self) {
        self.sender.set_max_payload(self.path_mtu.current());
        self.pacer.set_min_burst(self.min_burst());
    }

    /// Tells the peer the least round-trip time: the first one, and one that has changed by a
    /// quarter. Queues change it little, and so does the time that a handshake takes.
    fn announce_rtt(&mut self) {
        let Some(now) = self.sender.min_rtt() else { return };
        if self.announced_rtt.is_none_or(|told| now.abs_diff(told) > told / 4) {
            self.announced_rtt = Some(now);
            self.must_announce_rtt = true;
        }
    }

    fn rtt_frame(&self) -> Control {
        let rtt = self.announced_rtt.unwrap_or(self.parameters.rtt);
        Control::MinRtt(u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX))
    }

    /// How long the peer may hold news of an arrival back.
    fn peer_delay(&self) -> Duration {
        2 * (self.announced_rtt.unwrap_or_default() / 8).max(MIN_INTERVAL)
    }

    fn patience(&self) -> Patience {
        let rtt = self.sender.rtt();
        let mut limit = self.parameters.max_silence;
        // Neither changes by itself: a path that has never carried a segment, or that carries small ones
        // alone.
        if !self.silence.has_heard() || self.path_mtu.is_too_small() {
            limit = limit.min(MAX_USELESS);
        }
        let limit = limit.max(MIN_PROBES * rtt.pto(self.peer_delay()));
        Patience { pause: (3 * rtt.smoothed()).max(MIN_SILENCE).min(limit / 2), limit }
    }

    /// Leaves the connection's share of a rate to others while its peer takes nothing.
    fn update_busy(&mut self) {
        self.controller.set_busy(self.sender.is_busy());
    }

    fn set_rate(&mut self, now: Instant) {
        let whole = self.controller.rate().as_bits_per_second();
        let rate = (whole >> self.silence.halvings().min(63)).max(MIN_RATE.min(whole)).max(1);
        self.pacer.set_rate(now, Bandwidth::bits_per_second(rate));
        self.sender.set_window(self.controller.window());
    }

    fn fail(&mut self, failure: Failure) {
        self.stop();
        self.events.push_back(Event::Failed(failure));
    }
}

/// The IP packets that every path must carry (RFC 8200, section 5).
pub const MIN_MTU: u32 = 1280;
/// The least time between two datagrams that keep the binding of a NAT, so that a caller who asks
/// for none does not have the driver send without end.
const MIN_KEEP_ALIVE: Duration = Duration::from_millis(10);
/// A message of several bursts.
const LONG_MESSAGE: u64 = 64 << 10;
/// The most time on the wire of a probe that looks for a larger MTU: segments wait for it.
const LONGEST_PROBE: Duration = Duration::from_millis(100);
/// A datagram has a byte behind its header.
const KEEP_ALIVE_PADDING: u32 = 1;
/// How long a peer may take to answer a probe on a short path: it may have other things to do.
const PROBE_DELAY: Duration = Duration::from_millis(20);
/// The most probes of the peer that wait to be answered: a round of its search has fewer.
const MAX_ARRIVED_PROBES: usize = 16;
/// The probe timeouts of a silence that ends a connection: with pauses that double, three probes at
/// least have gone out.
pub const MIN_PROBES: u32 = 8;
/// The longest silence of a path that has never carried a segment of this end, or that carries
/// small ones alone.
const MAX_USELESS: Duration = Duration::from_secs(5);
/// The least time without news after which the rate is halved.
const MIN_SILENCE: Duration = Duration::from_millis(300);
/// The time in which a connection that its application has dropped delivers its last messages, and
/// waits for the peer to close: an end that left at once would reset the control channel, and the
/// reset could overtake its last frames.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);
/// The rate below which no silence slows a connection: ten segments of 1,500 bytes a second, for
/// probes.
const MIN_RATE: u64 = 120_000;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::proto::{rate::Fixed, wire::ErrorList};

    /// One end of a connection at a fixed rate of 100 Mbit/s.
    pub(in crate::proto) fn end(now: Instant) -> ConnectionProtocol {
        let parameters = Parameters {
            peer_token: Token(71),
            max_payload: 1432,
            base_payload: 1432,
            floor_payload: None,
            overhead: 28,
            max_unacknowledged: 1 << 20,
            window: 1 << 20,
            max_message: 1 << 20,
            rtt: Duration::from_millis(1),
            max_silence: Duration::from_secs(5),
            keep_alive: None,
            depth: Duration::from_millis(1),
            burst: Duration::from_millis(1),
        };
        ConnectionProtocol::new(now, parameters, Box::new(Fixed(Bandwidth::mbps(100))))
    }

    /// The peer reads no frame, and sends as many messages of a byte as it may.
    #[test]
    fn every_unwanted_message_is_refused() {
        let now = Instant::now();
        let mut end = end(now);
        end.refuse_all(now);
        let begin = |end: &mut ConnectionProtocol, message: u32| {
            let (token, place) = (Token(2), u64::from(message));
            let header = SegmentHeader { token, packet: place, offset: place, message, message_len: 1, in_message: 0 };
            end.handle_segment(now, &header, 1)
        };
        let max = 1 << 17;
        let taken = (0..max).take_while(|message| begin(&mut end, *message).is_ok()).count() as u32;
        assert!(taken < max, "a peer that reads nothing may send without end");
        let mut refused = 0;
        while let Some(frame) = end.poll_control(now) {
            match frame {
                Control::Refuse { message } => {
                    assert_eq!(message, refused);
                    refused += 1;
                }
                frame => assert_eq!(refused, taken, "{frame:?} before all were refused"),
            }
        }
        assert_eq!(refused, taken);
        assert_eq!(begin(&mut end, taken), Ok(Payload::New), "it may send further");
    }

    /// The peer sends the first byte again and again, and never the second.
    #[test]
    fn duplicates_are_no_progress_of_a_close() {
        let (begin, limit) = (Instant::now(), Duration::from_secs(30));
        let mut end = end(begin);
        let header = SegmentHeader { token: Token(2), packet: 0, offset: 0, message: 0, message_len: 2, in_message: 0 };
        end.handle_segment(begin, &header, 1).unwrap();
        end.close(begin, limit);
        for packet in 1..30 {
            let now = begin + Duration::from_secs(packet);
            assert_eq!(end.handle_segment(now, &SegmentHeader { packet, ..header }, 1), Ok(Payload::Duplicate));
            end.handle_timeout(now);
        }
        end.handle_timeout(begin + limit);
        let events = std::iter::from_fn(|| end.poll_event());
        assert_eq!(events.last(), Some(Event::NotClosed { bytes: 0 }));
    }

    /// The peer takes none of them at first.
    #[test]
    fn peer_learns_of_expired_messages_that_it_may_take() {
        let now = Instant::now();
        let mut end = end(now);
        let messages = 1_000;
        for _ in 0..messages {
            let number = end.submit(now, 1).unwrap();
            end.set_deadline(number, now);
        }
        end.handle_timeout(now);
        assert_eq!(std::iter::from_fn(|| end.poll_event()).count() as u32, messages);
        let given_up = |end: &mut ConnectionProtocol| {
            let frames = std::iter::from_fn(|| end.poll_control(now));
            frames.filter(|frame| matches!(frame, Control::GiveUp { length: 0, .. })).count() as u32
        };
        assert_eq!(given_up(&mut end), 0);
        let list = ErrorList { message_limit: messages - 1, ..ErrorList::default() };
        end.handle_control(now, &Control::ErrorList(list));
        assert_eq!(given_up(&mut end), messages - 1);
        assert!(!end.poll_close() && end.sender.has_given_up());
    }
}
