//! The paper's Table III: the interrupts of a socket's NIC, and the thread that follows them.

use crate::machine::machine;
use rails_bind::{
    affinity::{AffinityReport, InterruptAffinity, InterruptOutcome, Nearness, ThreadAffinity},
    interrupt::{Distribution, Vectors, distribute},
    memory::{BufferOptions, MemoryPolicy, NumaBuffer},
    settings::{Host, Journal, Refusals, SettingState, SettingsGuard},
    socket,
    thread::{self, current_tid},
};
use rails_lab::guest::Cable;
use rails_topo::{CpuSet, Nic, NodeId, Topology};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

/// A TCP connection over the cable of node 1 to an echo at its far end.
struct Connection {
    cable: Cable,
    topology: Topology,
    nic: Nic,
    stream: TcpStream,
}

impl Connection {
    fn open() -> Self {
        let cable = Cable::plug(1).expect("the cable is free");
        let namespace = cable.namespace().clone();
        let address = format!("{}:7600", cable.far_address());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let listening = address.clone();
        std::thread::spawn(move || {
            let _inside = namespace.enter().expect("it is there");
            let listener = TcpListener::bind(listening).expect("the address is the namespace's");
            ready.send(()).expect("somebody waits");
            let (mut stream, _) = listener.accept().expect("somebody connects");
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        });
        is_ready.recv().expect("it listens");
        let stream = TcpStream::connect(address).expect("somebody listens");
        let topology = Topology::detect().expect("a machine");
        let nic = topology.nic(cable.near()).expect("it has a driver").clone();
        Self { cable, topology, nic, stream }
    }

    fn echo(&mut self) {
        for _ in 0..30 {
            self.stream.write_all(&[7; 1000]).expect("the other end reads");
            self.stream.read_exact(&mut [0; 1000]).expect("the other end echoes");
        }
    }

    /// All interrupts of the NIC on this CPU, by hand.
    fn planted(&self, cpu: &str) -> SettingsGuard {
        let changes =
            distribute(&self.topology, &self.nic, Vectors::All, &Distribution::On(cpus(cpu))).expect("it has some");
        let journal = Journal::at("/run/rails-test").expect("/run can be written to");
        let planted = Host::this().apply(&journal, &changes, Refusals::Fail).expect("root may");
        self.cable.ping(5).expect("the cable carries");
        planted
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_interrupts_and_thread_at_the_sockets_nic() {
    let _turn = machine();
    let mut connection = Connection::open();
    let nic = socket::nic_of(&connection.stream, &connection.topology).expect("there is a route");
    assert_eq!((nic.name.as_str(), nic.node), (connection.cable.near(), Some(NodeId(1))));
    let _planted = connection.planted("0");

    let mut interrupt = InterruptAffinity::of_socket(&connection.stream).expect("it has a NIC with interrupts");
    assert!(matches!(interrupt.outcome(), InterruptOutcome::Moved(_)), "{:?}", interrupt.outcome());
    assert_eq!(interrupt.attached(), &cpus("2-3"));
    // A moved interrupt goes when it fires next, and the interrupt for transmitted packets seldom does.
    let both_have_fired = (0..50).any(|_| {
        connection.echo();
        let InterruptOutcome::Moved(guard) = interrupt.refresh() else { panic!("they were moved") };
        guard.changes().iter().filter(|changed| matches!(changed.state, SettingState::Applied)).count() >= 2
    });
    assert!(both_have_fired, "those of the queue: {:?}", interrupt.outcome());
    let served = interrupt.served_on().expect("they are there");
    assert_eq!(served, cpus("2"), "the nearest core");

    for (nearness, expected) in [
        (Nearness::SameCpu, "2"),
        (Nearness::SameCore, "2"),
        (Nearness::NeighbourCore, "3"),
        (Nearness::SamePackage, "2-3"),
    ] {
        let guard = ThreadAffinity::near(&interrupt, nearness).expect("this process may run anywhere");
        assert_eq!(guard.outcome().got(), &cpus(expected), "{nearness:?}");
        assert_eq!(thread::current_affinity().expect("it is known"), cpus(expected));
    }
    assert_eq!(thread::current_affinity().expect("it is known"), cpus("0-3"), "the guards gave them back");

    let _thread = ThreadAffinity::to(&interrupt).expect("likewise");
    // Pages of its own: the heap's may have been touched before, on the other node.
    let options = BufferOptions::new().policy(MemoryPolicy::Local);
    let mut buffer = NumaBuffer::new(1 << 20, &options).expect("there is room");
    buffer.fill(1);
    let mut traffic = connection.stream.try_clone().expect("a second handle");
    let report = std::thread::scope(|scope| {
        scope.spawn(|| connection.echo());
        AffinityReport::of(&traffic, &[current_tid()], &[&buffer], Duration::from_millis(500)).expect("all is there")
    });
    assert!(report.holds(), "{report}");
    traffic.flush().expect("it is open");

    drop(interrupt);
    let connection_nic = connection.nic.clone();
    let wish = |number| rails_bind::interrupt::read(number).expect("it is there").requested;
    assert!(connection_nic.interrupts.iter().all(|known| wish(known.number) == cpus("0")), "as they were planted");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_unprivileged_thread_follows_interrupt() {
    let _turn = machine();
    let mut connection = Connection::open();
    for cpu in ["0", "3"] {
        let _planted = connection.planted(cpu);
        connection.echo();
        let guard = ThreadAffinity::following(&connection.stream, &connection.topology, Nearness::SameCpu);
        let guard = guard.expect("packets came in");
        assert_eq!(guard.outcome().got(), &cpus(cpu));
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_report_of_broken_properties() {
    let _turn = machine();
    let mut connection = Connection::open();
    let _planted = connection.planted("0");
    let _thread = thread::bind_current(&cpus("2")).expect("it is there");
    let stream = connection.stream.try_clone().expect("a second handle");
    let report = std::thread::scope(|scope| {
        scope.spawn(|| connection.echo());
        AffinityReport::of(&stream, &[current_tid()], &[], Duration::from_millis(500)).expect("all is there")
    });
    assert!(report.interrupt.is_broken() && report.thread.is_broken(), "{report}");
}
