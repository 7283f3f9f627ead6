//! The policy of a gate, which people write, and the request of a SOCKS client.

use super::texts;
use rails_gate::{
    policy::{Policy, Target, canonical},
    socks::{self, Destination},
};
use std::net::{IpAddr, SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    runtime::Builder,
};

/// A policy that is read permits and routes what its lists contain, and nothing else.
pub(crate) fn policy(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(policy) = Policy::parse(text) else { return };
    let peers = policy.peers();
    assert!(!peers.is_empty());
    let lists = peers.iter().flat_map(|peer| [&peer.networks, &peer.reach, &peer.proxy_protocol]);
    let targets: Vec<&Target> = lists.flatten().take(MAX_TARGETS).collect();
    for target in &targets {
        assert_eq!(target.to_string().parse().as_ref(), Ok(*target));
    }
    let known = ["127.0.0.1:80", "[::ffff:127.0.0.1]:80", "[::]:80", "10.0.0.1:0"];
    let known = known.map(|text| text.parse().expect("these are addresses"));
    for address in targets.iter().flat_map(|target| corners(target)).chain(known) {
        for peer in peers.iter().take(MAX_TARGETS) {
            let is_in = |list: &[Target]| list.iter().any(|target| target.contains(address));
            assert_eq!(peer.may_reach(address), is_in(&peer.reach), "{address}");
            assert_eq!(peer.wants_proxy_header(address), is_in(&peer.proxy_protocol), "{address}");
            assert_eq!(peer.may_reach(address), peer.may_reach(canonical(address)), "{address}");
        }
        let containing = policy.networks().filter(|(target, _)| target.contains(address));
        let longest = containing.max_by_key(|(target, _)| target.net().prefix_len());
        assert_eq!(policy.route(address), longest.map(|(_, peer)| peer), "{address}");
    }
}

/// Addresses at the edges of a target, in both forms of IPv4 addresses.
fn corners(target: &Target) -> Vec<SocketAddr> {
    let ports = target.ports().ranges().iter().take(2);
    let ports = ports.flat_map(|range| [range.first() - 1, range.first(), range.last(), range.last().wrapping_add(1)]);
    let ips = [target.net().network(), target.net().broadcast()].into_iter().flat_map(|ip| match ip {
        IpAddr::V4(v4) => [ip, v4.to_ipv6_mapped().into()],
        ip => [ip, ip],
    });
    ports.flat_map(|port| ips.clone().map(move |ip| SocketAddr::new(ip, port))).collect()
}

pub(crate) fn policies() -> Vec<Vec<u8>> {
    texts([
        "listen = [\"[::]:7600\"]\n[[peer]]\nname = \"beta\"\nsecret_file = \"s\"\nnetworks = [\"10.0.0.0/8\"]\n\
         reach = [\"127.0.0.1:5432\", \"[fd00::]/64:80,443\", \"10.0.0.0/24:8000-8100\", \"::ffff:0.0.0.0/96:*\"]\n",
        "socket = \"s\"\nsocket_mode = \"0660\"\nsocket_group = \"g\"\ncertificate = \"c\"\ncertificate_key = \"k\"\n\
         authorities = \"a\"\n[[peer]]\nname = \"b\"\ndial = [\"b:1\", \"udp://10.0.0.1:2\"]\nstreams = 1\n\
         bytes = \"1MiB\"\nconnections_per_second = 7\nanswer_within = \"50ms\"\n\
         pin = \"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"\n[[peer]]\nname = \"c\"\ndial = [\"c:1\"]\n\
         secret_file = \"s\"\nnetworks = [\"10.0.0.0/8:80\", \"10.1.0.0/16\"]\nproxy_protocol = [\"10.0.0.1:80\"]\n",
    ])
}

pub(crate) const POLICY_WORDS: &[&str] = &[
    "[[peer]]\n",
    "name = \"b\"\n",
    "secret_file = \"s\"\n",
    "dial = [\"b:1\"]\n",
    "networks = [\"",
    "reach = [\"",
    "proxy_protocol = [\"",
    "streams = ",
    "answer_within = \"",
    "0.0.0.0/0",
    "[::]/0:*",
    "127.0.0.1:",
    "::ffff:10.0.0.1",
    "1-65535",
];

/// A client that sends these bytes: a request that is read is the request of the bytes that were
/// taken, and every byte behind it stays in the stream.
pub(crate) fn socks(data: &[u8]) {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without drivers");
    let data = &data[..data.len().min(MAX_SAID)];
    runtime.block_on(async {
        let (ours, mut client) = duplex(MAX_SAID);
        client.write_all(data).await.expect("the pipe has room");
        // The server hears the end at once, so it waits for nothing.
        client.shutdown().await.expect("the server's end is open");
        let Ok(request) = socks::accept(ours).await else { return };
        let destination = request.destination().clone();
        let bound = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut stream = request.granted(bound).await.expect("the client's end is open");
        let mut behind = Vec::new();
        stream.read_to_end(&mut behind).await.expect("the pipe does not break");
        let taken = data.strip_suffix(&behind[..]).expect("the bytes behind the request are the last ones");
        check(&destination, taken);
    });
}

fn check(destination: &Destination, taken: &[u8]) {
    let (host, port) = taken.split_last_chunk().expect("a request ends with its port");
    let is_port = |port_read: u16| port_read == u16::from_be_bytes(*port);
    match destination {
        Destination::Name(name, port) => {
            assert!(is_port(*port) && !name.is_empty() && name.parse::<IpAddr>().is_err());
            assert!(host.ends_with(&[&[name.len() as u8], name.as_bytes()].concat()), "{name:?}");
        }
        Destination::Address(address) => {
            assert!(is_port(address.port()));
            let octets = match address.ip() {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            // A name that is an address stands for it.
            let is_text = || {
                (1..=host.len()).any(|length| {
                    let text = str::from_utf8(&host[host.len() - length..]).ok();
                    text.and_then(|text| text.parse().ok()) == Some(address.ip())
                })
            };
            assert!(host.ends_with(&octets) || is_text(), "{address}");
        }
    }
}

pub(crate) fn requests() -> Vec<Vec<u8>> {
    [
        &b"\x05\x01\0\x05\x01\0\x01\x0a\0\0\x01\0\x50GET /"[..],
        b"\x05\x02\x02\0\x05\x01\0\x04\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x50",
        b"\x05\x01\0\x05\x01\0\x03\x04host\x01\xbb",
        b"\x05\x01\0\x05\x01\0\x03\x0910.0.0.17\x01\xbb",
        b"\x05\x01\0\x05\x03\0\x01\x0a\0\0\x01\0\x50",
        b"\x05\x01\x02",
    ]
    .map(<[u8]>::to_vec)
    .into()
}

/// The entries and peers that are compared with all others; more find no more.
const MAX_TARGETS: usize = 20;

/// More than the longest request.
const MAX_SAID: usize = 2048;
