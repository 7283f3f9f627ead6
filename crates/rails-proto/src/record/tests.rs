use super::{file::VERSION, *};
use crate::{
    policy::{Adaptive, StripePolicy, Wait},
    scheduler::{LaneTraits, Scheduler},
    stream_number::StreamNumber,
    wire::Ack,
};
use bytes::Bytes;
use proptest::prelude::*;
use std::{collections::BTreeSet, time::Instant};

/// A record with two lanes, of which the second is slower, is lost, and rejoins.
fn record(policy: Policy, capacity: usize) -> Record {
    let mut scheduler = Scheduler::new(policy.build(), 16 << 10, 1 << 20, 1 << 20, 1 << 20);
    scheduler.open(StreamNumber::FIRST, u64::MAX);
    scheduler.record_decisions(capacity);
    let start = Instant::now();
    let traits = |number, rtt| LaneTraits { number, weight: 0, rtt: Some(Duration::from_millis(rtt)) };
    [(5, 1), (3, 40)]
        .into_iter()
        .enumerate()
        .for_each(|(slot, (number, rtt))| scheduler.lane_up(slot, traits(number, rtt)));
    scheduler.write(StreamNumber::FIRST, Bytes::from(vec![0; 300 << 10]));
    let mut taken = [0; 2];
    for round in 0..100u32 {
        let now = start + round * Duration::from_micros(1_500);
        for (lane, taken) in taken.iter_mut().enumerate() {
            while let Some(chunk) = scheduler.take(now, lane) {
                *taken += u64::from(chunk.length > 0);
            }
        }
        let ack = Ack { chunks: taken[0], limit: 1 << 20, complete: false };
        scheduler.handle_ack(now + Duration::from_millis(1), 0, &ack).unwrap();
        if round == 5 {
            scheduler.lane_lost(1);
            scheduler.lane_up(1, traits(4, 40));
            scheduler.write(StreamNumber::FIRST, Bytes::from(vec![0; 100 << 10]));
            taken[1] = 0;
        }
    }
    scheduler.take_record().unwrap()
}

const POLICIES: [Policy; 3] = [Policy::Adaptive, Policy::Static, Policy::Weighted];

#[test]
fn a_record_is_read_as_it_was_written() {
    for policy in POLICIES {
        let record = record(policy, 1000);
        assert!(record.decisions() >= 10 && record.policy == Some(policy));
        let events = |is: fn(&RecordedEvent) -> bool| record.entries.iter().filter(|entry| is(&entry.event)).count();
        assert_eq!(events(|event| matches!(event, RecordedEvent::Lost { lane: 1 })), 1);
        assert!(events(|event| matches!(event, RecordedEvent::Sent(_))) > 5);
        assert_eq!(record.to_string().parse::<Record>().unwrap(), record);
    }
}

#[test]
fn a_replay_finds_the_same_decisions() {
    for policy in POLICIES {
        // A full ring has dropped the beginning.
        for capacity in [1000, 20] {
            let record = record(policy, capacity);
            assert_eq!(record.replay(&mut *policy.build()), []);
        }
    }
}

#[test]
fn a_different_decision_is_told_with_its_view() {
    let record = record(Policy::Static, 1000);
    let differences = record.replay(&mut *Policy::Adaptive.build());
    let first = differences.first().expect("the policies differ");
    let text = first.to_string();
    assert!(text.contains("it was Wait(OutOfTurn) and is New(16384)") && text.contains("rtt: Some("), "{text}");
}

#[test]
fn a_full_ring_drops_its_oldest() {
    let (all, newest) = (record(Policy::Adaptive, 1000), record(Policy::Adaptive, 7));
    assert_eq!((all.dropped, newest.entries.len()), (0, 7));
    assert_eq!(newest.dropped as usize, all.entries.len() - 7);
    // Each run began at its own time, and the entries are equally far from it.
    let times = |entries: &[Entry]| entries.iter().map(|entry| entry.at).collect::<Vec<_>>();
    assert_eq!(times(&newest.entries), times(&all.entries[all.entries.len() - 7..]));
}

/// A record names the lane in each slot, from wherever in a run it begins.
#[test]
fn numbers_of_the_lanes_in_their_slots() {
    let all = record(Policy::Adaptive, 1000);
    let joined = |record: &Record| {
        let events = record.entries.iter().map(|entry| &entry.event);
        let joined = events.filter_map(|event| match *event {
            RecordedEvent::Joined { slot, number } => Some((slot, number)),
            _ => None,
        });
        joined.collect::<Vec<_>>()
    };
    assert_eq!((&all.numbers, joined(&all)), (&vec![], vec![(0, 5), (1, 3), (1, 4)]));
    let of_ring = |capacity| {
        let newest = record(Policy::Adaptive, capacity);
        (newest.numbers.clone(), joined(&newest))
    };
    let late = all.entries.iter().rposition(|entry| matches!(entry.event, RecordedEvent::Joined { .. })).unwrap();
    let after = all.entries.len() - late;
    assert_eq!(of_ring(after), (vec![Some(5), Some(3)], vec![(1, 4)]));
    assert_eq!(of_ring(after - 1), (vec![Some(5), Some(4)], vec![]));
}

/// An entry of each kind, as [`VERSION`] writes them.
const EACH_KIND: &str = include_str!("version_2.jsonl");

/// If this fails, the lines have another shape than those that this version wrote elsewhere: raise
/// [`VERSION`], and write the file anew under its name.
#[test]
fn lines_of_this_version() {
    let record = EACH_KIND.parse::<Record>().expect("this version wrote it");
    assert_eq!(record.to_string(), EACH_KIND);
    let kind = |entry: &Entry| match entry.event {
        RecordedEvent::Decided(_) => "decided",
        RecordedEvent::Joined { .. } => "joined",
        RecordedEvent::Sent(_) => "sent",
        RecordedEvent::Acked { .. } => "acked",
        RecordedEvent::Lost { .. } => "lost",
    };
    let kinds = record.entries.iter().map(kind).collect::<BTreeSet<_>>();
    assert_eq!(kinds.len(), 5, "the file lacks a kind of entry: {kinds:?}");
    assert_eq!(record.replay(&mut *Policy::Adaptive.build()), []);
}

/// A test of one decision, from one line of a record: lane 1, in slot 0, declines bytes that
/// another lane delivers sooner. A faster lane would take them.
#[test]
fn one_line_of_a_record_as_a_test() {
    let line = EACH_KIND.lines().find(|line| line.contains("sooner_elsewhere")).expect("the file has such a line");
    let entry: Entry = serde_json::from_str(line).expect("the line is an entry");
    let RecordedEvent::Decided(Decided { lane, mut view, .. }) = entry.event else { panic!("no decision: {line}") };
    assert_eq!(Adaptive.decide(&view.view(), lane), Decision::Wait(Wait::SoonerElsewhere));
    view.lanes[lane].rate = Some(100e6);
    assert_eq!(Adaptive.decide(&view.view(), lane), Decision::New(262_144));
}

#[test]
fn bad_records_are_refused_by_line() {
    let good = record(Policy::Adaptive, 30).to_string();
    let error = |text: &str| text.parse::<Record>().unwrap_err().to_string();
    assert!(error("").starts_with("it is no record of decisions"));
    assert!(error("{\"format\":\"another\",\"version\":1}").starts_with("it is no record of decisions"));
    let newer = good.replacen(&format!("\"version\":{VERSION}"), &format!("\"version\":{}", VERSION + 1), 1);
    let expected = format!("it is a record of version {}, and this program reads version {VERSION}", VERSION + 1);
    assert_eq!(error(&newer), expected);
    assert_eq!(error(&format!("{good}nonsense\n")), "line 32 of the record is no entry");
    let elsewhere = good.replacen("\"decided\":{\"lane\":0", "\"decided\":{\"lane\":9", 1);
    let expected = "of the record cannot be: the lane that asks is none of those listed";
    assert!(error(&elsewhere).ends_with(expected), "{}", error(&elsewhere));
}

/// Decides as the adaptive policy does, and reads the whole view.
#[derive(Debug)]
struct Curious;

impl StripePolicy for Curious {
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        for other in 0..view.lanes.len() {
            let _ = (view.oldest(other, lane), view.overdue_after(other), view.is_slower(other, Duration::MAX));
        }
        Policy::Static.build().decide(view, lane);
        Policy::Weighted.build().decide(view, lane);
        Policy::Adaptive.build().decide(view, lane)
    }
}

proptest! {
    /// The reader takes any text, and a policy takes any record that the reader returned.
    #[test]
    fn damaged_records_are_read_or_refused(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..12), 1..6),
    ) {
        let mut text = record(Policy::Adaptive, 12).to_string().into_bytes();
        for (at, from, kind) in damage {
            let (at, from) = (at.index(text.len()), from.index(text.len()));
            match kind {
                0 => text[at] = text[from],
                1 => drop(text.drain(at.min(from)..(at.max(from)).min(at.min(from) + 200))),
                2 => text[at] ^= 1,
                // Change a number, and leave the form intact.
                _ => if let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
                    text[at + digit] = b'0' + (from % 10) as u8;
                    if kind > 6 {
                        let more = [b'0' + kind as u8 - 7; 3];
                        text.splice(at + digit..at + digit, more);
                    }
                }
            }
            if text.is_empty() {
                break;
            }
        }
        if let Ok(record) = String::from_utf8_lossy(&text).parse::<Record>() {
            record.replay(&mut Curious).iter().for_each(|difference| drop(difference.to_string()));
            prop_assert_eq!(record.to_string().parse::<Record>().unwrap(), record);
        }
    }
}
