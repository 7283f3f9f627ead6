//! `run --stripe`: the connections of a program through the gate, and its exit and signals as
//! without.

use super::{Gates, ended};
use crate::util::{rails_bench, text};
use nix::sys::signal::Signal;
use rails_lab::{LinkLab, Shape, Side};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A command beside one rail of loopback, for which no gate is there.
fn striped<'a>(flags: &[&'a str], words: &[&'a str]) -> Command {
    let gate = ["--gate", "/nonexistent/gate.sock"];
    rails_bench([&["run", "--stripe", "--rails", "loopback:1"], &gate[..], flags, &["--"], words].concat())
}

#[test]
fn the_exit_is_the_programs() {
    let script = |script: &str| striped(&["-q"], &["sh", "-c", script]);
    let (code, out, said) = ended(&script("echo out; exit 7").output().unwrap());
    assert_eq!((code, out.as_str(), said.as_str()), (Some(7), "out\n", ""));
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("PIPE", 13)] {
        let output = script(&format!("kill -{name} $$")).output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "{name}");
    }
    // Its processes that go on do not hold it up, and can connect.
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let later = format!("(sleep 1; echo x > /dev/tcp/127.0.0.1/$0; touch {}) >&- 2>&- & exit 3", text(&done));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    assert_eq!(striped(&["-q"], &["bash", "-c", &later, &port]).status().unwrap().code(), Some(3));
    let mut said = String::new();
    listener.accept().unwrap().0.read_to_string(&mut said).unwrap();
    assert_eq!(said, "x\n", "the keeper lets it go on");
    for (program, code) in [("/no/such/program", 127), ("/", 126)] {
        assert_eq!(striped(&[], &[program]).output().unwrap().status.code(), Some(code), "{program}");
    }
}

#[test]
fn signals_go_to_the_program() {
    for what in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
        let name = &what.as_str()["SIG".len()..];
        let told = format!("trap 'echo got it; exit 9' {name}; kill -{name} $PPID; while :; do sleep 0.01; done");
        let (code, out, said) = ended(&striped(&["-q"], &["sh", "-c", &told]).output().unwrap());
        assert_eq!((code, out.as_str()), (Some(9), "got it\n"), "{name}: {said}");
    }
}

#[test]
fn the_limit_on_descriptors_is_the_callers() {
    let door = striped(&["-q"], &["sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    let mut command = Command::new("prlimit");
    command.arg("--nofile=300:2000").arg(door.get_program()).args(door.get_args());
    let (code, out, said) = ended(&command.output().unwrap());
    assert_eq!((code, out.as_str()), (Some(0), "300\n2000\n"), "{said}");
}

/// Has connections wait for a gate that a busy machine does not run at once.
const PATIENT: &[&str] = &["--gate-within", "20s"];

/// Connects by many threads at once, and counts those that got their word.
const CROWD: &str = "
import socket, sys, threading
host, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
heard, all_there = [], threading.Barrier(number)
def one():
    all_there.wait()
    s = socket.create_connection((host, port), 60)
    s.sendall(b'x')
    heard.append(s.recv(1))
threads = [threading.Thread(target=one) for _ in range(number)]
[t.start() for t in threads]
[t.join() for t in threads]
assert heard == [b'x'] * number, heard
";

#[test]
#[ignore = "needs root, `ip` and `tc`"]
fn netns_a_crowd_goes_through_the_gate() {
    let lab = LinkLab::builder().links([Shape::Unshaped, Shape::Unshaped]).build().unwrap();
    let gates = Gates::of_lab(&lab);
    let address = lab.address(Side::B, 0).to_string();
    let listener = {
        let _inside = lab.enter(Side::B).unwrap();
        TcpListener::bind((lab.address(Side::B, 0), 0)).unwrap()
    };
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    let json = gates.folder.path().join("out.json");
    let profile = gates.folder.path().join("profile.toml");
    fs::write(&profile, format!("stripe = true\nquiet = true\njson = '{}'\n", text(&json))).unwrap();
    let run = |limit: &str, within: &[&str], number: &str| {
        let mut command = lab.side(Side::A).command("prlimit");
        command.arg(limit).arg(assert_cmd::cargo::cargo_bin("rails-bench"));
        command.args(["run", "--profile", text(&profile), "--rails", "loopback:1", "--gate", text(&gates.socket())]);
        command.args(within).args(["--", "python3", "-c", CROWD, &address, &port, number]);
        let (code, _, said) = ended(&command.output().unwrap());
        assert_eq!(code, Some(0), "{said}");
        let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        report["connections"].clone()
    };
    // Each that waits takes descriptors of `run`, which may raise its limit.
    let counted = run("--nofile=700:", PATIENT, "500");
    assert_eq!(counted, serde_json::json!({ "through": { "far": 500 }, "plain": [] }));
    // A gate that is stopped: each waits for a moment, and all at once.
    gates.near.signal(Signal::SIGSTOP);
    let began = Instant::now();
    let counted = run("--nofile=700:", &[], "100");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(counted["plain"][0]["count"], 100, "{counted}");
    gates.near.signal(Signal::SIGCONT);
}

/// A gate that dies resets the connections of programs: half an answer is no answer.
#[test]
#[ignore = "needs root, `ip` and `tc`"]
fn netns_a_dead_gate_resets_and_leaves_others_plain() {
    let lab = LinkLab::builder().links([Shape::Unshaped, Shape::Unshaped]).build().unwrap();
    let gates = Gates::of_lab(&lab);
    let listener = {
        let _inside = lab.enter(Side::B).unwrap();
        TcpListener::bind((lab.address(Side::B, 0), 0)).unwrap()
    };
    let port = listener.local_addr().unwrap().port().to_string();
    let program = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(s.recv(4).decode(), flush=True)
try:
    print(s.recv(4))
except ConnectionResetError:
    print('reset')
print(socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(5).decode())
";
    let mut command = lab.side(Side::A).command(assert_cmd::cargo::cargo_bin("rails-bench"));
    command.args(["run", "-q", "--stripe", "--rails", "loopback:1", "--gate", text(&gates.socket())]);
    command.args(PATIENT).args(["--", "python3", "-c", program, &lab.address(Side::B, 0).to_string(), &port]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut first, _) = listener.accept().unwrap();
    first.write_all(b"half").unwrap();
    gates.wait_until("bytes", |status| status["connections"][0]["received_bytes"] == 4);
    gates.near.signal(Signal::SIGKILL);
    let (mut second, _) = listener.accept().unwrap();
    second.write_all(b"plain").unwrap();
    let (code, out, said) = ended(&child.wait_with_output().unwrap());
    assert_eq!((code, out.as_str()), (Some(0), "half\nreset\nplain\n"), "{said}");
    assert!(said.contains("no gate answers on this host"), "{said}");
}
