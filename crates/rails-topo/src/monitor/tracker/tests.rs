use super::*;
use crate::{
    Bandwidth, CpuId, DataSize, InterfaceAddress, Interrupt, Nic, NodeId, NumaNode, Topology,
    monitor::{MemoryBlockId, event::LinkState},
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn machine() -> Snapshot {
    let interrupt = Interrupt { number: 24, name: None, affinity: "0-3".parse().ok(), effective: "0".parse().ok() };
    let nic = Nic { index: Some(2), up: Some(true), interrupts: vec![interrupt], ..Nic::named("eth0") };
    let topology = Topology::synthetic("numa:2 core:2 pu:1", vec![nic]).unwrap();
    Snapshot { topology, memory_blocks: "0-9".parse().ok() }
}

fn tracker() -> (Tracker, Instant) {
    let now = Instant::now();
    (Tracker::new(now, machine(), Duration::from_secs(5)), now)
}

fn offline(cpu: u32) -> Event {
    Event::Cpu { cpu: CpuId(cpu), online: false }
}

fn only(mut tickets: Vec<Ticket>) -> Ticket {
    assert_eq!(tickets.len(), 1, "{tickets:?}");
    tickets.remove(0)
}

#[test]
fn offline_cpu_at_once_and_readings_after_it() {
    let (mut tracker, now) = tracker();
    let changes = tracker.handle(now, offline(3));
    let removed = Change::AllowedCpus { removed: "3".parse().unwrap(), added: CpuSet::new() };
    assert_eq!(changes, [Change::CpuOffline { cpu: CpuId(3) }, removed]);
    assert_eq!(tracker.snapshot().topology.online_cpus.to_string(), "0-2");
    assert_eq!(only(tracker.due(now)).kinds, FactKinds { cpus: true, ..FactKinds::default() });
    assert_eq!(tracker.next_due(), Some(now + SETTLE));
    let later = now + SETTLE;
    assert_eq!(only(tracker.due(later)).kinds, FactKinds { machine: true, ..FactKinds::default() });
    assert_eq!(tracker.handle(later, offline(3)), [], "twice is once");
}

#[test]
fn one_reading_after_the_last_offline_cpu() {
    let (mut tracker, now) = tracker();
    tracker.handle(now, offline(3));
    let next = now + SETTLE / 2;
    tracker.handle(next, offline(2));
    tracker.due(next);
    assert_eq!(tracker.due(now + SETTLE), []);
    assert_eq!(tracker.next_due(), Some(next + SETTLE));
}

#[test]
fn failed_reading_changes_nothing_and_is_repeated() {
    let (mut tracker, now) = tracker();
    tracker.handle(now, Event::Lost);
    tracker.handle(now, Event::Nodes);
    for ticket in tracker.due(now) {
        tracker.reading_failed(&ticket);
    }
    assert_eq!(*tracker.snapshot(), machine());
    assert_eq!(tracker.due(now), []);
    let slow = now + Duration::from_secs(5);
    assert_eq!(tracker.next_due(), Some(slow));
    let small = only(tracker.due(slow));
    assert!(small.kinds.nodes && !small.kinds.machine, "{small:?}");
    assert_eq!(only(tracker.due(slow)).kinds, FactKinds { machine: true, ..FactKinds::default() });
}

#[test]
fn memory_block_causes_a_reading_of_the_nodes() {
    let (mut tracker, now) = tracker();
    let block = MemoryBlockId(7);
    let event = Event::MemoryBlock { block, online: false };
    assert_eq!(tracker.handle(now, event), [Change::MemoryBlockOffline { block }]);
    let ticket = only(tracker.due(now));
    assert_eq!(ticket.kinds, FactKinds { nodes: true, ..FactKinds::default() });
    let mut nodes = machine().topology.nodes;
    nodes[1].memory = Some(DataSize::bytes(5));
    let facts = Facts { nodes: Some(nodes), ..Facts::default() };
    let expected = Change::NodeMemory { node: NodeId(1), memory: Some(DataSize::bytes(5)) };
    assert_eq!(tracker.facts_read(now, &ticket, facts), [expected]);
}

#[test]
fn events_during_a_reading_outlast_its_facts() {
    let (mut tracker, now) = tracker();
    tracker.handle(now, Event::Lost);
    let ticket = only(tracker.due(now));
    // The machine is read with CPU 3 online, which goes offline before its event.
    tracker.handle(now, offline(3));
    let mut found = machine();
    found.topology.online_cpus.remove(CpuId(0));
    found.topology.allowed_cpus.remove(CpuId(0));
    let facts = Facts { machine: Some(Box::new(found)), ..Facts::default() };
    let changes = tracker.facts_read(now, &ticket, facts);
    let removed = Change::AllowedCpus { removed: "0".parse().unwrap(), added: CpuSet::new() };
    assert_eq!(changes, [Change::CpuOffline { cpu: CpuId(0) }, removed]);
    assert_eq!(tracker.snapshot().topology.online_cpus.to_string(), "1-2");
}

#[test]
fn reading_that_missed_too_many_events_is_repeated() {
    let (mut tracker, now) = tracker();
    tracker.handle(now, Event::Nodes);
    let ticket = only(tracker.due(now));
    for _ in 0..=LONGEST_LOG {
        tracker.handle(now, Event::Cpuset);
    }
    assert_eq!(tracker.facts_read(now, &ticket, Facts::default()), []);
    let due: Vec<FactKinds> = tracker.due(now).into_iter().map(|ticket| ticket.kinds).collect();
    assert!(due.contains(&FactKinds { machine: true, ..FactKinds::default() }), "{due:?}");
}

#[test]
fn link_change_and_a_reading_of_its_speed() {
    let (mut tracker, now) = tracker();
    let state = LinkState { index: 2, link: Some((Some(false), None)), ..LinkState::default() };
    let nic = || "eth0".to_owned();
    assert_eq!(
        tracker.handle(now, Event::Link(state)),
        [Change::NicLink { nic: nic(), up: Some(false), carrier: None }]
    );
    let ticket = only(tracker.due(now));
    assert_eq!(ticket.kinds.speeds, BTreeSet::from([2]));
    let speed = Some(Bandwidth::mbps(10));
    let facts = Facts { speeds: vec![(2, speed)], ..Facts::default() };
    assert_eq!(tracker.facts_read(now, &ticket, facts), [Change::NicSpeed { nic: nic(), speed }]);
}

#[test]
fn interfaces_are_told_apart_by_number() {
    let (mut tracker, now) = tracker();
    let named =
        |index, name: &str| Event::Link(LinkState { index, name: Some(name.to_owned()), ..LinkState::default() });
    let renamed = Change::NicRenamed { from: "eth0".to_owned(), to: "rail0".to_owned() };
    assert_eq!(tracker.handle(now, named(2, "rail0")), [renamed]);
    assert_eq!(tracker.handle(now, named(3, "eth0")), [], "it has to be read first");
    let ticket = tracker.due(now).into_iter().find(|ticket| ticket.kinds.nics).expect("interfaces are read");
    let new = Nic { index: Some(3), ..Nic::named("eth0") };
    let nics = vec![new.clone(), tracker.snapshot().topology.nics[0].clone()];
    let facts = Facts { nics: Some(nics), ..Facts::default() };
    assert_eq!(tracker.facts_read(now, &ticket, facts), [Change::NicAdded { nic: Box::new(new) }]);
    assert_eq!(tracker.handle(now, Event::LinkGone { index: 2 }), [Change::NicRemoved { nic: "rail0".to_owned() }]);
    assert_eq!(tracker.snapshot().topology.nics[0].index, Some(3));
}

#[test]
fn addresses_come_and_go_once() {
    let (mut tracker, now) = tracker();
    let address = InterfaceAddress { ip: [10, 0, 0, 1].into(), prefix_len: 24 };
    let event = |present| Event::Address { index: 2, address: address.clone(), present };
    let nic = || "eth0".to_owned();
    assert_eq!(tracker.handle(now, event(false)), []);
    assert_eq!(tracker.handle(now, event(true)), [Change::NicAddressAdded { nic: nic(), address: address.clone() }]);
    assert_eq!(tracker.handle(now, event(true)), []);
    assert_eq!(tracker.handle(now, event(false)), [Change::NicAddressRemoved { nic: nic(), address: address.clone() }]);
}

#[test]
fn announced_move_of_an_interrupt() {
    let (mut tracker, now) = tracker();
    let mut moved_to = |cpus: &str, at: Instant| {
        let ticket = only(tracker.due(at));
        assert!(ticket.kinds.interrupts);
        let affinity: Option<CpuSet> = cpus.parse().ok();
        let facts = Facts { interrupts: [(24, (affinity.clone(), affinity))].into(), ..Facts::default() };
        let changes = tracker.facts_read(at, &ticket, facts);
        let [Change::InterruptMoved { number: 24, expected, .. }] = changes[..] else { panic!("{changes:?}") };
        tracker.expect_interrupt(24, "2".parse().unwrap());
        expected
    };
    let at = |poll| now + Duration::from_secs(5) * poll;
    assert!(!moved_to("1", at(1)));
    assert!(moved_to("2", at(2)));
    assert!(!moved_to("3", at(3)));
}

#[test]
fn poll_finds_interfaces_without_rtnetlink() {
    let (mut tracker, start) = tracker();
    assert!(!only(tracker.due(start + Duration::from_secs(5))).kinds.nics);
    let (mut tracker, start) = self::tracker();
    tracker.poll_nics();
    assert!(only(tracker.due(start + Duration::from_secs(5))).kinds.nics);
}

#[test]
fn poll_that_takes_long_comes_seldom() {
    let (mut tracker, now) = tracker();
    let at = now + Duration::from_secs(5);
    assert_eq!(tracker.due(now), []);
    let ticket = only(tracker.due(at));
    assert_eq!(ticket.kinds, FactKinds { cpus: true, nodes: true, interrupts: true, ..FactKinds::default() });
    assert_eq!(tracker.next_due(), None, "one reading at a time");
    tracker.facts_read(at, &ticket, Facts::default());
    tracker.poll_took(at, Duration::from_millis(1));
    assert_eq!(tracker.next_due(), Some(at + Duration::from_secs(5)));
    tracker.poll_took(at, Duration::from_millis(10));
    assert_eq!(tracker.next_due(), Some(at + Duration::from_secs(20)));
}

fn event() -> impl Strategy<Value = Event> {
    let number = 0..4u32;
    let name = || prop::option::of(prop::sample::select(vec!["eth0", "eth1", "a"]).prop_map(str::to_owned));
    let up = || prop::option::of(any::<bool>());
    let address = |last: u8| InterfaceAddress { ip: [10, 0, 0, last].into(), prefix_len: 24 };
    prop_oneof![
        (number.clone(), any::<bool>()).prop_map(|(cpu, online)| Event::Cpu { cpu: CpuId(cpu), online }),
        (number.clone(), any::<bool>())
            .prop_map(|(block, online)| Event::MemoryBlock { block: MemoryBlockId(block), online }),
        (number.clone(), name(), prop::option::of((up(), up())))
            .prop_map(|(index, name, link)| Event::Link(LinkState { index, name, link, mtu: None })),
        number.clone().prop_map(|index| Event::LinkGone { index }),
        (number.clone(), 0..3u8, any::<bool>()).prop_map(move |(index, last, present)| Event::Address {
            index,
            address: address(last),
            present
        }),
        prop::collection::btree_set(number.clone(), 0..4).prop_map(|cpus| {
            let cpus: CpuSet = cpus.into_iter().map(CpuId).collect();
            Event::Facts(Box::new(Facts {
                online_cpus: Some(cpus.clone()),
                allowed_cpus: Some(cpus),
                ..Facts::default()
            }))
        }),
        prop::collection::btree_map(number, name(), 0..3).prop_map(|nics| {
            let mut names = BTreeSet::new();
            let nic = |(index, name): (u32, Option<String>)| {
                let name = name.unwrap_or_default();
                let nic = Nic { index: Some(index), ..Nic::named(&name) };
                names.insert(name).then_some(nic)
            };
            let mut nics: Vec<Nic> = nics.into_iter().filter_map(nic).collect();
            nics.sort_by(|a, b| a.name.cmp(&b.name));
            let nodes = vec![NumaNode::of(NodeId(0), CpuSet::new())];
            Event::Facts(Box::new(Facts { nics: Some(nics), nodes: Some(nodes), ..Facts::default() }))
        }),
    ]
}

proptest! {
    /// The first snapshot of a subscription and the changes after it give the monitor's snapshot.
    #[test]
    fn changes_make_the_old_snapshot_the_new_one(events in prop::collection::vec(event(), 0..40), phase in 0..4usize) {
        let (mut tracker, now) = tracker();
        let mut followed = tracker.snapshot().clone();
        let mut tickets = Vec::new();
        for (number, event) in events.into_iter().enumerate() {
            let changes = match event {
                Event::Facts(facts) if !tickets.is_empty() => {
                    let ticket = tickets.remove(0);
                    tracker.facts_read(now, &ticket, *facts)
                }
                event => tracker.handle(now, event),
            };
            changes.iter().for_each(|change| followed.apply(change));
            if number % 4 == phase {
                tickets.extend(tracker.due(now));
            }
        }
        let mut left = followed.changes_to(tracker.snapshot());
        left.retain(|change| *change != Change::Structure);
        prop_assert_eq!(left, vec![]);
    }
}
