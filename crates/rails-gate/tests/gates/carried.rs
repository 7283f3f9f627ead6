//! Bytes, ends and resets through two gates, as over one connection.

use crate::two_gates::TwoGates;
use rails_gate::{Plain, Refusal, Way};
use socket2::SockRef;
use std::{io::ErrorKind, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

async fn service() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A program and a service that are connected through gates.
async fn connected(reach: &str) -> (TwoGates, TcpStream, TcpStream) {
    let gates = TwoGates::start(reach).await;
    let (service, address) = service().await;
    let (program, accepted) = tokio::join!(gates.connect(address), service.accept());
    (gates, program, accepted.unwrap().0)
}

const LOOPBACK: &str = "'127.0.0.0/8:*'";

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).flat_map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).to_le_bytes()[..1].to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_go_both_ways_and_each_direction_ends_by_itself() {
    let (gates, mut program, mut service) = connected(LOOPBACK).await;
    let bytes = pattern(5_000_000);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let forth = async {
        program.write_all(&bytes).await.unwrap();
        program.shutdown().await.unwrap();
        program.read_to_end(&mut back).await.unwrap();
    };
    let answer = async {
        service.read_to_end(&mut there).await.unwrap();
        // The program has ended its direction; this one goes on.
        service.write_all(&bytes).await.unwrap();
        service.shutdown().await.unwrap();
    };
    tokio::join!(forth, answer);
    assert!(there == bytes && back == bytes);
    gates.until(|gates| gates.near.status().connections.iter().all(|counts| counts.active == 0)).await;
    let counts = &gates.near.status().connections[0];
    assert_eq!((counts.opened, counts.reset), (1, 0));
    assert_eq!((counts.sent_bytes, counts.received_bytes), (5_000_000, 5_000_000));
    let there = &gates.far.status().connections[0];
    assert_eq!((there.door, there.sent_bytes, there.received_bytes), (None, 5_000_000, 5_000_000));
    gates.until(|gates| gates.near.status().peers[0].connections == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_of_one_end_resets_the_other() {
    for at_the_service in [false, true] {
        let (gates, mut program, mut service) = connected(LOOPBACK).await;
        program.write_all(b"hello").await.unwrap();
        service.read_exact(&mut [0; 5]).await.unwrap();
        let (reset, mut other) = if at_the_service { (service, program) } else { (program, service) };
        SockRef::from(&reset).set_linger(Some(Duration::ZERO)).unwrap();
        drop(reset);
        assert_eq!(other.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        gates.until(|gates| gates.near.status().connections[0].active == 0).await;
        assert_eq!(gates.near.status().connections[0].reset, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_reaches_an_end_that_does_not_read() {
    let (gates, mut program, service) = connected(LOOPBACK).await;
    // The service reads nothing: the program writes until nobody takes more.
    let bytes = vec![7; 1 << 20];
    while tokio::time::timeout(Duration::from_millis(500), program.write_all(&bytes)).await.is_ok() {}
    SockRef::from(&program).set_linger(Some(Duration::ZERO)).unwrap();
    drop(program);
    // The service's connection is reset, though it has not read one byte.
    gates.until(|gates| gates.far.status().connections[0].active == 0).await;
    drop(service);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_does_not_read_does_not_stop_others() {
    let (gates, mut stuck, _unread) = connected(LOOPBACK).await;
    let bytes = vec![7; 1 << 20];
    while tokio::time::timeout(Duration::from_millis(500), stuck.write_all(&bytes)).await.is_ok() {}
    let (service, address) = service().await;
    let (mut program, accepted) = tokio::join!(gates.connect(address), service.accept());
    let mut service = accepted.unwrap().0;
    let bytes = pattern(3_000_000);
    let mut there = Vec::new();
    let forth = async {
        program.write_all(&bytes).await.unwrap();
        program.shutdown().await.unwrap();
    };
    let (_, read) = tokio::join!(forth, service.read_to_end(&mut there));
    read.unwrap();
    assert!(there == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_go_through_goes_plain_with_its_reason() {
    let (service, allowed) = service().await;
    let gates = TwoGates::start(&format!("'{allowed}'")).await;
    let why = async |destination: &str| match gates.door().ask(destination.parse().unwrap(), None).await {
        Way::Plain(why) => why,
        Way::Through(_) => panic!("{destination} is reached"),
    };
    assert_eq!(why("127.0.0.1:1").await, Plain::Refused(Refusal::NotAllowed));
    assert_eq!(why("192.0.2.1:80").await, Plain::NotRouted);
    // The same address as a mapped one is the same destination.
    assert_eq!(why("[::ffff:127.0.0.1]:1").await, Plain::Refused(Refusal::NotAllowed));
    drop(service);
    assert_eq!(
        why(&allowed.to_string()).await,
        Plain::Refused(Refusal::Service(nix::errno::Errno::ECONNREFUSED as u16))
    );
    let plain = gates.near.status().plain;
    assert_eq!(plain.iter().map(|count| count.count).sum::<u64>(), 4);
    let gone = rails_gate::Door::new(rails_gate::DoorKind::Pipe, "/nonexistent");
    assert!(matches!(gone.ask(allowed, None).await, Way::Plain(Plain::NoGate)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_does_not_connect_to_itself() {
    let gates = TwoGates::start(LOOPBACK).await;
    let itself = gates.far.local_addrs()[0].socket;
    let way = gates.door().ask(itself, None).await;
    assert!(matches!(way, Way::Plain(Plain::Refused(Refusal::Loop))), "{way:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_end_with_their_gate() {
    let (gates, mut program, mut service) = connected(LOOPBACK).await;
    let TwoGates { near, far, .. } = gates;
    drop(near);
    assert_eq!(program.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(service.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(far);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_go_through_one_session() {
    let gates = TwoGates::start(LOOPBACK).await;
    let (service, address) = service().await;
    let echo = tokio::spawn(async move {
        loop {
            let (mut connection, _) = service.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut read, mut write) = connection.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    let mut programs = Vec::new();
    for number in 0..1000_u32 {
        let mut program = gates.connect(address).await;
        program.write_all(&number.to_le_bytes()).await.unwrap();
        programs.push(program);
    }
    for (number, program) in programs.iter_mut().enumerate() {
        let mut back = [0; 4];
        program.read_exact(&mut back).await.unwrap();
        assert_eq!(u32::from_le_bytes(back), number as u32);
    }
    let status = gates.near.status();
    assert_eq!((status.peers[0].sessions, status.peers[0].connections), (1, 1000));
    drop(programs);
    gates.until(|gates| gates.far.status().peers[0].connections == 0).await;
    echo.abort();
}
