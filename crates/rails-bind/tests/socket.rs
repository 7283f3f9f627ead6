//! Sockets of every kind, asked which NIC they use.

use rails_bind::socket::{self, SocketError};
use rails_topo::{NicKind, Topology};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
};

fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).expect("an address of this machine");
    let near = TcpStream::connect(listener.local_addr().expect("it listens")).expect("somebody listens");
    let (far, _) = listener.accept().expect("somebody connects");
    (near, far)
}

#[test]
fn the_machines_own_addresses_are_reached_by_loopback() {
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
fn what_has_no_route_says_why() {
    let topology = Topology::detect().expect("a machine");
    let unconnected = UdpSocket::bind("127.0.0.1:0").expect("a port");
    assert!(matches!(socket::nic_of(&unconnected, &topology), Err(SocketError::NotConnected)));
    let (unix, _other) = UnixStream::pair().expect("a pair");
    assert!(matches!(socket::nic_of(&unix, &topology), Err(SocketError::NotIp)));
    let (near, _far) = pair("127.0.0.1:0");
    let other = Topology::synthetic("package:1 core:2 pu:1", Vec::new()).expect("a description");
    assert!(matches!(socket::nic_of(&near, &other), Err(SocketError::UnknownInterface { name }) if name == "lo"));
}

#[test]
fn the_cpu_of_the_packets_is_known_after_the_first() {
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
