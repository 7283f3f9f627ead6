//! A flow, and one of two real ends.

use rails_celeritas::proto::{
    connection::{ConnectionProtocol, Parameters},
    rate::{Adaptive, AdaptiveOptions},
    sender::Segment,
    wire::{Control, SegmentHeader, Token},
};
use std::time::{Duration, Instant};

/// A flow with as much to send as the path takes.
pub(crate) trait Flow {
    /// Something has arrived, at the receiver or at the sender.
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: Item);

    /// It is [due](Self::due).
    fn timeout(&mut self, now: Instant);

    /// Everything that may leave now leaves.
    fn work(&mut self, now: Instant, outbox: &mut Outbox);

    fn due(&self) -> Option<Instant>;
}

#[derive(Debug)]
pub(crate) enum Item {
    Segment(SegmentHeader, u32),
    Control(Control),
    /// A packet of a rival, or its acknowledgment.
    Number(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Packets for the line, with the bytes of their IP packets.
    pub(crate) forward: Vec<(u64, Item)>,
    /// What the channels without loss carry, to the receiver or to the sender.
    pub(crate) control: Vec<(bool, Item)>,
}

/// Two ends of a connection: the first one sends.
pub(crate) struct Celeritas([ConnectionProtocol; 2]);

/// A connection that looks for its rate.
pub(crate) fn adaptive(options: AdaptiveOptions) -> impl FnOnce(Instant, Duration) -> Box<dyn Flow> {
    move |now, round_trip| {
        let mut ends = [0, 1].map(|end| {
            let parameters = Parameters {
                peer_token: Token(end),
                most_payload: 1432,
                base_payload: 1432,
                floor_payload: None,
                overhead: 28,
                most_unacknowledged: 64 << 20,
                window: u64::MAX,
                most_message: u64::MAX,
                round_trip,
                max_silence: Duration::from_secs(5),
                keep_alive: None,
                depth: Duration::from_millis(2),
                burst: Duration::from_micros(250),
            };
            ConnectionProtocol::new(now, parameters, Box::new(Adaptive::new(options)))
        });
        ends[0].submit(now, 1 << 40).expect("it can be sent");
        Box::new(Celeritas(ends))
    }
}

impl Flow for Celeritas {
    fn arrive(&mut self, now: Instant, at_receiver: bool, item: Item) {
        let end = &mut self.0[usize::from(at_receiver)];
        match item {
            Item::Segment(header, payload) => drop(end.handle_segment(now, &header, payload).expect("it is sound")),
            Item::Control(frame) => end.handle_control(now, &frame),
            Item::Number(_) => unreachable!("rivals send these"),
        }
    }

    fn timeout(&mut self, now: Instant) {
        self.0.iter_mut().for_each(|end| end.handle_timeout(now));
    }

    fn work(&mut self, now: Instant, outbox: &mut Outbox) {
        let mut burst = Vec::new();
        loop {
            let before = burst.len();
            let mut next = Vec::new();
            self.0[0].poll_transmit(now, 44, &mut next);
            burst.append(&mut next);
            if burst.len() == before {
                break;
            }
        }
        let wire = |one: &Segment| u64::from(one.payload_len) + 28 + one.header_len() as u64;
        let segments = burst.iter().map(|one| (wire(one), Item::Segment(one.header, one.payload_len)));
        outbox.forward.extend(segments);
        for (index, end) in self.0.iter_mut().enumerate() {
            while let Some(frame) = end.poll_control(now) {
                outbox.control.push((index == 0, Item::Control(frame)));
            }
            while end.poll_event().is_some() {}
        }
    }

    fn due(&self) -> Option<Instant> {
        self.0.iter().filter_map(ConnectionProtocol::poll_timeout).min()
    }
}
