//! The shape of a link: unshaped, or limited to a rate.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// The shape of a link, in both directions.
///
/// # Default
///
/// [`Shape::Unshaped`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// The kernel's default for a veth pair: no queue, as fast as the CPU copies.
    #[default]
    Unshaped,
    /// Limited to a rate by a token bucket on the egress of each end.
    Rate {
        /// Megabits (10^6 bits) per second, Ethernet headers included, so TCP's goodput is about
        /// 4.5 % below it.
        mbit: u64,
        /// Bytes that may leave at once after a pause. Packets that segmentation offload made
        /// larger are split.
        burst_bytes: u32,
        /// The longest wait of a packet in the bucket's queue; a packet that would wait longer is
        /// dropped.
        latency: Duration,
    },
}

impl Shape {
    /// A link of `mbit` megabits per second with a burst of 64 KiB and at most 20 ms of queue.
    pub const fn mbit(mbit: u64) -> Self {
        Self::Rate { mbit, burst_bytes: DEFAULT_BURST_BYTES, latency: DEFAULT_LATENCY }
    }

    /// This link at another rate.
    pub const fn at(self, mbit: u64) -> Self {
        match self {
            Self::Unshaped => Self::mbit(mbit),
            Self::Rate { burst_bytes, latency, .. } => Self::Rate { mbit, burst_bytes, latency },
        }
    }

    /// Refuses the values that `tc` would refuse, with the reason in terms of the shape.
    pub(crate) fn validate(self) -> Result<(), &'static str> {
        let Self::Rate { mbit, burst_bytes, latency } = self else { return Ok(()) };
        let reason = if mbit == 0 || mbit > MAX_MBIT {
            "the rate is outside 1 Mbit/s to 1 Tbit/s"
        } else if burst_bytes < MIN_BURST_BYTES {
            "the burst is smaller than one packet"
        } else if latency.as_micros() == 0 || latency > MAX_LATENCY {
            "the latency is outside 1 us to 10 s"
        } else {
            return Ok(());
        };
        Err(reason)
    }

    /// The arguments of `tc qdisc replace dev X root`.
    ///
    /// # References
    ///
    /// tc-tbf(8); the qdisc `noqueue` may be set by name since Linux 4.3 (net/sched/sch_generic.c,
    /// `noqueue_init`).
    pub(crate) fn qdisc_arguments(self) -> Vec<String> {
        match self {
            Self::Unshaped => vec!["noqueue".into()],
            Self::Rate { mbit, burst_bytes, latency } => vec![
                "tbf".into(),
                "rate".into(),
                format!("{mbit}mbit"),
                "burst".into(),
                burst_bytes.to_string(),
                "latency".into(),
                format!("{}us", latency.as_micros()),
            ],
        }
    }
}

/// Writes a few words: `unshaped`, or the token bucket.
impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unshaped => formatter.write_str("unshaped"),
            Self::Rate { mbit, burst_bytes, latency } => write!(
                formatter,
                "{mbit} Mbit/s (tbf, burst {} KiB, at most {} ms of queue)",
                burst_bytes >> 10,
                latency.as_millis()
            ),
        }
    }
}

const DEFAULT_BURST_BYTES: u32 = 64 * 1024;
const DEFAULT_LATENCY: Duration = Duration::from_millis(20);
/// One Ethernet frame of the default MTU: tbf drops a frame that is larger than its burst.
const MIN_BURST_BYTES: u32 = 1514;
/// Far above the rate of a veth pair, far below where tc's own arithmetic ends.
const MAX_MBIT: u64 = 1_000_000;
const MAX_LATENCY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabError, description::Description};

    #[test]
    fn a_rate_becomes_a_token_bucket() {
        let arguments = Shape::mbit(400).qdisc_arguments().join(" ");
        assert_eq!(arguments, "tbf rate 400mbit burst 65536 latency 20000us");
    }

    #[test]
    fn a_shape_says_what_it_is() {
        assert_eq!(Shape::Unshaped.to_string(), "unshaped");
        assert_eq!(Shape::mbit(400).to_string(), "400 Mbit/s (tbf, burst 64 KiB, at most 20 ms of queue)");
    }

    #[test]
    fn an_unshaped_link_has_no_queue() {
        assert_eq!(Shape::Unshaped.qdisc_arguments(), ["noqueue"]);
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let good = Shape::mbit(1);
        assert!(good.validate().is_ok());
        assert!(Shape::Unshaped.validate().is_ok());
        let latency = DEFAULT_LATENCY;
        for bad in [
            Shape::mbit(0),
            Shape::mbit(MAX_MBIT + 1),
            Shape::Rate { mbit: 1, burst_bytes: MIN_BURST_BYTES - 1, latency },
            Shape::Rate { mbit: 1, burst_bytes: DEFAULT_BURST_BYTES, latency: Duration::from_nanos(999) },
            Shape::Rate { mbit: 1, burst_bytes: DEFAULT_BURST_BYTES, latency: MAX_LATENCY * 2 },
        ] {
            let answer = Description::Veth(bad).validate();
            assert!(matches!(answer, Err(LabError::BadShape { shape, .. }) if shape == bad), "{bad:?}");
        }
    }
}
