//! Sockets and destinations that are passed on untouched.

use crate::{
    ground::{Ground, lines, net, run, service},
    parts::READY,
};
use rails_lab::Side;
use std::{net::UdpSocket, process::Command, thread};

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_bound_sockets_and_other_destinations_are_plain() {
    let ground = Ground::new();
    let in_v4 = service("10.99.0.2:0").port();
    let in_v6 = service("[fd00:99::2]:0").port();
    let here_v4 = service("127.0.0.1:0").port();
    let here_v6 = service("[::1]:0").port();
    // Ports are given by the kernel from 32768 on.
    let _redirect =
        ground.answered(&[net("10.99.0.0/30"), ("10.99.0.4/30".parse().unwrap(), 1..=9), net("fd00:99::/64")]);
    run(Command::new("ip").args(["address", "add", "10.99.0.5/32", "dev", "lo"]));
    run(Command::new("ip").args(["address", "add", "10.98.0.2/32", "dev", "lo"]));
    let outside = service("10.98.0.2:0").port();
    let other_port = service("10.99.0.5:0").port();
    let said = ground.cgroup.python(&format!(
        "
def connect(name, family, address, prepare=lambda s: None):
    s = socket(family)
    prepare(s)
    s.connect(address)
    print(name, peer(s) == ('[%s]:%d' if family == AF_INET6 else '%s:%d') % address, heard(s))

in_v4, in_v6 = ('10.99.0.2', {in_v4}), ('fd00:99::2', {in_v6})
connect('v4', AF_INET, in_v4)
connect('v6', AF_INET6, in_v6)
connect('outside', AF_INET, ('10.98.0.2', {outside}))
connect('other port', AF_INET, ('10.99.0.5', {other_port}))
connect('loopback v4', AF_INET, ('127.0.0.1', {here_v4}))
connect('loopback v6', AF_INET6, ('::1', {here_v6}))
connect('loopback mapped', AF_INET6, ('::ffff:127.0.0.1', {here_v4}))
connect('address v4', AF_INET, in_v4, lambda s: s.bind(('10.99.0.2', 0)))
connect('address v6', AF_INET6, in_v6, lambda s: s.bind(('fd00:99::2', 0)))
connect('address mapped', AF_INET6, ('::ffff:10.99.0.2', {in_v4}), lambda s: s.bind(('::ffff:10.99.0.2', 0)))
def bind_late(s):
    s.setsockopt(IPPROTO_IP, 24, 1) # IP_BIND_ADDRESS_NO_PORT
    s.bind(('10.99.0.2', 0))
connect('address without port', AF_INET, in_v4, bind_late)
connect('port v4', AF_INET, in_v4, lambda s: s.bind(('', 0)))
connect('port v6', AF_INET6, in_v6, lambda s: s.bind(('', 0)))
connect('device', AF_INET, in_v4, lambda s: s.setsockopt(SOL_SOCKET, SO_BINDTODEVICE, b'lo'))

# A socket that was diverted, and is connected to another destination then.
s = socket()
s.connect(in_v4)
import ctypes
libc = ctypes.CDLL(None)
assert libc.connect(s.fileno(), struct.pack('=H14x', AF_UNSPEC), 16) == 0
s.connect(('10.98.0.2', {outside}))
print('again', peer(s) == '10.98.0.2:{outside}', heard(s))

# A destination of the networks that refuses: the program hears it from the carrying process.
s = socket()
print('refused elsewhere', s.connect_ex(('10.98.0.2', 1)) == errno.ECONNREFUSED)
",
    ));
    let expected = [
        &format!("v4 True through 10.99.0.2:{in_v4}"),
        &format!("v6 True through [fd00:99::2]:{in_v6}"),
        "outside True plain",
        "other port True plain",
        "loopback v4 True plain",
        "loopback v6 True plain",
        "loopback mapped True plain",
        "address v4 True plain",
        "address v6 True plain",
        "address mapped True plain",
        "address without port True plain",
        "port v4 True plain",
        "port v6 True plain",
        "device True plain",
        "again True plain",
        "refused elsewhere True",
    ];
    assert_eq!(said, expected);
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_datagrams_are_untouched() {
    let ground = Ground::new();
    let echo = UdpSocket::bind("10.99.0.2:0").unwrap();
    let port = echo.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((count, from)) = echo.recv_from(&mut bytes) {
            echo.send_to(&bytes[..count], from).unwrap();
        }
    });
    let _redirect = ground.answered(&[net("10.99.0.0/16")]);
    let said = ground.cgroup.python(&format!(
        "
s = socket(AF_INET, SOCK_DGRAM)
s.connect(('10.99.0.2', {port}))
s.send(b'there')
print(peer(s), s.recvfrom(10))
s = socket(AF_INET, SOCK_DGRAM)
s.sendto(b'back', ('10.99.0.2', {port}))
print(s.recvfrom(10))
s = socket(AF_INET6, SOCK_DGRAM)
s.connect(('::ffff:10.99.0.2', {port}))
s.send(b'mapped')
print(peer(s), s.recv(10))
"
    ));
    let expected = [
        format!("10.99.0.2:{port} (b'there', ('10.99.0.2', {port}))"),
        format!("(b'back', ('10.99.0.2', {port}))"),
        format!("[::ffff:10.99.0.2]:{port} b'mapped'"),
    ];
    assert_eq!(said, expected);
}

/// The listeners are in the namespace of the redirect; processes of the cgroup may be in others.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_other_network_namespaces_are_untouched() {
    let ground = Ground::new();
    let address = ground.lab.address(Side::B, 0);
    let _redirect = ground.answered(&[net("10.77.0.0/24")]);
    let far = ground.lab.enter(Side::B).unwrap();
    let port = service(&format!("{address}:0")).port();
    let connect = format!("print(heard(create_connection(('{address}', {port}))))");
    assert_eq!(ground.cgroup.python(&connect), ["plain"]);
    drop(far);
    assert_eq!(ground.cgroup.python(&connect), [format!("through {address}:{port}")]);
}

/// A socket is of the cgroup in which it was made.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_socket_from_before_the_cgroup_is_untouched() {
    let ground = Ground::new();
    let address = service("10.99.0.2:0");
    let _redirect = ground.answered(&[net("10.99.0.0/16")]);
    let program = format!(
        "
from socket import *
import os, sys
before = socket()
open('{}/cgroup.procs', 'w').write(str(os.getpid()))
after = socket()
for s in before, after:
    s.connect(('10.99.0.2', {}))
    print(s.recv(100).decode().strip())
",
        ground.cgroup.folder.display(),
        address.port()
    );
    let said = lines(run(Command::new("python3").args(["-c", &program])));
    assert_eq!(said, ["plain", &format!("through {address}")]);
}

/// Two sockets are made in the cgroup, by a process that leaves it; its child is the carrier, and
/// marks the first of them.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_socket_that_is_to_be_passed_on_is_untouched() {
    let ground = Ground::new();
    let address = service("10.99.0.2:0");
    let program = format!(
        "
from socket import *
import ctypes, os, struct, subprocess, sys
here = '{0}'
def move(folder): open(folder + '/cgroup.procs', 'w').write(str(os.getpid()))
move(here)
sockets = socket(), socket()
move(os.path.dirname(here))
carrier = subprocess.Popen(sys.argv[1:], stdin=sockets[0], stdout=subprocess.PIPE, text=True)
try:
    while '{READY}' not in carrier.stdout.readline(): pass
    for s in sockets + sockets:
        s.connect(('10.99.0.2', {1}))
        print(s.recv(100).decode().strip())
        assert ctypes.CDLL(None).connect(s.fileno(), struct.pack('=H14x', AF_UNSPEC), 16) == 0
finally:
    carrier.kill()
    carrier.wait()
",
        ground.cgroup.folder.display(),
        address.port()
    );
    let carrier = ground.part("marking carrier");
    let mut python = Command::new("python3");
    python.args(["-c", &program]).arg(carrier.get_program()).args(carrier.get_args());
    python.envs(carrier.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let through = format!("through {address}");
    assert_eq!(lines(run(&mut python)), ["plain", &through, "plain", &through]);
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_only_sockets_can_be_passed_on() {
    let ground = Ground::new();
    let redirect = ground.answered(&[net("10.99.0.0/16")]);
    redirect.pass_on(tempfile::tempfile().unwrap()).unwrap_err();
}
