//! Programs that make connections, and end with an error if one is not as it should be.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream,
    },
    thread,
};

pub(crate) fn run(name: &str, to: SocketAddr, count: usize) {
    match name {
        "blocking" => (0..count).for_each(|_| converse(TcpStream::connect(to).expect("connected"), to)),
        "mapped" => converse(connect_v6(mapped(to)), to),
        "only-v6" => only_v6(to),
        "bound-port" => bound_port(to),
        "nonblocking" => (0..count).for_each(|_| nonblocking(to)),
        "threads" => threads(to, count),
        "forks" => forks(to, count),
        "execs" => execs(to),
        "waits" => waits(to),
        "dies" => dies(to),
        "errors" => print!("{}", errors(to)),
        "undumpable" => undumpable(to),
        "lost" => lost(to),
        "survives" => survives(to, count),
        "is-reset" => is_reset(to),
        "nothing" => {}
        other => panic!("no program is called {other}"),
    }
}

/// Checks that the other end is the gate, for this destination, and that bytes pass.
fn converse(stream: TcpStream, to: SocketAddr) {
    assert_eq!(line(&stream), format!("gate {to}\n"));
    (&stream).write_all(b"there and back").expect("it is connected");
    let mut back = [0; 14];
    (&stream).read_exact(&mut back).expect("it is connected");
    assert_eq!(&back, b"there and back");
    let ends = (stream.local_addr().expect("connected").ip(), stream.peer_addr().expect("connected").ip());
    assert!(ends.0.to_canonical().is_loopback() && ends.1.to_canonical().is_loopback(), "{ends:?}");
}

fn line(stream: &TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("it is connected");
    line
}

fn tcp(domain: Domain) -> Socket {
    Socket::new(domain, Type::STREAM, None).expect("a socket")
}

fn mapped(to: SocketAddr) -> SocketAddr {
    let SocketAddr::V4(v4) = to else { panic!("{to} is not of IPv4") };
    SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port()))
}

fn connect_v6(to: SocketAddr) -> TcpStream {
    let socket = tcp(Domain::IPV6);
    socket.set_only_v6(false).expect("an option");
    socket.connect(&to.into()).expect("connected");
    socket.into()
}

fn only_v6(to: SocketAddr) {
    let socket = tcp(Domain::IPV6);
    socket.set_only_v6(true).expect("an option");
    socket.connect(&to.into()).expect("connected");
    converse(socket.into(), to);
}

fn bound_port(to: SocketAddr) {
    let socket = tcp(Domain::for_address(to));
    socket.bind(&SocketAddr::from(([0, 0, 0, 0], 0)).into()).expect("a port");
    let port = socket.local_addr().expect("bound").as_socket().expect("of IP").port();
    socket.connect(&to.into()).expect("connected");
    assert_eq!(socket.local_addr().expect("bound").as_socket().expect("of IP").port(), port);
    converse(socket.into(), to);
}

/// Connects as an event loop does.
fn nonblocking(to: SocketAddr) {
    let socket = tcp(Domain::for_address(to));
    socket.set_nonblocking(true).expect("a flag");
    let begun = socket.connect(&to.into()).expect_err("it is in progress");
    assert_eq!(begun.raw_os_error(), Some(libc::EINPROGRESS));
    assert!(socket.nonblocking().expect("a flag"));
    await_writable(&socket);
    assert!(socket.take_error().expect("readable").is_none());
    socket.connect(&to.into()).expect("the second call tells of the success");
    let third = socket.connect(&to.into()).expect_err("it is connected");
    assert_eq!(third.raw_os_error(), Some(libc::EISCONN));
    socket.set_nonblocking(false).expect("a flag");
    converse(socket.into(), to);
}

fn await_writable(socket: &Socket) -> PollFlags {
    let mut waits = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    poll(&mut waits, PollTimeout::NONE).expect("a descriptor");
    waits[0].revents().expect("known events")
}

/// Makes connections on many threads at a time, of each kind.
fn threads(to: SocketAddr, count: usize) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                for _ in 0..count {
                    if number % 2 == 0 { run("blocking", to, 1) } else { nonblocking(to) }
                }
            });
        }
    });
}

pub(crate) const THREADS: usize = 8;

/// Starts processes that start processes, all of which make a connection.
fn forks(to: SocketAddr, count: usize) {
    if count > 0 {
        let start = || crate::support::program("forks", to, count - 1).spawn().expect("it starts");
        for mut child in [start(), start(), start()] {
            assert!(child.wait().expect("it is a child").success());
        }
    }
    run("blocking", to, 1);
}

/// Hears nothing, and then that its connection was reset.
fn is_reset(to: SocketAddr) {
    let mut stream = TcpStream::connect(to).expect("connected");
    let read = stream.read(&mut [0]).expect_err("no end");
    assert_eq!(read.kind(), io::ErrorKind::ConnectionReset);
}

/// Becomes another program that makes a connection.
fn execs(to: SocketAddr) {
    use std::os::unix::process::CommandExt;
    let error = crate::support::program("blocking", to, 1).exec();
    panic!("it goes on: {error}");
}

/// Makes a connection in each of two threads; the second must not wait for the first.
fn waits(to: SocketAddr) {
    thread::scope(|scope| {
        let first = scope.spawn(move || run("blocking", to, 1));
        let mut other = to;
        other.set_port(to.port() + 1);
        run("blocking", other, 1);
        first.join().expect("it ends");
    });
}

/// Is killed while its connection waits.
fn dies(to: SocketAddr) {
    let _ = TcpStream::connect(to);
    panic!("it is killed");
}

/// Makes a connection after it has forbidden others to look at it, as ssh-agent does.
fn undumpable(to: SocketAddr) {
    nix::sys::prctl::set_dumpable(false).expect("it is always permitted");
    assert_eq!(line(&TcpStream::connect(to).expect("connected")), "plain\n");
}

/// Has no way to the destination.
fn lost(to: SocketAddr) {
    let error = TcpStream::connect(to).expect_err("there is no way");
    assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
}

/// Makes connections that succeed in one way or another, whatever happens to the gate.
fn survives(to: SocketAddr, count: usize) {
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || (0..count).for_each(|_| survive(to, number % 2 == 1)));
        }
    });
}

fn survive(to: SocketAddr, nonblocking: bool) {
    let socket = tcp(Domain::for_address(to));
    socket.set_nonblocking(nonblocking).expect("a flag");
    match socket.connect(&to.into()) {
        Ok(()) => assert!(!nonblocking),
        Err(error) => {
            assert_eq!((error.raw_os_error(), nonblocking), (Some(libc::EINPROGRESS), true));
            await_writable(&socket);
        }
    }
    // A gate that has died since it was told ends its connections.
    socket.set_nonblocking(false).expect("a flag");
    let mut said = String::new();
    match BufReader::new(TcpStream::from(socket)).read_line(&mut said) {
        Ok(_) => assert!([&format!("gate {to}\n"), "plain\n", ""].contains(&said.as_str()), "{said:?}"),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

/// The results of many ways to call `connect(2)`, some of which fail. `to` is a service, there is
/// none at the port before it, and no way to [`crate::support::NOWHERE`].
fn errors(to: SocketAddr) -> String {
    let mut refused = to;
    refused.set_port(to.port() - 1);
    let nowhere: SocketAddr = crate::support::NOWHERE.parse().expect("an address");
    let mut said = String::new();
    let mut say = |what: &str, result: io::Result<()>| {
        let result = result.map_err(|error| error.raw_os_error().map(nix::errno::Errno::from_raw));
        said += &format!("{what}: {result:?}\n");
    };
    let connect = |socket: &Socket, to: SocketAddr| socket.connect(&to.into());

    let socket = tcp(Domain::IPV4);
    say("refused", connect(&socket, refused));
    say("refused again", connect(&socket, refused));
    say("no way", connect(&socket, nowhere));
    say("then accepted", connect(&socket, to));
    say("once more", connect(&socket, to));
    say("its peer", socket.peer_addr().map(|peer| assert_eq!(peer.as_socket(), Some(to))));

    let socket = tcp(Domain::IPV4);
    socket.set_nonblocking(true).expect("a flag");
    say("refused, not blocking", connect(&socket, refused));
    await_writable(&socket);
    say("its error", socket.take_error().expect("readable").map_or(Ok(()), Err));
    say("after its error", connect(&socket, refused));
    await_writable(&socket);
    say("with its error", connect(&socket, to));
    say("after that", connect(&socket, to));
    await_writable(&socket);
    say("and that", connect(&socket, to));

    let socket = tcp(Domain::IPV4);
    socket.set_nonblocking(true).expect("a flag");
    say("no way, not blocking", connect(&socket, nowhere));
    say("accepted, not blocking", connect(&socket, to));
    await_writable(&socket);
    say("no error", socket.take_error().expect("readable").map_or(Ok(()), Err));
    say("the second call", connect(&socket, to));
    say("the third call", connect(&socket, to));

    let socket = tcp(Domain::IPV4);
    socket.bind(&SocketAddr::from(([10, 99, 0, 1], 0)).into()).expect("it is this machine's");
    say("from an address", connect(&socket, to));
    let socket = tcp(Domain::IPV4);
    socket.bind(&SocketAddr::from(([0, 0, 0, 0], 0)).into()).expect("a port");
    say("from a port", connect(&socket, to));
    let socket = tcp(Domain::IPV4);
    say("on a device", socket.bind_device(Some(b"lo")).and_then(|()| connect(&socket, to)));
    let socket = tcp(Domain::IPV4);
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::TcpFastOpenConnect, &true).expect("an option");
    say("with fast open", connect(&socket, to));
    say(
        "by MPTCP",
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).and_then(|socket| connect(&socket, to)),
    );
    let listener = Socket::from(TcpListener::bind("0.0.0.0:0").expect("a port"));
    say("a listener", connect(&listener, to));

    say("to IPv6 from IPv4", connect(&tcp(Domain::IPV4), "[fd00::1]:9".parse().expect("an address")));
    say("to IPv4 from IPv6", connect(&tcp(Domain::IPV6), to));
    let socket = tcp(Domain::IPV6);
    socket.set_only_v6(true).expect("an option");
    say("to IPv4 from IPv6 alone", connect(&socket, mapped(to)));
    let socket = tcp(Domain::IPV6);
    socket.set_only_v6(false).expect("an option");
    say("to mapped IPv4", connect(&socket, mapped(to)));

    say("UDP", UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect(to)));
    say("Unix", UnixStream::connect("/no/such/socket").map(drop));
    say("loopback", TcpStream::connect(("127.0.0.1", refused.port())).map(drop));
    say("unspecified", TcpStream::connect(("0.0.0.0", refused.port())).map(drop));
    say("port 0", connect(&tcp(Domain::IPV4), SocketAddr::new(to.ip(), 0)));
    say("multicast", connect(&tcp(Domain::IPV4), "224.0.0.1:9".parse().expect("an address")));
    let file = fs::File::open("/proc/self/stat").expect("it is there");
    say("a file", socket2::SockRef::from(&file).connect(&SockAddr::from(to)));
    say(
        "no descriptor",
        nix::sys::socket::connect(4242, &nix::sys::socket::SockaddrIn::from(v4(to))).map_err(Into::into),
    );
    let short = nix::sys::socket::connect(file.as_raw_fd(), &nix::sys::socket::UnixAddr::new("").expect("an address"));
    say("a short address", short.map_err(Into::into));
    said
}

fn v4(to: SocketAddr) -> std::net::SocketAddrV4 {
    let SocketAddr::V4(v4) = to else { panic!("{to} is not of IPv4") };
    v4
}
