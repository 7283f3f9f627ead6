//! How many handshakes begin in a second, where each costs CPU time before the peer has proved anything, as those of TLS
//! do.

use super::Origin;
use crate::handshake::Limit;
use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// The rates at which handshakes begin: that of each origin, and that of all strangers together. Of each rate, a second's
/// worth may come at once.
///
/// Peers that are known, since a stream from their origin is open, count only for their origin: no flood of strangers
/// keeps them out. The last quarter of the strangers' rate is for origins that have begun no handshake for a second: few
/// busy origins do not keep all others out.
#[derive(Debug)]
pub struct HandshakeRate {
    strangers: Rate,
    strangers_spent: Spent,
    each_origin: Rate,
    /// The origins whose rate is not whole at present: at most as many as handshakes were admitted in the latest second.
    origins: HashMap<Origin, Spent>,
}

/// The time that one handshake takes off a rate; a second has room for as many.
#[derive(Debug, Clone, Copy)]
struct Rate(Duration);

/// When a rate is whole again (the "theoretical arrival time" of the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Clone, Copy, Default)]
struct Spent(Option<Instant>);

impl HandshakeRate {
    /// So many handshakes in a second, of all strangers together and of each origin; at least 1 of each.
    pub fn new(of_strangers: u32, of_each_origin: u32) -> Self {
        let [strangers, each_origin] = [of_strangers, of_each_origin].map(|rate| Rate(SECOND / rate.max(1)));
        Self { strangers, strangers_spent: Spent::default(), each_origin, origins: HashMap::new() }
    }

    /// Whether a handshake with this peer may begin at this time, which is not before that of an earlier call.
    ///
    /// # Errors
    /// The rate that is used up.
    pub fn begin(&mut self, now: Instant, peer: IpAddr, is_familiar: bool) -> Result<(), Limit> {
        let origin = Origin::of(peer);
        let spent = self.origins.get(&origin).copied().unwrap_or_default();
        let after = spent.and(now, self.each_origin);
        if after.left(now).is_none() {
            return Err(Limit::PeerTlsRate);
        }
        if !is_familiar {
            let after = self.strangers_spent.and(now, self.strangers);
            let reserve = if spent.is_whole(now) { Duration::ZERO } else { SECOND / 4 };
            if after.left(now).is_none_or(|left| left < reserve) {
                return Err(Limit::TlsRate);
            }
            self.strangers_spent = after;
        }
        self.origins.retain(|_, spent| !spent.is_whole(now));
        self.origins.insert(origin, after);
        Ok(())
    }
}

impl Spent {
    /// With one handshake more.
    fn and(self, now: Instant, rate: Rate) -> Self {
        Self(Some(self.0.map_or(now, |whole_at| whole_at.max(now)) + rate.0))
    }

    /// The room that is left in the second; `None` if more is spent than it has.
    fn left(self, now: Instant) -> Option<Duration> {
        SECOND.checked_sub(self.0?.saturating_duration_since(now))
    }

    fn is_whole(self, now: Instant) -> bool {
        self.0.is_none_or(|whole_at| whole_at <= now)
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

    /// How many of so many handshakes begin.
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
    fn strangers_keep_no_known_peer_out() {
        let (mut rate, now) = (HandshakeRate::new(400, 100), Instant::now());
        assert_eq!(begun(&mut rate, now, 0..4000, false), 400);
        assert_eq!(rate.begin(now, peer(5000), false), Err(Limit::TlsRate));
        assert_eq!(begun(&mut rate, now, std::iter::repeat_n(5000, 1000), true), 100);
    }

    proptest! {
        #[test]
        fn rates_and_memory_are_bounded(
            steps in prop::collection::vec((0..200u64, 0..40u32), 1..600), of_all in 1..50u32, of_each in 1..50u32
        ) {
            let (mut rate, begin) = (HandshakeRate::new(of_all, of_each), Instant::now());
            let (mut elapsed, mut all, mut by_peer) = (0, 0, HashMap::<u32, u64>::new());
            for (pause, number) in steps {
                elapsed += pause;
                let admitted = rate.begin(begin + Duration::from_millis(elapsed), peer(number), false).is_ok();
                all += u64::from(admitted);
                *by_peer.entry(number).or_default() += u64::from(admitted);
                let bound = |rate: u32| u64::from(rate) + elapsed * u64::from(rate) / 1000 + 1;
                prop_assert!(all <= bound(of_all));
                prop_assert!(by_peer[&number] <= bound(of_each));
                prop_assert!(rate.origins.len() as u64 <= 2 * u64::from(of_all) + 1);
            }
        }
    }
}
