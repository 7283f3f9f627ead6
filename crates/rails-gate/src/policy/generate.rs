//! Random targets and addresses that meet each other often.

use super::{PortRange, Ports, Target};
use ipnet::IpNet;
use proptest::{collection::vec, prelude::*, sample::select};
use std::net::{IpAddr, SocketAddr};

pub(super) fn target() -> impl Strategy<Value = Target> {
    (ip(), any::<u8>(), ports()).prop_map(|(ip, prefix, ports)| {
        let max = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = if prefix < 64 { max } else { prefix % (max + 1) };
        Target::new(IpNet::new(ip, prefix).expect("the prefix is at most the longest"), ports)
    })
}

pub(super) fn address() -> impl Strategy<Value = SocketAddr> {
    (ip(), prop_oneof![0_u16..10, any::<u16>()]).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn ip() -> impl Strategy<Value = IpAddr> {
    let known = select(vec![
        "0.0.0.0",
        "127.0.0.1",
        "127.255.0.1",
        "10.0.0.1",
        "10.0.0.2",
        "10.1.0.1",
        "11.0.0.1",
        "::",
        "::1",
        "fd00::1",
        "fd00::2",
        "fd00:0:0:1::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:0.0.0.0",
        "::10.0.0.1",
        "fe80::1",
    ]);
    let known = known.prop_map(|text| text.parse().expect("these are addresses"));
    prop_oneof![8 => known, 1 => any::<IpAddr>()]
}

fn ports() -> impl Strategy<Value = Ports> {
    let near = (1_u16..10, 0_u16..4).prop_map(|(first, more)| (first, first + more));
    let far = (1_u16.., any::<u16>()).prop_map(|(first, last)| (first.min(last.max(1)), first.max(last)));
    let range = prop_oneof![6 => near, 1 => far, 1 => Just((1, u16::MAX))];
    vec(range, 1..4).prop_map(|ranges| {
        let ranges = ranges.into_iter().map(|(first, last)| PortRange::new(first, last).expect("the range has ports"));
        Ports::new(ranges).expect("there is a range")
    })
}
