//! Pairing with the peer: the lines about it, and the lanes that come up.

use crate::util::{finish, knowing, rails_bench, run, start, stderr, stdout, wait_for};
use assert_cmd::cargo::cargo_bin;
use rails_lab::{LinkLab, Shape, Side};
use serde_json::Value;
use std::{
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

#[test]
fn one_address_is_asked_for_the_lanes_behind_it() {
    let (child, lines) = start(rails_bench(["serve", "--listen", "127.0.0.1:0,127.0.0.2:0", "--once", "--insecure"]));
    let line = wait_for(&lines, "listening on ");
    let addresses: Vec<&str> = line.trim_start_matches("listening on ").split(", ").collect();

    let plan = run(["plan", "--rails", "loopback:2", "--peer", addresses[1], "--insecure"]);
    assert_eq!(plan.status.code(), Some(0), "{}", stderr(&plan));
    let said = stdout(&plan);
    for (lane, address) in addresses.iter().enumerate() {
        assert!(said.contains(&format!("->  rail {lane} lo {address}\n          both loopback addresses")), "{said}");
    }
    assert!(said.contains("2 of 2 lanes up"), "{said}");

    let from = ["--from", "127.0.0.1,127.0.0.2", "--explain", "--json", "--bytes", "1MiB", "--insecure"];
    let stream = run(["stream", "--to", addresses[0]].into_iter().chain(from));
    assert_eq!(stream.status.code(), Some(0), "{}", stderr(&stream));
    let measured: Value = serde_json::from_str(&stdout(&stream)).expect("one object");
    let pairs = measured["paired"]["pairs"].as_array().unwrap();
    assert_eq!(pairs.iter().map(|pair| &pair["theirs"]["address"]).collect::<Vec<_>>(), addresses);
    assert_eq!((&measured["paired"]["lanes_up"], &measured["paired"]["failed"]), (&2.into(), &Value::Array(vec![])));
    let (code, _, said) = finish(child, &lines);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn addresses_that_were_named_are_explained_as_named() {
    let (child, lines) = start(rails_bench(["serve", "--listen", "127.0.0.1:0,127.0.0.2:0", "--once", "--insecure"]));
    let addresses = wait_for(&lines, "listening on ").trim_start_matches("listening on ").replace(' ', "");
    let stream = run(["stream", "--to", &addresses, "--explain", "--bytes", "1MiB", "--insecure"]);
    let said = stderr(&stream);
    assert_eq!(stream.status.code(), Some(0), "{said}");
    assert!(said.contains("as named by the caller; both loopback addresses"), "{said}");
    assert!(said.contains("2 of 2 lanes up"), "{said}");
    assert_eq!(finish(child, &lines).0, 0);
}

#[test]
fn a_peer_that_does_not_answer_is_named_with_its_flag() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (args, flag) in [
        (&["plan", "--rails", "loopback:2", "--peer", &gone, "--insecure"][..], "--peer"),
        (&["stream", "--from", "127.0.0.1,127.0.0.2", "--to", &gone, "--insecure"], "--to"),
    ] {
        let output = run(args.iter().copied());
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(&format!("error: {flag} {gone}")), "{said}");
        assert!(said.contains("help: start `rails-bench"), "{said}");
    }
}

/// A command at one end of the lab.
fn on(lab: &LinkLab, side: Side, args: &[&str]) -> Command {
    let mut command: Command = lab.side(side).command(cargo_bin("rails-bench"));
    command.args(args).arg("--insecure").env_remove("RAILS_SECRET").stdin(Stdio::null());
    // The configuration of this machine's user is no part of a test.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Waits until the kernel has the links of the first `count` interfaces up, a moment after they
/// were made.
fn wait_for_links(lab: &LinkLab, count: usize) {
    for (side, link) in [Side::A, Side::B].into_iter().flat_map(|side| (0..count).map(move |link| (side, link))) {
        let state = format!("/sys/class/net/{}/operstate", lab.interface(side, link));
        let until = Instant::now() + Duration::from_secs(10);
        while lab.side(side).command("cat").arg(&state).output().unwrap().stdout != b"up\n" {
            assert!(Instant::now() < until, "{state}");
            sleep(Duration::from_millis(20));
        }
    }
}

/// As between two containers, whose interfaces are all made in software.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_all_lanes_of_an_unspecified_address() {
    let lab = LinkLab::builder().links([Shape::Unshaped; 3]).build().unwrap();
    lab.set_link_up(Side::B, 2, false).unwrap();
    wait_for_links(&lab, 2);
    let to = lab.address(Side::B, 0).to_string();
    let named = (0..2).map(|link| lab.interface(Side::A, link)).collect::<Vec<_>>().join(",");
    for listen in ["0.0.0.0", "[::]"] {
        for from in [named.as_str(), "auto"] {
            let (child, lines) = start(on(&lab, Side::B, &["serve", "--listen", listen, "--once"]));
            let skipped = format!("no rail on {}: its link is down", lab.interface(Side::B, 2));
            assert_eq!(wait_for(&lines, "no rail on "), skipped);
            wait_for(&lines, "listening on ");
            let stream = ["stream", "--to", &to, "--from", from, "--explain", "--json", "--bytes", "16MiB"];
            let stream = on(&lab, Side::A, &stream).output().unwrap();
            let said = stderr(&stream);
            assert_eq!(stream.status.code(), Some(0), "{said}");
            let measured: Value = serde_json::from_str(&stdout(&stream)).expect("one object");
            let paired = &measured["paired"];
            assert_eq!((&paired["lanes_up"], paired["pairs"].as_array().unwrap().len()), (&2.into(), 2), "{paired}");
            for (link, pair) in paired["pairs"].as_array().unwrap().iter().enumerate() {
                assert_eq!(pair["theirs"]["address"], format!("{}:7575", lab.address(Side::B, link)), "{paired}");
                let lane = &measured["receiver"]["rails"][link]["lanes"][0];
                assert_ne!(lane["bytes_received"], 0, "{measured}");
            }
            let skipped = format!("no rail on {}: its link is down", lab.interface(Side::A, 2));
            assert_eq!(said.contains(&skipped), from == "auto", "{said}");
            assert_eq!(finish(child, &lines).0, 0);
        }
    }
}

/// The peer's third interface is down, so that it has no rail there.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_unused_lanes_in_the_summary() {
    let lab = LinkLab::builder().links([Shape::Unshaped; 3]).build().unwrap();
    lab.set_link_up(Side::B, 2, false).unwrap();
    wait_for_links(&lab, 2);
    let (to, file) = (lab.address(Side::B, 0).to_string(), tempfile::NamedTempFile::new().unwrap());
    let from = (0..3).map(|link| lab.interface(Side::A, link)).collect::<Vec<_>>().join(",");
    let unused = format!("({}): the peer offers no address in 10.77.2.0/24", lab.interface(Side::A, 2));
    let inbox = tempfile::tempdir().unwrap();
    for (serve, call) in [
        (&["serve"][..], &["stream", "--bytes", "1MiB"][..]),
        (&["recv", "--into", inbox.path().to_str().unwrap()], &["send", file.path().to_str().unwrap()]),
    ] {
        let listen = [serve, &["--listen", "0.0.0.0", "--once"]].concat();
        let (child, lines) = start(on(&lab, Side::B, &listen));
        wait_for(&lines, "listening on ");
        let called = on(&lab, Side::A, &[call, &["--to", &to, "--from", &from]].concat()).output().unwrap();
        let (code, _, far) = finish(child, &lines);
        assert_eq!((called.status.code(), code), (Some(0), 0), "{}{far}", stderr(&called));
        let said = stdout(&called);
        let told: Vec<&str> = said.lines().filter(|line| line.starts_with("no lane: ")).collect();
        let rail = if call[0] == "stream" { "send 2" } else { "rail 2" };
        assert_eq!(told, [format!("no lane: {rail} {unused}")], "{said}");
    }

    // A caller of one lane leaves the listener's second rail unused.
    let (child, lines) = start(on(&lab, Side::B, &["serve", "--listen", "0.0.0.0", "--once"]));
    wait_for(&lines, "listening on ");
    let called = on(&lab, Side::A, &["stream", "--to", &to, "--bytes", "1MiB"]).output().unwrap();
    let (_, heard, _) = finish(child, &lines);
    let unused = format!("1 ({}): no lane was opened on it", lab.interface(Side::B, 1));
    assert!(heard.contains(&format!("no lane: rail {unused}\n")), "{heard}");
    let said = stdout(&called);
    assert!(said.contains(&format!("no lane: receive {unused}\n")), "{said}");
    assert!(!said.lines().any(|line| line.trim_start().starts_with("receive     1")), "no line of dashes: {said}");
}

/// The first address of the name swallows every packet (RFC 8305, section 5): a lane to the next
/// one is called a moment later, and nothing waits for the first. With several rails, the peer is
/// asked at the address that answers.
#[test]
#[ignore = "needs root: makes network and mount namespaces"]
fn netns_name_with_a_mute_first_address() {
    let lab = LinkLab::builder().links([Shape::Unshaped; 3]).build().unwrap();
    wait_for_links(&lab, 3);
    lab.set_black_hole(Side::B, 0, true).unwrap();
    let addresses: Vec<String> = (0..2).map(|link| lab.address(Side::B, link).to_string()).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let several = format!("{},{}", lab.interface(Side::A, 1), lab.interface(Side::A, 2));
    for (from, up) in [(&[][..], 1), (&["--from", &several], 2)] {
        let (child, lines) = start(on(&lab, Side::B, &["serve", "--listen", "0.0.0.0", "--once"]));
        wait_for(&lines, "listening on ");
        let args = ["stream", "--to", "twice.example", "--explain", "--json", "--bytes", "1MiB"];
        let begun = Instant::now();
        let stream = on(&lab, Side::A, &[&args, from].concat());
        let stream = knowing("twice.example", &addresses, &stream).output().unwrap();
        let took = begun.elapsed();
        assert_eq!(stream.status.code(), Some(0), "{}", stderr(&stream));
        let measured: Value = serde_json::from_str(&stdout(&stream)).expect("one object");
        assert_eq!(
            (&measured["bytes"], &measured["paired"]["lanes_up"]),
            (&(1 << 20).into(), &up.into()),
            "{measured}"
        );
        if from.is_empty() {
            let first = &measured["paired"]["pairs"][0]["theirs"]["address"];
            assert_eq!(*first, format!("{}:7575", addresses[0]), "the mute one is called first");
        }
        // The kernel gives the first address up after two minutes, and no event tells that the caller did
        // not wait for that. Here the command takes half a second.
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(finish(child, &lines).0, 0);
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_link_down_costs_its_lane_alone() {
    let lab = LinkLab::builder().links([Shape::Unshaped; 3]).build().unwrap();
    let on = |side: Side, args: &[&str]| on(&lab, side, args);
    let listen: Vec<String> = (0..3).map(|link| format!("{}:7575", lab.address(Side::B, link))).collect();
    let (child, lines) = start(on(Side::B, &["serve", "--listen", &listen.join(","), "--once"]));
    wait_for(&lines, "listening on ");
    lab.set_link_up(Side::B, 2, false).unwrap();

    let ours = (0..3).map(|link| lab.interface(Side::A, link)).collect::<Vec<_>>().join(",");
    let plan = on(Side::A, &["plan", "--rails", &ours, "--peer", &listen[1], "--json"]).output().unwrap();
    assert_eq!(plan.status.code(), Some(1), "a lane is missing: {}", stderr(&plan));
    let paired = &serde_json::from_str::<Value>(&stdout(&plan)).expect("one object")["paired"];
    let pairs = paired["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 3, "{paired}");
    for (link, pair) in pairs.iter().enumerate() {
        assert_eq!(pair["ours"]["rail"], link, "{paired}");
        assert_eq!(pair["theirs"]["address"], *listen[link], "{paired}");
        assert_eq!(pair["relation"]["network"], format!("10.77.{link}.0"), "no subnet is crossed: {paired}");
    }
    let failed = paired["failed"].as_array().unwrap();
    assert_eq!((failed.len(), &paired["lanes_up"]), (1, &2.into()), "{paired}");
    assert_eq!(failed[0]["remote"], *listen[2]);

    let stream = ["stream", "--from", &ours, "--to", &listen[0], "--explain", "--json", "--bytes", "4MiB"];
    let stream = on(Side::A, &stream).output().unwrap();
    let measured: Value = serde_json::from_str(&stdout(&stream)).unwrap_or_else(|_| panic!("{}", stderr(&stream)));
    assert_eq!(measured["bytes"], 4 << 20);
    assert_eq!(measured["paired"]["lanes_up"], 2, "{measured}");
    assert_eq!(measured["paired"]["pairs"].as_array().unwrap().len(), 3);
    let unused = measured["sender"]["rails"][2]["unused"].as_str().expect("a reason");
    assert_eq!(unused, format!("{} had not answered by the end", listen[2]), "{measured}");
    assert_eq!(finish(child, &lines).0, 0);
}
