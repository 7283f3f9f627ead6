//! The estimates of a lane's speed.

use super::{
    estimate::Estimate,
    transmissions::{Acknowledged, Transmission},
};
use crate::parameters::ACK_DELAY;
use std::time::{Duration, Instant};

/// How fast a lane is, by its round trips and by the times of its acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The least round trip that the driver measured.
    rtt: Option<Duration>,
    /// How long a chunk takes on this lane from the moment the lane takes it to its
    /// acknowledgement.
    service: Estimate,
    /// Chunks take at least this long, while the peer acknowledges none.
    service_at_least: Option<Duration>,
    /// Acknowledged bytes per second while the lane was busy.
    rate: Estimate,
    /// When the lane last had room and there was nothing for it.
    rested_at: Option<Instant>,
    /// When the peer last acknowledged a chunk.
    acknowledged_at: Option<Instant>,
}

impl Pace {
    /// The pace of a lane that has carried nothing, whose round trip is known or not.
    pub(super) fn new(rtt: Option<Duration>) -> Self {
        Self { rtt, ..Self::default() }
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// When the peer last acknowledged a chunk.
    pub(super) fn acknowledged_at(&self) -> Option<Instant> {
        self.acknowledged_at
    }

    /// When the lane last made progress, if the peer has acknowledged nothing since the lane took
    /// `sent`: then, or at the last acknowledgement.
    pub(super) fn progress_at(&self, sent: &Transmission) -> Instant {
        self.acknowledged_at.map_or(sent.taken(), |at| at.max(sent.taken()))
    }

    /// How long chunks take, or at least take.
    pub(super) fn service(&self) -> Option<Duration> {
        self.service.get().map(Duration::from_secs_f64).max(self.service_at_least)
    }

    /// Whether chunks have taken longer than the estimate since the last acknowledgement, so that
    /// [`Pace::service`] is a lower bound.
    pub(super) fn is_service_bound(&self) -> bool {
        self.service_at_least.is_some()
    }

    /// The estimated rate, in bytes per second. While the `oldest` chunk in flight takes longer
    /// than that rate explains, the rate is at most what the chunk's age allows. Otherwise only
    /// an acknowledgement would lower the estimate of a stuck lane, and the bytes left to the
    /// lane would wait for it.
    pub(super) fn rate(&self, now: Option<Instant>, oldest: Option<&Transmission>) -> Option<f64> {
        let rate = self.rate.get()?;
        let (Some(now), Some(oldest)) = (now, oldest) else { return Some(rate) };
        let explained = self.rtt.unwrap_or_default() + ACK_DELAY;
        let busy_for = now.saturating_duration_since(self.progress_at(oldest)).saturating_sub(explained);
        let allowed = f64::from(oldest.length().max(1)) / busy_for.as_secs_f64();
        Some(if busy_for > LONG_SAMPLE { rate.min(allowed) } else { rate })
    }

    /// How long the lane still needs to deliver `bytes`, by its rate, if the `oldest` chunk in
    /// flight is among them.
    pub(super) fn remaining(&self, now: Instant, bytes: u64, oldest: &Transmission) -> Option<Duration> {
        let whole = Duration::try_from_secs_f64(bytes as f64 / self.rate.get()?).unwrap_or(Duration::MAX);
        Some(whole.saturating_sub(now.saturating_duration_since(self.progress_at(oldest))))
    }

    /// Takes a round trip, as the driver measured it. The lane keeps the least: the others met
    /// queues.
    pub(super) fn observe_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or(rtt, |known| known.min(rtt)));
    }

    /// The lane has room, and there is nothing for it.
    pub(super) fn rest(&mut self, now: Instant) {
        self.rested_at = Some(now);
    }

    /// Forgets the estimates: they are of the time before the lane stalled.
    pub(super) fn forget_estimates(&mut self) {
        (self.rate, self.service, self.service_at_least) = Default::default();
    }

    /// The peer has read a chunk that the lane took at `taken`, and has not acknowledged it on this
    /// lane.
    pub(super) fn observe_age(&mut self, now: Instant, taken: Instant) {
        let least = now.saturating_duration_since(taken);
        if self.service().is_none_or(|service| service < least) {
            self.service_at_least = Some(least);
        }
    }

    /// Updates the estimates after an acknowledgement of `chunks`.
    pub(super) fn observe(&mut self, now: Instant, chunks: Acknowledged) {
        let Acknowledged { oldest, newest, bytes } = chunks;
        let took = now.saturating_duration_since(newest);
        // A new observation replaces the estimate of a lane that has carried nothing for a while.
        let is_stale = self.acknowledged_at.is_some_and(|at| oldest.saturating_duration_since(at) >= STALE);
        if is_stale {
            self.service = Estimate::default();
        }
        // A lane that has had a chunk in flight and was never idle since the last acknowledgement was busy
        // all the time.
        let since = self.acknowledged_at.filter(|at| *at >= oldest && self.rested_at.is_none_or(|rested| rested < *at));
        if let Some(since) = since {
            let busy_for = now.saturating_duration_since(since).max(SHORTEST_SAMPLE);
            self.rate.update(busy_for, bytes as f64 / busy_for.as_secs_f64());
        } else if bytes >= MIN_SAMPLE {
            // Otherwise the time contains a round trip, the delay of the acknowledgement, and perhaps a pause:
            // the lane is at least as fast as that. If the time is far longer than all of these,
            // the lane is no faster either.
            let took = now.saturating_duration_since(oldest).saturating_sub(self.rtt.unwrap_or_default());
            let busy_for = (took - ACK_DELAY.min(took / 2)).max(SHORTEST_SAMPLE);
            let rate = bytes as f64 / busy_for.as_secs_f64();
            if busy_for > LONG_SAMPLE || self.rate.get().is_none_or(|known| rate > known) {
                if is_stale {
                    self.rate = Estimate::default();
                }
                self.rate.update(busy_for, rate);
            }
        }
        self.service.update(took.max(SHORTEST_SAMPLE), took.as_secs_f64());
        self.service_at_least = None;
        self.acknowledged_at = Some(now);
    }
}

/// The time after the last acknowledgement at which a lane's estimates are stale.
const STALE: Duration = Duration::from_millis(200);
/// The shortest time that gives a rate: two acknowledgements that come together say nothing about
/// it.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(1);
/// The fewest bytes that give a rate.
const MIN_SAMPLE: u64 = 16 << 10;
/// A lane that took longer by this than a round trip and a delayed acknowledgement explain was busy
/// all the time.
const LONG_SAMPLE: Duration = Duration::from_millis(20);
