//! A rate that several connections share.

use super::RateController;
use crate::proto::{round_trip::RoundTrip, sender::Feedback};
use rails_topo::Bandwidth;
use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// A rate that connections share by weight: each that has something to send gets its part, and the rates change as
/// connections come, go, and have nothing to send. Together they never exceed the rate, but for the few milliseconds in
/// which the others learn of one that begins. Clones share the same rate.
#[derive(Debug, Clone)]
pub struct SharedRate(Arc<Mutex<Group>>);

#[derive(Debug)]
struct Group {
    rate: Bandwidth,
    /// The weights of the connections that have something to send.
    busy: u64,
}

/// A connection's part of a [`SharedRate`].
#[derive(Debug)]
pub struct Shared {
    group: SharedRate,
    weight: NonZeroU32,
    is_busy: bool,
}

impl SharedRate {
    /// A rate to be shared, which counts IP packets with their headers.
    pub fn new(rate: Bandwidth) -> Self {
        Self(Arc::new(Mutex::new(Group { rate, busy: 0 })))
    }

    /// Changes the rate, as after a change of the path.
    pub fn set(&self, rate: Bandwidth) {
        self.lock().rate = rate;
    }

    /// A part of the rate for one connection.
    pub fn part(&self, weight: NonZeroU32) -> Shared {
        Shared { group: self.clone(), weight, is_busy: false }
    }

    fn lock(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateController for Shared {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn rate(&self) -> Bandwidth {
        let group = self.group.lock();
        let weight = u64::from(self.weight.get());
        // A connection that is about to begin is not among them.
        let all = group.busy + if self.is_busy { 0 } else { weight };
        let part = u128::from(group.rate.as_bits_per_second()) * u128::from(weight) / u128::from(all);
        Bandwidth::bits_per_second(part as u64)
    }

    fn handle(&mut self, _: Instant, _: &Feedback, _: &RoundTrip) {}

    fn set_busy(&mut self, is_busy: bool) {
        let weight = u64::from(self.weight.get());
        match (self.is_busy, is_busy) {
            (false, true) => self.group.lock().busy += weight,
            (true, false) => self.group.lock().busy -= weight,
            _ => {}
        }
        self.is_busy = is_busy;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weight(weight: u32) -> NonZeroU32 {
        NonZeroU32::new(weight).expect("it is not zero")
    }

    #[test]
    fn parts_follow_those_that_come_and_go() {
        let shared = SharedRate::new(Bandwidth::mbps(800));
        let mut parts = [1, 1, 2, 4].map(|of| shared.part(weight(of)));
        assert_eq!(parts[0].rate(), Bandwidth::mbps(800), "it is alone");
        parts.iter_mut().for_each(|part| part.set_busy(true));
        assert_eq!(parts.each_ref().map(Shared::rate), [100, 100, 200, 400].map(Bandwidth::mbps));
        parts[3].set_busy(false);
        assert_eq!(parts[2].rate(), Bandwidth::mbps(400));
        let [first, second, third, _] = parts;
        drop((second, third));
        assert_eq!(first.rate(), Bandwidth::mbps(800));
        shared.set(Bandwidth::mbps(80));
        assert_eq!(first.rate(), Bandwidth::mbps(80));
    }

    proptest! {
        #[test]
        fn busy_parts_are_the_whole(weights in proptest::collection::vec((1..1000u32, any::<bool>()), 1..20)) {
            let shared = SharedRate::new(Bandwidth::mbps(10_000));
            let mut parts: Vec<Shared> = weights.iter().map(|(of, _)| shared.part(weight(*of))).collect();
            parts.iter_mut().zip(&weights).for_each(|(part, (_, is_busy))| part.set_busy(*is_busy));
            let busy = parts.iter().zip(&weights).filter(|(_, (_, is_busy))| *is_busy);
            let sum: u64 = busy.map(|(part, _)| part.rate().as_bits_per_second()).sum();
            let is_any = weights.iter().any(|(_, is_busy)| *is_busy);
            prop_assert!(!is_any || (10_000_000_000 - 20..=10_000_000_000).contains(&sum), "{}", sum);
        }
    }
}
