//! The model of a path: its delivery rate, its round trip, and its loss without a queue.

use crate::proto::{receiver::MIN_INTERVAL, sender::Feedback, windowed_min::WindowedMin};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// The path, by the error lists of the last seconds. Rates are in bits per second, and count IP
/// packets.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// The lists of the latest round, and the last one before it.
    lists: VecDeque<List>,
    /// The latest round trips.
    samples: VecDeque<(Instant, Duration)>,
    min_rtt: WindowedMin,
    /// The last time at which the round trip was about the least.
    pub(super) emptied_at: Option<Instant>,
    /// The bits of a packet, as of the latest ones.
    packet: f64,
    /// When the latest list came, and whether it came late and was no evidence.
    heard_at: Option<Instant>,
    is_late: bool,
    /// The share of packets that are lost without a queue.
    pub(super) loss: f64,
    /// The packets by which the loss is known.
    pub(super) judged: f64,
}

/// An error list.
#[derive(Debug, Clone, Copy)]
struct List {
    at: Instant,
    /// The pause between lists, by the round trip when it came.
    interval: Duration,
    /// The bits that have arrived, and those that were judged, lost ones included.
    delivered: f64,
    judged: f64,
}

/// The rates of the latest round.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rates {
    /// The rate at which bits have arrived.
    pub(super) delivered: f64,
    /// The rate at which bits have arrived or were found to be lost: that at which they passed the
    /// bottleneck, if it has lost none.
    pub(super) judged: f64,
}

impl Path {
    /// Takes an error list, and keeps as many as tell of `span`. Returns whether it is evidence of
    /// the path.
    ///
    /// A list that comes late, and those that come with it, tell of a pause of either end, or of
    /// the control channel. If the next one is late as well, then the path is slow.
    pub(super) fn handle(&mut self, now: Instant, feedback: &Feedback, rate: f64, span: Duration) -> bool {
        let pause = self.heard_at.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let patience = LATE_INTERVALS * (self.interval() + Duration::from_secs_f64(self.packet() / rate.max(1.0)));
        self.is_late = if self.is_late { pause.is_zero() } else { pause > patience };
        if self.is_late || feedback.is_limited {
            // Fewer bits were sent since the last list than could have been.
            self.lists.clear();
        }
        let (delivered, regained) = (feedback.delivered as f64 * 8.0, feedback.regained as f64 * 8.0);
        if feedback.segments > 0 {
            self.packet = (delivered - regained) / feedback.segments as f64;
        }
        // Regained bits were judged before.
        let judged = delivered - regained + self.packet() * feedback.lost_segments as f64;
        let sample = feedback.rtt.filter(|_| !self.is_late);
        self.lists.push_back(List { at: now, interval: self.interval(), delivered, judged });
        while self.lists.get(1).is_some_and(|second| second.at + span <= now) {
            self.lists.pop_front();
        }
        while self.lists.len() > MAX_LISTS {
            self.lists.pop_front();
        }
        let Some(sample) = sample else { return !self.is_late };
        self.min_rtt.sample(now, sample);
        self.samples.push_back((now, sample));
        while self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        if sample <= self.base() + EMPTY + Duration::from_secs_f64(self.packet() / 2.0 / rate.max(1.0)) {
            self.emptied_at = Some(now);
        }
        true
    }

    /// The pause between two error lists.
    fn interval(&self) -> Duration {
        (self.base() / 8).max(MIN_INTERVAL)
    }

    /// The bits of a packet.
    pub(super) fn packet(&self) -> f64 {
        if self.packet > 0.0 { self.packet } else { UNKNOWN_PACKET }
    }

    /// The least round trip of the last seconds.
    pub(super) fn base(&self) -> Duration {
        self.min_rtt.get().unwrap_or(UNKNOWN_BASE)
    }

    /// The time in which a change of the rate is known to have had its effect: a round trip, and
    /// the pause between error lists.
    pub(super) fn round(&self) -> Duration {
        self.latest(3).unwrap_or(self.base()) + self.interval()
    }

    /// The longest that packets have waited in queues, at the least, in the time of half a round
    /// trip.
    pub(super) fn queue(&self, now: Instant) -> Duration {
        let since = now.checked_sub(self.base() / 2);
        let recent = self.samples.iter().rev().enumerate();
        let recent = recent.take_while(|(index, (at, _))| *index < 2 || since.is_none_or(|since| *at >= since));
        let least = recent.map(|(_, (_, sample))| *sample).min();
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
        if self.lists.len() < 3 {
            return None;
        }
        // A control channel that repeats a lost packet gives the lists behind it at once. They tell of no
        // less time for that, but of somewhat less than by this end's interval where the round trip
        // has just become longer. The peer keeps its shorter interval until it hears of that, and
        // its lists come for a round trip more.
        let interval = self.lists.iter().map(|list| list.interval).min().unwrap_or_default();
        let least = interval * 3 / 4 * (self.lists.len() - 1) as u32;
        let time = last.at.saturating_duration_since(first.at).max(least).as_secs_f64();
        let sum = |bits: fn(&List) -> f64| self.lists.iter().skip(1).map(bits).sum::<f64>() / time;
        Some(Rates { delivered: sum(|list| list.delivered), judged: sum(|list| list.judged) })
    }

    /// The time between a change of the rate and its effect, and the pause between error lists,
    /// without a queue.
    pub(super) fn empty_round(&self) -> Duration {
        self.base() + self.interval()
    }

    fn latest(&self, lists: usize) -> Option<Duration> {
        self.samples.iter().rev().map(|(_, sample)| *sample).take(lists).min()
    }
}

/// A base before the first sample.
const UNKNOWN_BASE: Duration = Duration::from_millis(20);
/// A round trip is about the least if it exceeds it by no more.
pub(super) const EMPTY: Duration = Duration::from_micros(500);
/// A list that comes later than this number of intervals is late.
const LATE_INTERVALS: u32 = 4;
/// The bits of a packet before the first has arrived.
const UNKNOWN_PACKET: f64 = 12_000.0;
/// The round trips that are kept: half a round has about five.
const SAMPLES: usize = 64;
/// The most lists that are kept: a round has about ten.
const MAX_LISTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// The control channel stands still, and then gives many lists within less time than one of
    /// them tells of.
    #[test]
    fn lists_that_come_at_once_tell_of_their_whole_time() {
        let (mut now, ms) = (Instant::now(), Duration::from_millis(1));
        let mut path = Path::default();
        let feedback = Feedback { delivered: 15_000, segments: 10, rtt: Some(20 * ms), ..Feedback::default() };
        let steady = |_| 5 * ms / 2;
        let pauses = (0..10).map(steady).chain([200 * ms]).chain((0..80).map(|_| ms / 20)).chain((0..10).map(steady));
        for pause in pauses {
            now += pause;
            path.handle(now, &feedback, 60e6, 20 * ms);
            assert!(path.rates().is_none_or(|rates| rates.judged < 65e6), "{:?}", path.rates());
        }
        assert!(path.rates().is_some_and(|rates| rates.judged > 47e6), "{:?}", path.rates());
    }

    /// The least round trip of the old path is forgotten, and lists come at the pause of before for
    /// a round trip more.
    #[test]
    fn path_that_has_become_longer_is_as_fast() {
        let (mut now, ms) = (Instant::now(), Duration::from_millis(1));
        let mut path = Path::default();
        let list = |rtt| Feedback { delivered: 15_000, segments: 10, rtt: Some(rtt), ..Feedback::default() };
        let (shorter, longer) = ((0..100).map(|_| 20 * ms), (0..6_000).map(|_| 160 * ms));
        let (mut longer_at, mut lists) = (None, 0);
        for rtt in shorter.chain(longer) {
            now += 5 * ms / 2;
            path.handle(now, &list(rtt), 48e6, (path.empty_round() * 5 / 4).max(20 * ms));
            if path.base() == 160 * ms {
                longer_at.get_or_insert(now);
            }
            if longer_at.is_some_and(|at| now > at + 160 * ms) {
                break;
            }
            lists += 1;
            assert!(lists < 3 || path.rates().is_some_and(|rates| rates.judged > 45e6), "{lists}: {:?}", path.rates());
        }
        assert!(longer_at.is_some());
    }

    /// Ten packets for each list, of which the second list takes two for lost that the third one
    /// regains.
    #[test]
    fn regained_segments_count_once() {
        let (mut now, ms) = (Instant::now(), Duration::from_millis(1));
        let mut path = Path::default();
        for (segments, lost_segments, regained) in [(10, 0, 0), (8, 2, 0), (10, 0, 2)] {
            let feedback = Feedback {
                delivered: 1_500 * (segments + regained),
                regained: 1_500 * regained,
                segments,
                lost_segments,
                rtt: Some(20 * ms),
                ..Feedback::default()
            };
            assert!(path.handle(now, &feedback, 48e6, 20 * ms));
            assert_eq!(path.packet(), 12_000.0);
            now += 5 * ms / 2;
        }
        let rates = path.rates().unwrap();
        assert_eq!((rates.judged, rates.delivered), (48e6, 48e6));
    }
}
