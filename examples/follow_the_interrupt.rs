//! A TCP client where its packets are: the NIC's interrupts beside it, the thread at the interrupts
//! (RTK paper, Table III).
//!
//! Run: `cargo run --example follow_the_interrupt -- 10.0.1.2:7575`, or without an address for one
//! on this machine.
//!
//! Expected: the socket's NIC and the placement of its interrupts, the CPUs that the thread was
//! bound to, and which of the three affinities hold. The loopback interface has no interrupt; then
//! the thread moves to the CPU on which the kernel delivers the socket's packets, which takes no
//! privilege.

use anyhow::Context;
use rails::{
    bind::{
        affinity::{AffinityReport, InterruptAffinity, InterruptAffinityError, Nearness, ThreadAffinity},
        socket,
        thread::{self, ThreadGuard},
    },
    topo::Topology,
};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

fn main() -> anyhow::Result<()> {
    let (_listener, stream) = match std::env::args().nth(1) {
        Some(address) => (None, TcpStream::connect(address)?),
        None => {
            let (listener, stream) = to_myself()?;
            (Some(listener), stream)
        }
    };
    let seen = run(&stream)?;
    match &seen.interrupts {
        Ok(interrupt) => println!("{}: {:?}", interrupt.nic().name, interrupt.outcome()),
        Err(error) => println!("{error}"),
    }
    println!("the thread may run on CPUs {} (read back)", seen.thread.outcome().got());
    println!("{}", seen.report);
    Ok(())
}

/// The placement, and the observations of it.
pub(crate) struct Seen {
    /// The NIC's interrupts, until this is dropped; or why they cannot be placed.
    pub(crate) interrupts: Result<InterruptAffinity, InterruptAffinityError>,
    /// The thread, until this is dropped.
    pub(crate) thread: ThreadGuard,
    /// Which of the three affinities hold.
    pub(crate) report: AffinityReport,
}

/// Places the interrupts of the socket's NIC if possible, and binds the calling thread to the CPUs
/// of its packets.
pub(crate) fn run(stream: &TcpStream) -> anyhow::Result<Seen> {
    let interrupts = InterruptAffinity::of_socket(stream);
    let thread = match &interrupts {
        Ok(interrupt) => ThreadAffinity::to(interrupt)?,
        Err(_) => ThreadAffinity::following(stream, &Topology::detect()?, Nearness::SameCpu)?,
    };
    let buffer = vec![1_u8; 1 << 20];
    let watched = Duration::from_millis(200);
    let report = AffinityReport::of(stream, &[thread::current_tid()], &[&buffer], watched)?;
    Ok(Seen { interrupts, thread, report })
}

/// A connection of this process to itself, over which a packet has come, so that it is known where
/// they come out.
pub(crate) fn to_myself() -> anyhow::Result<(TcpListener, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    far.write_all(b"x")?;
    near.read_exact(&mut [0])?;
    socket::incoming_cpu(&near)?.context("a packet came, and the kernel does not say where")?;
    Ok((listener, near))
}
