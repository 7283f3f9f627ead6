//! Sockets of every kind are diverted, and say so to nobody but the carrying process.

use crate::ground::{Ground, lines, net, run};
use std::{
    io::{BufRead, BufReader, Write},
    thread,
};

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_destination_arrives_from_every_kind_of_socket() {
    destination_arrives_from_every_kind_of_socket();
}

pub(crate) fn destination_arrives_from_every_kind_of_socket() {
    let ground = Ground::new();
    let _redirect = ground.answered(&[net("192.0.2.0/24"), net("198.51.100.7/32"), net("2001:db8::/32")]);
    let said = ground.cgroup.python(
        "
for host, port in (('192.0.2.1', 80), ('192.0.2.255', 65535), ('198.51.100.7', 1)):
    s = create_connection((host, port))
    print(peer(s), heard(s))

s = create_connection(('2001:db8:1::5', 443))
print(peer(s), heard(s))

s = socket(AF_INET6)
s.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
s.connect(('2001:db8::6', 443))
print(peer(s), heard(s))

s = socket(AF_INET6)
s.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0)
s.connect(('::ffff:192.0.2.9', 5432))
print(peer(s), heard(s))

s = socket(AF_INET6)
s.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
print(errno.errorcode[s.connect_ex(('::ffff:192.0.2.9', 5432))])

s = socket()
s.setblocking(False)
error = s.connect_ex(('192.0.2.4', 22))
assert error in (0, errno.EINPROGRESS), error
select.select([], [s], [])
assert s.getsockopt(SOL_SOCKET, SO_ERROR) == 0
s.settimeout(60)
print(peer(s), heard(s))

MSG_FASTOPEN = 0x20000000
s = socket()
s.settimeout(None)
s.sendto(b'early', MSG_FASTOPEN, ('192.0.2.5', 7))
name = peer(s)
s.shutdown(SHUT_WR)
print(name, heard(s))

# Multipath TCP falls back to TCP. One in a thousand such sockets of Linux 6.1 misses the peer's end (its TCP
# socket is in CLOSE_WAIT, and recv sleeps), so this reads the line alone.
IPPROTO_MPTCP = 262
s = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP)
s.connect(('192.0.2.8', 8))
print(s.makefile().readline().strip())

# A socket that is disconnected and connected again.
s = socket()
s.connect(('192.0.2.6', 1))
first = peer(s)
SOCKADDR_UNSPEC = struct.pack('=H14x', AF_UNSPEC)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.connect(s.fileno(), SOCKADDR_UNSPEC, 16) == 0
s.connect(('192.0.2.7', 2))
print(first, peer(s), heard(s))
",
    );
    let expected = [
        "192.0.2.1:80 through 192.0.2.1:80",
        "192.0.2.255:65535 through 192.0.2.255:65535",
        "198.51.100.7:1 through 198.51.100.7:1",
        "[2001:db8:1::5]:443 through [2001:db8:1::5]:443",
        "[2001:db8::6]:443 through [2001:db8::6]:443",
        "[::ffff:192.0.2.9]:5432 through 192.0.2.9:5432",
        "ENETUNREACH",
        "192.0.2.4:22 through 192.0.2.4:22",
        "192.0.2.5:7 through 192.0.2.5:7",
        "through 192.0.2.8:8",
        "192.0.2.6:1 192.0.2.7:2 through 192.0.2.7:2",
    ];
    assert_eq!(said, expected);
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_curl_is_diverted() {
    let ground = Ground::new();
    let redirect = rails_divert::redirect::Redirect::install(&ground.cgroup.folder, &[net("192.0.2.0/24")], &[]);
    let redirect = redirect.unwrap();
    thread::scope(|scope| {
        let service = scope.spawn(|| {
            let (stream, destination) = redirect.accept().unwrap();
            let requests = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            assert!(requests.count() > 1, "a request with its headers");
            write!(&stream, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
            destination
        });
        let said = lines(run(ground.cgroup.command("curl").args(["-s", "http://192.0.2.80:8080/"])));
        assert_eq!(said, ["hello"]);
        assert_eq!(service.join().unwrap(), "192.0.2.80:8080".parse().unwrap());
    });
}
