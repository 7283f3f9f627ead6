//! A rate that several connections share.

use super::RateController;
use crate::proto::{rtt::RttEstimator, sender::Feedback};
use rails_topo::Bandwidth;
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};

/// A rate that connections share by weight: each that has something to send gets its part, and the
/// rates change as connections come, go, and have nothing to send. One whose peer takes nothing has
/// no part. Together they never exceed the rate, but for the few milliseconds in which the others
/// learn of one that begins. Clones share the same rate.
#[derive(Debug, Clone)]
pub struct SharedRate(Arc<Mutex<Group>>);

/// A rate of 0, at which nothing would ever be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rate of 0 sends nothing")]
#[non_exhaustive]
pub struct NoRate;

#[derive(Debug)]
struct Group {
    rate: Bandwidth,
    /// The weights of the connections that have something to send.
    busy: u64,
    /// The tasks of those connections that wait, by the numbers of their parts. No other task can
    /// use a higher rate.
    waiting: HashMap<u64, Waker>,
    next: u64,
}

/// A connection's part of a [`SharedRate`].
#[derive(Debug)]
pub struct RateShare {
    group: SharedRate,
    weight: NonZeroU32,
    number: u64,
    is_busy: bool,
    /// The task of a connection that has nothing to send.
    idle: Option<Waker>,
    /// The tasks whose rates have grown.
    woken: Vec<Waker>,
}

impl SharedRate {
    /// A rate to be shared, which counts IP packets with their headers.
    ///
    /// # Errors
    /// [`NoRate`].
    pub fn new(rate: Bandwidth) -> Result<Self, NoRate> {
        check(rate)?;
        Ok(Self(Arc::new(Mutex::new(Group { rate, busy: 0, waiting: HashMap::new(), next: 0 }))))
    }

    /// Changes the rate, as after a change of the path.
    ///
    /// # Errors
    /// [`NoRate`]. Nothing has changed then.
    pub fn set(&self, rate: Bandwidth) -> Result<(), NoRate> {
        check(rate)?;
        let mut group = self.lock();
        group.rate = rate;
        let woken = std::mem::take(&mut group.waiting);
        drop(group);
        woken.into_values().for_each(Waker::wake);
        Ok(())
    }

    /// A share of the rate for one connection.
    pub fn share(&self, weight: NonZeroU32) -> RateShare {
        let mut group = self.lock();
        group.next += 1;
        RateShare { group: self.clone(), weight, number: group.next, is_busy: false, idle: None, woken: Vec::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(rate: Bandwidth) -> Result<(), NoRate> {
    if rate.as_bits_per_second() > 0 { Ok(()) } else { Err(NoRate) }
}

impl RateController for RateShare {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn rate(&self) -> Bandwidth {
        let group = self.group.lock();
        let weight = u64::from(self.weight.get());
        // A connection that is about to begin is not among them.
        let all = group.busy + if self.is_busy { 0 } else { weight };
        let part = u128::from(group.rate.as_bits_per_second()) * u128::from(weight) / u128::from(all);
        Bandwidth::bits_per_second((part as u64).max(1))
    }

    fn handle(&mut self, _: Instant, _: &Feedback, _: &RttEstimator) {}

    fn set_busy(&mut self, is_busy: bool) {
        let weight = u64::from(self.weight.get());
        match (self.is_busy, is_busy) {
            (false, true) => {
                let mut group = self.group.lock();
                group.busy += weight;
                group.waiting.extend(self.idle.take().map(|waker| (self.number, waker)));
            }
            (true, false) => {
                let mut group = self.group.lock();
                group.busy -= weight;
                self.idle = group.waiting.remove(&self.number);
                self.woken.extend(std::mem::take(&mut group.waiting).into_values());
            }
            _ => {}
        }
        self.is_busy = is_busy;
    }

    fn watch(&mut self, waker: &Waker) {
        let waker = waker.clone();
        let former = match self.is_busy {
            true => self.group.lock().waiting.insert(self.number, waker),
            false => self.idle.replace(waker),
        };
        // Under no lock of this module.
        drop(former);
    }

    fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }
}

impl Drop for RateShare {
    fn drop(&mut self) {
        self.set_busy(false);
        self.take_woken().into_iter().for_each(Waker::wake);
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
        let shared = SharedRate::new(Bandwidth::mbps(800)).unwrap();
        let mut parts = [1, 1, 2, 4].map(|of| shared.share(weight(of)));
        assert_eq!(parts[0].rate(), Bandwidth::mbps(800), "it is alone");
        parts.iter_mut().for_each(|part| part.set_busy(true));
        assert_eq!(parts.each_ref().map(RateShare::rate), [100, 100, 200, 400].map(Bandwidth::mbps));
        parts[3].set_busy(false);
        assert_eq!(parts[2].rate(), Bandwidth::mbps(400));
        let [first, second, third, _] = parts;
        drop((second, third));
        assert_eq!(first.rate(), Bandwidth::mbps(800));
        shared.set(Bandwidth::mbps(80)).unwrap();
        assert_eq!(first.rate(), Bandwidth::mbps(80));
    }

    #[test]
    fn rate_of_nothing_is_refused() {
        assert_eq!(SharedRate::new(Bandwidth::bits_per_second(0)).map(drop), Err(NoRate));
        let shared = SharedRate::new(Bandwidth::mbps(1)).unwrap();
        assert_eq!(shared.set(Bandwidth::bits_per_second(0)), Err(NoRate));
        assert_eq!(shared.share(weight(1)).rate(), Bandwidth::mbps(1));
    }

    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicU32);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// All three parts watch, as their tasks do in each of their polls.
    #[test]
    fn end_of_a_burst_wakes_busy_parts_alone() {
        let counts = [(); 3].map(|()| Arc::new(Count::default()));
        let told = || counts.each_ref().map(|count| count.0.load(std::sync::atomic::Ordering::Relaxed));
        let shared = SharedRate::new(Bandwidth::mbps(8)).unwrap();
        let [mut ends, mut sends, mut is_idle] = [1, 1, 1].map(|of| shared.share(weight(of)));
        for burst in 1..=3 {
            for (part, count) in [&mut ends, &mut sends, &mut is_idle].into_iter().zip(&counts) {
                part.watch(&Waker::from(Arc::clone(count)));
            }
            sends.set_busy(true);
            ends.set_busy(true);
            ends.set_busy(false);
            ends.take_woken().into_iter().for_each(Waker::wake);
            assert_eq!(told(), [0, burst, 0]);
        }
        shared.set(Bandwidth::mbps(9)).unwrap();
        sends.watch(&Waker::from(Arc::clone(&counts[1])));
        shared.set(Bandwidth::mbps(8)).unwrap();
        assert_eq!(told(), [0, 4, 0]);
    }

    #[test]
    fn growing_parts_are_told() {
        let count = Arc::new(Count::default());
        let told = || count.0.load(std::sync::atomic::Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&count));
        let shared = SharedRate::new(Bandwidth::mbps(8)).unwrap();
        let [mut waits, mut ends, mut is_dropped] = [1, 1, 1].map(|of| shared.share(weight(of)));
        [&mut waits, &mut ends, &mut is_dropped].into_iter().for_each(|part| part.set_busy(true));
        waits.watch(&waker);
        ends.set_busy(false);
        assert_eq!((told(), ends.take_woken().len()), (0, 1), "the caller wakes it");
        waits.watch(&waker);
        drop(is_dropped);
        assert_eq!(told(), 1);
        waits.watch(&waker);
        shared.set(Bandwidth::mbps(9)).unwrap();
        assert_eq!(told(), 2);
    }

    proptest! {
        #[test]
        fn busy_parts_are_the_whole(weights in proptest::collection::vec((1..1000u32, any::<bool>()), 1..20)) {
            let shared = SharedRate::new(Bandwidth::mbps(10_000)).unwrap();
            let mut parts: Vec<RateShare> = weights.iter().map(|(of, _)| shared.share(weight(*of))).collect();
            parts.iter_mut().zip(&weights).for_each(|(part, (_, is_busy))| part.set_busy(*is_busy));
            let busy = parts.iter().zip(&weights).filter(|(_, (_, is_busy))| *is_busy);
            let sum: u64 = busy.map(|(part, _)| part.rate().as_bits_per_second()).sum();
            let is_any = weights.iter().any(|(_, is_busy)| *is_busy);
            prop_assert!(!is_any || (10_000_000_000 - 20..=10_000_000_000).contains(&sum), "{}", sum);
        }
    }
}
