//! A node under every order of events, on small instances.
//!
//! stateright looks for states that must not be, and [`fair`] for runs in which a request waits for
//! ever. Both step the node that runs elsewhere. Each mutation of it has to be found.
#![allow(clippy::disallowed_methods)]

mod fair;
mod site;

use rails_cache::{Policy, internals::Mutation};
use site::Site;
use stateright::{Checker, Model};

/// One request of one block at a time, in half of the memory.
const SMALLEST: Site = Site {
    blocks: 4,
    slots: 2,
    odd_block_slots: 1,
    mins: &[0],
    max: u32::MAX,
    window_slots: u32::MAX,
    policy: Policy::Lru,
    request_blocks: 1,
    requests: 1,
    may_fail: false,
    may_prefetch: false,
    may_end: false,
    max_credit: 0,
    mutation: None,
};
const TWO_REQUESTS: Site = Site { requests: 2, ..SMALLEST };
const TWO_BLOCKS: Site = Site { request_blocks: 2, ..TWO_REQUESTS };
const THREE_REQUESTS: Site = Site { blocks: 3, requests: 3, ..SMALLEST };
const FAILURES: Site = Site { may_fail: true, ..TWO_REQUESTS };
const LONG_BLOCKS: Site = Site { slots: 3, odd_block_slots: 2, ..TWO_REQUESTS };
const PREFETCH: Site = Site { blocks: 2, may_prefetch: true, ..LONG_BLOCKS };
const CREDIT: Site = Site { blocks: 2, max_credit: 2, ..LONG_BLOCKS };
const TWO_BUDGETS: Site = Site { blocks: 3, slots: 3, mins: &[2, 0], ..TWO_REQUESTS };
/// Budgets in which the longest block fits alone.
const SMALL_BUDGETS: Site = Site { blocks: 3, slots: 4, mins: &[0, 0], max: 2, ..LONG_BLOCKS };

const ENDS: Site = Site { may_end: true, ..SMALLEST };

const INSTANCES: [Site; 18] = [
    SMALLEST,
    TWO_REQUESTS,
    Site { blocks: 5, ..TWO_REQUESTS },
    Site { policy: Policy::Mru, ..TWO_REQUESTS },
    TWO_BLOCKS,
    Site { blocks: 3, slots: 2, may_fail: true, ..TWO_BLOCKS },
    THREE_REQUESTS,
    FAILURES,
    LONG_BLOCKS,
    Site { slots: 4, request_blocks: 2, blocks: 3, ..LONG_BLOCKS },
    Site { slots: 4, request_blocks: 2, blocks: 3, window_slots: 1, ..LONG_BLOCKS },
    Site { may_fail: true, ..LONG_BLOCKS },
    TWO_BUDGETS,
    SMALL_BUDGETS,
    PREFETCH,
    CREDIT,
    Site { may_fail: true, max_credit: 1, ..CREDIT },
    ENDS,
];

/// The properties that some state of a site breaks.
fn broken(site: &Site) -> Vec<&'static str> {
    let checker = site.clone().checker().spawn_bfs().join();
    let mut broken: Vec<_> = checker.discoveries().into_keys().filter(|name| *name != site::REACHED).collect();
    assert!(checker.discovery(site::REACHED).is_some(), "the memory of {site:?} was never full");
    broken.sort_unstable();
    broken
}

#[test]
fn no_state_of_any_instance_breaks_a_promise() {
    for site in &INSTANCES {
        assert_eq!(broken(site), [] as [&str; 0], "{site:?}");
    }
}

#[test]
fn no_request_of_any_instance_waits_for_ever() {
    let states = INSTANCES.iter().map(|site| {
        let search = fair::search(site);
        assert_eq!(search.starving_states, None, "{site:?}");
        search.states
    });
    let states: Vec<usize> = states.collect();
    println!("states: {states:?}");
    assert!(states.iter().all(|states| *states > 100), "{states:?}");
}

/// Every mutation, on an instance in which it matters, and the promise that it breaks. `None` is
/// that a request waits for ever.
const MUTATIONS: [(Mutation, Site, Option<&str>); 11] = [
    (Mutation::CollectorNeedsNoChange, SMALLEST, Some(site::QUIET)),
    (Mutation::CollectorTakesWanted, TWO_REQUESTS, None),
    (Mutation::TransitNotCounted, Site { blocks: 3, ..TWO_REQUESTS }, Some(site::BOUND)),
    (Mutation::CopyWhenAll, TWO_BLOCKS, None),
    (Mutation::NewestFirst, TWO_REQUESTS, None),
    (Mutation::HungryLast, TWO_REQUESTS, None),
    (Mutation::YoungPins, THREE_REQUESTS, None),
    (Mutation::MinNotKept, TWO_BUDGETS, Some(site::MIN)),
    (Mutation::PushWithoutCredit, CREDIT, Some(site::CREDIT)),
    (Mutation::CreditNotRecalled, CREDIT, None),
    (Mutation::FailureLeaks, FAILURES, Some(site::NO_LEAK)),
];

#[test]
fn every_mutation_is_found() {
    for (mutation, site, promise) in MUTATIONS {
        let site = Site { mutation: Some(mutation), ..site };
        match promise {
            Some(promise) => assert_eq!(broken(&site), [promise], "{site:?}"),
            None => assert!(fair::search(&site).starving_states.is_some(), "{site:?}"),
        }
    }
}
