//! `pipe`: standard streams to a service, byte for byte and end for end, through the gates and
//! plain.

use super::{Gates, ended};
use crate::util::{pattern, rails_bench};
use nix::sys::signal::Signal;
use std::{
    fs::File,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A service that takes one connection.
struct Service<T> {
    port: String,
    thread: JoinHandle<T>,
}

fn service<T: Send + 'static>(work: impl FnOnce(TcpStream) -> T + Send + 'static) -> Service<T> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    Service { port, thread: thread::spawn(move || work(listener.accept().unwrap().0)) }
}

/// Resets a connection.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A command that is plain, for there is no gate, or that goes through one.
fn pipe(gates: Option<&Gates>, port: &str) -> Command {
    let args = ["pipe", "127.0.0.1", port];
    match gates {
        Some(gates) => gates.door(args),
        None => rails_bench(args.into_iter().chain(["--gate", "/nonexistent/gate.sock"])),
    }
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Each way.
fn ways(test: impl Fn(Option<&Gates>)) {
    test(None);
    let gates = Gates::start();
    test(Some(&gates));
    let carried = gates.status()["connections"][0]["opened"].as_u64();
    assert!(carried.is_some_and(|carried| carried > 0), "the gates carried nothing: {}", gates.status());
}

#[test]
fn bytes_and_ends_pass_in_both_directions() {
    ways(|gates| {
        // The service answers when it has the end, so one direction is ended while the other goes on.
        let service = service(|mut stream| {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        let bytes = pattern(3 << 20, 1);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, &bytes).unwrap();
        let output = pipe(gates, &service.port).stdin(File::open(file).unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
        service.thread.join().unwrap();
    });
}

#[test]
fn a_service_that_ends_first_still_gets_all() {
    ways(|gates| {
        let service = service(|mut stream| {
            stream.write_all(b"welcome").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let mut child = start(pipe(gates, &service.port));
        let mut said = String::new();
        child.stdout.as_mut().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "welcome", "and then the end, while the input goes on");
        child.stdin.take().unwrap().write_all(b"thanks").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(service.thread.join().unwrap(), b"thanks");
    });
}

#[test]
fn a_reset_is_an_error_and_no_end() {
    ways(|gates| {
        let service = service(|mut stream| {
            stream.write_all(b"half").unwrap();
            stream.read_exact(&mut [0; 4]).unwrap();
            reset(stream);
        });
        let mut child = start(pipe(gates, &service.port));
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
        child.stdin.as_mut().unwrap().write_all(b"more").unwrap();
        let input = child.stdin.take();
        let (code, _, said) = ended(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the connection was lost"), "{said}");
        drop(input);
        service.thread.join().unwrap();
    });
}

#[test]
fn a_gate_that_dies_resets_both_ends() {
    for (what, which) in [(Signal::SIGKILL, 0), (Signal::SIGTERM, 0), (Signal::SIGKILL, 1), (Signal::SIGTERM, 1)] {
        let gates = Gates::start();
        let service = service(|mut stream| {
            stream.write_all(b"half").unwrap();
            let mut bytes = Vec::new();
            (stream.read_to_end(&mut bytes).map_err(|error| error.kind()), bytes)
        });
        let mut child = start(pipe(Some(&gates), &service.port));
        child.stdin.as_mut().unwrap().write_all(b"half").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
        gates.wait_until("byte at the service", |status| status["connections"][0]["sent_bytes"] == 4);
        [&gates.near, &gates.far][which].signal(what);
        if which == 1 {
            // The session waits for the other gate, and not for ever.
            gates.near.signal(what);
        }
        let input = child.stdin.take();
        let (code, _, said) = ended(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{what}: half an answer is no answer: {said}");
        drop(input);
        if which == 1 {
            let (end, _) = service.thread.join().unwrap();
            assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset), "{what}: half a question is no question");
        }
    }
}

#[test]
fn input_that_cannot_be_read_is_an_error_at_both_ends() {
    ways(|gates| {
        let service = service(|mut stream| stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind()));
        let output = pipe(gates, &service.port).stdin(File::open("/").unwrap()).output().unwrap();
        let (code, _, said) = ended(&output);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("cannot copy standard input") && said.contains("directory"), "{said}");
        let end = service.thread.join().unwrap();
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset), "no input is not an empty one");
    });
}

#[test]
fn closed_streams_are_empty_ones() {
    ways(|gates| {
        let service = service(|mut stream| {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            stream.write_all(b"unread").unwrap();
            bytes
        });
        let mut command = Command::new("sh");
        let door = pipe(gates, &service.port);
        command.args(["-c", "exec \"$0\" \"$@\" <&- >&-"]).arg(door.get_program()).args(door.get_args());
        command.envs(door.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (code, _, said) = ended(&command.output().unwrap());
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(service.thread.join().unwrap(), b"");
    });
}

#[test]
fn a_reader_that_goes_away_ends_it_as_other_programs() {
    ways(|gates| {
        let service = service(|mut stream| {
            let block = [7; 1 << 16];
            while stream.write_all(&block).is_ok() {}
        });
        let mut child = start(pipe(gates, &service.port));
        let input = child.stdin.take();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 1000]).unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGPIPE as i32));
        drop(input);
        service.thread.join().unwrap();
    });
}

#[test]
fn a_refusal_is_that_of_the_plain_network() {
    ways(|gates| {
        if let Some(gates) = gates {
            // One that is carried.
            let service = service(drop);
            assert_eq!(pipe(Some(gates), &service.port).status().unwrap().code(), Some(0));
        }
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let (code, _, said) = ended(&pipe(gates, &closed).output().unwrap());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("Connection refused") && said.contains("help: "), "{said}");
    });
}

/// Standard streams that are sockets, as a proxy command's are; and SIGTERM while both wait.
#[test]
fn sockets_are_streams_and_sigterm_ends_it() {
    ways(|gates| {
        let service = service(|mut stream| {
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
            let _ = stream.read(&mut [0]);
        });
        let (mut own, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let copy = theirs.try_clone().unwrap();
        let mut command = pipe(gates, &service.port);
        command.stdin(std::os::fd::OwnedFd::from(theirs)).stdout(std::os::fd::OwnedFd::from(copy));
        let mut child = command.spawn().unwrap();
        drop(command);
        own.write_all(b"hello").unwrap();
        let mut back = [0; 5];
        own.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"hello");
        crate::util::signal(child.id(), Signal::SIGTERM);
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        service.thread.join().unwrap();
    });
}
