//! The model of a path: how fast it delivers, how long its round trip is, and which loss it always has.

use crate::proto::{round_trip::RoundTrip, sender::Feedback};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The path, by the error lists of the last seconds. Rates are in bits per second, and count IP packets.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// The lists of the latest round, and the last one before it.
    lists: VecDeque<List>,
    /// Round trips of which no later one is shorter: the first is the least of the window.
    least: VecDeque<(Instant, Duration)>,
    /// The last time at which the round trip was about the least.
    pub(super) emptied_at: Option<Instant>,
    interval: Duration,
    /// The share of packets that are lost without a queue.
    pub(super) loss: f64,
    /// The packets by which it is known.
    pub(super) judged: f64,
}

/// An error list.
#[derive(Debug, Clone, Copy)]
struct List {
    at: Instant,
    round_trip: Option<Duration>,
    /// The bits that have arrived, and those that were judged, lost ones included.
    delivered: f64,
    judged: f64,
}

/// The rates of the latest round.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rates {
    /// That at which bits have arrived.
    pub(super) delivered: f64,
    /// That at which they have arrived or were found to be lost: the rate at which they passed the bottleneck, if that
    /// has lost none.
    pub(super) judged: f64,
}

impl Path {
    /// Takes an error list, and keeps as many as tell of `span`.
    pub(super) fn handle(&mut self, now: Instant, feedback: &Feedback, round_trip: &RoundTrip, span: Duration) {
        self.interval = (round_trip.smoothed() / 8).max(LEAST_INTERVAL);
        let delivered = feedback.delivered as f64 * 8.0;
        let packet = delivered / feedback.segments.max(1) as f64;
        let judged = delivered + packet * feedback.lost_segments as f64;
        self.lists.push_back(List { at: now, round_trip: feedback.round_trip, delivered, judged });
        while self.lists.get(1).is_some_and(|second| second.at + span <= now) {
            self.lists.pop_front();
        }
        while self.lists.len() > MOST_LISTS {
            self.lists.pop_front();
        }
        let Some(sample) = feedback.round_trip else { return };
        while self.least.back().is_some_and(|(_, last)| *last >= sample) {
            self.least.pop_back();
        }
        self.least.push_back((now, sample));
        while self.least.front().is_some_and(|(at, _)| *at + BASE_WINDOW <= now) {
            self.least.pop_front();
        }
        if sample <= self.base() + EMPTY {
            self.emptied_at = Some(now);
        }
    }

    /// The least round trip of the last seconds.
    pub(super) fn base(&self) -> Duration {
        self.least.front().map_or(UNKNOWN_BASE, |(_, least)| *least)
    }

    /// The time in which a change of the rate is known to have had its effect: a round trip, and the pause between error
    /// lists.
    pub(super) fn round(&self) -> Duration {
        self.latest(3).unwrap_or(self.base()) + self.interval
    }

    /// The longest that packets have waited in queues, at the least, in the time of half a round trip.
    pub(super) fn queue(&self, now: Instant) -> Duration {
        let since = now.checked_sub(self.base() / 2);
        let recent = self.lists.iter().rev().enumerate();
        let recent = recent.take_while(|(index, list)| *index < 2 || since.is_none_or(|since| list.at >= since));
        let least = recent.filter_map(|(_, list)| list.round_trip).min();
        least.unwrap_or_default().saturating_sub(self.base())
    }

    /// The queue by the latest two lists.
    pub(super) fn latest_queue(&self) -> Duration {
        self.latest(2).unwrap_or_default().saturating_sub(self.base())
    }

    /// The queue by the latest list.
    pub(super) fn newest_queue(&self) -> Duration {
        self.latest(1).unwrap_or_default().saturating_sub(self.base())
    }

    /// The rates of the latest round; `None` if it is not known yet.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.lists.front()?, self.lists.back()?);
        let time = last.at.saturating_duration_since(first.at).as_secs_f64();
        if self.lists.len() < 3 || time <= 0.0 {
            return None;
        }
        let sum = |bits: fn(&List) -> f64| self.lists.iter().skip(1).map(bits).sum::<f64>() / time;
        Some(Rates { delivered: sum(|list| list.delivered), judged: sum(|list| list.judged) })
    }

    /// Forgets the lists, as after a pause.
    pub(super) fn forget_lists(&mut self) {
        self.lists.clear();
    }

    /// A queue that a sender takes for none, as the round trip is never quite the same.
    pub(super) fn tolerance(&self) -> Duration {
        EMPTY + self.base() / 64
    }

    fn latest(&self, lists: usize) -> Option<Duration> {
        self.lists.iter().rev().filter_map(|list| list.round_trip).take(lists).min()
    }
}

/// The time for which a round trip is the path's least one (10 s in BBR).
const BASE_WINDOW: Duration = Duration::from_secs(10);
/// A base before the first sample.
const UNKNOWN_BASE: Duration = Duration::from_millis(20);
/// The receiver sends no list earlier after another.
const LEAST_INTERVAL: Duration = Duration::from_millis(2);
/// A round trip is about the least if it exceeds it by no more.
const EMPTY: Duration = Duration::from_micros(500);
/// The most lists that are kept: a round has about ten.
const MOST_LISTS: usize = 256;
