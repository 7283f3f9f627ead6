//! A peer that acknowledges packets that have not arrived, to have the sender send faster.

use crate::flows::parameters;
use rails_celeritas::proto::{
    connection::{ConnectionProtocol, Event, Failure},
    rate::Fixed,
    sender::Violation,
    wire::{Control, ErrorList},
};
use rails_topo::Bandwidth;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// The peer names one of the latest packets in each list, and knows how many there are, but not
/// their numbers.
#[test]
fn peer_that_acknowledges_by_guess_is_found() {
    let mut now = Instant::now();
    let mut sender = ConnectionProtocol::new(now, parameters(0, 20 * MS), Box::new(Fixed(Bandwidth::mbps(50))));
    sender.skip_numbers(7);
    sender.submit(now, 1 << 40).unwrap();
    let mut list = ErrorList { limit: u64::MAX, message_limit: u32::MAX, ..ErrorList::default() };
    let mut segments = 0;
    for _ in 0..1_000 {
        sender.handle_control(now, &Control::ErrorList(list.clone()));
        now += 2 * MS;
        let mut burst = Vec::new();
        sender.handle_timeout(now);
        sender.poll_transmit(now, 1_000, &mut burst);
        segments += burst.len();
        if let Some(last) = burst.last() {
            list.largest = list.largest.max(last.header.packet.saturating_sub(4));
            list.received = list.largest + 1;
            list.complete = list.complete.max(last.header.offset.saturating_sub(5 * 1_432));
            list.known = list.complete;
        }
        if let Some(Event::Failed(failure)) = sender.poll_event() {
            assert!(matches!(failure, Failure::Violation(Violation::Skipped { .. })), "{failure:?}");
            assert!(segments < 10_000, "{segments}");
            return;
        }
    }
    panic!("{segments} segments were sent");
}
