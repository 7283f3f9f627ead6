//! The cost of connections on which nothing happens. It is measured in the whole process, so this
//! file has one test.

#[path = "gates/two_gates.rs"]
#[expect(dead_code, reason = "the other tests of gates use the rest")]
mod two_gates;

use rails_gate::Way;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};
use two_gates::TwoGates;

/// Both ends of a connection through the gates: sockets that no runtime knows.
async fn connection(gates: &TwoGates, service: &TcpListener, programs: &TcpListener) -> [TcpStream; 3] {
    let local = |listener: &TcpListener| -> SocketAddr { listener.local_addr().unwrap() };
    let passage = match gates.door().ask(local(service), None).await {
        Way::Through(passage) => passage,
        Way::Plain(why) => panic!("it goes plain: {why}"),
    };
    let program = TcpStream::connect(local(programs)).unwrap();
    let (handed_over, _) = programs.accept().unwrap();
    let (accepted, _) = service.accept().unwrap();
    passage.hand_over(&handed_over).await.unwrap();
    // Bytes have gone both ways.
    for (mut from, mut to) in [(&program, &accepted), (&accepted, &program)] {
        from.write_all(&[7; 100]).unwrap();
        to.read_exact(&mut [0; 100]).unwrap();
    }
    // The gate has a copy of `handed_over`; the kernel's socket is one.
    [program, accepted, handed_over]
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let pages: usize = fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// How often threads of this process went to sleep up to now.
fn sleeps() -> u64 {
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    fs::read_dir("/proc/self/task").unwrap().map(|task| of(task.unwrap())).sum()
}

async fn sleeps_within(seconds: u64) -> u64 {
    let before = sleeps();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    sleeps() - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_take_little_memory_and_no_wake_ups() {
    const CONNECTIONS: usize = 1000;
    const HOSTS: usize = 2;

    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let gates = TwoGates::start("'127.0.0.0/8:*'").await;
    let [service, programs] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut open = Vec::with_capacity(CONNECTIONS + 20);
    for _ in 0..20 {
        open.push(connection(&gates, &service, &programs).await);
    }
    let without = sleeps_within(1).await;
    let before = resident();
    for _ in 0..CONNECTIONS {
        open.push(connection(&gates, &service, &programs).await);
    }
    gates.until(|gates| gates.far.status().connections.iter().map(|counts| counts.active).sum::<u64>() == 1020).await;
    let each = resident().saturating_sub(before) / CONNECTIONS / HOSTS;
    let with = sleeps_within(1).await;
    println!("{each} bytes for each idle connection and host; {with} sleeps in 1 s, and {without} with 20 connections");
    assert!(each <= 8 << 10, "{each} bytes for each idle connection and host");
    // A session's own timers, and those of this test, are the same with and without connections.
    assert!(with <= without + CONNECTIONS as u64 / 10, "{with} sleeps with idle connections, {without} without");
}
