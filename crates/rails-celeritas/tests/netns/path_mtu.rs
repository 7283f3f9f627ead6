//! Paths that drop large packets without a word.

use crate::{call, connect, receive_all, run};
use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, Connection, ConnectionError, SendError, proto::connection::Failure};
use rails_lab::{LinkLab, Shape, Side};
use rails_topo::Bandwidth;
use std::time::{Duration, Instant};

/// A link whose interfaces have an MTU of 9,000 at both ends.
fn jumbo() -> LinkLab {
    let lab = LinkLab::builder().link(Shape::Unshaped).build().expect("labs can be built here");
    for side in Side::BOTH {
        // Each packet passes the filter by itself.
        call(&lab, side, &["ip", "link", "set", "dev", lab.interface(side, 0), "mtu", "9000", "gso_max_segs", "1"]);
    }
    let at = lab.interface(Side::B, 0);
    call(&lab, Side::B, &["tc", "qdisc", "add", "dev", at, "clsact"]);
    lab
}

/// Drops larger IP packets of UDP on their way to side B, of which the filter sees the Ethernet
/// frame.
fn limit(lab: &LinkLab, mtu: u32) {
    let frame = mtu + 14;
    // Loads byte 23, the protocol of IPv4, and then the length; 2 is TC_ACT_SHOT.
    let drop = format!("6,48 0 0 23,21 0 3 17,128 0 0 0,37 0 1 {frame},6 0 0 2,6 0 0 0");
    let at = lab.interface(Side::B, 0);
    let filter = ["tc", "filter", "replace", "dev", at, "ingress", "prio", "1", "handle", "1", "bpf", "da", "bytecode"];
    call(lab, Side::B, &[&filter[..], &[&drop]].concat());
}

fn options() -> CeleritasOptions {
    CeleritasOptions::fixed(Bandwidth::mbps(500))
}

async fn until_found(connection: &Connection, mtu: u32) -> Duration {
    let begin = Instant::now();
    while !(mtu - 32..=mtu).contains(&connection.stats().path_mtu) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    begin.elapsed()
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_path_mtu_is_found_and_found_again() {
    for (before, after) in [(9000, 1500), (1500, 1400), (4321, 1280), (1280, 1280)] {
        let lab = jumbo();
        limit(&lab, before);
        let near = async |address| {
            let connection = connect(&options(), address).await;
            let bytes = Bytes::from(vec![7; 20_000_000]);
            let first = connection.try_send(vec![bytes.clone()]).expect("it is open");
            let found = until_found(&connection, before).await;
            assert_eq!(first.await, Ok(()));
            let second = connection.try_send(vec![bytes]).expect("it is open");
            limit(&lab, after);
            let again = until_found(&connection, after).await;
            assert_eq!(second.await, Ok(()));
            println!("{before} found after {found:?}, {after} after {again:?}");
            connection.close().await.expect("it ends well");
        };
        let far = async |address| {
            let listener = options().listen(address).expect("it is free");
            receive_all(listener.accept().await.expect("it comes")).await;
        };
        run(&lab, near, far);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_path_below_the_least_mtu_is_told() {
    let lab = jumbo();
    limit(&lab, 1000);
    let near = async |address| {
        let connection = connect(&options(), address).await;
        let sending = connection.try_send(vec![Bytes::from(vec![7; 1_000_000])]).expect("it is open");
        let error = sending.await.expect_err("its segments are too large");
        assert!(matches!(error, SendError::Connection(ConnectionError::Protocol(Failure::SmallPath))), "{error}");
    };
    let far = async |address| {
        let listener = options().listen(address).expect("it is free");
        let connection = listener.accept().await.expect("it comes");
        connection.receive().await.expect_err("the peer gives up");
    };
    run(&lab, near, far);
}
