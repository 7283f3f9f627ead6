//! The NICs that a program is beside: those that its traffic takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The NICs beside the program, with their traffic as far as it is known.
///
/// A NIC *carries* at a look if it had a tenth of the traffic since the former one, and if there
/// was any worth following. A NIC that has carried for [`JOIN`] joins the set. NICs that were taken
/// for granted, and have not carried yet, leave then; others leave when they have not carried for
/// [`LEAVE`], in which others have. So an idle program stays where it is, and two NICs with traffic
/// are both in the set.
#[derive(Debug)]
pub(crate) struct Follow {
    on: BTreeSet<String>,
    nics: BTreeMap<String, Carrier>,
    carrying: BTreeSet<String>,
    at: Duration,
}

/// The traffic of one NIC.
#[derive(Debug, Default)]
struct Carrier {
    /// Since when every look saw the NIC carry.
    since: Option<Duration>,
    /// How long others have carried since this one did.
    idle: Duration,
    /// Whether the NIC has carried long enough to join.
    is_proven: bool,
}

impl Follow {
    /// A program beside these NICs, before it has any traffic.
    pub(crate) fn new(on: impl IntoIterator<Item = String>) -> Self {
        Self { on: on.into_iter().collect(), nics: BTreeMap::new(), carrying: BTreeSet::new(), at: Duration::ZERO }
    }

    /// The NICs that the program is beside.
    pub(crate) fn on(&self) -> &BTreeSet<String> {
        &self.on
    }

    /// The NICs that carried at the last look; empty if there was no traffic worth following.
    pub(crate) fn carrying(&self) -> &BTreeSet<String> {
        &self.carrying
    }

    /// Takes the bytes of each NIC since the former look. Returns whether the set has changed.
    pub(crate) fn look(&mut self, at: Duration, bytes: &BTreeMap<String, u64>) -> bool {
        let before = std::mem::replace(&mut self.at, at);
        let elapsed = at.saturating_sub(before);
        let carrying = carrying(bytes, elapsed);
        let known = self.nics.keys().chain(&self.on).chain(bytes.keys()).cloned().collect::<BTreeSet<_>>();
        for name in known {
            let carries = carrying.contains(name.as_str());
            let nic = self.nics.entry(name).or_default();
            if carries {
                nic.idle = Duration::ZERO;
                let since = *nic.since.get_or_insert(before);
                nic.is_proven |= at.saturating_sub(since) >= JOIN;
            } else {
                nic.since = None;
                if !carrying.is_empty() {
                    nic.idle += elapsed;
                }
            }
        }
        let stays = |name: &&String| self.nics.get(*name).is_some_and(|nic| nic.is_proven && nic.idle < LEAVE);
        let now: BTreeSet<String> = self.nics.keys().filter(stays).cloned().collect();
        self.carrying = carrying.into_iter().map(str::to_owned).collect();
        // A NIC that has left has to prove itself again.
        self.nics.retain(|name, nic| self.on.contains(name) || nic.idle < LEAVE);
        if now.is_empty() || now == self.on {
            return false;
        }
        self.nics.iter_mut().filter(|(name, _)| !now.contains(*name)).for_each(|(_, nic)| nic.is_proven = false);
        self.on = now;
        true
    }
}

/// The NICs that carried a tenth of the traffic each, if there was traffic worth following.
fn carrying(bytes: &BTreeMap<String, u64>, elapsed: Duration) -> BTreeSet<&str> {
    let total = bytes.values().fold(0_u128, |total, bytes| total + u128::from(*bytes));
    // 1,000 nanoseconds of nothing are not busy either.
    if total * 1_000_000_000 < u128::from(WORTH_FOLLOWING) * elapsed.as_nanos().max(1_000) {
        return BTreeSet::new();
    }
    bytes.iter().filter(|(_, bytes)| u128::from(**bytes) * 10 >= total).map(|(name, _)| name.as_str()).collect()
}

/// The bytes a second from which traffic says where a program belongs. A terminal's keys are below
/// it; no measurement stands behind the number.
const WORTH_FOLLOWING: u64 = 64 << 10;
/// How long a NIC carries before the program moves to it. Two looks at least: one may be a burst.
const JOIN: Duration = Duration::from_secs(2);
/// How long a NIC is kept without traffic while others carry: a program that comes back within it
/// is not moved twice. As `FollowOptions::dwell`, three times.
const LEAVE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MUCH: u64 = 10 << 20;

    fn bytes(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
        of.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    }

    fn on(follow: &Follow) -> Vec<&str> {
        follow.on().iter().map(String::as_str).collect()
    }

    /// Looks once a second, up to `until`, and returns the seconds at which the set changed.
    fn run(follow: &mut Follow, from: u64, until: u64, traffic: &[(&str, u64)]) -> Vec<u64> {
        let traffic = bytes(traffic);
        (from..=until).filter(|second| follow.look(Duration::from_secs(*second), &traffic)).collect()
    }

    #[test]
    fn a_program_moves_to_the_nic_of_its_traffic() {
        let mut follow = Follow::new(["eth0".to_owned()]);
        assert_eq!(run(&mut follow, 1, 10, &[("eth1", MUCH)]), [2]);
        assert_eq!(on(&follow), ["eth1"], "eth0 was a guess");
    }

    #[test]
    fn two_nics_with_traffic_are_both_in_the_set() {
        let mut follow = Follow::new(["eth0".to_owned()]);
        assert_eq!(run(&mut follow, 1, 100, &[("eth0", MUCH), ("eth1", MUCH / 2)]), [2]);
        assert_eq!(on(&follow), ["eth0", "eth1"]);
        // The traffic of eth1 ends, and it leaves half a minute later.
        assert_eq!(run(&mut follow, 101, 200, &[("eth0", MUCH)]), [130]);
        assert_eq!(on(&follow), ["eth0"]);
        assert_eq!(run(&mut follow, 201, 210, &[("eth0", MUCH), ("eth1", MUCH)]), [202], "it proves itself again");
    }

    #[test]
    fn little_traffic_and_bursts_move_nothing() {
        let mut follow = Follow::new(["eth0".to_owned()]);
        assert!(run(&mut follow, 1, 100, &[("eth1", 1000)]).is_empty(), "keys of a terminal");
        assert!(run(&mut follow, 101, 101, &[("eth1", MUCH)]).is_empty(), "one burst");
        assert!(run(&mut follow, 102, 110, &[]).is_empty());
        assert_eq!(run(&mut follow, 111, 120, &[("eth0", MUCH), ("eth1", MUCH / 20)]), [] as [u64; 0], "a twentieth");
        assert_eq!(on(&follow), ["eth0"]);
    }

    #[test]
    fn idle_program_stays_where_its_traffic_was() {
        let mut follow = Follow::new(["eth0".to_owned()]);
        run(&mut follow, 1, 10, &[("eth1", MUCH)]);
        assert!(run(&mut follow, 11, 1000, &[]).is_empty());
        assert_eq!(on(&follow), ["eth1"]);
    }

    proptest! {
        #[test]
        fn set_is_never_empty_and_only_traffic_changes_it(
            looks in prop::collection::vec((1_u64..20, prop::collection::btree_map("eth[0-3]", 0_u64..1 << 26, 0..4)), 1..60),
        ) {
            let mut follow = Follow::new(["eth0".to_owned()]);
            let (mut at, mut carried) = (Duration::ZERO, BTreeSet::from(["eth0".to_owned()]));
            for (seconds, bytes) in looks {
                at += Duration::from_secs(seconds);
                let elapsed = Duration::from_secs(seconds);
                carried.extend(carrying(&bytes, elapsed).into_iter().map(str::to_owned));
                let is_busy = !carrying(&bytes, elapsed).is_empty();
                let changed = follow.look(at, &bytes);
                prop_assert!(!changed || is_busy);
                prop_assert!(!follow.on().is_empty() && follow.on().is_subset(&carried));
            }
        }

        #[test]
        fn steady_traffic_settles_on_its_nics_for_good(
            before in prop::collection::vec(prop::collection::btree_map("eth[0-3]", 0_u64..1 << 26, 0..4), 0..40),
            nics in prop::collection::btree_set("eth[0-3]", 1..4),
        ) {
            let mut follow = Follow::new(["eth0".to_owned()]);
            let mut at = Duration::ZERO;
            for bytes in &before {
                at += Duration::from_secs(1);
                follow.look(at, bytes);
            }
            let steady = nics.iter().map(|name| (name.clone(), MUCH)).collect();
            for _ in 0..40 {
                at += Duration::from_secs(1);
                follow.look(at, &steady);
            }
            prop_assert_eq!(follow.on(), &nics);
            at += Duration::from_secs(1);
            prop_assert!(!follow.look(at, &steady));
        }
    }
}
