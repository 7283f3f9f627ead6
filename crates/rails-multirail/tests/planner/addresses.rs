//! The addresses of rails that share an interface.

use crate::{loopback, nic, planned, refused, two_packages};
use rails_multirail::{
    LaneAddress, MultiRailListener, MultiRailStream, RailPlan, RailRequest, Rails, Security, StreamOptions, plan_rails,
    planner::{LocalEnd, PlanError, replan_rails},
};
use rails_topo::{InterfaceAddress, Nic, NicKind, Topology};
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn with_addresses(nic: Nic, ips: &[&str]) -> Nic {
    Nic { addresses: ips.iter().map(|text| InterfaceAddress { ip: ip(text), prefix_len: 24 }).collect(), ..nic }
}

fn addresses(plan: &RailPlan) -> Vec<IpAddr> {
    plan.rails.iter().map(|rail| rail.address.unwrap()).collect()
}

/// The addresses that each rail offers to a peer.
fn offered(plan: &RailPlan) -> Vec<Vec<IpAddr>> {
    plan.rails.iter().map(|rail| rail.addresses.iter().map(|held| held.ip).collect()).collect()
}

#[test]
fn another_address_for_each_rail_on_one_nic() {
    let eth0 = with_addresses(nic("eth0", 0, 10, "10.0.0.1"), &["10.0.0.1", "fd00::1", "10.0.0.2"]);
    let machine = two_packages(vec![eth0]);
    let mut shared = RailRequest::count(2);
    shared.share_nics = true;
    for plan in [planned(&machine, "eth0,eth0"), plan_rails(&machine, &shared).unwrap()] {
        assert_eq!(addresses(&plan), [ip("10.0.0.1"), ip("10.0.0.2")]);
        assert_eq!(offered(&plan), [vec![ip("10.0.0.1"), ip("fd00::1")], vec![ip("10.0.0.2")]]);
        let second = LocalEnd::DeviceAddress { device: "eth0".to_owned(), address: ip("10.0.0.2") };
        assert_eq!(plan.rails[1].end, Some(second));
        assert!(!plan.notes.iter().any(|note| note.contains("address")), "{plan}");
    }
    let three = planned(&machine, "eth0,eth0,eth0");
    assert_eq!(addresses(&three)[2], ip("10.0.0.1"), "the first is shared");
    assert_eq!(three.notes, ["2 rails share the address 10.0.0.1"]);
    assert_eq!(addresses(&planned(&machine, "10.0.0.2,eth0")), [ip("10.0.0.2"), ip("10.0.0.1")]);
}

/// As where `/sys` is hidden, or shows another network namespace's.
#[test]
fn interfaces_of_unknown_kind_can_have_rails() {
    let unknown = |name: &str, ips: &[&str]| {
        with_addresses(Nic { kind: NicKind::Unknown, up: Some(true), ..Nic::named(name) }, ips)
    };
    let down = Nic { up: Some(false), ..unknown("eth2", &["10.0.2.1"]) };
    let machine = two_packages(vec![unknown("eth0", &["10.0.0.1"]), unknown("eth1", &[]), down]);
    let plan = planned(&machine, "auto");
    assert_eq!(addresses(&plan), [ip("10.0.0.1")]);
    let rejected: Vec<&str> = plan.rejected_nics.iter().map(|nic| nic.reason.as_str()).collect();
    assert_eq!(rejected, ["it has no address", "its link is down"]);
    assert!(plan.to_string().contains("lane eth0 from 10.0.0.1 (/sys does not show it; speed unknown)"), "{plan}");
}

#[test]
fn rails_planned_again_share_no_address() {
    let eth0 = with_addresses(nic("eth0", 0, 10, "10.0.0.1"), &["10.0.0.1", "fd00::1", "10.0.0.2"]);
    let machine = two_packages(vec![eth0, loopback()]);
    let request: RailRequest = "eth0,eth0".parse().unwrap();
    let plan = plan_rails(&machine, &request).unwrap();
    let again = replan_rails(&machine, &request, &plan.rails).unwrap();
    let again: Vec<_> = again.iter().map(|rail| &rail.planned.addresses).collect();
    assert_eq!(again, plan.rails.iter().map(|rail| &rail.addresses).collect::<Vec<_>>());
}

#[test]
fn loopback_addresses_in_turn() {
    let machine = two_packages(vec![loopback()]);
    let plan = planned(&machine, "lo,127.0.0.2,lo");
    assert_eq!(addresses(&plan), [ip("127.0.0.1"), ip("127.0.0.2"), ip("127.0.0.3")]);
    assert!(plan.notes.is_empty(), "{plan}");
}

#[test]
fn address_of_another_interface() {
    let machine = two_packages(vec![nic("eth0", 0, 10, "10.0.0.1"), nic("eth1", 0, 10, "10.0.1.1")]);
    let end = LocalEnd::DeviceAddress { device: "eth1".to_owned(), address: ip("10.0.0.1") };
    let error = plan_rails(&machine, &RailRequest::on([end])).unwrap_err();
    assert!(matches!(error, PlanError::NoSuchAddress { .. }), "{error}");
    assert_eq!(
        refused(&machine, "10.0.0.9"),
        "no interface has the address 10.0.0.9; there are: 10.0.0.1 (eth0), 10.0.1.1 (eth1)"
    );
}

#[test]
fn link_local_address_by_name_or_index() {
    let on_link = |name: &str, index| Nic {
        index: Some(index),
        ..with_addresses(nic(name, 0, 10, "10.0.0.1"), &["fe80::1", "10.0.0.1"])
    };
    // RFC 4007 lets a scope be any text: a name comes before an index.
    let machine = two_packages(vec![on_link("eth0", 2), on_link("eth1", 3), on_link("3", 4)]);
    for (scope, name) in [("eth1", "eth1"), ("2", "eth0"), ("3", "3"), ("4", "3")] {
        for request in [format!("fe80::1%{scope}"), format!("[fe80::1%{scope}]")] {
            let plan = planned(&machine, &request);
            let end = LocalEnd::DeviceAddress { device: name.to_owned(), address: ip("fe80::1") };
            assert_eq!((plan.rails[0].interface.as_deref(), &plan.rails[0].end), (Some(name), &Some(end)), "{request}");
        }
    }
    assert_eq!(refused(&machine, "fe80::1%9"), "there is no interface `9`; there are: 3, eth0, eth1");
}

/// Over real sockets: each lane has a local and a remote address of its own.
#[tokio::test]
async fn two_lanes_over_two_loopback_addresses() {
    let topology = Topology::detect().unwrap();
    let name = &topology.nics().iter().find(|nic| nic.kind == NicKind::Loopback).expect("Linux has one").name;
    let rails = || Rails::build(&planned(&topology, &format!("{name},{name}"))).unwrap();
    let (ours, theirs) = (rails(), rails());
    let options = StreamOptions::new(Security::insecure());
    let ends = theirs.iter().map(|rail| LaneAddress::from(SocketAddr::new(rail.planned().address.unwrap(), 0)));
    let listener = MultiRailListener::bind(&theirs, &ends.collect::<Vec<_>>(), &options).await.unwrap();
    let near = MultiRailStream::connect(&ours, listener.local_addrs(), &options).await.unwrap();
    let _far = listener.accept().await.unwrap();
    assert_eq!((near.lanes_up(), near.failed_lanes().len()), (2, 0));
    let both = BTreeSet::from([ip("127.0.0.1"), ip("127.0.0.2")]);
    let lanes = near.stats().lanes;
    assert_eq!(lanes.iter().map(|lane| lane.local.ip()).collect::<BTreeSet<_>>(), both);
    assert_eq!(lanes.iter().map(|lane| lane.remote.ip()).collect::<BTreeSet<_>>(), both);
}
