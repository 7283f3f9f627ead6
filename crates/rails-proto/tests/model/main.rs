//! Two streams between two ends, under every order of events, on small instances.
//!
//! stateright goes through the states, and looks for one in which something is wrong. From each of
//! them the session has to be able to come to its end: otherwise a stream could wait for ever.
//! Both step the objects that run elsewhere. Each mutation of them has to be found.
//!
//! What takes any time is what is on its way: a lane with room sends at once.
#![allow(clippy::disallowed_methods)]

mod instance;
mod world;

use instance::{Instance, search};
use rails_proto::internals::Mutation;
use std::collections::BTreeSet;
use world::Wrong;

/// The peer gives credit for each byte.
const CREDIT: Instance = Instance {
    totals: [2, 1],
    both_ways: false,
    window: 4,
    stream_window: 1,
    longest_chunk: 1,
    send_buffer: 8,
    lanes: 2,
    max_parcels: 1,
    begins_later: false,
    late_finish: false,
    resets: false,
    stops: false,
    unread: None,
    losses: 0,
    stalls: 0,
    returns: false,
    reinjects: false,
    mutation: None,
};
/// A byte, and the end of a stream that has none.
const SMALLEST: Instance = Instance { totals: [1, 0], ..CREDIT };
const LOST_CREDIT: Instance = Instance { totals: [2, 0], losses: 1, ..CREDIT };
const RESET: Instance = Instance { resets: true, lanes: 1, ..CREDIT };
const STOP: Instance = Instance { stops: true, lanes: 1, ..CREDIT };
const LOST_RESET: Instance = Instance { resets: true, losses: 1, ..SMALLEST };
const LOST_STOP: Instance = Instance { stops: true, losses: 1, both_ways: true, ..SMALLEST };
/// The only lane is lost and comes back.
const OUTAGE: Instance = Instance { lanes: 1, losses: 1, returns: true, ..CREDIT };
/// One stream takes nearly all of the window, and nobody reads it.
const UNREAD: Instance = Instance {
    totals: [7, 2],
    window: 8,
    stream_window: 8,
    longest_chunk: 8,
    lanes: 1,
    begins_later: true,
    unread: Some(0),
    ..CREDIT
};
/// One stream takes all of the window, and nobody reads it. The other is finished late.
const FULL: Instance = Instance {
    totals: [9, 1],
    window: 4,
    stream_window: 4,
    send_buffer: 16,
    late_finish: true,
    begins_later: false,
    ..UNREAD
};

const INSTANCES: [(&str, Instance); 19] = [
    ("credit", CREDIT),
    ("lost credit", LOST_CREDIT),
    ("one window for both", Instance { window: 1, ..CREDIT }),
    ("both ways", Instance { both_ways: true, ..CREDIT }),
    ("both ways, loss", Instance { both_ways: true, losses: 1, ..SMALLEST }),
    ("late end", Instance { totals: [0, 1], late_finish: true, ..CREDIT }),
    ("reset and stop", Instance { stops: true, ..RESET }),
    ("lost reset", LOST_RESET),
    ("lost stop", LOST_STOP),
    ("loss and return", Instance { losses: 1, returns: true, ..SMALLEST }),
    ("stall", Instance { stalls: 1, ..SMALLEST }),
    ("copies", Instance { reinjects: true, ..SMALLEST }),
    ("outage", OUTAGE),
    ("outage, small buffer", Instance { send_buffer: 1, ..OUTAGE }),
    ("outage, longer chunks", Instance { totals: [3, 2], longest_chunk: 2, stream_window: 2, ..OUTAGE }),
    ("outage, reset and stop", Instance { totals: [1, 0], resets: true, stops: true, ..OUTAGE }),
    ("unread", UNREAD),
    ("unread, outages", Instance { losses: 2, returns: true, ..UNREAD }),
    ("full", FULL),
];

#[test]
fn nothing_is_wrong_and_no_stream_waits_for_ever() {
    for (name, instance) in INSTANCES {
        let found = search(&instance);
        println!("{name}: {} states", found.states);
        assert_eq!((found.wrong, found.stuck), (BTreeSet::new(), 0), "{name}: {instance:?}");
        assert!(found.states > 10, "{name}: {} states", found.states);
    }
}

/// Every mutation, an instance in which it matters, and what is wrong then. `None` is that a stream
/// may wait for ever.
const MUTATIONS: [(Mutation, Instance, Option<Wrong>); 10] = [
    (Mutation::StreamLimitIgnored, CREDIT, Some(Wrong::BeyondCredit)),
    (Mutation::SessionLimitIgnored, Instance { window: 1, ..CREDIT }, Some(Wrong::BeyondCredit)),
    (Mutation::LimitNotOwed, UNREAD, None),
    (Mutation::ResetAtWritten, RESET, Some(Wrong::EndMoved)),
    (Mutation::ResetNotAwaited, RESET, Some(Wrong::EndMoved)),
    (Mutation::RecordsLost, OUTAGE, None),
    (Mutation::RecordsNotRenewed, OUTAGE, Some(Wrong::OldRecord)),
    (Mutation::DiscardedNotRead, STOP, Some(Wrong::LimitUnknown)),
    (Mutation::RoomWakesNobody, Instance { send_buffer: 1, ..OUTAGE }, None),
    (Mutation::StoppedForever, STOP, Some(Wrong::LimitUnknown)),
];

#[test]
fn every_mutation_is_found() {
    for (mutation, instance, wrong) in MUTATIONS {
        let found = search(&Instance { mutation: Some(mutation), ..instance });
        println!("{mutation:?}: {} states, {} stuck, {:?}", found.states, found.stuck, found.wrong);
        match wrong {
            Some(wrong) => assert!(found.wrong.contains(&wrong), "{mutation:?}: {:?}", found.wrong),
            None => assert!(found.stuck > 0, "{mutation:?}"),
        }
    }
}
