//! The rate at which handshakes begin, where each costs CPU time before the peer has proved
//! anything, as those of TLS do.

use super::Origin;
use crate::handshake::Limit;
use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// The rates at which handshakes begin: one for each origin, and one for all strangers together. A
/// second's worth of each may come at once.
///
/// Peers that are known, since streams from their origins are open, have a rate of their own
/// together, as high as that of the strangers: no flood of strangers keeps them out, and they
/// cannot take all of this end's time either. The last quarter of both rates is for origins that
/// have begun no handshake for a second: few busy origins do not keep all others out.
#[derive(Debug)]
pub struct HandshakeRate {
    all: Rate,
    strangers_spent: Spent,
    familiar_spent: Spent,
    each_origin: Rate,
    /// The origins that have begun a handshake in the second before the latest one: four seconds'
    /// worth of the strangers' rate at most.
    origins: HashMap<Origin, Busy>,
}

/// An origin that has begun a handshake lately.
#[derive(Debug, Clone, Copy)]
struct Busy {
    spent: Spent,
    /// When the latest handshake began.
    latest: Instant,
}

/// The time that one handshake takes: a second has room for as many as the rate allows.
#[derive(Debug, Clone, Copy)]
struct Rate(Duration);

/// When a rate is whole again (the "theoretical arrival time" of the generic cell rate algorithm,
/// ITU-T I.371).
#[derive(Debug, Clone, Copy, Default)]
struct Spent(Option<Instant>);

impl HandshakeRate {
    /// The rates in handshakes per second: `of_strangers` for all strangers together, and again for
    /// all others together, and `of_each_origin`. Each is at least 1.
    pub fn new(of_strangers: u32, of_each_origin: u32) -> Self {
        let [all, each_origin] = [of_strangers, of_each_origin].map(|rate| Rate(SECOND / rate.max(1)));
        let (strangers_spent, familiar_spent) = Default::default();
        Self { all, strangers_spent, familiar_spent, each_origin, origins: HashMap::new() }
    }

    /// Whether a handshake with this peer may begin at this time, which is not before that of an
    /// earlier call.
    ///
    /// # Errors
    /// The rate that is used up.
    pub fn begin(&mut self, now: Instant, peer: IpAddr, is_familiar: bool) -> Result<(), Limit> {
        let origin = Origin::of(peer);
        let is_busy = |busy: &Busy| now < busy.latest + SECOND;
        let busy = self.origins.get(&origin).copied().filter(is_busy);
        let spent = busy.map_or(Spent::default(), |busy| busy.spent).after_one(now, self.each_origin);
        if spent.left(now).is_none() {
            return Err(Limit::PeerTlsRate);
        }
        let spent_by_all = if is_familiar { &mut self.familiar_spent } else { &mut self.strangers_spent };
        let spent_then = spent_by_all.after_one(now, self.all);
        let reserve = if busy.is_some() { SECOND / 4 } else { Duration::ZERO };
        if spent_then.left(now).is_none_or(|left| left < reserve) {
            return Err(Limit::TlsRate);
        }
        *spent_by_all = spent_then;
        self.origins.retain(|_, busy| is_busy(busy));
        self.origins.insert(origin, Busy { spent, latest: now });
        Ok(())
    }
}

impl Spent {
    /// The state after one handshake more.
    fn after_one(self, now: Instant, rate: Rate) -> Self {
        Self(Some(self.0.map_or(now, |whole_at| whole_at.max(now)) + rate.0))
    }

    /// The part of the second that is left after a handshake; `None` if the handshakes take more
    /// than a second.
    fn left(self, now: Instant) -> Option<Duration> {
        SECOND.checked_sub(self.0?.saturating_duration_since(now))
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(number: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + number).to_be_bytes())
    }

    /// The number of handshakes with these peers that may begin.
    fn begun(rate: &mut HandshakeRate, now: Instant, peers: impl Iterator<Item = u32>, is_familiar: bool) -> usize {
        peers.filter(|number| rate.begin(now, peer(*number), is_familiar).is_ok()).count()
    }

    #[test]
    fn each_origin_has_a_rate_of_its_own() {
        let (mut rate, now) = (HandshakeRate::new(400, 100), Instant::now());
        assert_eq!(begun(&mut rate, now, std::iter::repeat_n(1, 1000), false), 100);
        assert_eq!(rate.begin(now, peer(1), false), Err(Limit::PeerTlsRate));
        assert_eq!(begun(&mut rate, now, std::iter::repeat_n(2, 1000), false), 100);
        assert_eq!(begun(&mut rate, now + SECOND / 4, std::iter::repeat_n(1, 1000), false), 25);
    }

    #[test]
    fn few_busy_strangers_keep_no_other_out() {
        let (mut rate, now) = (HandshakeRate::new(400, 200), Instant::now());
        assert_eq!(begun(&mut rate, now, (0..4).cycle().take(4000), false), 300);
        assert_eq!(rate.begin(now, peer(1), false), Err(Limit::TlsRate));
        assert_eq!(begun(&mut rate, now, 10..1000, false), 100, "the last quarter");
    }

    #[test]
    fn paced_strangers_leave_the_last_quarter_to_others() {
        let (mut rate, begin) = (HandshakeRate::new(400, 100), Instant::now());
        let at = |tick: u32| begin + tick * Duration::from_millis(10);
        let paced: usize = (0..300).map(|tick| begun(&mut rate, at(tick), 0..8, false)).sum();
        assert!((1200..=1600).contains(&paced), "{paced}");
        assert_eq!(begun(&mut rate, at(299), 10..1000, false), 100);
    }

    #[test]
    fn strangers_keep_no_known_peer_out() {
        let (mut rate, now) = (HandshakeRate::new(400, 100), Instant::now());
        assert_eq!(begun(&mut rate, now, 0..4000, false), 400);
        assert_eq!(rate.begin(now, peer(5000), false), Err(Limit::TlsRate));
        assert_eq!(begun(&mut rate, now, std::iter::repeat_n(5000, 1000), true), 100);
    }

    #[test]
    fn known_peers_together_have_a_rate_of_their_own() {
        let (mut rate, now) = (HandshakeRate::new(400, 100), Instant::now());
        assert_eq!(begun(&mut rate, now, (0..64).cycle().take(64_000), true), 300);
        assert_eq!(rate.begin(now, peer(1), true), Err(Limit::TlsRate));
        assert_eq!(begun(&mut rate, now, 100..1000, true), 100, "the last quarter");
        assert_eq!(begun(&mut rate, now, 1000..5000, false), 400, "known peers keep no stranger out");
    }

    proptest! {
        #[test]
        fn rates_and_memory_are_bounded(
            steps in prop::collection::vec((0..200u64, 0..40u32, any::<bool>()), 1..600), of_all in 1..50u32, of_each in 1..50u32
        ) {
            let (mut rate, begin) = (HandshakeRate::new(of_all, of_each), Instant::now());
            let (mut elapsed, mut all, mut by_peer) = (0, [0, 0], HashMap::<u32, u64>::new());
            for (pause, number, is_familiar) in steps {
                elapsed += pause;
                let admitted = rate.begin(begin + Duration::from_millis(elapsed), peer(number), is_familiar).is_ok();
                all[usize::from(is_familiar)] += u64::from(admitted);
                *by_peer.entry(number).or_default() += u64::from(admitted);
                let bound = |rate: u32| u64::from(rate) + elapsed * u64::from(rate) / 1000 + 1;
                prop_assert!(all.iter().all(|all| *all <= bound(of_all)));
                prop_assert!(by_peer[&number] <= bound(of_each));
                prop_assert!(rate.origins.len() as u64 <= 2 * (2 * u64::from(of_all) + 1));
            }
        }
    }
}
