//! Connections between two network namespaces.

// The protocol alone takes the time as an argument.
#![allow(clippy::disallowed_methods)]

mod netem;
mod path_mtu;

use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, Connection, ConnectionError, ConnectionStats, SendError, SharedRate};
use rails_lab::{EmulatedLink, LinkLab, Shape, Side};
use rails_topo::Bandwidth;
use std::{
    net::{Ipv6Addr, SocketAddr, SocketAddrV6},
    num::NonZeroU32,
    thread,
    time::Duration,
};
use tokio::{runtime::Builder, time::timeout};

const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `far` at side B, on a thread of its own, and `near` at side A.
fn run<N, F>(lab: &LinkLab, near: impl FnOnce(SocketAddr) -> N, far: impl FnOnce(SocketAddr) -> F + Send) -> N::Output
where
    N: Future,
    F: Future<Output = ()>,
{
    let address = SocketAddr::new(lab.address(Side::B, 0), 7600);
    let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
    thread::scope(|scope| {
        let far = scope.spawn(move || {
            let _inside = lab.enter(Side::B).expect("it exists");
            runtime().block_on(async { timeout(PATIENCE, far(address)).await.expect("it ends") });
        });
        let _inside = lab.enter(Side::A).expect("it exists");
        let output = runtime().block_on(async { timeout(PATIENCE, near(address)).await.expect("it ends") });
        far.join().expect("side B does not panic");
        output
    })
}

/// The peer may listen a moment later.
async fn connect(options: &CeleritasOptions, address: SocketAddr) -> Connection {
    loop {
        match options.connect(address).await {
            Ok(connection) => return connection,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn receive_all(connection: Connection) {
    while connection.receive().await.expect("nothing is lost").is_some() {}
    connection.close().await.expect("it ends well");
}

/// Carries four messages of that length from side A to side B. Returns the sender's figures.
fn carry(lab: &LinkLab, options: &CeleritasOptions, bytes: usize) -> ConnectionStats {
    let near = async |address| {
        let connection = connect(options, address).await;
        let block = Bytes::from(vec![7; bytes]);
        let mut sent = Vec::new();
        for _ in 0..4 {
            sent.push(connection.send(vec![block.clone()]).await.expect("it is open"));
        }
        connection.finish();
        for sending in sent {
            assert_eq!(sending.await, Ok(()));
        }
        let stats = connection.stats();
        connection.close().await.expect("it ends well");
        stats
    };
    let far = async |address| {
        let listener = options.listen(address).expect("it is free");
        receive_all(listener.accept().await.expect("it comes")).await;
    };
    run(lab, near, far)
}

/// Runs a program in the namespace of one side.
fn call(lab: &LinkLab, side: Side, command: &[&str]) {
    let status = lab.side(side).command(command[0]).args(&command[1..]).status().expect("it runs");
    assert!(status.success(), "{command:?}");
}

/// The path loses packets both ways: the sender repeats the lost segments, and no others.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_lossy_path_repeats_what_is_lost_alone() {
    // The last one often: segments that were sent twice come when both ends close already.
    for (loss, bytes) in [(0.0, 10_000_000), (1e-2, 10_000_000)].into_iter().chain([(5e-2, 250_000); 12]) {
        let path = EmulatedLink::mbit(300).rtt(Duration::from_millis(19)).loss(loss).seed(11);
        let lab = LinkLab::builder().emulated(path).build().expect("labs can be built here");
        let stats = carry(&lab, &CeleritasOptions::fixed(Bandwidth::mbps(200)), bytes);
        let path = lab.emulated_counters(0).expect("it is there");
        println!("loss {loss}: {stats:?} {path:?}");
        assert_eq!(path.from_a.queue_full, 0, "the rate is below the path's");
        let share = |part: u64| part as f64 / stats.sender.segments as f64;
        let lost = share(path.from_a.lost + path.unplanned_drops());
        // One segment of a short transfer is more than a thousandth.
        let most = lost + 0.002 + share(4);
        assert!(share(stats.sender.retransmitted_segments) <= most, "{stats:?} {path:?}");
    }
}

/// An address of one link, which its scope names at each end.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_link_local_addresses() {
    let lab = LinkLab::builder().link(Shape::mbit(200)).build().expect("labs can be built here");
    for (side, address) in [(Side::A, "fe80::a/64"), (Side::B, "fe80::b/64")] {
        let device = lab.interface(side, 0);
        let enable = format!("echo 0 > /proc/sys/net/ipv6/conf/{device}/disable_ipv6");
        call(&lab, side, &["sh", "-c", &enable]);
        call(&lab, side, &["ip", "-6", "address", "add", address, "dev", device, "nodad"]);
    }
    let link = |side| {
        let _inside = lab.enter(side).expect("it exists");
        nix::net::if_::if_nametoindex(lab.interface(side, 0)).expect("it is there")
    };
    let scope = link(Side::A);
    let options = CeleritasOptions::fixed(Bandwidth::mbps(100));
    let near = async |_| {
        let address = SocketAddrV6::new("fe80::b".parse().expect("it is one"), 7600, 0, scope);
        let connection = connect(&options, address.into()).await;
        assert!(matches!(connection.segments_addr(), SocketAddr::V6(own) if own.scope_id() == scope));
        let sending = connection.try_send(vec![Bytes::from(vec![7; 1_000_000])]).expect("it is open");
        assert_eq!(sending.await, Ok(()));
        connection.close().await.expect("it ends well");
    };
    let far = async |address: SocketAddr| {
        let listener = options.listen((Ipv6Addr::UNSPECIFIED, address.port()).into()).expect("it is free");
        receive_all(listener.accept().await.expect("it comes")).await;
    };
    run(&lab, near, far);
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_shares_of_one_link_follow_the_weights() {
    let lab = LinkLab::builder().link(Shape::mbit(200)).build().expect("labs can be built here");
    let weights = [1, 1, 2, 4];
    let near = async |address| {
        let rate = SharedRate::new(Bandwidth::mbps(190)).expect("it is a rate");
        let mut connections = Vec::new();
        for weight in weights {
            let options = CeleritasOptions::shared(&rate, NonZeroU32::new(weight).expect("it is not zero"));
            connections.push(connect(&options, address).await);
        }
        let block = Bytes::from(vec![7; 60_000_000]);
        for connection in &connections {
            drop(connection.try_send(vec![block.clone()]).expect("it is open"));
        }
        let arrived = || connections.iter().map(|one| one.stats().sender.acknowledged_bytes).collect::<Vec<_>>();
        let until = async |bytes| {
            while arrived().iter().sum::<u64>() < bytes {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            arrived()
        };
        let begin = until(20_000_000).await;
        let sent_again = || connections.iter().map(|one| one.stats().sender.retransmitted_bytes).sum::<u64>();
        let before = sent_again();
        let end = until(60_000_000).await;
        // A thread that other programs hold up sends more at once afterwards.
        let again = sent_again() - before;
        assert!(again <= 40_000, "{again} of 40,000,000 bytes were sent again");
        end.iter().zip(begin).map(|(end, begin)| end - begin).collect::<Vec<u64>>()
    };
    let far = async |address| {
        let listener = CeleritasOptions::fixed(Bandwidth::mbps(1)).listen(address).expect("it is free");
        let mut tasks = tokio::task::JoinSet::new();
        for _ in weights {
            let connection = listener.accept().await.expect("it comes");
            tasks.spawn(async move { while connection.receive().await.is_ok_and(|message| message.is_some()) {} });
        }
        tasks.join_all().await;
    };
    let arrived = run(&lab, near, far);
    let all: u64 = arrived.iter().sum();
    println!("{arrived:?}");
    for (bytes, weight) in arrived.iter().zip(weights) {
        let (share, wanted) = (*bytes as f64 / all as f64, f64::from(weight) / 8.0);
        assert!((share - wanted).abs() <= 0.05 * wanted, "{share} of {wanted}: {arrived:?}");
    }
}

/// The control channel works, and no datagram passes: the error says so.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_path_without_udp_is_told() {
    let lab = LinkLab::builder().link(Shape::Unshaped).build().expect("labs can be built here");
    lab.set_udp_blocked(Side::B, 0, true).expect("root may do that");
    let near = async |address| {
        let connection = connect(&CeleritasOptions::fixed(Bandwidth::mbps(100)), address).await;
        let sending = connection.try_send(vec![Bytes::from(vec![7; 1_000_000])]).expect("it is open");
        let blocked = sending.await.expect_err("nothing passes");
        assert!(matches!(blocked, SendError::Connection(ConnectionError::Blocked { .. })), "{blocked}");
        assert!(matches!(connection.try_send(vec![Bytes::from_static(b"x")]), Err(SendError::Connection(_))));
    };
    let far = async |address| {
        let listener = CeleritasOptions::fixed(Bandwidth::mbps(100)).listen(address).expect("it is free");
        let connection = listener.accept().await.expect("it comes");
        connection.receive().await.expect_err("the peer gives up");
    };
    run(&lab, near, far);
}
