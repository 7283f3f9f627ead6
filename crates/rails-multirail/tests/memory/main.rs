//! The memory of a stream that a peer floods while the application does not read, by the kernel's
//! count.
//!
//! Each case runs in a process of its own, which is this program again: memory that one case leaves
//! in the allocator must not serve the next.

#[path = "../peer/mod.rs"]
mod join;
mod peer;

use bytes::Bytes;
use peer::{Flood, Peer};
use rails_multirail::{
    MultiRailListener, MultiRailStream, Priority, RailRequest, Rails, Security, StreamOptions, StreamStats,
    longest_message, plan_rails,
};
use rails_proto::parameters::MAX_LANES;
use rails_topo::Topology;
use std::{fs, future::Future, net::SocketAddr, process::Command, time::Duration};
use tokio::time::{sleep, timeout};

const WINDOW: u64 = 16 << 20;
/// The bound for each lane beside the window and its tenth: the arriving chunk, the bytes read
/// ahead, and memory of the allocator and the runtime.
const FIXED_PER_LANE: u64 = 1 << 20;
/// Names the case to a process that runs it.
const CASE: &str = "RAILS_MEMORY_CASE";

/// The cases of a peer's behaviour, by name.
const CASES: [(&str, Case); 14] = [
    ("bytes of a well-behaved peer", Case::Bytes),
    ("messages of a well-behaved peer", Case::Messages(100_000)),
    ("large messages of a well-behaved peer", Case::Messages(3 << 20)),
    ("a byte here and there", Case::Flood(Flood::Chunks { length: 1, step: 1_024 })),
    ("small chunks in order", Case::Flood(Flood::Chunks { length: 200, step: 200 })),
    ("chunks that just miss being copied", Case::Flood(Flood::Chunks { length: 8 << 10, step: (8 << 10) + 1 })),
    ("chunks backwards", Case::Flood(Flood::Backwards { length: 60_000 })),
    ("chunks that overlap", Case::Flood(Flood::Chunks { length: 100_000, step: 60_000 })),
    ("a byte here and there, after a fast start", Case::ThenFlood(Flood::Chunks { length: 1, step: 1_024 })),
    ("chunks of other lengths, after a fast start", Case::ThenFlood(Flood::Chunks { length: 9_000, step: 9_000 })),
    ("a chunk that is begun on every lane", Case::EveryLane(Flood::Chunks { length: 1, step: 1_024 })),
    ("tiny packets", Case::MessageFlood(Flood::Packets { length: 256 })),
    ("messages that are begun", Case::MessageFlood(Flood::Begun { total: 1_000 })),
    ("a message in crumbs", Case::MessageFlood(Flood::Parts { total: 12 << 20, length: 1, step: 1_540 })),
];

#[derive(Debug, Clone, Copy)]
enum Case {
    /// Bytes from this crate's sender, over two lanes.
    Bytes,
    /// Messages of that length from this crate's sender, over two lanes.
    Messages(usize),
    /// A peer on a bare socket.
    Flood(Flood),
    /// A flood after some windows were sent in order and read, so that the pool is full.
    ThenFlood(Flood),
    MessageFlood(Flood),
    /// A flood on one lane of as many as a stream may have. On each other lane, all of a chunk but
    /// a byte is sent.
    EveryLane(Flood),
}

#[test]
fn memory_bound_against_floods() {
    if let Ok(name) = std::env::var(CASE) {
        let (_, case) = CASES.iter().find(|(other, _)| *other == name).expect("the name is that of a case");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        return runtime.block_on(run(*case));
    }
    let program = std::env::current_exe().expect("this program has a path");
    for (name, _) in CASES {
        let output =
            Command::new(&program).arg("--nocapture").env(CASE, name).output().expect("this program runs again");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| line.contains("MiB")).for_each(|line| println!("{name}: {line}"));
        assert!(output.status.success(), "{name}:\n{text}");
    }
}

async fn run(case: Case) {
    match case {
        Case::Bytes => {
            let (_rails, near, far) = pair(2).await;
            let bytes = Bytes::from(vec![7; 1 << 20]);
            let (growth, _) = grown(async {
                let mut near = near;
                let is_full = || far.stats().receive_window.used_bytes > WINDOW / 4 * 3;
                while timeout(QUIET, near.write_bytes(bytes.clone())).await.is_ok() || !is_full() {}
            })
            .await;
            check(growth, 2);
        }
        Case::Messages(length) => {
            let (_rails, near, far) = pair(2).await;
            let (near, far) = (
                near.into_messages().expect("the stream is unused"),
                far.into_messages().expect("the stream is unused"),
            );
            let message = Bytes::from(vec![7; length]);
            assert!(length as u64 <= longest_message(WINDOW));
            let (growth, _) = grown(async {
                let (mut sender, _receiver) = near.split();
                let is_full = || far.stats().receive_window.used_bytes > WINDOW / 4 * 3;
                while timeout(QUIET, sender.send(message.clone(), Priority::NORMAL)).await.is_ok() || !is_full() {}
            })
            .await;
            check(growth, 2);
        }
        Case::Flood(flood) => {
            let (_listening, stream, mut peer) = victim().await;
            let (growth, ()) = grown(arrived(&mut peer, 0, flood, || stream.stats())).await;
            check(growth, 1);
        }
        Case::ThenFlood(flood) => {
            let (_listening, mut stream, mut peer) = victim().await;
            let (growth, ()) = grown(async {
                let mut read = 0;
                for round in 0..4 {
                    // Each round has other lengths, and the application reads only at its end, so that the window is
                    // full in between.
                    let length = [512 << 10, 200_000, 60_000, 20_000][round];
                    let chunks = Flood::Chunks { length, step: length as u64 };
                    arrived(&mut peer, read, chunks, || stream.stats()).await;
                    let until = read + WINDOW / length as u64 * length as u64;
                    while read < until {
                        read += stream
                            .read_bytes()
                            .await
                            .expect("the stream does not fail")
                            .expect("the stream goes on")
                            .len() as u64;
                    }
                }
                arrived(&mut peer, read, flood, || stream.stats()).await;
            })
            .await;
            check(growth, 1);
        }
        Case::EveryLane(flood) => {
            let (listening, stream, mut peer) = victim().await;
            let address = listening.1.local_addrs()[0].socket;
            let lanes = MAX_LANES as u64;
            let (growth, _sockets) = grown(async {
                arrived(&mut peer, 0, flood, || stream.stats()).await;
                let sockets = peer.begin_on_lanes(address, lanes as u16 - 1).await;
                // The kernel may keep the bytes until a lane has room for the rest of its chunk.
                sleep(2 * QUIET).await;
                sockets
            })
            .await;
            check(growth, lanes);
        }
        Case::MessageFlood(flood) => {
            let (_listening, stream, mut peer) = victim().await;
            let messages = stream.into_messages().expect("no bytes have arrived");
            let (growth, ()) = grown(arrived(&mut peer, 0, flood, || messages.stats())).await;
            check(growth, 1);
        }
    }
}

/// Sends the flood from that offset on, and waits until every chunk has arrived.
async fn arrived(peer: &mut Peer, from: u64, flood: Flood, stats: impl Fn() -> StreamStats) {
    let before = stats().lanes[0].chunks_received;
    let sent = peer.send(from, WINDOW, flood).await;
    for _ in 0..600 {
        let lane = &stats().lanes[0];
        assert!(lane.up, "the flood is within the protocol's limits");
        if lane.chunks_received == before + sent {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("{sent} chunks were sent, {} arrived", stats().lanes[0].chunks_received - before);
}

fn check(growth: u64, lanes: u64) {
    let bound = WINDOW + WINDOW / 10 + FIXED_PER_LANE * lanes;
    println!("{:.2} MiB of {:.2} MiB", mib(growth), mib(bound));
    assert!(growth <= bound, "{growth} bytes, where {bound} are the bound");
    // Less growth means that there was no flood, or that it was not counted.
    assert!(growth >= WINDOW / 2, "{growth} bytes are too few for a flood");
}

/// The growth of the process's memory to its peak while `act` runs.
async fn grown<T>(act: impl Future<Output = T>) -> (u64, T) {
    // Resets the peak to the present value (proc_pid_clear_refs(5)).
    fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
    let before = status("VmRSS:");
    let result = act.await;
    (status("VmHWM:").saturating_sub(before), result)
}

fn status(line: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("every process has a status file");
    let value = text.lines().find_map(|text| text.strip_prefix(line)).expect("Linux reports the value");
    value.trim().trim_end_matches(" kB").parse::<u64>().expect("the value is a number") << 10
}

fn rails(count: usize) -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(count)).expect("loopback rails can be planned");
    Rails::build(&plan).expect("loopback rails need no privilege")
}

async fn listener(rails: &Rails) -> (MultiRailListener, StreamOptions) {
    let options = StreamOptions::new(Security::insecure()).window(WINDOW);
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0)).collect();
    (MultiRailListener::bind(rails, &addresses, &options).await.expect("free ports"), options)
}

async fn pair(lanes: usize) -> ((Rails, MultiRailListener), MultiRailStream, MultiRailStream) {
    let rails = rails(lanes);
    let (listener, options) = listener(&rails).await;
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.expect("it listens");
    let far = listener.accept().await.expect("a stream was opened");
    ((rails, listener), near, far)
}

async fn victim() -> ((Rails, MultiRailListener), MultiRailStream, Peer) {
    let rails = rails(1);
    let (listener, _) = listener(&rails).await;
    let peer = Peer::join(listener.local_addrs()[0].socket).await;
    let stream = listener.accept().await.expect("a stream was opened");
    ((rails, listener), stream, peer)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The silence after which a writer counts as waiting for the window.
const QUIET: Duration = Duration::from_millis(500);
