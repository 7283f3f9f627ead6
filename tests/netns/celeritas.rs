//! Streams over lanes of Celeritas: emulated paths with delay and loss, links that go down, and TCP
//! beside it.

use crate::{
    ends,
    streams::{bytes, finish, read_on, receive, send},
};
use rails::{
    celeritas::{CeleritasOptions, CeleritasTransport},
    multirail::{Scheme, Secret, StreamOptions, StreamStats},
    topo::Bandwidth,
};
use rails_lab::{EmulatedLink, LinkLab, Shape, Side};
use std::time::Duration;

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_celeritas_lanes_on_unlike_lossy_paths() {
    let lab = LinkLab::builder().emulated(path(100, 0.0)).emulated(path(30, 0.01)).build();
    let lab = lab.expect("root may make namespaces");
    let near = carry(&lab, &[celeritas(), celeritas()], [98, 29]);
    let carried: Vec<u64> = near.lanes.iter().map(|lane| lane.bytes_sent).collect();
    assert!(carried[0] > 2 * carried[1] && carried[1] > TOTAL as u64 / 10, "{carried:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_tcp_and_celeritas_in_one_stream() {
    let lab = LinkLab::builder().emulated(path(100, 0.0)).emulated(path(100, 0.01)).build();
    let lab = lab.expect("root may make namespaces");
    let near = carry(&lab, &[Scheme::TCP, celeritas()], [98, 98]);
    assert!(near.lanes.iter().all(|lane| lane.bytes_sent > TOTAL as u64 / 5), "{near:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_celeritas_link_down_in_mid_stream() {
    for side in Side::BOTH {
        let lab = LinkLab::builder().link(Shape::mbit(200)).link(Shape::mbit(200)).build();
        let lab = lab.expect("root may make namespaces");
        let sent = bytes(TOTAL);
        let digest = blake3::hash(&sent);
        let (near, (got, far)) = ends::run(
            &lab,
            &[celeritas(), celeritas()],
            &options(&lab, [190, 190]),
            async |stream| send(stream, sent).await,
            async |mut stream| {
                let mut hasher = blake3::Hasher::new();
                read_on(&mut stream, &mut hasher, TOTAL / 4).await;
                lab.set_link_up(side, 0, false).expect("root may do that");
                read_on(&mut stream, &mut hasher, TOTAL / 2).await;
                lab.set_link_up(side, 0, true).expect("root may do that");
                finish(stream, hasher).await
            },
        );
        assert_eq!(got, digest, "down at {side}");
        assert_eq!((near.bytes_written, far.bytes_read), (TOTAL as u64, TOTAL as u64), "down at {side}");
    }
}

/// A lane whose link is away for a moment is no lost lane, also where it is the only one.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_only_celeritas_lane_flaps() {
    for side in Side::BOTH {
        let lab = LinkLab::builder().link(Shape::mbit(200)).build().expect("root may make namespaces");
        let down = || {
            lab.set_link_up(side, 0, false).expect("root may do that");
            std::thread::sleep(Duration::from_millis(400));
            lab.set_link_up(side, 0, true).expect("root may do that");
        };
        let (near, far) = carry_through(&lab, &[celeritas()], [190, 190], down);
        assert!(near.lanes.iter().chain(&far.lanes).all(|lane| lane.lost.is_none()), "{side}: {near:?} {far:?}");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_firewall_that_drops_udp_in_mid_stream() {
    for side in Side::BOTH {
        let lab = LinkLab::builder().link(Shape::mbit(200)).link(Shape::mbit(200)).build();
        let lab = lab.expect("root may make namespaces");
        let block = || lab.set_udp_blocked(side, 1, true).expect("root may do that");
        let (near, _) = carry_through(&lab, &[Scheme::TCP, celeritas()], [190, 190], block);
        let carried: Vec<u64> = near.lanes.iter().map(|lane| lane.bytes_sent).collect();
        assert!(carried[0] > TOTAL as u64 / 2, "at {side} {carried:?}");
    }
}

/// Carries bytes, of which all arrive though the paths change in the midst of them.
fn carry_through(
    lab: &LinkLab,
    transports: &[Scheme],
    rates: [u64; 2],
    change: impl FnOnce() + Send,
) -> (StreamStats, StreamStats) {
    let sent = bytes(TOTAL);
    let digest = blake3::hash(&sent);
    let (near, (got, far)) = ends::run(
        lab,
        transports,
        &options(lab, rates),
        async |stream| send(stream, sent).await,
        async |mut stream| {
            let mut hasher = blake3::Hasher::new();
            read_on(&mut stream, &mut hasher, TOTAL / 4).await;
            change();
            finish(stream, hasher).await
        },
    );
    assert_eq!(got, digest);
    assert_eq!((near.bytes_written, far.bytes_read), (TOTAL as u64, TOTAL as u64));
    (near, far)
}

/// Carries bytes over two lanes with these rates in Mbit/s, and loses none.
fn carry(lab: &LinkLab, transports: &[Scheme], rates: [u64; 2]) -> StreamStats {
    let sent = bytes(TOTAL);
    let digest = blake3::hash(&sent);
    let options = options(lab, rates);
    let (near, (got, far)) = ends::run(
        lab,
        transports,
        &options,
        async |stream| send(stream, sent).await,
        async |stream| receive(stream).await,
    );
    assert_eq!(got, digest);
    assert_eq!((near.bytes_written, far.bytes_read), (TOTAL as u64, TOTAL as u64));
    assert!(near.lanes.iter().chain(&far.lanes).all(|lane| lane.lost.is_none()), "{near:?} {far:?}");
    near
}

fn options(lab: &LinkLab, rates: [u64; 2]) -> StreamOptions {
    let rate = |mbps| CeleritasOptions::fixed(Bandwidth::mbps(mbps));
    let mut lane = CeleritasTransport::new(rate(rates[0]));
    for (link, mbps) in rates.into_iter().take(lab.link_count()).enumerate() {
        lane = lane.path(lab.address(Side::B, link), rate(mbps));
    }
    StreamOptions::new(Secret::pre_shared(b"sixteen bytes!!!").expect("it is long enough"))
        .transport(lane)
        .join_grace(Duration::from_secs(60))
}

fn path(mbit: u64, loss: f64) -> EmulatedLink {
    EmulatedLink::mbit(mbit).rtt(Duration::from_millis(10)).loss(loss)
}

fn celeritas() -> Scheme {
    Scheme::new("celeritas").expect("it is a name")
}

/// The bytes that both links carry in some seconds.
const TOTAL: usize = 30 << 20;
