//! The invariants of lanes and the bytes that they hold, checked after every step of a debug build.

use super::{
    lanes::Lanes,
    outstanding::{Outstanding, TransmissionId, bit},
};

/// Each byte that was sent and is not known to be delivered is in one segment. Each segment is
/// requeued, or in flight on a lane that is up, has not stalled and answers for it.
///
/// # Panics
/// If that does not hold.
pub(super) fn check(lanes: &Lanes, outstanding: &Outstanding) {
    if !cfg!(debug_assertions) || outstanding.len() > MAX_CHECKED {
        return;
    }
    outstanding.check();
    let mut sent = 0;
    for (slot, lane) in lanes.iter() {
        for segment in lane.transmissions().ranges().flat_map(|(_, range)| outstanding.within(range)) {
            assert!(
                segment.is_sent_on(slot),
                "the lane in slot {slot} has a segment in flight that does not record it"
            );
            sent += 1;
        }
    }
    let sent_on = outstanding.iter().map(|segment| segment.sent_on().count_ones()).sum::<u32>();
    assert_eq!(sent, sent_on, "a segment names a lane that does not have it in flight, or has it twice");
    for segment in outstanding.iter() {
        let live = segment.sent_on() & lanes.live();
        match segment.responsible() {
            Some(TransmissionId { lane, number }) => {
                assert!(live & bit(lane) != 0, "lane {lane} answers for a segment that it cannot deliver");
                let sent = lanes[lane].transmissions().get(number).map(|sent| sent.range());
                let is_within = sent.is_some_and(|sent| sent.start <= segment.position() && segment.end() <= sent.end);
                assert!(is_within, "lane {lane} did not send a segment in transmission {number}");
            }
            None => assert!(live == 0, "no lane answers for a segment on lanes {live:b}"),
        }
    }
}

/// The most segments that are checked, so that the check is quick. More segments bring no new
/// cases.
const MAX_CHECKED: usize = 256;
