//! A peer that knows its secret, and tries for more than it may.

use crate::two_gates::{TwoGates, carried, connect, echo, gate, is_echoed, rails, secret, until};
use bytes::Bytes;
use rails_gate::{Door, DoorKind, Gate, Plain};
use rails_multirail::{MultiRailMessages, MultiRailStream, Priority, Security, StreamOptions};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, time::timeout};

/// The frames of a session, as `rails_gate` writes them.
#[derive(Debug, Serialize, Deserialize)]
enum Frame {
    Data { channel: u64 },
    Credit { channel: u64, limit: u64 },
    Blocked { channel: u64 },
    Hello { version: u16, instance: [u8; 16] },
    Open { channel: u64, destination: SocketAddr, source: Option<SocketAddr>, limit: u64 },
    Opened { channel: u64, limit: u64 },
    Refused { channel: u64, refusal: Refusal },
    Finish { channel: u64 },
    Reset { channel: u64 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Refusal {
    NotAllowed,
    TooMany,
    NoMemory,
    TooOften,
    Loop,
    Service(u16),
}

/// A peer that dialled a gate, and writes its frames by hand.
struct Hostile(MultiRailMessages);

impl Hostile {
    async fn greet(gate: &Gate, instance: u8) -> Self {
        Self::try_to_greet(gate, instance).await.expect("the gate takes a session")
    }

    /// `None` if the gate ends the session at once.
    async fn try_to_greet(gate: &Gate, instance: u8) -> Option<Self> {
        let options = StreamOptions::new(Security::psk(secret()));
        let address = [gate.local_addrs()[0].socket.to_string()];
        let stream = MultiRailStream::connect(&rails(), &address, &options).await.ok()?;
        let mut hostile = Self(stream.into_messages().ok()?);
        hostile.say(&Frame::Hello { version: 1, instance: [instance; 16] }).await;
        Some(hostile)
    }

    async fn say(&mut self, frame: &Frame) {
        // The gate may have ended the session.
        let _ = self.0.send(Bytes::from(postcard::to_stdvec(frame).unwrap()), Priority::NORMAL).await;
    }

    async fn open(&mut self, channel: u64, destination: SocketAddr) {
        self.say(&Frame::Open { channel, destination, source: None, limit: 1 << 16 }).await;
    }

    /// The next frame of the gate; `None` once the session has ended.
    async fn hear(&mut self) -> Option<Frame> {
        let message = timeout(Duration::from_secs(60), self.0.recv()).await.expect("the gate speaks").ok()??;
        Some(postcard::take_from_bytes(&message.payload).unwrap().0)
    }

    /// The gate's answer to a question.
    async fn answer(&mut self, channel: u64, destination: SocketAddr) -> Option<Refusal> {
        self.open(channel, destination).await;
        loop {
            match self.hear().await.expect("the session goes on") {
                Frame::Opened { channel: of, .. } if of == channel => return None,
                Frame::Refused { channel: of, refusal } if of == channel => return Some(refusal),
                _ => {}
            }
        }
    }
}

async fn accepting(reach: &str, more: &str) -> Gate {
    gate(format!(
        "listen = ['127.0.0.1:0', '127.0.0.2:0']\n[[peer]]\nname = 'peer'\nsecret_file = 's'\nreach = [{reach}]\n{more}\n"
    ))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_may_reach_one_port_reaches_no_other() {
    let allowed = echo().await;
    let (others, port) = (echo().await.port(), allowed.port());
    let gate = accepting(&format!("'{allowed}'"), "").await;
    let mut peer = Hostile::greet(&gate, 0).await;
    let addresses = [
        "127.0.0.1",
        "127.0.0.2",
        "127.255.255.255",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "10.0.0.1",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:0.0.0.0",
        "::ffff:7f00:2",
        "64:ff9b::7f00:1",
        "fe80::1",
        "ff02::1",
        "2002:7f00:1::",
    ];
    let mut channel = 0;
    for address in addresses {
        let address: IpAddr = address.parse().unwrap();
        // The same service under another name is the same service.
        let same =
            ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::ffff:0.0.0.0"].map(|ip| ip.parse::<IpAddr>().unwrap());
        for port_of in [port, others, 0, 1, port ^ 1, u16::MAX, gate.local_addrs()[0].socket.port()] {
            let answer = peer.answer(channel, SocketAddr::new(address, port_of)).await;
            let is_allowed = port_of == port && same.contains(&address);
            assert_eq!(answer, (!is_allowed).then_some(Refusal::NotAllowed), "{address} {port_of}");
            channel += 2;
        }
    }
    // What is refused is counted together.
    let status = gate.status();
    assert_eq!(status.connections.len(), 2, "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_knows_itself_by_each_of_its_names() {
    let gate = accepting("'127.0.0.0/8:*', '[::1]:*'", "").await;
    let mut peer = Hostile::greet(&gate, 0).await;
    let port = gate.local_addrs()[0].socket.port();
    for (number, address) in ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::ffff:0.0.0.0"].into_iter().enumerate() {
        let answer = peer.answer(2 * number as u64, SocketAddr::new(address.parse().unwrap(), port)).await;
        assert_eq!(answer, Some(Refusal::Loop), "{address}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_for_all_sessions_of_a_peer_together() {
    let destination = echo().await;
    let gate = accepting("'127.0.0.0/8:*'", "streams = 5").await;
    let mut sessions = Vec::new();
    for instance in 0..3 {
        sessions.push(Hostile::greet(&gate, instance).await);
    }
    let mut refused = 0;
    for number in 0..4 {
        for session in &mut sessions {
            match session.answer(2 * number, destination).await {
                None => {}
                Some(Refusal::TooMany) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(refused, 3 * 4 - 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_has_few_sessions() {
    let gate = accepting("'127.0.0.0/8:*'", "").await;
    let mut sessions = Vec::new();
    for instance in 0..12 {
        sessions.extend(Hostile::try_to_greet(&gate, instance).await);
    }
    let mut greeted = 0;
    for session in &mut sessions {
        greeted += usize::from(session.hear().await.is_some());
    }
    assert_eq!((greeted, gate.status().peers[0].sessions), (4, 4), "the first four");
    drop(sessions);
    until(&[&gate], || gate.status().peers[0].sessions == 0).await;
    // Of several sessions with one gate, the latest stays.
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let mut session = Hostile::greet(&gate, 0).await;
        assert!(session.hear().await.is_some());
        sessions.push(session);
    }
    until(&[&gate], || gate.status().peers[0].sessions == 1).await;
    let destination = echo().await;
    assert_eq!(sessions[2].answer(0, destination).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_not_flooded_by_questions_that_are_given_up() {
    const RATE: usize = 50;
    let service = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let destination = service.local_addr().unwrap();
    let gate = accepting("'127.0.0.0/8:*'", &format!("connections_per_second = {RATE}\nstreams = 20")).await;
    let (mut sender, mut receiver) = Hostile::greet(&gate, 0).await.0.split();
    let answers = tokio::spawn(async move { while let Ok(Some(_)) = receiver.recv().await {} });
    let began = Instant::now();
    for number in 0..3000 {
        for frame in [
            Frame::Open { channel: 2 * number, destination, source: None, limit: 1 << 16 },
            Frame::Reset { channel: 2 * number },
        ] {
            sender.send(postcard::to_stdvec(&frame).unwrap().into(), Priority::NORMAL).await.unwrap();
        }
        assert!(gate.status().peers[0].connections <= 20);
    }
    until(&[&gate], || gate.status().peers[0].connections == 0).await;
    // A token for each part of the time that has passed, and those of one second at first.
    let max = RATE + (RATE as f64 * began.elapsed().as_secs_f64()).ceil() as usize;
    let mut accepted = 0;
    while let Ok(Ok(_)) = timeout(Duration::from_millis(20), service.accept()).await {
        accepted += 1;
    }
    assert!(accepted <= max, "{accepted} connections, where {max} are allowed");
    answers.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_takes_nothing_stops_no_connection_of_another() {
    let gates = TwoGates::start("'127.0.0.0/8:*'").await;
    let destination = echo().await;
    // A hostile peer at the far gate: it reads nothing, and asks for an echo of more than all buffers
    // have.
    let mut stuck = Hostile::greet(&gates.far, 0).await;
    stuck.open(0, destination).await;
    let flood = tokio::spawn(async move {
        loop {
            for number in 1..200 {
                stuck.open(2 * number, "127.0.0.1:1".parse().unwrap()).await;
            }
            if stuck.0.lanes_up() == 0 {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..50 {
        let mut program = loop {
            match connect(&gates.door(), destination).await {
                Ok(program) => break program,
                // The flood is of the same peer's secret, and takes the peer's tokens.
                Err(Plain::Refused(_) | Plain::Slow) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(why) => panic!("{why}"),
            }
        };
        assert!(is_echoed(&mut program).await);
    }
    flood.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_answer_is_plain_in_time_and_no_other_waits() {
    // The gate dials two peers: an honest one, and one that greets and says nothing more.
    let honest = accepting("'127.0.0.0/8:*'", "").await;
    let options = StreamOptions::new(Security::psk(secret()));
    let mute = rails_multirail::MultiRailListener::bind(&rails(), &["127.0.0.3:0"][..], &options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gate.sock");
    let near = gate(format!(
        "socket = '{}'\n\
         [[peer]]\nname = 'honest'\nsecret_file = 's'\ndial = ['{}']\nnetworks = ['127.0.0.0/8']\nanswer_within = '10s'\n\
         [[peer]]\nname = 'mute'\nsecret_file = 's'\ndial = ['{}']\nnetworks = ['10.0.0.0/8']\nanswer_within = '20ms'\n",
        socket.display(),
        honest.local_addrs()[0].socket,
        mute.local_addrs()[0].socket,
    ));
    let (near, accepted) = tokio::join!(near, mute.accept());
    let mut mute = Hostile(accepted.unwrap().into_messages().unwrap());
    mute.say(&Frame::Hello { version: 1, instance: [9; 16] }).await;
    until(&[&near], || near.status().peers.iter().all(|peer| peer.sessions == 1)).await;
    // The door waits for a gate that a busy machine does not run: it is the peers that answer in time.
    let door = Door::new(DoorKind::Forward, &socket).alive_within(Duration::from_secs(20));
    let destination = echo().await;
    for _ in 0..20 {
        let slow: Vec<_> = (1..50)
            .map(|port| {
                let door = door.clone();
                tokio::spawn(async move { connect(&door, SocketAddr::from(([10, 0, 0, 1], port))).await.err() })
            })
            .collect();
        assert!(is_echoed(&mut carried(&door, destination).await).await);
        for slow in slow {
            assert_eq!(slow.await.unwrap(), Some(Plain::Slow));
        }
    }
    until(&[&near], || near.status().peers.iter().all(|peer| peer.connections == 0)).await;
}
