//! The end of a redirect, and connections that end early.

use crate::{
    ground::{Ground, heard, lines, net, run, service},
    parts::READY,
};
use rails_divert::redirect::Redirect;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
};

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_plain_connections_after_a_killed_carrier() {
    let ground = Ground::new();
    let address = service("10.99.0.2:0");
    let mut carrier = ground.part("carrier").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(carrier.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains(READY)), "it redirects");

    let connect = format!("print(heard(create_connection(('{}', {}))))", address.ip(), address.port());
    assert_eq!(ground.cgroup.python(&connect), [format!("through {address}")]);
    // `Child::kill` is SIGKILL.
    carrier.kill().unwrap();
    carrier.wait().unwrap();
    assert_eq!(ground.cgroup.python(&connect), ["plain"]);
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_plain_connections_after_a_dropped_redirect() {
    let ground = Ground::new();
    let address = service("[fd00:99::2]:0");
    let redirect = ground.answered(&[net("fd00:99::/64")]);
    let connect = format!("print(heard(create_connection(('{}', {}))))", address.ip(), address.port());
    assert_eq!(ground.cgroup.python(&connect), [format!("through {address}")]);
    drop(redirect);
    assert_eq!(ground.cgroup.python(&connect), ["plain"]);
}

/// A Python program in the cgroup that is told what to do next by lines.
struct Program {
    child: Child,
    said: io::Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// The program has `print`ed a line when this returns, which is then its answer.
    fn start(ground: &Ground, text: &str) -> (Self, String) {
        let mut command = ground.cgroup.command("python3");
        command.args(["-uc", &format!("from socket import *\nimport struct, sys\n{text}")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut program = Self { child, said };
        let line = program.next();
        (program, line)
    }

    fn next(&mut self) -> String {
        self.said.next().expect("it says a line").unwrap()
    }

    /// Ends its standard input, and waits for its end.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// A program that resets a connection before it is accepted leaves nothing behind: neither a
/// connection, nor its destination for a stranger at the same port.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_reset_connection_is_not_handed_out() {
    reset_connection_is_not_handed_out();
}

pub(crate) fn reset_connection_is_not_handed_out() {
    let ground = Ground::new();
    let redirect = Redirect::install(&ground.cgroup.folder, &[net("192.0.2.0/24")], &[]).unwrap();
    let (program, ports) = Program::start(
        &ground,
        "
s = create_connection(('192.0.2.1', 1))
port = s.getsockname()[1]
s.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack('ii', 1, 0))
s.close()
t = create_connection(('192.0.2.2', 2))
print(port)
sys.stdin.read()
",
    );
    let (stream, destination) = redirect.accept().unwrap();
    assert_eq!(destination, "192.0.2.2:2".parse().unwrap(), "the first one was reset");
    assert_eq!(redirect.try_accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);

    // This test is outside the cgroup, so what it connects to the listener was not diverted.
    let listener = stream.local_addr().unwrap();
    let own: SocketAddr = format!("127.0.0.1:{ports}").parse().unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&own.into()).unwrap();
    socket.connect(&listener.into()).unwrap();
    let strangers = [TcpStream::from(socket), TcpStream::connect(listener).unwrap()];
    assert_eq!(redirect.try_accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    for mut stranger in strangers {
        assert_eq!(stranger.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
    program.end();
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_connection_that_was_closed_is_handed_out_with_its_bytes() {
    let ground = Ground::new();
    let redirect = Redirect::install(&ground.cgroup.folder, &[net("192.0.2.0/24")], &[]).unwrap();
    let client = "s = create_connection(('192.0.2.1', 1)); s.sendall(b'last words'); s.close()";
    assert_eq!(ground.cgroup.python(client), [""; 0]);
    let (mut stream, destination) = redirect.accept().unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), destination), ("last words", "192.0.2.1:1".parse().unwrap()));
}

/// Without networks, a connection that is there keeps its name; without the redirect, it goes on.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_accepted_connection_outlives_the_redirect() {
    accepted_connection_outlives_the_redirect();
}

pub(crate) fn accepted_connection_outlives_the_redirect() {
    let ground = Ground::new();
    let redirect = Redirect::install(&ground.cgroup.folder, &[net("192.0.2.0/24")], &[]).unwrap();
    let (mut program, ready) = Program::start(
        &ground,
        "
s = create_connection(('192.0.2.1', 1))
print('connected')
for line in sys.stdin:
    print(s.getpeername()[0])
print(s.recv(100).decode())
",
    );
    assert_eq!(ready, "connected");
    let (mut stream, _) = redirect.accept().unwrap();
    let mut name = || {
        writeln!(program.child.stdin.as_mut().unwrap()).unwrap();
        program.next()
    };
    assert_eq!(name(), "192.0.2.1");
    redirect.set_networks(&[]).unwrap();
    assert_eq!(name(), "192.0.2.1");
    drop(redirect);
    assert_eq!(name(), "127.0.0.1");
    stream.write_all(b"on and on").unwrap();
    drop(program.child.stdin.take());
    assert_eq!(program.next(), "on and on");
    program.end();
}

/// A process is not redirected by a cgroup that it was never in.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_carriers_own_connection_is_plain() {
    let ground = Ground::new();
    let address = service("10.99.0.2:0");
    let _redirect = ground.answered(&[net("10.99.0.0/16")]);
    assert_eq!(heard(TcpStream::connect(address).unwrap()), "plain");
    let curl = lines(run(Command::new("curl").args(["-s", "--http0.9", &format!("http://{address}/")])));
    assert_eq!(curl, ["plain"]);
}
