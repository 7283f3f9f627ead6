//! Commands that are pointed at each other: the right ones work, the wrong ones part with words,
//! and several callers are served at a time.

use crate::util::{Receiver, finish_within, pattern, rails_bench, run, signal, start, stderr, stdout, text, wait_for};
use nix::sys::signal::Signal;
use rails_multirail::{
    MultiRailListener, MultiRailSession, MultiRailStream, RailRequest, Rails, Security, StreamOptions, plan_rails,
};
use rails_topo::Topology;
use serde_json::Value;
use std::{fs, net::TcpStream, process::Child, sync::mpsc, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn one_server_does_what_each_caller_wants() {
    let (serving, lines, to) = serve(&["--json"]);
    for call in [
        &["--bytes", "1MiB"][..],
        &["--bytes", "1MiB", "--plain"],
        &["--bytes", "1MiB", "--mptcp"],
        &["--bytes", "1MiB", "--check", "--samples", "1ms"],
        &["--ping", "64", "--round-trips", "10"],
        &["--ping", "64,1KiB", "--round-trips", "10", "--messages"],
        &["--ping", "64", "--round-trips", "10", "--plain"],
        &["--ping", "64", "--round-trips", "10", "--mptcp"],
    ] {
        let called = run(["stream", "--insecure", "--to", &to].iter().chain(call).copied());
        assert_eq!(called.status.code(), Some(0), "{call:?}: {}", stderr(&called));
    }
    let probed = run(["probe", "--insecure", "--max-rate", "12mbit", "--to", &to]);
    assert_eq!(probed.status.code(), Some(0), "{}", stderr(&probed));
    signal(serving.id(), Signal::SIGTERM);
    let (code, out, said) = finish_within(serving, &lines, PROMPT);
    assert_eq!(code, 143, "{said}");
    let measured: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bytes: Vec<u64> = measured.iter().map(|one| one["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [1 << 20; 4], "{out}");
    let with_series: Vec<bool> = measured.iter().map(|one| one["series"].is_object()).collect();
    assert_eq!(with_series, [false, false, false, true], "the callers that wanted one");
    assert_eq!(said.matches("answered ").count(), 4, "{said}");
}

#[test]
fn commands_that_do_not_fit_part_with_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "a few bytes").unwrap();
    let (serving, lines, to) = serve(&["--once"]);
    let sent = run(["send", text(&file), "--insecure", "--to", &to]);
    check_misfit(&stderr(&sent), "serve", "send", sent.status.code());
    let told = wait_for(&lines, "error: ") + &wait_for(&lines, "help: ");
    assert!(told.contains("the peer is `rails-bench send`, and this is `rails-bench serve`"), "{told}");
    // The misfit was not the one caller.
    let right = run(["stream", "--insecure", "--bytes", "1MiB", "--to", &to]);
    assert_eq!(right.status.code(), Some(0), "{}", stderr(&right));
    assert_eq!(finish_within(serving, &lines, PROMPT).0, 0);

    let receiver = Receiver::start(&folder.path().join("inbox"), ["--insecure", "--once"]);
    for (call, name) in [
        (&["stream"][..], "stream"),
        (&["stream", "--plain"], "stream"),
        (&["stream", "--ping", "64"], "stream --ping"),
    ] {
        let called = run(call.iter().copied().chain(["--insecure", "--to", &receiver.addresses]));
        check_misfit(&stderr(&called), "recv", name, called.status.code());
    }
    let first = receiver.addresses.split(',').next().unwrap();
    let probed = run(["probe", "--insecure", "--max-rate", "12mbit", "--to", first]);
    check_misfit(&stderr(&probed), "recv", "probe", probed.status.code());
    let sent = run(["send", text(&file), "--insecure", "--to", &receiver.addresses]);
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    assert_eq!(receiver.finish().0, 0);
}

fn check_misfit(said: &str, theirs: &str, ours: &str, code: Option<i32>) {
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("the peer is `rails-bench {theirs}`, and this is `rails-bench {ours}`")), "{said}");
    assert!(said.contains("belong together"), "{said}");
}

#[test]
fn peers_that_are_something_else_hold_nobody_up() {
    let (serving, lines, to) = serve(&[]);
    runtime().block_on(async {
        let rails = rails();
        // One says nothing, one says something else, and one opens a stream where a session is due.
        let mute = MultiRailSession::connect(&rails, to.as_str(), &options()).await.unwrap();
        let foreign = MultiRailSession::connect(&rails, to.as_str(), &options()).await.unwrap();
        let (mut words, _answer) = foreign.open_bi().await.unwrap();
        words.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut stream = MultiRailStream::connect(&rails, to.as_str(), &options()).await.unwrap();
        stream.write_all(b"BENCH-TO\x01\x00M").await.unwrap();
        let _connection = TcpStream::connect(&to).unwrap();
        let called = run(["stream", "--bytes", "1MiB", "--insecure", "--to", &to]);
        assert_eq!(called.status.code(), Some(0), "{}", stderr(&called));
        assert_eq!(foreign.closed().await.to_string(), "the peer closed the session with code 2: refused");
        assert!(stream.read_u8().await.is_err(), "it was reset");
        let ended = mute.closed().await.to_string();
        assert_eq!(ended, "the peer closed the session with code 4: nothing was said for too long");
    });
    signal(serving.id(), Signal::SIGTERM);
    let (code, _, said) = finish_within(serving, &lines, PROMPT);
    assert_eq!(code, 143, "{said}");
    for fault in [
        "error: the peer is not rails-bench: it does not begin with a greeting",
        "error: the peer is not rails-bench, or an older one: it opened a stream",
        "error: the peer has said nothing for 10 s",
    ] {
        assert!(said.contains(fault), "{fault} is not in:\n{said}");
    }
}

#[test]
fn a_listener_that_is_something_else_is_named() {
    runtime().block_on(async {
        let rails = rails();
        let listener = MultiRailListener::bind(&rails, "127.0.0.1:0", &options()).await.unwrap();
        let to = listener.local_addrs()[0].to_string();
        let (child, lines) = start(rails_bench(["stream", "--insecure", "--to", &to]));
        let session = listener.accept_session().await.unwrap();
        let (mut answer, mut asked) = session.accept_bi().await.unwrap();
        let mut greeting = [0; 10];
        asked.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"BENCH-TO\x04\x00");
        answer.write_all(b"BENCH-TO\x09\x00").await.unwrap();
        let (code, _, said) = finish_within(child, &lines, PROMPT);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("the peer speaks version 9 of rails-bench's conversation"), "{said}");
        let (child, lines) = start(rails_bench(["stream", "--insecure", "--to", &to]));
        let _mute = listener.accept_session().await.unwrap();
        let (code, _, said) = finish_within(child, &lines, Duration::from_secs(30));
        assert!(code == 1 && said.contains("the peer has said nothing for 10 s"), "{said}");
    });
}

/// A caller that is stopped keeps its place until another waits for it.
#[test]
fn a_caller_that_stands_still_gives_way() {
    let (serving, lines, to) = serve(&["--once", "--idle-timeout", "1"]);
    let (still, said) = start(rails_bench(["stream", "--insecure", "--explain", "--to", &to, "--seconds", "600"]));
    wait_for(&said, HAS_BEGUN);
    let (next, heard) = start(rails_bench(["stream", "--insecure", "--bytes", "1MiB", "--to", &to]));
    wait_for(&heard, "waiting: the peer is busy with others");
    signal(still.id(), Signal::SIGSTOP);
    assert_eq!(finish_within(next, &heard, PROMPT).0, 0);
    let (code, _, told) = finish_within(serving, &lines, PROMPT);
    assert!(code == 0 && told.contains("for 1 s, and it gave way to another"), "{told}");
    signal(still.id(), Signal::SIGCONT);
    // The server has left meanwhile, and its reset may have overtaken its words.
    assert_eq!(finish_within(still, &said, PROMPT).0, 1);
}

#[test]
fn several_callers_are_served_at_a_time_and_know_it() {
    let (serving, lines, to) = serve(&["--json"]);
    let long = start(rails_bench(["stream", "--insecure", "--explain", "--to", &to, "--seconds", "600"]));
    wait_for(&long.1, HAS_BEGUN);
    let beside = run(["stream", "--insecure", "--json", "--bytes", "1MiB", "--to", &to]);
    assert_eq!(beside.status.code(), Some(0), "{}", stderr(&beside));
    let beside: Value = serde_json::from_str(&stdout(&beside)).unwrap();
    assert_eq!(beside["served_beside"], 1);
    let told = stdout(&run(["stream", "--insecure", "--bytes", "1MiB", "--plain", "--to", &to]));
    assert!(told.contains("not alone: the receiver served another caller meanwhile"), "{told}");
    signal(serving.id(), Signal::SIGTERM);
    assert_eq!(finish_within(serving, &lines, PROMPT).0, 143);
    let (code, _, said) = finish_within(long.0, &long.1, PROMPT);
    assert!(code == 1 && said.contains("a signal ended the command"), "{said}");
}

#[test]
fn a_receiver_of_one_has_the_others_wait() {
    let folder = tempfile::tempdir().unwrap();
    let [large, small] = ["large", "small"].map(|name| folder.path().join(name));
    fs::File::create(&large).unwrap().set_len(64 << 30).unwrap();
    fs::write(&small, pattern(100_000, 8)).unwrap();
    let inbox = folder.path().join("inbox");
    let send = |file, to: &str| start(rails_bench(["send", text(file), "--insecure", "--retry", "0", "--to", to]));
    // The sender that waits is served when the other has gone.
    let receiver = Receiver::start(&inbox, ["--insecure", "--parallel", "1"]);
    let first = send(&large, &receiver.addresses);
    crate::transfers::wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
    let second = send(&small, &receiver.addresses);
    wait_for(&second.1, "waiting: the peer is busy with others");
    signal(first.0.id(), Signal::SIGTERM);
    assert_eq!(finish_within(first.0, &first.1, PROMPT).0, 143);
    let (code, _, said) = finish_within(second.0, &second.1, PROMPT);
    assert_eq!(code, 0, "{said}");
    // With room for both, both are served.
    drop(receiver);
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let first = send(&large, &receiver.addresses);
    receiver.wait_for("resuming");
    fs::remove_file(inbox.join("small")).unwrap();
    let second = send(&small, &receiver.addresses);
    let (code, _, said) = finish_within(second.0, &second.1, PROMPT);
    assert!(code == 0 && !said.contains("waiting"), "{said}");
    assert!(inbox.join("small").exists() && !inbox.join("large").exists());
    signal(receiver.id(), Signal::SIGTERM);
    assert_eq!(receiver.finish_within(PROMPT).0, 143);
    assert_eq!(finish_within(first.0, &first.1, PROMPT).0, 1);
    // Who takes one batch sends the others away.
    let receiver = Receiver::start(&inbox, ["--insecure", "--once"]);
    let first = send(&large, &receiver.addresses);
    receiver.wait_for("resuming");
    let second = send(&small, &receiver.addresses);
    wait_for(&second.1, "waiting: the peer is busy with others");
    signal(first.0.id(), Signal::SIGTERM);
    assert_eq!(finish_within(first.0, &first.1, PROMPT).0, 143);
    assert_eq!(receiver.finish_within(PROMPT).0, 1);
    let (code, _, said) = finish_within(second.0, &second.1, PROMPT);
    assert!(code == 1 && said.contains("no further caller is taken"), "{said}");
}

/// A server, and the address to call.
fn serve(more: &[&str]) -> (Child, mpsc::Receiver<String>, String) {
    let (child, lines) =
        start(rails_bench(["serve", "--insecure", "--listen", "127.0.0.1:0"].iter().chain(more).copied()));
    let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
    (child, lines, to)
}

fn rails() -> Rails {
    Rails::build(&plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(1)).unwrap()).unwrap()
}

fn options() -> StreamOptions {
    StreamOptions::new(Security::insecure())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// The last line of `--explain`, once the peer has begun.
const HAS_BEGUN: &str = "1 of 1 lanes up";
/// Less than the ten seconds for which either end would wait for the other, and longer than
/// anything takes here.
const PROMPT: Duration = Duration::from_secs(8);
