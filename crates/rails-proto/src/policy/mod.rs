//! How the bytes of a stream are shared out among its lanes.
//!
//! A policy decides, and does nothing else: it is asked whenever a lane has room, sees what waits and how every lane has done, and says how much
//! of it that lane takes. Time and bytes are in what it sees. What a lost or silent lane had goes out again under any policy; that
//! is not for a policy to decide.

mod adaptive;
mod fixed;

pub use adaptive::Adaptive;
pub(super) use adaptive::FIRST_CHUNK;
pub use fixed::Static;

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// How the bytes of a stream are shared out among its lanes.
pub trait StripePolicy: fmt::Debug + Send {
    /// How many of the bytes that wait `lane`, which has room, is given now; more than [`SchedulerView::waiting`] is all of them. `None` leaves them to
    /// another lane, which has to be one that is usable, or nobody takes them. The same question is asked more than
    /// once, so it must change nothing.
    fn share(&self, view: &SchedulerView<'_>, lane: usize) -> Option<usize>;

    /// `lane` was given that many bytes that no lane had before.
    fn took(&mut self, lane: usize, bytes: usize);

    /// The longest chunk that `lane` is given: it also bounds how much of it waits in the kernel.
    fn longest_chunk(&self, view: &SchedulerView<'_>, lane: usize) -> usize {
        let _ = lane;
        view.longest_chunk
    }

    /// Whether a lane sends once more what a slower one still has on its way, be it that nothing else waits or that the
    /// other end can read nothing before it.
    fn reinjects(&self) -> bool;
}

/// The policies of this crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Late binding: a lane with room takes the next chunk, so that each lane carries what it can; see [`Adaptive`].
    #[default]
    Adaptive,
    /// Equal shares in turn, whatever the lanes can carry: the static striping of the paper (section II.A). It is as slow as its slowest lane,
    /// and here to be compared with.
    Static,
    /// Shares in turn by each lane's weight, whatever the lanes can carry then: as good as the weights are.
    Weighted,
}

impl Policy {
    /// A policy of that kind for one direction of one stream.
    pub fn build(self) -> Box<dyn StripePolicy> {
        match self {
            Self::Adaptive => Box::new(Adaptive),
            Self::Static => Box::new(Static::equal()),
            Self::Weighted => Box::new(Static::weighted()),
        }
    }
}

/// What waits, and who could take it.
#[derive(Debug)]
pub struct SchedulerView<'a> {
    /// Bytes that wait and that the other end's window has room for; 0 where only the end of the stream is left to be told.
    pub waiting: usize,
    /// The longest chunk that the other end takes, in bytes.
    pub longest_chunk: usize,
    /// Every lane by number.
    pub lanes: &'a [LaneView],
}

/// How a lane stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct LaneView {
    /// It is up, and not known to be silent.
    pub usable: bool,
    /// It will ask for more: it stands idle with room, or has something in flight that will be acknowledged. What is left to a lane that is not
    /// may be left for good.
    pub promising: bool,
    /// Its share under a weighted policy, as the driver gave it: its nominal speed, or what the application wished.
    pub weight: u32,
    /// Bytes that it was given and that are not acknowledged.
    pub in_flight: u64,
    /// Bytes per second that it was seen to carry while it was busy, with a half-life of [`HALF_LIFE`]. `None` where none have arrived yet.
    pub rate: Option<f64>,
    /// The round trip of a byte that meets no queue, as far as the driver knows.
    pub rtt: Option<Duration>,
    /// How long a chunk takes from being taken to being acknowledged, with the same half-life.
    pub service: Option<Duration>,
}

impl SchedulerView<'_> {
    /// Whether another lane, of which more can be expected, would have everything that waits at the other end before `lane` were done with `length` bytes of it.
    pub fn is_sooner_elsewhere(&self, lane: usize, length: usize) -> bool {
        let (own, soonest) = self.arrivals(lane, length);
        own.zip(soonest).is_some_and(|(own, theirs)| theirs.saturating_add(ESTIMATE_TOLERANCE) < own)
    }

    /// How long it is until `length` bytes are with the peer by `lane`, and until everything that waits is by the best of the others of which more can be expected.
    pub fn arrivals(&self, lane: usize, length: usize) -> (Option<Duration>, Option<Duration>) {
        let others = self.lanes.iter().enumerate().filter(|(other, lane_view)| *other != lane && lane_view.promising);
        let soonest = others.filter_map(|(_, lane_view)| lane_view.arrival(self.waiting)).min();
        // It is no sooner than half a round trip by a lane of which nothing else is known.
        let own = self.lanes[lane].arrival(length).or(self.lanes[lane].rtt.map(|rtt| rtt / 2));
        (own, soonest)
    }
}

impl LaneView {
    /// How long it is until `bytes` more, behind what it has in flight, are with the other end; `None` where nothing is known of it. A lane whose rate
    /// is not known is as good as its round trip while it has nothing to do: that is how it becomes known.
    pub fn arrival(&self, bytes: usize) -> Option<Duration> {
        let there = self.rtt.map(|rtt| rtt / 2);
        let Some(rate) = self.rate else {
            return there.filter(|_| self.in_flight == 0);
        };
        let carried = Duration::try_from_secs_f64((self.in_flight as f64 + bytes as f64) / rate);
        Some(there.unwrap_or_default().saturating_add(carried.unwrap_or(Duration::MAX)))
    }
}

/// After how long half of what is known of a lane's rate is of newer observations.
pub const HALF_LIFE: Duration = Duration::from_millis(50);
/// A difference below this is within what the estimates are worth.
const ESTIMATE_TOLERANCE: Duration = Duration::from_micros(100);
