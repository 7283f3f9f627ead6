//! A flow, and one of two real ends.

use rails_celeritas::proto::{
    connection::{ConnectionProtocol, Parameters},
    rate::{Adaptive, AdaptiveOptions},
    sender::Segment,
    wire::{Control, HEADER_LEN, ProbeHeader, SegmentHeader, Token},
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// A flow over the bottleneck.
pub(crate) trait Flow {
    /// Something has arrived, at the receiver or at the sender.
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: Item);

    /// The flow is [due](Self::due).
    fn timeout(&mut self, now: Instant);

    /// Everything that may leave now leaves.
    fn work(&mut self, now: Instant, outbox: &mut Outbox);

    fn due(&self) -> Option<Instant>;
}

#[derive(Debug)]
pub(crate) enum Item {
    Segment(SegmentHeader, u32),
    Control(Control),
    Probe(ProbeHeader),
    /// A packet of a rival, or its acknowledgment.
    Number(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Packets for the line, with the bytes of their IP packets.
    pub(crate) forward: Vec<(u64, Item)>,
    /// Items on the channels without loss, to the receiver or to the sender.
    pub(crate) control: Vec<(bool, Item)>,
}

/// Messages of an application: the time since the beginning at which each is submitted, and its
/// bytes.
pub(crate) type Source = Box<dyn Iterator<Item = (Duration, u64)>>;

/// A time since the beginning in which one end does not run: 0 is the sender.
pub(crate) type Pause = (usize, Range<Duration>);

/// Two ends of a connection: the first one sends.
pub(crate) struct Celeritas {
    ends: [ConnectionProtocol; 2],
    begin: Instant,
    now: Instant,
    source: Source,
    /// The next message of the source.
    next: Option<(Duration, u64)>,
    pauses: Vec<Pause>,
    /// For ends that do not run.
    waiting: [Vec<Item>; 2],
}

/// How a connection differs from one that sends without end.
pub(crate) struct Plan {
    pub(crate) options: AdaptiveOptions,
    pub(crate) source: Source,
    pub(crate) pauses: Vec<Pause>,
    /// By how much the handshake took longer than a round trip.
    pub(crate) late: Duration,
}

impl Plan {
    pub(crate) fn endless() -> Self {
        let source: Source = Box::new(std::iter::once((Duration::ZERO, 1 << 40)));
        Self { options: AdaptiveOptions::new(), source, pauses: Vec::new(), late: Duration::ZERO }
    }
}

/// The parameters of an end whose handshake has taken `rtt`.
pub(crate) fn parameters(end: u64, rtt: Duration) -> Parameters {
    Parameters {
        peer_token: Token(end),
        max_payload: 1432,
        base_payload: 1432,
        floor_payload: None,
        overhead: 28,
        max_unacknowledged: 1 << 30,
        window: u64::MAX,
        max_message: u64::MAX,
        rtt,
        max_silence: Duration::from_secs(5),
        keep_alive: None,
        depth: Duration::from_millis(2),
        burst: Duration::from_micros(250),
    }
}

/// A connection that looks for its rate.
pub(crate) fn adaptive(plan: Plan) -> impl FnOnce(Instant, Duration) -> Box<dyn Flow> {
    move |now, rtt| {
        let ends = [0, 1].map(|end| {
            let parameters = parameters(end, rtt + plan.late);
            ConnectionProtocol::new(now, parameters, Box::new(Adaptive::new(plan.options)))
        });
        let Plan { mut source, pauses, .. } = plan;
        let next = source.next();
        Box::new(Celeritas { ends, begin: now, now, source, next, pauses, waiting: [Vec::new(), Vec::new()] })
    }
}

impl Celeritas {
    /// When an end runs again that does not run now.
    fn paused_until(&self, now: Instant, end: usize) -> Option<Instant> {
        let mut pauses = self.pauses.iter().filter(|(paused, _)| *paused == end);
        let (_, pause) = pauses.find(|(_, pause)| pause.contains(&(now - self.begin)))?;
        Some(self.begin + pause.end)
    }

    fn take(&mut self, now: Instant, end: usize, item: Item) {
        let end = &mut self.ends[end];
        match item {
            Item::Segment(header, payload) => drop(end.handle_segment(now, &header, payload).expect("it is sound")),
            Item::Probe(header) => end.handle_probe(&header),
            Item::Control(frame) => end.handle_control(now, &frame),
            Item::Number(_) => unreachable!("rivals send these"),
        }
    }

    /// When an end is to run next.
    fn due_of(&self, end: usize) -> Option<Instant> {
        let next = self.next.filter(|_| end == 0).map(|(at, _)| self.begin + at);
        let waiting = (!self.waiting[end].is_empty()).then_some(self.now);
        let due = self.ends[end].poll_timeout().into_iter().chain(next).chain(waiting).min()?.max(self.now);
        Some(self.paused_until(due, end).unwrap_or(due))
    }

    /// The sender's driver runs: messages of the application, and bursts.
    fn send(&mut self, now: Instant, outbox: &mut Outbox) {
        while let Some((header, padding)) = self.ends[0].poll_probe(now) {
            outbox.forward.push((u64::from(padding) + 28 + HEADER_LEN as u64, Item::Probe(header)));
        }
        while let Some((_, bytes)) = self.next.filter(|(at, _)| self.begin + *at <= now) {
            self.ends[0].submit(now, bytes).expect("it can be sent");
            self.next = self.source.next();
        }
        loop {
            let mut burst = Vec::new();
            self.ends[0].poll_transmit(now, 44, &mut burst);
            if burst.is_empty() {
                break;
            }
            let wire = |one: &Segment| u64::from(one.payload_len) + 28 + one.header_len() as u64;
            let segments = burst.iter().map(|one| (wire(one), Item::Segment(one.header, one.payload_len)));
            outbox.forward.extend(segments);
        }
    }
}

impl Flow for Celeritas {
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: Item) {
        self.now = now;
        let end = usize::from(at_receiver);
        match self.paused_until(now, end) {
            Some(_) => self.waiting[end].push(item),
            None => self.take(now, end, item),
        }
    }

    fn timeout(&mut self, now: Instant) {
        self.now = now;
    }

    fn work(&mut self, now: Instant, outbox: &mut Outbox) {
        for end in 0..2 {
            if self.paused_until(now, end).is_some() {
                continue;
            }
            for item in std::mem::take(&mut self.waiting[end]) {
                self.take(now, end, item);
            }
            self.ends[end].handle_timeout(now);
            if end == 0 {
                self.send(now, outbox);
            }
            while let Some(frame) = self.ends[end].poll_control(now) {
                outbox.control.push((end == 0, Item::Control(frame)));
            }
            while self.ends[end].poll_event().is_some() {}
        }
    }

    fn due(&self) -> Option<Instant> {
        (0..2).filter_map(|end| self.due_of(end)).min()
    }
}
