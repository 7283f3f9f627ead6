//! Commands that are pointed at each other: the right ones work, the wrong ones part with words,
//! and those that have to wait are waited for.

use crate::util::{Receiver, finish, finish_within, rails_bench, run, signal, start, stderr, text, wait_for};
use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::Signal;
use rails_lab::{LinkLab, Shape, Side};
use rails_multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, Security, StreamOptions, plan_rails};
use rails_topo::Topology;
use serde_json::Value;
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

#[test]
fn every_pair_of_commands_works_or_parts_with_words() {
    let folder = tempfile::tempdir().unwrap();
    let (file, inbox) = (folder.path().join("file"), folder.path().join("inbox"));
    fs::write(&file, "a few bytes").unwrap();
    let listening: [(&str, &[&str]); 3] =
        [("recv", &["recv", "--into", text(&inbox)]), ("serve", &["serve"]), ("serve --ping", &["serve", "--ping"])];
    let calling: [(&str, &[&str]); 3] = [
        ("send", &["send", text(&file)]),
        ("stream", &["stream", "--bytes", "1MiB"]),
        ("stream --ping", &["stream", "--ping", "64", "--round-trips", "10"]),
    ];
    for (right, (there, serve)) in listening.iter().enumerate() {
        for (which, (here, call)) in calling.iter().enumerate() {
            let (calling, listening) = if which == right { both(serve, call) } else { misfits(serve, call) };
            let said = format!("{here} to {there}:\n{}\n{}", calling.1, listening.1);
            if which == right {
                assert_eq!((calling.0, listening.0), (0, 0), "{said}");
                continue;
            }
            assert_eq!((calling.0, listening.0), (1, GOES_ON), "{said}");
            let ends = [(&calling.1, there, here), (&listening.1, here, there)];
            for (words, theirs, ours) in ends {
                let misfit = format!("the peer is `rails-bench {theirs}`, and this is `rails-bench {ours}`");
                assert!(words.contains(&misfit) && words.contains("belong together"), "{said}");
            }
        }
    }
}

#[test]
fn bytes_and_messages_part_with_words() {
    for (serve, call) in [
        (&["serve", "--ping"][..], &["stream", "--ping", "64", "--messages"][..]),
        (&["serve", "--ping", "--messages"], &["stream", "--ping", "64"]),
        (&["serve", "--ping", "--messages"], &["stream"]),
        (&["serve"], &["stream", "--ping", "64", "--messages"]),
    ] {
        let (calling, listening) = misfits(serve, call);
        for ((code, words), expected) in [(&calling, 1), (&listening, GOES_ON)] {
            assert_eq!(*code, expected, "{words}");
            assert!(words.contains("messages"), "{words}");
        }
    }
}

#[test]
fn plain_flows_and_streams_part_with_words() {
    for call in [&["stream", "--bytes", "1MiB"][..], &["stream", "--ping", "64"], &["send", "Cargo.toml"]] {
        let (calling, listening) = misfits(&["serve", "--plain"], call);
        assert_eq!((calling.0, listening.0), (1, GOES_ON), "{}\n{}", calling.1, listening.1);
        assert!(listening.1.contains("the peer is not rails-bench"), "{}", listening.1);
    }
    let (calling, listening) = misfits(&["serve", "--plain"], &["stream", "--plain", "--ping", "64"]);
    assert_eq!((calling.0, listening.0), (1, GOES_ON), "{}\n{}", calling.1, listening.1);
    assert!(calling.1.contains("the peer is `rails-bench serve`"), "{}", calling.1);
    // A listener for streams refuses a connection that is none, and goes on.
    let (child, lines) = start(rails_bench(["serve", "--once", "--insecure", "--listen", "127.0.0.1:0"]));
    let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
    let plain = run(["stream", "--plain", "--insecure", "--to", &to]);
    assert_eq!(plain.status.code(), Some(1));
    assert!(stderr(&plain).contains("ended before the peer said") && stderr(&plain).contains("--plain"));
    assert_eq!(run(["stream", "--bytes", "1MiB", "--insecure", "--to", &to]).status.code(), Some(0));
    assert_eq!(finish(child, &lines).0, 0);
}

#[test]
fn a_mute_peer_is_named_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&folder.path().join("inbox"), ["--insecure"]);
    let file = folder.path().join("file");
    fs::write(&file, "a few bytes").unwrap();
    let remotes: Vec<SocketAddr> = receiver.addresses.split(',').map(|address| address.parse().unwrap()).collect();
    runtime().block_on(async {
        let mut mute = MultiRailStream::connect(&rails(), &remotes, &options()).await.unwrap();
        let sent = run(["send", text(&file), "--insecure", "--to", &receiver.addresses]);
        assert!(sent.status.success(), "{}", stderr(&sent));
        receiver.wait_for("error: the peer has not said the stream's purpose for 10 s");
        // The receiver greeted this peer, and then gave it up.
        let mut heard = Vec::new();
        let _ = mute.read_to_end(&mut heard).await;
        assert_eq!(heard, b"BENCH-TO\x01\x00R");
    });
}

#[test]
fn a_mute_connection_holds_nobody_up() {
    for (serve, call) in [
        (&["serve", "--plain"][..], &["stream", "--plain", "--bytes", "1MiB"][..]),
        (&["serve", "--mptcp"], &["stream", "--mptcp", "--bytes", "1MiB"]),
        (&["serve", "--ping", "--plain"], &["stream", "--plain", "--ping", "64", "--round-trips", "10"]),
        (&["serve", "--ping", "--mptcp"], &["stream", "--mptcp", "--ping", "64", "--round-trips", "10"]),
    ] {
        let once = ["--once", "--insecure", "--listen", "127.0.0.1:0"];
        let (child, lines) = start(rails_bench(serve.iter().chain(&once).copied()));
        let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
        let _mute = TcpStream::connect(&to).unwrap();
        let called = run(call.iter().chain(&["--insecure", "--to", &to]).copied());
        assert_eq!(called.status.code(), Some(0), "{call:?}: {}", stderr(&called));
        assert_eq!(finish_within(child, &lines, PROMPT).0, 0, "{serve:?}");
    }
}

#[test]
fn a_mute_peer_holds_no_message_up() {
    runtime().block_on(async {
        let serve = ["serve", "--ping", "--messages", "--once", "--insecure", "--listen", "127.0.0.1:0"];
        let (child, lines) = start(rails_bench(serve));
        let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
        let _mute = MultiRailStream::connect(&rails(), to.as_str(), &options()).await.unwrap();
        let called = run(["stream", "--ping", "64", "--messages", "--insecure", "--to", &to]);
        assert_eq!(called.status.code(), Some(0), "{}", stderr(&called));
        assert_eq!(finish_within(child, &lines, PROMPT).0, 0);
    });
}

#[test]
fn silence_until_the_turn() {
    runtime().block_on(async {
        let rails = rails();
        let listener = MultiRailListener::bind(&rails, "127.0.0.1:0", &options()).await.unwrap();
        let to = listener.local_addrs()[0].to_string();
        let (child, lines) = start(rails_bench(["stream", "--insecure", "--to", &to]));
        let mut stream = listener.accept().await.unwrap();
        let mut greeting = [0; 11];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"BENCH-TO\x01\x00M");
        stream.write_all(b"BENCH-TO\x01\x00C").await.unwrap();
        wait_for(&lines, "waiting: the peer is busy");
        assert!(timeout(Duration::from_millis(500), stream.read_u8()).await.is_err(), "a byte before the turn");
        stream.write_all(b"T").await.unwrap();
        stream.read_u8().await.unwrap();
        drop((stream, listener, rails));
        assert_eq!(finish_within(child, &lines, Duration::from_secs(30)).0, 1);
    });
}

#[test]
fn waiting_peers_get_their_turn_or_a_farewell() {
    let serve = ["serve", "--insecure", "--listen", "127.0.0.1:0", "--json"];
    let (serving, lines) = start(rails_bench(serve));
    let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
    let stream = |amount: [&str; 2]| {
        start(rails_bench(["stream", "--insecure", "--explain", "--to", &to, amount[0], amount[1]]))
    };
    let first = stream(["--seconds", "600"]);
    wait_for(&first.1, HAS_BEGUN);
    let second = stream(["--bytes", "1MiB"]);
    wait_for(&second.1, "waiting: the peer is busy");
    signal(first.0.id(), Signal::SIGTERM);
    assert_eq!(finish_within(first.0, &first.1, PROMPT).0, 143);
    let (code, _, said) = finish_within(second.0, &second.1, PROMPT);
    assert_eq!(code, 0, "{said}");

    let first = stream(["--seconds", "600"]);
    wait_for(&first.1, HAS_BEGUN);
    let second = stream(["--bytes", "1MiB"]);
    wait_for(&second.1, "waiting: the peer is busy");
    signal(serving.id(), Signal::SIGTERM);
    assert_eq!(finish_within(serving, &lines, PROMPT).0, 143);
    for (child, lines) in [first, second] {
        let (code, _, said) = finish_within(child, &lines, PROMPT);
        assert!(code == 1 && said.contains("the peer gave the stream up"), "{said}");
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_wait_for_a_turn_is_not_measured() {
    let lab = LinkLab::builder().links([Shape::mbit(100); 2]).build().unwrap();
    let on = |side: Side, args: &[&str]| {
        let mut command: Command = lab.side(side).command(cargo_bin("rails-bench"));
        command.args(args).args(["--insecure", "--json"]).env_remove("RAILS_SECRET").stdin(Stdio::null());
        command
    };
    for plain in [&[][..], &["--plain"]] {
        let listen: Vec<String> = (0..2).map(|link| format!("{}:7575", lab.address(Side::B, link))).collect();
        let to = listen.join(",");
        let (mut serving, lines) = start(on(Side::B, &[&["serve", "--listen", &to], plain].concat()));
        wait_for(&lines, "listening on ");
        let stream =
            |amount: [&str; 2]| start(on(Side::A, &[&["stream", "--to", &to, amount[0], amount[1]], plain].concat()));
        let first = stream(["--seconds", "3"]);
        std::thread::sleep(Duration::from_millis(500));
        let second = stream(["--bytes", "8MiB"]);
        assert_eq!(finish_within(first.0, &first.1, PROMPT).0, 0);
        let (code, out, said) = finish_within(second.0, &second.1, PROMPT);
        assert_eq!(code, 0, "{said}");
        let measured: Value = serde_json::from_str(&out).expect("one object");
        let goodput = measured["receiver_goodput_bits_per_second"].as_f64().unwrap();
        // The shapers let a burst through, which is little beside 8 MiB.
        assert!(goodput < 215e6, "{goodput} bit/s over two links of 100 Mbit/s: {plain:?}");
        serving.kill().unwrap();
        serving.wait().unwrap();
    }
}

/// Runs both, the second with the address of the first; gives the exit status and stderr of each.
fn both(serve: &[&str], call: &[&str]) -> ((i32, String), (i32, String)) {
    let once = ["--once", "--insecure", "--listen", "127.0.0.1:0"];
    let (child, lines) = start(rails_bench(serve.iter().chain(&once).copied()));
    let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
    let calling = start(rails_bench(call.iter().chain(&["--insecure", "--to", &to]).copied()));
    let [calling, listening] = [calling, (child, lines)].map(|(child, lines)| {
        let (code, _, said) = finish_within(child, &lines, PROMPT);
        (code, said)
    });
    (calling, listening)
}

/// As [`both`] for commands that do not fit: the listening end tells of the misfit, and listens
/// until a signal ends it.
fn misfits(serve: &[&str], call: &[&str]) -> ((i32, String), (i32, String)) {
    let once = ["--once", "--insecure", "--listen", "127.0.0.1:0"];
    let (child, lines) = start(rails_bench(serve.iter().chain(&once).copied()));
    let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
    let called = run(call.iter().chain(&["--insecure", "--to", &to]).copied());
    let said = [wait_for(&lines, "error: "), wait_for(&lines, "help: ")].join("\n");
    signal(child.id(), Signal::SIGTERM);
    let (code, _, _) = finish_within(child, &lines, PROMPT);
    ((called.status.code().expect("no signal ended it"), stderr(&called)), (code, said))
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

/// The exit code of a listening end that a misfit has not ended, and SIGTERM has.
const GOES_ON: i32 = 143;
/// The last line of `--explain`, once it is the stream's turn.
const HAS_BEGUN: &str = "1 of 1 lanes up";
/// Less than the ten seconds for which either end would wait for the other, and longer than
/// anything takes here.
const PROMPT: Duration = Duration::from_secs(8);
