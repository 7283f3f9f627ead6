//! The TCP client of the RTK paper, placed in three ways: not at all (its Table II), by hand (III),
//! and by a rail (IV).
//!
//! Run: `cargo run --release --example placed_three_ways`; between two machines, `... -- receive
//! 0.0.0.0:7575` on one, and then `... -- 10.0.1.2:7575` on the other.
//!
//! Expected: a row for each client, with the CPUs that its thread may run on and was seen on, the
//! node of its buffer, the verdicts on the three affinities, the bytes that the receiver counted,
//! and the goodput; below it the evidence for the verdicts. All of it is of the round with the
//! median goodput. On loopback two affinities are unknown, and the order of the clients by goodput
//! changes from run to run.
//!
//! All three send with the same lines. Only `placed_by_hand` and `placed_by_rail` place anything.

use anyhow::{Context, bail, ensure};
use rails::{
    bind::{
        affinity::{
            AffinityReport, InterruptAffinity, Nearness, ObservedMemory, ObservedThread, Observer, ThreadAffinity,
            Verdict,
        },
        memory::{self, BufferOptions, MemoryPolicy, NumaBuffer},
        settings::Host,
        socket, thread,
    },
    multirail::{RailRequest, Rails, plan_rails},
    net::{LocalEnd, local_address_towards},
    topo::{NodeSet, Topology},
};
use std::{
    fmt,
    io::{self, Read, Write},
    net::{self, SocketAddr, TcpListener},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Builder,
};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match wish(&arguments)? {
        Wish::Send(receiver) => print!("{}", run(receiver, 3, 64)?),
        Wish::Receive(address) => {
            let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
            for socket in listener.incoming() {
                if let Err(error) = receive(socket?) {
                    eprintln!("a connection was lost: {error}");
                }
            }
        }
    }
    Ok(())
}

/// Runs the clients in turn, each `rounds` times, with that many blocks each time. Without a
/// receiver they send to one of this process.
pub(crate) fn run(receiver: Option<SocketAddr>, rounds: usize, blocks: u64) -> anyhow::Result<Compared> {
    let receiver = match receiver {
        Some(receiver) => receiver,
        None => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            std::thread::spawn(move || listener.incoming().take(3 * rounds).try_for_each(|socket| receive(socket?)));
            address
        }
    };
    let plain = Builder::new_current_thread().enable_io().build()?;
    let mut clients = ["unplaced", "by hand", "by rail"].map(|name| (name, Vec::new()));
    for round in 0..rounds {
        // Each client is first, second and last in turn.
        for client in (0..3).map(|turn| (round + turn) % 3) {
            let (name, sent) = &mut clients[client];
            let outcome = match client {
                0 => plain.block_on(unplaced(receiver, blocks)),
                1 => plain.block_on(placed_by_hand(receiver, blocks)),
                _ => placed_by_rail(receiver, blocks),
            };
            sent.push(outcome.with_context(|| format!("{name}: cannot send to {receiver}"))?);
        }
    }
    clients.iter_mut().for_each(|(_, sent)| sent.sort_by(|a, b| a.gbit_per_s.total_cmp(&b.gbit_per_s)));
    Ok(Compared(clients))
}

/// Nothing is placed.
async fn unplaced(receiver: SocketAddr, blocks: u64) -> anyhow::Result<Sent> {
    let socket = TcpStream::connect(receiver).await?;
    send_observed(socket, blocks).await
}

/// The client moves the interrupts of its socket's NIC beside the NIC if it may, and follows them
/// with its thread and its memory.
async fn placed_by_hand(receiver: SocketAddr, blocks: u64) -> anyhow::Result<Sent> {
    let socket = TcpStream::connect(receiver).await?;
    let topology = Topology::detect()?;
    let interrupts = InterruptAffinity::of_socket(&socket);
    let thread = match &interrupts {
        Ok(interrupts) => ThreadAffinity::to(interrupts)?,
        // An interface without interrupts still has a CPU on which the socket's packets come out.
        Err(_) => ThreadAffinity::following(&socket, &topology, Nearness::SameCpu)?,
    };
    ensure!(thread.outcome().is_applied(), "the thread is bound to {} only", thread.outcome().got());
    let cpu = thread.outcome().got().first().context("the thread may run on no CPU")?;
    // Preferred, not strict: a full node makes the client slower, and does not kill it.
    let policy = topology.nearest_node(cpu).map(MemoryPolicy::Preferred);
    let memory = policy.as_ref().map(memory::set_thread_policy).transpose()?;
    if let Some(memory) = &memory {
        ensure!(memory.outcome().is_applied(), "the memory policy is {}", memory.outcome().got());
    }
    send_observed(socket, blocks).await
}

/// The client asks for a rail on the way to the receiver. It is the unplaced one, on the rail's
/// runtime. The rail goes to the interrupts where they are, and moves none.
fn placed_by_rail(receiver: SocketAddr, blocks: u64) -> anyhow::Result<Sent> {
    let request = RailRequest::on([LocalEnd::Address(local_address_towards(receiver)?)]);
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &request)?)?;
    let rail = rails.iter().next().context("the plan has no rail")?;
    rail.runtime().block_on(move || unplaced(receiver, blocks))?
}

/// The send loop of all three.
async fn send(socket: &mut TcpStream, block: &[u8], blocks: u64) -> io::Result<u64> {
    for _ in 0..blocks {
        socket.write_all(block).await?;
    }
    socket.shutdown().await?;
    // The receiver answers with its count, so the time ends when it has all bytes.
    socket.read_u64().await
}

/// Sends from the calling thread, and observes where it runs and where its buffer lies meanwhile.
async fn send_observed(mut socket: TcpStream, blocks: u64) -> anyhow::Result<Sent> {
    // The thread that touches a page first decides its node. Pages of the heap may come from an earlier
    // client.
    let mut block = NumaBuffer::new(BLOCK_BYTES, &BufferOptions::new())?;
    block.fill(1);
    let topology = Topology::detect()?;
    let nic = socket::nic_of(&socket, &topology)?;
    let observer = Observer::begin(&Host::this(), Some(nic), &[thread::current_tid()], Duration::ZERO)?;

    let start = Instant::now();
    let received = send(&mut socket, &block, blocks).await?;
    let elapsed = start.elapsed();

    let sent = blocks * BLOCK_BYTES as u64;
    ensure!(received == sent, "the receiver counted {received} bytes of {sent}");
    let memory = ObservedMemory::of(&block)?;
    let nodes = memory.nodes();
    let seen = observer.end(vec![memory], start.elapsed())?;
    let affinity = seen.report(&topology);
    let thread = seen.threads.into_iter().next().context("the thread was not observed")?;
    Ok(Sent { received, gbit_per_s: received as f64 * 8.0 / 1e9 / elapsed.as_secs_f64(), thread, nodes, affinity })
}

/// One round of a client.
pub(crate) struct Sent {
    /// The bytes that the receiver counted.
    pub(crate) received: u64,
    pub(crate) gbit_per_s: f64,
    /// The client's thread, as read back.
    pub(crate) thread: ObservedThread,
    /// The nodes of its buffer, as read back.
    pub(crate) nodes: NodeSet,
    /// Which of the three affinities hold.
    pub(crate) affinity: AffinityReport,
}

/// The three clients, each with its rounds, slowest first.
pub(crate) struct Compared(pub(crate) [(&'static str, Vec<Sent>); 3]);

/// Counts the bytes of a connection, and answers with their number.
pub(crate) fn receive(mut socket: net::TcpStream) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut count = 0_u64;
    loop {
        match socket.read(&mut block)? {
            0 => return socket.write_all(&count.to_be_bytes()),
            bytes => count += bytes as u64,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Wish {
    /// To that receiver, or to one of this process.
    Send(Option<SocketAddr>),
    /// On that address.
    Receive(SocketAddr),
}

pub(crate) fn wish(arguments: &[String]) -> anyhow::Result<Wish> {
    let usage = "usage: placed_three_ways [ADDRESS:PORT | receive ADDRESS:PORT]";
    let address = |text: &str| text.parse().with_context(|| format!("`{text}` is not ADDRESS:PORT\n{usage}"));
    match arguments {
        [] => Ok(Wish::Send(None)),
        [word, text] if word == "receive" => Ok(Wish::Receive(address(text)?)),
        [text] => Ok(Wish::Send(Some(address(text)?))),
        _ => bail!("{} arguments are too many\n{usage}", arguments.len()),
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<9} {:<7} {:<7} {:<5} {:<9} {:<8} {:<8} {:>9}  Gbit/s",
            "client", "CPUs", "seen on", "node", "interrupt", "thread", "memory", "received"
        )?;
        let median = |sent: &[Sent]| sent.len() / 2;
        for (client, sent) in &self.0 {
            let Sent { thread, nodes, affinity, gbit_per_s, .. } = &sent[median(sent)];
            let received = sent.iter().map(|sent| sent.received).sum::<u64>() >> 20;
            let [interrupt, on_thread, in_memory] = affinity.verdicts().map(|(_, verdict)| word(verdict));
            let (slowest, fastest) = (sent[0].gbit_per_s, sent[sent.len() - 1].gbit_per_s);
            let (cpus, seen_on, nodes) = (thread.may_run_on.to_string(), thread.seen_on.to_string(), nodes.to_string());
            writeln!(
                f,
                "{client:<9} {cpus:<7} {seen_on:<7} {nodes:<5} {interrupt:<9} {on_thread:<8} {in_memory:<8} \
                 {received:>5} MiB  {gbit_per_s:.2} ({slowest:.2} to {fastest:.2})"
            )?;
        }
        for (client, sent) in &self.0 {
            writeln!(f, "{client}\n  {}", sent[median(sent)].affinity.to_string().replace('\n', "\n  "))?;
        }
        writeln!(
            f,
            "On loopback no NIC takes part, so placement may not matter there. Figures of one run prove nothing."
        )
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Holds { .. } => "holds",
        Verdict::Broken { .. } => "broken",
        Verdict::Unknown { .. } => "unknown",
    }
}

/// One of the paper's payloads. The caches of a core do not hold it.
pub(crate) const BLOCK_BYTES: usize = 8 << 20;
