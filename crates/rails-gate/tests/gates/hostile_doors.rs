//! Programs of this host that speak no protocol, or hand over what cannot be carried.

use crate::{
    raw_door::{hand_over, question, through},
    two_gates::{TwoGates, connect, echo, is_echoed, pair},
};
use std::{fs::File, os::fd::OwnedFd, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket, UnixStream},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_question_ends_the_conversation() {
    let gates = TwoGates::start("'127.0.0.0/8:*'").await;
    let destination = echo().await;
    let half = question(destination);
    let long = [&257_u32.to_be_bytes()[..], &[0; 257]].concat();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 300], &[0, 0, 0, 0], &[0, 0, 0, 1, 9], &half[..9], &long] {
        let mut door = UnixStream::connect(gates.socket()).await.unwrap();
        // The gate may have gone before all was said.
        let _ = door.write_all(bytes).await;
        // It ends or is reset, within the gate's patience.
        assert_eq!(door.read(&mut [0; 8]).await.unwrap_or(0), 0, "{bytes:?}");
    }
    assert!(is_echoed(&mut gates.connect(destination).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_carried_is_not() {
    let gates = TwoGates::start("'127.0.0.0/8:*'").await;
    let destination = echo().await;
    let listener: OwnedFd = TcpListener::bind("127.0.0.1:0").await.unwrap().into_std().unwrap().into();
    let udp: OwnedFd = UdpSocket::bind("127.0.0.1:0").await.unwrap().into_std().unwrap().into();
    let file: OwnedFd = File::open("/dev/null").unwrap().into();
    let unconnected = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap().into();
    let packets = socket2::Socket::pair(socket2::Domain::UNIX, socket2::Type::SEQPACKET, None).unwrap();
    for descriptors in [vec![listener], vec![udp], vec![file], vec![unconnected], vec![packets.0.into()], vec![]] {
        let mut door = through(&gates.socket(), destination).await.unwrap();
        hand_over(&door, &descriptors);
        assert_eq!(door.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
    // A door that says no more, and one that is gone.
    let silent = through(&gates.socket(), destination).await.unwrap();
    drop(through(&gates.socket(), destination).await.unwrap());
    // A connection whose other end has gone already: its end is carried as any.
    let door = through(&gates.socket(), destination).await.unwrap();
    let (program, dead) = pair().await;
    drop(program);
    hand_over(&door, &[dead.into_std().unwrap().into()]);
    // Of two descriptors, the first is carried; the second is closed.
    let door = through(&gates.socket(), destination).await.unwrap();
    let ((mut first, handed_over), (mut second, closed)) = (pair().await, pair().await);
    hand_over(&door, &[handed_over, closed].map(|socket| socket.into_std().unwrap().into()));
    assert!(is_echoed(&mut first).await);
    assert_eq!(second.read(&mut [0; 1]).await.unwrap_or(0), 0);
    // All but that one have ended, at both gates.
    gates.until(|gates| gates.near.status().peers[0].connections == 1).await;
    gates.until(|gates| gates.far.status().peers[0].connections == 1).await;
    drop(silent);
    assert!(is_echoed(&mut first).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doors_that_say_nothing_keep_no_other_away() {
    let gates = TwoGates::start("'127.0.0.0/8:*'").await;
    let destination = echo().await;
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let mut silent = Vec::new();
    for number in 0..3000 {
        let door = loop {
            // The gate's queue may be full for a moment.
            match UnixStream::connect(gates.socket()).await {
                Ok(door) => break door,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        silent.push(door);
        if number % 100 == 99 {
            let began = std::time::Instant::now();
            // Where the machine is slow, a gate that serves is too slow for a door, which then says so.
            while let Err(why) = connect(&gates.door(), destination).await {
                assert!(began.elapsed() < Duration::from_secs(60), "{why}");
            }
        }
    }
}
