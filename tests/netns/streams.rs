//! Bytes arrive over both links, and over one when the other goes down.

use crate::ends;
use bytes::Bytes;
use rails::{
    multirail::{EventKind, MultiRailStream, Scheme, Secret, StallCause, StreamOptions, StreamStats},
    net::{KeepAlive, TcpTransport},
};
use rails_lab::{LinkLab, Shape, Side};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_two_rails_carry_a_stream() {
    let lab = two_links();
    let before = received(&lab);
    let sent = bytes(TOTAL);
    let digest = blake3::hash(&sent);
    let (near, (got, far)) = ends::run(
        &lab,
        &TCP,
        &options(),
        async |stream| send(stream, sent).await,
        async |stream| receive(stream).await,
    );
    assert_eq!(got, digest);
    assert_eq!((near.bytes_written, far.bytes_read), (TOTAL as u64, TOTAL as u64));
    for (link, (before, after)) in before.iter().zip(received(&lab)).enumerate() {
        let carried = after - before;
        println!("link {link} carried {carried} of {TOTAL} bytes");
        assert!(carried >= TOTAL as u64 / 5, "link {link} carried {carried} of {TOTAL} bytes");
    }
    assert!(near.lanes.iter().chain(&far.lanes).all(|lane| lane.lost.is_none()), "{near:?} {far:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_link_down_in_mid_stream_loses_nothing() {
    let lab = two_links();
    let before = received(&lab);
    let sent = bytes(TOTAL);
    let digest = blake3::hash(&sent);
    let (near, (got, far)) = ends::run(
        &lab,
        &TCP,
        &options(),
        async |stream| send(stream, sent).await,
        async |mut stream| {
            let mut hasher = blake3::Hasher::new();
            read_on(&mut stream, &mut hasher, TOTAL / 4).await;
            lab.set_link_up(Side::B, 0, false).expect("root may do that");
            finish(stream, hasher).await
        },
    );
    assert_eq!(got, digest);
    assert_eq!((near.bytes_written, far.bytes_read), (TOTAL as u64, TOTAL as u64));
    // Lane i runs over link i, by the order of both ends' rails.
    let lost: Vec<u16> = near.lanes.iter().filter(|lane| lane.lost.is_some()).map(|lane| lane.lane).collect();
    assert_eq!(lost, [0], "{near:?}");
    let carried: Vec<u64> = before.iter().zip(received(&lab)).map(|(before, after)| after - before).collect();
    println!("the links carried {carried:?} of {TOTAL} bytes");
    assert!(carried[0] > 0 && carried[1] > TOTAL as u64 / 2, "{carried:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_link_down_at_once_and_up_again() {
    let lab = two_links();
    let sent = bytes(TOTAL);
    let digest = blake3::hash(&sent);
    let (events, (got, _)) = ends::run(
        &lab,
        &TCP,
        &options(),
        async |mut stream| {
            stream.write_bytes(sent).await.expect("one link is up");
            stream.shutdown().await.expect("one link is up");
            let events = stream.events();
            stream.close().await.expect("one link is up");
            events
        },
        async |mut stream| {
            let mut hasher = blake3::Hasher::new();
            for (until, up) in [(TOTAL / 4, false), (TOTAL * 3 / 8, true)] {
                read_on(&mut stream, &mut hasher, until).await;
                lab.set_link_up(Side::A, 0, up).expect("root may do that");
            }
            finish(stream, hasher).await
        },
    );
    assert_eq!(got, digest);
    let of_lane: Vec<EventKind> = events.iter().filter(|event| event.lane == Some(0)).map(|event| event.kind).collect();
    let down = of_lane.iter().position(|kind| matches!(kind, EventKind::Stalled { cause: StallCause::LinkDown, .. }));
    let after = &of_lane[down.unwrap_or_else(|| panic!("the kernel tells: {events:?}"))..];
    let back = |kind: &EventKind| matches!(kind, EventKind::Restored { .. } | EventKind::Joined);
    assert!(after.iter().any(back), "{events:?}");
}

fn two_links() -> LinkLab {
    LinkLab::builder().link(Shape::mbit(200)).link(Shape::mbit(200)).build().expect("root may make namespaces")
}

/// Options with which each end gives a stalled lane up after two seconds.
fn options() -> StreamOptions {
    let keepalive = KeepAlive { idle: Duration::from_secs(1), interval: Duration::from_secs(1), probes: 2 };
    let lane = TcpTransport::new().user_timeout(Duration::from_secs(2)).keepalive(keepalive);
    StreamOptions::new(Secret::pre_shared(b"sixteen bytes!!!").expect("it is long enough"))
        .transport(lane)
        .join_grace(PATIENCE)
}

pub(crate) async fn send(mut stream: MultiRailStream, bytes: Bytes) -> StreamStats {
    stream.write_bytes(bytes).await.expect("one link is up");
    stream.close().await.expect("one link is up")
}

pub(crate) async fn receive(stream: MultiRailStream) -> (blake3::Hash, StreamStats) {
    finish(stream, blake3::Hasher::new()).await
}

/// Reads until `until` bytes have gone into the hash.
pub(crate) async fn read_on(stream: &mut MultiRailStream, hasher: &mut blake3::Hasher, until: usize) {
    while hasher.count() < until as u64 {
        let bytes = stream.read_bytes().await.expect("one link is up").expect("more is to come");
        hasher.update(&bytes);
    }
}

pub(crate) async fn finish(mut stream: MultiRailStream, mut hasher: blake3::Hasher) -> (blake3::Hash, StreamStats) {
    while let Some(bytes) = stream.read_bytes().await.expect("one link is up") {
        hasher.update(&bytes);
    }
    (hasher.finalize(), stream.close().await.expect("one link is up"))
}

/// The bytes that B has received over each link.
pub(crate) fn received(lab: &LinkLab) -> Vec<u64> {
    (0..lab.link_count()).map(|link| lab.counters(Side::B, link).expect("the link is there").rx_bytes).collect()
}

/// Bytes without a repeated pattern.
pub(crate) fn bytes(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// The bytes that both links carry in some two seconds.
const TOTAL: usize = 80 << 20;

const TCP: [Scheme; 2] = [Scheme::TCP; 2];

const PATIENCE: Duration = Duration::from_secs(60);
