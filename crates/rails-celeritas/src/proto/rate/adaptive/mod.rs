//! A rate controller that searches for the rate of the path.
//!
//! The controller keeps a short queue: it knows the least round trip, and the rate at which its
//! packets pass the bottleneck. From these it sets the rate so that the queue comes to a target
//! within a few round trips. The target falls as the rate rises, so that of several connections
//! with one queue the slower ones gain. A loss is no sign of congestion by itself.

mod cubic;
mod path;

use super::RateController;
use crate::proto::{rtt::RttEstimator, sender::Feedback};
use cubic::Cubic;
use path::{EMPTY, Path, Rates};
use rails_topo::Bandwidth;
use std::time::{Duration, Instant};

/// The bounds of an [`Adaptive`] rate. Rates count IP packets with their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct AdaptiveOptions {
    min_rate: Bandwidth,
    max_rate: Option<Bandwidth>,
    initial_rate: Bandwidth,
}

/// Searches for the rate that a path carries, and makes way for other flows.
#[derive(Debug)]
pub struct Adaptive {
    options: AdaptiveOptions,
    /// The rate in bits per second.
    rate: f64,
    window: u64,
    path: Path,
    phase: Phase,
    round: RoundCounts,
    /// Consecutive rounds in which the queue was empty at some time.
    empty_rounds: i32,
    /// Whether the last round lost more than the path always does.
    is_lossy: bool,
    /// The highest rate at which packets have arrived in a round. It ages.
    peak: f64,
    /// The queue at which packets were dropped, and when.
    depth: Option<(Instant, Duration)>,
    refreshed_at: Option<Instant>,
    crowded_since: Option<(Instant, f64)>,
    /// Consecutive refreshes in which the queue did not run empty.
    full_refreshes: u32,
    /// Consecutive refreshes in which the queue ran empty.
    empty_refreshes: u32,
    handled_at: Option<Instant>,
    /// When packets arrived last that were sent at the whole rate.
    used_at: Option<Instant>,
    /// The bytes that have arrived since the start.
    delivered: f64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The rate doubles in each round.
    Startup { best: f64, stalled: u32 },
    /// The queue that `Startup` has made runs empty.
    Drain { until: Instant, best: f64 },
    /// The queue is kept at its target.
    Cruise,
    /// The queue runs empty, so that the least round trip is seen.
    Refresh { from: Instant, until: Instant, held: SavedRate },
    /// The rate is the former one until the path is known again.
    Settle { from: Instant, low_until: Instant, until: Instant, held: SavedRate },
    /// Others keep the queue full: CUBIC's window.
    Compete(Cubic),
}

impl Phase {
    fn is_start(&self) -> bool {
        matches!(self, Self::Startup { .. } | Self::Drain { .. })
    }

    fn is_competing(&self) -> bool {
        match self {
            Self::Compete(_) => true,
            Self::Refresh { held, .. } | Self::Settle { held, .. } => held.cubic.is_some(),
            Self::Startup { .. } | Self::Drain { .. } | Self::Cruise => false,
        }
    }
}

/// The state that goes on after a pause.
#[derive(Debug, Clone, Copy)]
struct SavedRate {
    rate: f64,
    cubic: Option<Cubic>,
}

/// The segments of a round.
#[derive(Debug, Default, Clone, Copy)]
struct RoundCounts {
    begin: Option<Instant>,
    arrived: f64,
    lost: f64,
    /// The shortest and the longest queue.
    queue: Option<Duration>,
    longest_queue: Duration,
    is_limited: bool,
}

impl AdaptiveOptions {
    /// Between 100 kbit/s and all that the path carries, beginning with 5 Mbit/s.
    pub fn new() -> Self {
        Self { min_rate: Bandwidth::bits_per_second(100_000), max_rate: None, initial_rate: Bandwidth::mbps(5) }
    }

    /// The rate below which no congestion slows a connection down. Default: 100 kbit/s.
    pub fn min_rate(self, rate: Bandwidth) -> Self {
        Self { min_rate: rate, ..self }
    }

    /// The rate that a connection never exceeds. Default: none.
    pub fn max_rate(self, rate: Bandwidth) -> Self {
        Self { max_rate: Some(rate), ..self }
    }

    /// The rate with which a connection begins. It doubles in each round trip from there on, until
    /// the queue grows. Default: 5 Mbit/s.
    pub fn initial_rate(self, rate: Bandwidth) -> Self {
        Self { initial_rate: rate, ..self }
    }
}

impl Default for AdaptiveOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RateController for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn rate(&self) -> Bandwidth {
        Bandwidth::bits_per_second(self.rate as u64)
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn handle(&mut self, now: Instant, feedback: &Feedback, rtt: &RttEstimator) {
        self.delivered += feedback.delivered as f64;
        if feedback.is_limited {
            self.forget_unused(now);
        } else {
            self.used_at = Some(now);
        }
        let step = self.handled_at.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let is_evidence = self.path.handle(now, feedback, self.rate, self.span());
        self.round.add(feedback, &self.path);
        if is_evidence {
            let begin = *self.round.begin.get_or_insert(now);
            let round = self.path.round();
            let is_known = self.round.count() >= ROUND_PACKETS || now >= begin + LONGEST_ROUND * round;
            if now >= begin + round && is_known {
                let round =
                    std::mem::replace(&mut self.round, RoundCounts { begin: Some(now), ..RoundCounts::default() });
                self.peak = round.rate(now - begin, self.path.packet()).max(self.peak * aged(now - begin));
                self.end_round(now, &round);
            }
            self.go_on(now, step, feedback.is_limited, rtt);
        }
        let max = self.options.max_rate.map_or(f64::MAX, |max| max.as_bits_per_second() as f64);
        self.rate = self.rate.max(self.options.min_rate.as_bits_per_second() as f64).min(max);
        self.set_window();
    }

    fn resume(&mut self, now: Instant) {
        self.forget_unused(now);
    }
}

impl Adaptive {
    /// Begins with the initial rate of the options.
    pub fn new(options: AdaptiveOptions) -> Self {
        let max = options.max_rate.unwrap_or(options.initial_rate);
        let mut new = Self {
            options,
            rate: options.initial_rate.min(max).as_bits_per_second() as f64,
            window: 0,
            path: Path::default(),
            phase: Phase::Startup { best: 0.0, stalled: 0 },
            round: RoundCounts::default(),
            empty_rounds: 0,
            is_lossy: false,
            peak: 0.0,
            depth: None,
            refreshed_at: None,
            crowded_since: None,
            full_refreshes: 0,
            empty_refreshes: 0,
            handled_at: None,
            used_at: None,
            delivered: 0.0,
        };
        new.set_window();
        new
    }

    /// The share of packets that the path loses without a queue.
    pub fn path_loss(&self) -> f64 {
        self.path.loss
    }

    /// Changes the rate and the state, by the latest list.
    fn go_on(&mut self, now: Instant, step: Duration, is_limited: bool, rtt: &RttEstimator) {
        let (rates, round) = (self.path.rates(), self.path.round());
        let queue = self.path.latest_queue();
        match self.phase {
            Phase::Startup { best, .. } => {
                if queue > self.startup_queue() {
                    self.drain(now, best);
                } else if !is_limited && self.path.newest_queue() <= self.tolerance() {
                    let grown = self.rate * (step.min(round).as_secs_f64() / round.as_secs_f64()).exp2();
                    let max = rates.map_or(self.rate, |rates| MAX_AHEAD * rates.judged);
                    self.rate = grown.min(max.max(self.rate));
                }
            }
            Phase::Drain { until, best } => {
                // Packets that the queue has dropped did not pass.
                let best = best.max(rates.map_or(0.0, |rates| rates.delivered));
                self.phase = Phase::Drain { until, best };
                if best > 0.0 {
                    self.rate = best * DRAINING;
                }
                if queue <= self.tolerance() || now >= until {
                    self.settle(now, now, SavedRate { rate: self.rate / DRAINING, cubic: None });
                }
            }
            Phase::Cruise => self.cruise(now, step, rates, is_limited),
            Phase::Refresh { from, until, held } => {
                if now >= until {
                    self.settle(from, now, held);
                }
            }
            Phase::Settle { until, held, .. } => {
                if now >= until {
                    self.go_back(now, held);
                } else if held.cubic.is_none() && (queue > self.crowded_queue() || self.is_lossy) {
                    self.phase = Phase::Cruise;
                }
            }
            Phase::Compete(mut cubic) if is_limited => {
                cubic.hold(step);
                self.phase = Phase::Compete(cubic);
            }
            Phase::Compete(cubic) => {
                let max = rates.map_or(self.rate, |rates| MAX_AHEAD * rates.judged);
                self.rate = cubic.rate(now, rtt.smoothed()).min(max);
            }
        }
    }

    /// A rate that was long not used is no evidence of the path as it is by now (RFC 7661): half of
    /// it is forgotten in each [`HALF_LIFE`], unless packets have arrived at half of it, and it
    /// doubles as at the start.
    fn forget_unused(&mut self, now: Instant) {
        let unused = self.used_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if unused < HALF_LIFE {
            return;
        }
        self.used_at = Some(now);
        let idle = self.round.begin.map_or(Duration::ZERO, |begin| now.saturating_duration_since(begin));
        let evident = (2.0 * self.peak * aged(idle)).max(self.options.initial_rate.as_bits_per_second() as f64);
        let rate = (self.rate * aged(unused)).max(evident);
        if rate < self.rate {
            self.rate = rate;
            self.phase = Phase::Startup { best: 0.0, stalled: 0 };
            self.delivered = 0.0;
            self.set_window();
        }
    }

    /// Sets the rate by which the queue comes to its target.
    fn cruise(&mut self, now: Instant, step: Duration, rates: Option<Rates>, is_limited: bool) {
        let round = self.path.round().as_secs_f64();
        let queue = self.path.queue(now);
        let short = self.target().as_secs_f64() - queue.as_secs_f64();
        let mut change = GAIN * short / round;
        if change > 0.0 {
            // No queue for long: the path may carry far more.
            change *= f64::from(1 << (self.empty_rounds - 2).clamp(0, 6));
        }
        if self.is_lossy {
            change = change.min(-LOSSY_CUT);
        }
        let mut change = change.clamp(-MAX_CUT, MAX_GROWTH);
        if rates.is_none() || is_limited {
            // The change applies to the present rate, and not to that of a round ago.
            change *= (step.as_secs_f64() / round).min(1.0);
        }
        let rate = self.passing(rates, is_limited) * (1.0 + change);
        if !is_limited || rate < self.rate {
            self.rate = rate;
        }
        let emptied = self.path.emptied_at.max(self.refreshed_at);
        if !is_limited && emptied.is_none_or(|at| at + REFRESH_PAUSE <= now) {
            self.refresh(now, None);
        }
    }

    fn end_round(&mut self, now: Instant, round: &RoundCounts) {
        let queue = round.queue.unwrap_or_default();
        let expected = self.path.loss * round.count();
        self.is_lossy = round.lost > expected + 3.0 * expected.sqrt() + 3.0 + round.count() / 200.0;
        if self.is_lossy {
            self.depth = Some((now, round.longest_queue.max(MIN_DEPTH)));
        }
        self.depth = self.depth.filter(|(at, _)| now < *at + DEPTH_WINDOW);
        let is_empty = queue <= self.tolerance();
        self.empty_rounds = if is_empty && !self.is_lossy { (self.empty_rounds + 1).min(16) } else { 0 };
        match &mut self.phase {
            Phase::Startup { best, stalled } => {
                let delivered = self.path.rates().map_or(0.0, |rates| rates.delivered);
                let has_grown = delivered > *best * 1.25 || round.is_limited;
                *stalled = if has_grown { 0 } else { *stalled + 1 };
                *best = best.max(delivered);
                let best = *best;
                let is_full = *stalled >= 3 || self.is_lossy && self.path.judged >= KNOWN_LOSS;
                if !is_full {
                    self.path.learn(round, f64::MAX);
                } else {
                    self.drain(now, best);
                }
            }
            Phase::Cruise => self.end_cruising_round(now, round, queue),
            Phase::Settle { from, low_until, .. } => {
                // This round has the packets that were sent while the rate was low.
                if is_empty && *from + self.path.base() <= now && now <= *low_until + 2 * self.path.round() {
                    self.path.learn(round, 200.0);
                }
            }
            Phase::Compete(cubic) => {
                if self.is_lossy {
                    cubic.cut(now, self.path.round());
                }
                let held = SavedRate { rate: self.rate, cubic: Some(*cubic) };
                if self.refreshed_at.is_none_or(|at| at + REFRESH_PAUSE.max(8 * self.refresh_time()) <= now) {
                    self.refresh(now, held.cubic);
                }
            }
            Phase::Drain { .. } | Phase::Refresh { .. } => {}
        }
    }

    fn end_cruising_round(&mut self, now: Instant, round: &RoundCounts, queue: Duration) {
        if !self.is_lossy {
            self.path.learn(round, 8_000.0);
        } else if self.refreshed_at.is_none_or(|at| at + LOSSY_PAUSE <= now) {
            return self.refresh(now, None);
        }
        if queue <= self.crowded_queue() {
            self.crowded_since = None;
            return;
        }
        let (since, rate) = *self.crowded_since.get_or_insert((now, self.rate));
        if since + CROWDED_TIME.max(8 * self.path.empty_round()) <= now {
            self.crowded_since = None;
            // A rival, whose queue this is, would have cut too.
            self.phase = self.compete(now, rate);
        }
    }

    fn drain(&mut self, now: Instant, best: f64) {
        self.phase = Phase::Drain { until: now + 4 * self.path.round(), best };
        self.rate *= DRAINING;
    }

    /// Sends slowly for a round, so that the queue runs empty.
    fn refresh(&mut self, now: Instant, cubic: Option<Cubic>) {
        self.refreshed_at = Some(now);
        let held = SavedRate { rate: self.rate, cubic };
        self.phase = Phase::Refresh { from: now, until: now + self.refresh_time(), held };
        self.rate *= REFRESHING;
    }

    /// The time in which this connection's own queue runs empty at a lower rate, and packets tell
    /// of it.
    fn refresh_time(&self) -> Duration {
        self.path.base() + self.path.latest_queue().mul_f64(1.0 / (1.0 - REFRESHING)) + REFRESH_MORE
    }

    /// Sends at the former rate until lists tell of it alone.
    fn settle(&mut self, from: Instant, now: Instant, held: SavedRate) {
        self.phase = Phase::Settle { from, low_until: now, until: now + self.path.round() + self.span(), held };
        self.rate = held.rate;
    }

    fn go_back(&mut self, now: Instant, held: SavedRate) {
        let is_emptied = self.path.emptied_at.is_some_and(|at| self.refreshed_at.is_some_and(|from| from <= at));
        self.full_refreshes = if is_emptied { 0 } else { self.full_refreshes + 1 };
        self.empty_refreshes = if is_emptied { self.empty_refreshes + 1 } else { 0 };
        self.crowded_since = None;
        self.phase = match held.cubic {
            Some(cubic) if self.empty_refreshes < EMPTY_REFRESHES => Phase::Compete(cubic),
            None if self.full_refreshes >= FULL_REFRESHES => self.compete(now, self.rate),
            _ => Phase::Cruise,
        };
    }

    fn compete(&mut self, now: Instant, rate: f64) -> Phase {
        self.empty_refreshes = 0;
        Phase::Compete(Cubic::new(now, rate, self.path.round()))
    }

    /// The rate at which this connection's packets pass the bottleneck.
    fn passing(&self, rates: Option<Rates>, is_limited: bool) -> f64 {
        match rates {
            _ if is_limited => self.rate,
            None => self.rate,
            Some(rates) if self.is_lossy => rates.delivered / (1.0 - self.path.loss),
            Some(rates) => rates.judged,
        }
    }

    /// The queue that this connection wants.
    fn target(&self) -> Duration {
        let wanted = TARGET.as_secs_f64() * (TARGET_RATE / self.rate.max(1.0)).sqrt();
        let max = self.depth.map_or(MAX_TARGET, |(_, depth)| depth.min(MAX_TARGET)).mul_f64(USED_DEPTH);
        let max = max.min((self.path.base() / 3).max(MIN_TARGET)).as_secs_f64();
        // The target falls as the rate rises in a short queue too.
        self.tolerance() + Duration::from_secs_f64(wanted / (1.0 + (wanted / max).powi(4)).powf(0.25))
    }

    /// A queue that this connection takes for none, as the round trip is never quite the same.
    fn tolerance(&self) -> Duration {
        EMPTY + self.path.base() / 64 + self.packets(0.5)
    }

    /// A queue that others make.
    fn crowded_queue(&self) -> Duration {
        self.target().mul_f64(1.3) + EMPTY
    }

    /// The time that packets take at the bottleneck, at the most.
    fn packets(&self, packets: f64) -> Duration {
        let time = packets * self.path.packet() / self.rate.max(self.peak).max(1.0);
        Duration::from_secs_f64(time).min(self.path.base().mul_f64(packets / 4.0))
    }

    fn startup_queue(&self) -> Duration {
        (self.path.base() / 8).max(STARTUP_QUEUE)
    }

    /// The time of which the rates are an average: a round, and twenty packets.
    fn span(&self) -> Duration {
        let packets = Duration::from_secs_f64(20.0 * self.path.packet() / self.rate.max(1.0));
        (self.path.empty_round() * 5 / 4).max(packets)
    }

    /// The bytes that may be under way before any have arrived: ten packets at the default first
    /// rate (RFC 6928).
    fn first_window(&self) -> f64 {
        FIRST_WINDOW.as_secs_f64() * self.options.initial_rate.as_bits_per_second() as f64 / 8.0
    }

    fn set_window(&mut self) {
        let rate = match self.phase {
            Phase::Refresh { held, .. } | Phase::Settle { held, .. } => held.rate,
            _ => self.rate,
        };
        // The queue of others lengthens the way. One of its own does not.
        let is_competing = self.phase.is_competing();
        let round = if is_competing { self.path.round() } else { self.path.empty_round() + self.target() };
        let bytes = rate / 8.0 * 2.0 * round.as_secs_f64();
        // At the start as many as have arrived may be under way beside the first ones.
        let max = if self.phase.is_start() { self.first_window() + 2.0 * self.delivered } else { f64::MAX };
        self.window = bytes.min(max).max(MIN_WINDOW * self.path.packet() / 8.0) as u64;
    }
}

impl RoundCounts {
    fn add(&mut self, feedback: &Feedback, path: &Path) {
        let (queue, regained) = (path.latest_queue(), feedback.regained as f64 * 8.0 / path.packet());
        self.longest_queue = self.longest_queue.max(path.newest_queue());
        self.arrived += feedback.segments as f64 + regained;
        self.lost = (self.lost + feedback.lost_segments as f64 - regained).max(0.0);
        self.queue = Some(self.queue.map_or(queue, |least| least.min(queue)));
        self.is_limited |= feedback.is_limited;
    }

    fn count(&self) -> f64 {
        self.arrived + self.lost
    }

    /// The rate of the packets, of `packet` bits each, that have arrived in `time`.
    fn rate(&self, time: Duration, packet: f64) -> f64 {
        self.arrived * packet / time.as_secs_f64().max(1e-6)
    }
}

/// The part of a former rate that is left after that time.
fn aged(time: Duration) -> f64 {
    (-time.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}

impl Path {
    /// Counts the losses of a round as the path's own. The estimate is as good as one of `memory`
    /// packets.
    fn learn(&mut self, round: &RoundCounts, memory: f64) {
        let count = round.count();
        if count > 0.0 {
            let weight = count / (count + memory.min(self.judged));
            self.loss = (self.loss + (round.lost / count - self.loss) * weight).min(MAX_PATH_LOSS);
            self.judged += count;
        }
    }
}

/// No path is taken to lose more than this without a queue.
const MAX_PATH_LOSS: f64 = 0.1;
/// The queue that a connection of [`TARGET_RATE`] wants, beside the tolerance; it goes with the
/// root of the rate.
const TARGET: Duration = Duration::from_micros(1_500);
const TARGET_RATE: f64 = 500e6;
/// All targets are below this, a third of the least round trip unless that is shorter than the
/// next, and below that part of the queue at which packets were dropped in this time.
const MAX_TARGET: Duration = Duration::from_millis(50);
const MIN_TARGET: Duration = Duration::from_millis(1);
const USED_DEPTH: f64 = 0.8;
const MIN_DEPTH: Duration = Duration::from_millis(1);
const DEPTH_WINDOW: Duration = Duration::from_secs(30);
/// The part of a queue's distance from its target that is made up for in a round.
const GAIN: f64 = 0.4;
/// The most by which the rate falls or rises in a round.
const MAX_CUT: f64 = 0.3;
const MAX_GROWTH: f64 = 0.25;
/// While the rate doubles, it is at most this factor ahead of the rate at which packets arrive.
const MAX_AHEAD: f64 = 3.2;
/// A queue that ends the start, beside an eighth of a round trip.
const STARTUP_QUEUE: Duration = Duration::from_millis(2);
/// The parts of the rate while a queue runs empty.
const DRAINING: f64 = 0.5;
const REFRESHING: f64 = 0.25;
/// The pause between refreshes, and their length beside a round trip.
const REFRESH_PAUSE: Duration = Duration::from_millis(2_500);
const REFRESH_MORE: Duration = Duration::from_millis(5);
/// The pause between refreshes after losses.
const LOSSY_PAUSE: Duration = Duration::from_millis(500);
const LOSSY_CUT: f64 = 0.05;
/// Packets after which the path's loss is known at the start.
const KNOWN_LOSS: f64 = 200.0;
/// After this number of refreshes in a row in which the queue did not run empty, other flows fill
/// it.
const FULL_REFRESHES: u32 = 2;
/// After this number of refreshes in a row in which the queue ran empty, the other flows have gone.
/// The queue also runs empty once after one of them has cut its window.
const EMPTY_REFRESHES: u32 = 2;
/// A queue above twice the target, and two packets, by this, for this time, may be one that others
/// make.
const CROWDED_TIME: Duration = Duration::from_millis(500);
/// The time in which half of a former rate is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// The packets of a window that lets bursts leave at low rates.
const MIN_WINDOW: f64 = 10.0;
/// The time at the first rate in which as many bytes leave as may be under way before the first
/// list.
const FIRST_WINDOW: Duration = Duration::from_millis(24);
/// A round lasts for this number of packets, unless that takes too many round trips.
const ROUND_PACKETS: f64 = 16.0;
const LONGEST_ROUND: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regained_segment_is_no_loss_of_a_round() {
        let (mut round, path) = (RoundCounts::default(), Path::default());
        round.add(&Feedback { segments: 8, lost_segments: 2, ..Feedback::default() }, &path);
        round.add(&Feedback { segments: 10, regained: 3_000, ..Feedback::default() }, &path);
        assert_eq!((round.arrived, round.lost), (20.0, 0.0));
    }
}
