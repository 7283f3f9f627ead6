//! `gate`: its policy, checked and read again, its service manager, and its end.

use super::{Gates, Running, ended};
use crate::util::{Manager, rails_bench, run, text};
use nix::sys::signal::Signal;
use std::{
    fs,
    net::TcpListener,
    process::Stdio,
    time::{Duration, Instant},
};

#[test]
fn a_policy_is_checked() {
    let gates = Gates::start();
    let policy = gates.policy();
    let output = run(["gate", "--check", "--policy", text(&policy)]);
    let (code, out, said) = ended(&output);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("1 peer; the policy and what it names can be read"), "{out}");
    let missing = gates.folder.path().join("no.toml");
    for (text_of, words) in [
        ("listen = 3", "listen"),
        ("[[peer]]\nname = 'a'\ndial = ['127.0.0.1:1']\nsecret_file = '/nonexistent'", "/nonexistent"),
    ] {
        fs::write(&policy, text_of).unwrap();
        let (code, _, said) = ended(&run(["gate", "--check", "--policy", text(&policy)]));
        assert!(
            code.is_some_and(|code| code > 0) && said.contains("error: ") && said.contains(words),
            "{code:?} {said}"
        );
    }
    assert_eq!(run(["gate", "--check", "--policy", text(&missing)]).status.code(), Some(1));
}

#[test]
fn a_wrong_policy_leaves_the_former_one() {
    let gates = Gates::start();
    let policy = gates.policy();
    let right = fs::read_to_string(&policy).unwrap();
    fs::write(&policy, "peers = 3").unwrap();
    gates.near.signal(Signal::SIGHUP);
    gates.near.wait_for_words("the gate goes on with the policy of before");
    assert_eq!(gates.status()["peers"][0]["sessions"], 1);

    fs::write(
        &policy,
        right.replace("near.sock", "other.sock").replacen("socket", "listen = ['127.0.0.3:0']\nsocket", 1),
    )
    .unwrap();
    gates.near.signal(Signal::SIGHUP);
    gates.near.wait_for_words("is in place");
    let line = gates.near.wait_for("warning: ");
    assert!(line.contains("listen, socket: as before until the gate is started anew"), "{line}");
    assert_eq!(gates.status()["peers"][0]["sessions"], 1, "the socket is that of before");

    // Each of many is taken, or the next one is.
    fs::write(&policy, &right).unwrap();
    for _ in 0..100 {
        gates.near.signal(Signal::SIGHUP);
    }
    gates.near.wait_for_words("is in place");
    assert_eq!(gates.status()["peers"][0]["sessions"], 1);
}

#[test]
fn the_service_manager_is_told_and_sigterm_ends_it() {
    let gates = Gates::start();
    let manager = Manager::start();
    let policy = fs::read_to_string(gates.policy()).unwrap().replace("near.sock", "third.sock");
    let third = gates.folder.path().join("third.toml");
    fs::write(&third, policy).unwrap();
    let mut command = rails_bench(["gate", "--policy", text(&third)]);
    command.env("NOTIFY_SOCKET", manager.socket());
    let gate = Running::start(command);
    assert_eq!(manager.hears(), "READY=1");
    gate.signal(Signal::SIGTERM);
    assert_eq!(manager.hears(), "STOPPING=1");

    // Also with connections.
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port().to_string();
    let mut pipe = gates.door(["pipe", "127.0.0.1", &port]);
    let mut pipe = pipe.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let _connection = service.accept().unwrap();
    gates.wait_until("a connection", |status| status["connections"][0]["active"] == 1);
    let Gates { mut near, far: _far, folder: _folder } = gates;
    let began = Instant::now();
    near.signal(Signal::SIGTERM);
    assert_eq!(near.child.wait().unwrap().code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(pipe.wait().unwrap().code(), Some(1), "a reset");
}
