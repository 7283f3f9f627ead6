//! Sockets of every kind, asked which NIC they use.

use rails_bind::{
    socket::{self, SocketError},
    thread,
};
use rails_topo::{CpuId, CpuSet, NicKind, Topology};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    time::Duration,
};

fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).expect("an address of this machine");
    let near = TcpStream::connect(listener.local_addr().expect("it listens")).expect("somebody listens");
    let (far, _) = listener.accept().expect("somebody connects");
    (near, far)
}

#[test]
fn machines_own_addresses_are_reached_by_loopback() {
    let topology = Topology::detect().expect("a machine");
    let (near, far) = pair("127.0.0.1:0");
    for socket in [&near, &far] {
        let nic = socket::nic_of(socket, &topology).expect("there is a route");
        assert_eq!(nic.kind, NicKind::Loopback);
    }
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    udp.connect(far.local_addr().expect("it has one")).expect("it can be connected");
    assert_eq!(socket::nic_of(&udp, &topology).expect("there is a route").kind, NicKind::Loopback);
}

#[test]
fn ipv4_in_an_ipv6_socket_is_routed_as_ipv4() {
    let topology = Topology::detect().expect("a machine");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    let mapped = TcpStream::connect(("::ffff:127.0.0.1", port)).expect("somebody listens");
    assert!(mapped.peer_addr().expect("it is connected").is_ipv6());
    assert_eq!(socket::nic_of(&mapped, &topology).expect("there is a route").kind, NicKind::Loopback);
}

#[test]
fn no_route_and_its_reason() {
    let topology = Topology::detect().expect("a machine");
    let unconnected = UdpSocket::bind("127.0.0.1:0").expect("a port");
    assert!(matches!(socket::nic_of(&unconnected, &topology), Err(SocketError::NotConnected)));
    let bound = UdpSocket::bind("[::1]:0").expect("a port");
    assert!(matches!(socket::nic_of(&bound, &topology), Err(SocketError::NotConnected)));
    let (unix, _other) = UnixStream::pair().expect("a pair");
    assert!(matches!(socket::nic_of(&unix, &topology), Err(SocketError::NotIp)));
    let (near, _far) = pair("127.0.0.1:0");
    let other = Topology::synthetic("package:1 core:2 pu:1", Vec::new()).expect("a description");
    assert!(matches!(socket::nic_of(&near, &other), Err(SocketError::UnknownInterface { name }) if name == "lo"));
}

#[test]
fn cpu_of_the_packets_is_known_after_the_first() {
    let (mut near, mut far) = pair("127.0.0.1:0");
    near.write_all(b"x").expect("the other end reads");
    far.read_exact(&mut [0]).expect("the other end writes");
    let cpu = socket::incoming_cpu(&far).expect("the kernel says").expect("a packet was received");
    assert!(Topology::detect().expect("a machine").online_cpus().contains(cpu), "{cpu}");
    let unused = UdpSocket::bind("127.0.0.1:0").expect("a port");
    assert_eq!(socket::incoming_cpu(&unused).expect("the kernel says"), None);
    socket::set_incoming_cpu(&unused, cpu).expect("it takes no privilege");
    assert_eq!(socket::incoming_cpu(&unused).expect("the kernel says"), Some(cpu));
}

#[test]
fn ipv6_is_routed_as_ipv4_is() {
    let topology = Topology::detect().expect("a machine");
    let (near, _far) = pair("[::1]:0");
    assert_eq!(socket::nic_of(&near, &topology).expect("there is a route").kind, NicKind::Loopback);
}

/// A packet to the machine's own address is handled on the CPU that sent it.
#[test]
fn packets_by_cpu_among_sockets_of_one_port() {
    let cpus: Vec<CpuId> = thread::current_affinity().expect("the kernel reports it").iter().collect();
    let shared = || Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    let mut to = SocketAddr::from(([127, 0, 0, 1], 0));
    let receivers: Vec<UdpSocket> = cpus
        .iter()
        .map(|cpu| {
            let receiver = shared();
            receiver.set_reuse_port(true).expect("it takes no privilege");
            receiver.bind(&to.into()).expect("a port");
            to = receiver.local_addr().expect("it has one").as_socket().expect("it is one of IP");
            socket::set_incoming_cpu(&receiver, *cpu).expect("it takes no privilege");
            // Long enough for a busy machine; it is waited for only where a packet went to another socket.
            receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("it is not zero");
            receiver.into()
        })
        .collect();
    for (cpu, receiver) in cpus.iter().zip(&receivers) {
        std::thread::spawn({
            let cpu = *cpu;
            move || {
                let _there = thread::bind_current(&CpuSet::single(cpu)).expect("the CPU is allowed");
                let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
                for _ in 0..20 {
                    sender.send_to(b"x", to).expect("there is a route");
                }
            }
        })
        .join()
        .expect("it does not panic");
        for _ in 0..20 {
            receiver.recv(&mut [0]).unwrap_or_else(|error| panic!("no packet on CPU {cpu}: {error}"));
        }
    }
}
