//! Recorded scheduling decisions.

use bytes::Bytes;
use rails_proto::{
    internals::Scheduler, policy::Policy, record::Record, session::LaneTraits, stream_number::StreamNumber,
};
use std::time::{Duration, Instant};

/// The reader takes or refuses any text, a record that was read is written as the same, and every
/// policy decides about it.
pub(crate) fn run(data: &[u8]) {
    let Ok(record) = String::from_utf8_lossy(data).parse::<Record>() else { return };
    let again = record.to_string().parse::<Record>();
    assert_eq!(again.expect("this target wrote it"), record);
    for policy in POLICIES {
        record.replay(&mut *policy.build()).iter().for_each(|difference| drop(difference.to_string()));
    }
}

/// Records with two lanes, of which the second is lost at the end.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let record = |policy: Policy| {
        let mut scheduler = Scheduler::new(policy.build(), 16 << 10, 1 << 20, 1 << 20, 1 << 20);
        scheduler.open(StreamNumber::FIRST, u64::MAX);
        scheduler.record_decisions(30);
        (0..2).for_each(|lane| scheduler.lane_up(lane, LaneTraits::default()));
        scheduler.write(StreamNumber::FIRST, Bytes::from(vec![0; 100 << 10]));
        let start = Instant::now();
        for round in 0..4 {
            (0..2).for_each(|lane| drop(scheduler.take(start + round * Duration::from_millis(300), lane)));
        }
        scheduler.lane_lost(1);
        scheduler.take(start + Duration::from_secs(2), 0);
        scheduler.take_record().expect("the scheduler records its decisions").to_string().into_bytes()
    };
    POLICIES.map(record).into()
}

const POLICIES: [Policy; 3] = [Policy::Adaptive, Policy::Static, Policy::Weighted];
/// The names of its fields.
pub(crate) const WORDS: &[&str] = &[
    "\"format\":\"rails decisions\"",
    "\"version\":2",
    "\"decided\"",
    "\"joined\":{\"slot\":0,\"number\":1}",
    "\"numbers\":[null,1]",
    "\"sent\"",
    "\"acked\"",
    "\"lost\"",
    "\"reinject\":",
    "\"first\":{\"offset\":0,\"lane\":0,\"age_ns\":1,\"expected_ns\":1,\"remaining_ns\":null}",
    "\"requeued\":{\"bytes\":1,\"first\":1}",
    "\"streak\":{\"lane\":0,\"bytes\":1}",
    "null",
];
