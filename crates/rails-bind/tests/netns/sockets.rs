//! Sockets whose route is not as plain as their peer's address.

use rails_bind::socket::{self, SocketError};
use rails_lab::{LinkLab, Shape, Side};
use rails_topo::{Nic, Topology};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
};

/// Enough bytes to tell the traffic from the odd packet of another connection.
const TRAFFIC: usize = 1 << 20;

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_socket_goes_through_the_link_of_its_peer() {
    let lab = lab();
    let topology = topology(&lab);
    let _inside = lab.enter(Side::A).expect("root may enter");
    for link in 0..2 {
        let udp = udp_to(SocketAddr::new(lab.address(Side::B, link), 9));
        assert_eq!(nic(&udp, &topology), lab.interface(Side::A, link));
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_socket_of_another_namespace_is_told_apart() {
    let lab = lab();
    let topology = topology(&lab);
    let udp = {
        let _inside = lab.enter(Side::A).expect("root may enter");
        udp_to(SocketAddr::new(lab.address(Side::B, 0), 9))
    };
    assert!(matches!(socket::nic_of(&udp, &topology), Err(SocketError::OtherNamespace)));
    let _inside = lab.enter(Side::A).expect("root may enter");
    assert_eq!(nic(&udp, &topology), lab.interface(Side::A, 0));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_device_or_a_mark_overrules_the_address() {
    let lab = lab();
    let topology = topology(&lab);
    ip(&lab, &["rule", "add", "fwmark", "7", "table", "77"]);
    ip(&lab, &["route", "add", "default", "dev", lab.interface(Side::A, 1), "table", "77"]);
    let _inside = lab.enter(Side::A).expect("root may enter");
    let peer = SocketAddr::new(lab.address(Side::B, 0), 9);
    let udp = udp_to(peer);
    assert_eq!(nic(&udp, &topology), lab.interface(Side::A, 0));
    socket2::SockRef::from(&udp).set_mark(7).expect("root may");
    assert_eq!(nic(&udp, &topology), lab.interface(Side::A, 1), "by its mark");
    socket2::SockRef::from(&udp).set_mark(0).expect("root may");
    let device = lab.interface(Side::A, 1);
    socket2::SockRef::from(&udp).bind_device(Some(device.as_bytes())).expect("root may");
    assert_eq!(nic(&udp, &topology), device, "by its device");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_rule_for_a_port_is_followed() {
    let lab = lab();
    let topology = topology(&lab);
    ip(&lab, &["rule", "add", "ipproto", "udp", "dport", "4791", "table", "77"]);
    ip(&lab, &["route", "add", "default", "dev", lab.interface(Side::A, 1), "table", "77"]);
    let _inside = lab.enter(Side::A).expect("root may enter");
    for (port, link) in [(4790, 0), (4791, 1)] {
        let udp = udp_to(SocketAddr::new(lab.address(Side::B, 0), port));
        assert_eq!(nic(&udp, &topology), lab.interface(Side::A, link), "port {port}");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_multipath_flows_by_ports() {
    let lab = lab();
    let topology = topology(&lab);
    share_a_route(&lab);
    let receiver = {
        let _inside = lab.enter(Side::B).expect("root may enter");
        UdpSocket::bind((FAR, 0)).expect("the address is there")
    };
    let to = receiver.local_addr().expect("it has a port");
    let _inside = lab.enter(Side::A).expect("root may enter");
    divide_by(PORTS);
    let mut used = BTreeSet::new();
    for _ in 0..12 {
        let udp = udp_to(to);
        let said = nic(&udp, &topology);
        let busy = busy(&lab, || {
            for _ in 0..TRAFFIC / 1000 {
                udp.send(&[0; 1000]).expect("the link is up");
            }
        });
        assert_eq!(said, lab.interface(Side::A, busy));
        used.insert(busy);
    }
    assert_eq!(used.len(), 2, "twelve flows used one way only, so nothing was told apart");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_multipath_connection_or_unknown() {
    let lab = lab();
    let topology = topology(&lab);
    share_a_route(&lab);
    let listener = {
        let _inside = lab.enter(Side::B).expect("root may enter");
        TcpListener::bind((FAR, 0)).expect("the address is there")
    };
    let to = listener.local_addr().expect("it listens");
    let _inside = lab.enter(Side::A).expect("root may enter");
    let connect = || {
        let near = TcpStream::connect(to).expect("there are two ways");
        (near, listener.accept().expect("somebody connects").0)
    };

    divide_by(PORTS);
    let (near, _far) = connect();
    let expected = [0, 1].map(|link| lab.interface(Side::A, link).to_owned());
    match socket::nic_of(&near, &topology) {
        Err(SocketError::SeveralWays { interfaces }) => assert_eq!(interfaces, expected),
        other => panic!("{other:?}"),
    }

    divide_by(ADDRESSES);
    let (mut near, mut far) = connect();
    let said = nic(&near, &topology);
    let busy = busy(&lab, || {
        thread::scope(|scope| {
            scope.spawn(|| far.read_exact(&mut vec![0; TRAFFIC]).expect("the other end writes"));
            near.write_all(&vec![0; TRAFFIC]).expect("the other end reads");
        });
    });
    assert_eq!(said, lab.interface(Side::A, busy));
}

/// Gives each end an address of its own that the other reaches over both links.
fn share_a_route(lab: &LinkLab) {
    for (side, opposite, own, other) in [(Side::A, Side::B, NEAR, FAR), (Side::B, Side::A, FAR, NEAR)] {
        ip_at(lab, side, &["address", "add", &format!("{own}/32"), "dev", "lo"]);
        let hop = |link| format!("nexthop via {} dev {}", lab.address(opposite, link), lab.interface(side, link));
        let route = format!("route add {other}/32 src {own} {} {}", hop(0), hop(1));
        ip_at(lab, side, &route.split(' ').collect::<Vec<_>>());
    }
}

/// Sets by what the namespace that this thread is in divides traffic among next hops.
fn divide_by(policy: &str) {
    fs::write("/proc/sys/net/ipv4/fib_multipath_hash_policy", policy).expect("root may");
}

/// The link that most of the traffic left by.
fn busy(lab: &LinkLab, traffic: impl FnOnce()) -> usize {
    let sent = || [0, 1].map(|link| lab.counters(Side::A, link).expect("they are counted").tx_bytes);
    let before = sent();
    traffic();
    let after = sent();
    let carried = |link: &usize| after[*link] - before[*link] >= TRAFFIC as u64 / 2;
    (0..2).find(carried).expect("one of them carried it")
}

fn lab() -> LinkLab {
    LinkLab::builder().link(Shape::Unshaped).link(Shape::Unshaped).build().expect("root, ip and tc")
}

/// The near end: `/sys` shows another namespace, so its interfaces are described.
fn topology(lab: &LinkLab) -> Topology {
    let nics = (0..lab.link_count()).map(|link| Nic::named(lab.interface(Side::A, link))).collect();
    Topology::synthetic("package:1 core:2 pu:1", nics).expect("a description")
}

fn udp_to(peer: SocketAddr) -> UdpSocket {
    let udp = UdpSocket::bind("0.0.0.0:0").expect("a port");
    udp.connect(peer).expect("there is a route");
    udp
}

fn nic(socket: &impl std::os::fd::AsFd, topology: &Topology) -> String {
    socket::nic_of(socket, topology).expect("there is a route").name.clone()
}

fn ip(lab: &LinkLab, arguments: &[&str]) {
    ip_at(lab, Side::A, arguments);
}

fn ip_at(lab: &LinkLab, side: Side, arguments: &[&str]) {
    let status = lab.side(side).command("ip").args(arguments).status().expect("ip runs");
    assert!(status.success(), "ip {arguments:?}: {status}");
}

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// Values of `fib_multipath_hash_policy` (Documentation/networking/ip-sysctl.rst).
const ADDRESSES: &str = "0";
const PORTS: &str = "1";
