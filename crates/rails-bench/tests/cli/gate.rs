//! `gate` and its doors on machines that refuse, stop and lack things.

use crate::util::{finish, interrupt, rails_bench, run, secret, signal, start, stderr, stdout, text, wait_for};
use nix::sys::signal::Signal;
use rails_lab::Sandbox;
use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    thread,
};

/// A user whom no system has.
const UNUSED: u32 = 3_650_000_059;

/// A policy with a peer that is not there.
fn policy(folder: &Path) -> PathBuf {
    let secret = secret(folder, "a secret of many bytes");
    let file = folder.join("gate.toml");
    let peer = format!("name = \"beta\"\nsecret_file = {secret:?}\nnetworks = [\"192.0.2.7:80\"]\n");
    fs::write(&file, format!("listen = [\"127.0.0.1:0\"]\n[[peer]]\n{peer}")).unwrap();
    file
}

/// A service that answers each connection with its own bytes.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    port
}

#[test]
fn a_gate_listens_for_doors_where_the_flag_says() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, socket) = (policy(folder.path()), folder.path().join("mine/gate.sock"));
    let (gate, lines) = start(rails_bench(["gate", "--policy", text(&policy), "--gate", text(&socket)]));
    wait_for(&lines, "listening on 127.0.0.1:");
    let output = run(["gate", "--status", "--gate", text(&socket)]);
    assert!(output.status.success() && stdout(&output).contains("beta"), "{}", stderr(&output));

    let second = run(["gate", "--policy", text(&policy), "--gate", text(&socket)]);
    let said = stderr(&second);
    assert!(said.contains("another gate listens at") && said.contains("help: `rails-bench gate --status`"), "{said}");

    // A gate that is stopped takes no question: doors go plain, and say the true cause.
    signal(gate.id(), Signal::SIGSTOP);
    let output = run(["pipe", "--gate", text(&socket), "127.0.0.1", &echo().to_string()]);
    let said = stderr(&output);
    signal(gate.id(), Signal::SIGCONT);
    assert!(output.status.success() && said.contains("because no gate answers on this host"), "{said}");
    interrupt(gate.id());
    finish(gate, &lines);
    assert!(!socket.exists(), "a gate that ends takes its socket with it");
}

#[test]
fn a_gate_that_cannot_begin_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let policy = policy(folder.path());
    let output = run(["gate", "--policy", text(&policy), "--gate", "/proc/no/gate.sock"]);
    let said = stderr(&output);
    assert!(
        said.contains("/proc/no/gate.sock") && said.contains("help: `--gate`, or `socket` in the policy"),
        "{said}"
    );

    fs::remove_file(secret(folder.path(), "a secret of many bytes")).unwrap();
    let said = stderr(&run(["gate", "--policy", text(&policy), "--check"]));
    assert!(said.contains("peer.beta.secret_file") && !said.contains("--secret-file"), "{said}");
}

#[test]
fn ports_that_cannot_be_had_have_remedies() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("{}=127.0.0.1:1", taken.local_addr().unwrap());
    for (forward, help) in [(&*taken, "`ss -ltn`"), ("192.0.2.1:7=127.0.0.1:1", "`rails-bench topo`")] {
        let output = run(["forward", forward]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(1) && said.contains(&format!("help: {help}")), "{said}");
    }
    let output = run(["forward", "0=127.0.0.1:0"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("`0` is no port"), "{}", stderr(&output));
}

#[test]
fn connections_beyond_the_descriptors_wait() {
    let forward = format!("0=127.0.0.1:{}", echo());
    let command = rails_bench(["forward", "--gate", "/nonexistent/gate.sock", &forward]);
    let mut child = Sandbox::new().max_descriptors(24).spawn(&command);
    let lines = crate::util::watch_stderr(&mut child);
    let listening = wait_for(&lines, "listening on ");
    let local = listening.split_whitespace().nth(2).unwrap().to_owned();
    let callers: Vec<_> = (0..40_u8)
        .map(|number| {
            let local = local.clone();
            thread::spawn(move || {
                let mut stream = TcpStream::connect(local).unwrap();
                stream.write_all(&[number]).unwrap();
                let mut answer = [0];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(answer, [number]);
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    interrupt(child.id());
    let (_, _, said) = finish(child, &lines);
    assert!(!said.contains("Too many open files"), "{said}");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_a_gate_that_is_not_for_this_user_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("gate.sock");
    let _gate = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
    let stranger = |args: &[&str]| {
        let command = rails_bench(args.iter().copied().chain(["--gate", text(&socket)]));
        Sandbox::new().user(UNUSED).output(&command)
    };
    let said = stderr(&stranger(&["gate", "--status"]));
    assert!(said.contains("`socket_mode` and `socket_group`"), "{said}");
    // The files of a program that has ended are root's.
    let said = stderr(&stranger(&["run", "-q", "--stripe", "--", "true"]));
    assert!(!said.contains("sockets can be seen"), "{said}");
    let said = stderr(&stranger(&["pipe", "127.0.0.1", &echo().to_string()]));
    assert!(said.contains("because this user may not write to the gate's socket"), "{said}");
}

#[test]
#[ignore = "needs root: it hides files in a mount namespace"]
fn netns_a_hidden_proc_leaves_connections_plain() {
    let command = rails_bench(["run", "-q", "--stripe", "--", "true"]);
    let output = Sandbox::new().hide("/proc").output(&command);
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("--stripe: all connections are plain"), "{said}");
}
