//! `forward`: clients that wait, vanish or reset hold up no others.

use super::{Gates, Running};
use crate::util::{pattern, rails_bench};
use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::Duration,
};

/// A service that answers each connection by all that it says.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                std::io::copy(&mut &stream, &mut &stream).and_then(|_| stream.shutdown(Shutdown::Write))
            });
        }
    });
    address
}

/// A plain forward to a service, with so many descriptors.
fn plain(service: SocketAddr, descriptors: &str) -> (Running, SocketAddr) {
    let forward = rails_bench(["forward", &format!("0={service}"), "--gate", "/nonexistent/gate.sock"]);
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={descriptors}")).arg(forward.get_program()).args(forward.get_args());
    started(command)
}

fn started(command: Command) -> (Running, SocketAddr) {
    let running = Running::start(command);
    let line = running.wait_for("listening on ");
    let address = line.split(' ').nth(2).unwrap().parse().unwrap();
    (running, address)
}

fn echoed(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(bytes).and_then(|()| writer.shutdown(Shutdown::Write)));
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back
    })
}

#[test]
fn idle_plain_connections_hold_up_no_others() {
    let (_forward, at) = plain(echo(), "4096");
    let connect = || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    };
    // More than may be asked for at a time.
    let idle: Vec<TcpStream> = (0..700).map(|_| connect()).collect();
    let bytes = pattern(1 << 20, 2);
    assert!(echoed(at, &bytes) == bytes);
    drop(idle);
}

#[test]
fn a_plain_connection_beyond_the_room_is_reset() {
    let (forward, at) = plain(echo(), "128");
    let mut kept = Vec::new();
    let refused = loop {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        match stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0])) {
            Ok(()) => kept.push(stream),
            Err(error) => break error.kind(),
        }
        assert!(kept.len() < 128, "each takes descriptors");
    };
    assert!(matches!(refused, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{refused}");
    forward.wait_for_words("as many plain connections as its limit on open files allows");
    // One that ends makes room.
    drop(kept);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let mut stream = TcpStream::connect(at).unwrap();
        if stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0])).is_ok() {
            break;
        }
        assert!(std::time::Instant::now() < until, "there is room");
    }
}

#[test]
fn resets_and_ends_pass_plain_and_through_the_gates() {
    let gates = Gates::start();
    for is_plain in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = listener.local_addr().unwrap();
        let (_forward, at) = match is_plain {
            true => plain(service, "1024"),
            false => started(gates.door(["forward", &format!("0={service}")])),
        };
        let reset = |stream: TcpStream| {
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        };
        let both = || {
            let mut client = TcpStream::connect(at).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.write_all(b"ask").unwrap();
            server.read_exact(&mut [0; 3]).unwrap();
            (client, server)
        };
        let (mut client, server) = both();
        reset(server);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        let (client, mut server) = both();
        reset(client);
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        let (mut client, mut server) = both();
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        client.write_all(b"more").unwrap();
        drop(client);
        let mut rest = String::new();
        server.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "more");
    }
}
