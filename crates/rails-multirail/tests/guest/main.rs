//! Rails on a machine of two nodes: the node of received bytes, rails that follow the machine, and
//! pipelines across both. Runs inside the NUMA guest, which sets `RAILS_GUEST=1`.
//!
//! For received bytes, the application's thread is bound to node 0 in every case, so bytes on node
//! 1 were put there by a rail.

mod follow;
mod pipeline;

use bytes::Bytes;
use rails_bind::{
    memory::{Residency, residency_of},
    thread::{self, ThreadGuard},
};
use rails_multirail::{
    MultiRailListener, MultiRailStream, Policy, Priority, RailRequest, Rails, Security, StreamOptions, plan_rails,
};
use rails_topo::{CpuSet, NodeId, Topology};
use std::{fs, net::SocketAddr};

/// Binds the calling thread to node 0 in the guest, and makes room on both nodes: a preferring
/// policy takes pages from the other node rather than evict cached files, such as programs that ran
/// before. It switches automatic NUMA balancing off: that unmaps pages for a while to see which CPU
/// touches them, and move_pages(2) does not give their node then.
fn guest() -> ThreadGuard {
    rails_lab::guest::require();
    fs::write("/proc/sys/kernel/numa_balancing", "0").expect("the guest's tests run as root");
    rails_lab::guest::drop_caches().expect("the guest's tests run as root");
    thread::bind_current(&cpus_of(NodeId(0))).expect("its CPUs are online")
}

fn cpus_of(node: NodeId) -> CpuSet {
    let file = format!("/sys/devices/system/node/node{}/cpulist", node.0);
    fs::read_to_string(file).expect("the node is there").parse().expect("a list")
}

/// A rail on the loopback interface for each of these nodes.
fn rails_on(nodes: &[u32]) -> Rails {
    let topology = Topology::detect().expect("this machine can be read");
    let mut plan = plan_rails(&topology, &RailRequest::loopback(nodes.len())).expect("they can be planned");
    for (rail, node) in plan.rails.iter_mut().zip(nodes) {
        rail.cpu = cpus_of(NodeId(*node)).first().expect("it has a CPU");
        rail.node = Some(NodeId(*node));
    }
    let rails = Rails::build(&plan).expect("they need no privilege");
    for (rail, node) in rails.iter().zip(nodes) {
        assert_eq!(rail.runtime().placement().memory_node, Ok(NodeId(*node)));
    }
    rails
}

async fn pair(rails: &Rails, options: &StreamOptions) -> (MultiRailStream, MultiRailStream) {
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0)).collect();
    let listener = MultiRailListener::bind(rails, &addresses, options).await.expect("free ports");
    let near = MultiRailStream::connect(rails, listener.local_addrs(), options).await.expect("it listens");
    (near, listener.accept().await.expect("a stream was opened"))
}

fn options() -> StreamOptions {
    StreamOptions::new(Security::insecure())
}

fn run<T>(act: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(act)
}

fn residency(bytes: &[u8]) -> Residency {
    residency_of(bytes).expect("the kernel says where pages lie")
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_chunks_on_the_receiving_rails_node() {
    let _on_node_0 = guest();
    for node in [1, 0] {
        let rails = rails_on(&[node]);
        let looked_at = run(receive(&rails));
        assert!(looked_at.len() > 32, "{} chunks were looked at", looked_at.len());
        for pages in looked_at {
            assert_eq!(pages.pages_on(NodeId(node)), pages.pages(), "a chunk on a rail of node {node}: {pages}");
        }
    }
}

/// Receives 64 MiB, drops each chunk on the application's thread, and checks the node of those that
/// are long enough for a mapping of their own.
async fn receive(rails: &Rails) -> Vec<Residency> {
    const ROUNDS: usize = 64;
    // Long chunks at any speed of the lane, which is that of an emulated machine.
    let (mut near, mut far) = pair(rails, &options().policy(Policy::Static)).await;
    let payload = Bytes::from(vec![7; 1 << 20]);
    let sending = tokio::spawn(async move {
        for _ in 0..ROUNDS {
            near.write_bytes(payload.clone()).await.expect("it is read");
        }
        near.close().await.expect("it is read")
    });
    let mut looked_at = Vec::new();
    let mut lengths = std::collections::BTreeMap::new();
    while let Some(bytes) = far.read_bytes().await.expect("the stream does not fail") {
        *lengths.entry(bytes.len()).or_insert(0) += 1;
        if bytes.len() >= OWN_PAGES {
            looked_at.push(residency(&bytes));
        }
    }
    println!("chunks by length: {lengths:?}");
    far.close().await.expect("there is nothing to send");
    sending.await.expect("the sending task does not fail");
    looked_at
}

/// The least length of a buffer with a mapping of its own.
const OWN_PAGES: usize = 128 << 10;

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_interleaved_large_messages() {
    const LENGTH: usize = 4 << 20;
    let _on_node_0 = guest();
    let rails = rails_on(&[0, 1]);
    let on_nodes = |interleaved: bool, rails: &Rails| {
        run(async {
            let (near, far) = pair(rails, &options().interleaved_messages(interleaved)).await;
            let (near, mut far) = (
                near.into_messages().expect("the stream is unused"),
                far.into_messages().expect("the stream is unused"),
            );
            let (mut sender, _receiver) = near.split();
            let message = Bytes::from(vec![7; LENGTH]);
            let mut on_nodes = Vec::new();
            for _ in 0..8 {
                sender.send(message.clone(), Priority::NORMAL).await.expect("it is received");
                let message = far.recv().await.expect("the stream does not fail").expect("it was sent");
                assert!(message.payload[..] == [7; LENGTH]);
                let pages = residency(&message.payload);
                on_nodes.push([0, 1].map(|node| pages.pages_on(NodeId(node))));
            }
            on_nodes
        })
    };
    // This holds from the first message on, and for a buffer that is used again.
    let half = (LENGTH / 4096 / 2) as u64;
    assert_eq!(on_nodes(true, &rails), vec![[half, half]; 8]);
    // One node is in use, so there is nothing to interleave.
    for pages in on_nodes(true, &rails_on(&[1, 1])) {
        assert_eq!(pages, [0, 2 * half]);
    }
    println!("pages of 4 MiB messages by node, not interleaved: {:?}", on_nodes(false, &rails));
}
