//! `lab`: its refusals, and that it leaves nothing behind.

use crate::util::{finish, interrupt, rails_bench, run, start, stderr, stdout, wait_for};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use std::{fs, path::Path, process::Command};

#[test]
fn impossible_labs_are_refused_with_the_flag() {
    for (args, said) in [
        (&["lab"][..], "Usage: rails-bench lab"),
        (&["lab", "links"], "--rate <RATE"),
        (&["lab", "links", "--rate", "0"], "`0` is neither a rate in Mbit/s nor `unshaped`"),
        (&["lab", "links", "--rate", "400,fast"], "`fast` is neither a rate"),
        (&["lab", "emulated"], "--rate <MBIT>"),
        (&["lab", "emulated", "--rate", "0"], "--rate"),
        (&["lab", "emulated", "--rate", "20000"], "1..=10000"),
        (&["lab", "emulated", "--rate", "500", "--rtt", "19"], "has no unit; try 19ms"),
        (&["lab", "emulated", "--rate", "500", "--loss", "1.5"], "`1.5` is no number from 0 to 1"),
        (&["lab", "emulated", "--rate", "500", "--queue", "soon"], "--queue"),
        (&["lab", "emulated", "--rate", "500", "--links", "0"], "--links"),
        (&["lab", "emulated", "--rate", "500", "--serve", "true"], "COMMAND"),
        (&["lab", "guest"], "<COMMAND>"),
        (&["lab", "guest", "--cores", "0", "--", "true"], "0 cores per node: 1 to 32 are possible"),
        (&["lab", "guest", "--memory", "1", "--", "true"], "help: change --cores, --memory"),
        (&["lab", "guest", "--show", "tmp", "--", "true"], "the path tmp is not absolute"),
    ] {
        let output = run(args.iter().copied());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn impossible_links_are_refused_with_the_help() {
    for (flag, value, said) in
        [("--rtt", "21s", "round-trip time is above 20 s"), ("--queue", "11s", "longer than 10 s")]
    {
        let output = run(["lab", "emulated", "--rate", "500", flag, value, "--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert!(stderr(&output).contains("help: change --rate, --rtt"), "{}", stderr(&output));
    }
}

#[test]
fn help_on_the_environment_of_commands() {
    let output = run(["lab", "emulated", "--help"]);
    for name in ["RAILS_LAB_SIDE", "RAILS_LAB_LOCAL", "RAILS_LAB_PEER", "RAILS_LAB_INTERFACES"] {
        assert!(stdout(&output).contains(name), "{name}");
    }
}

#[test]
#[ignore = "needs QEMU: cargo xtask lab"]
fn boots_guest_with_a_command_and_its_exit_code() {
    let output = run(["lab", "guest", "--", "sh", "-c", "cat /sys/devices/system/node/online; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stdout(&output), "0-1\n");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_command_in_side_a_and_its_exit_code() {
    let show = "echo $RAILS_LAB_SIDE $RAILS_LAB_LOCAL $RAILS_LAB_PEER $RAILS_LAB_INTERFACES; exit 3";
    let output = run(["lab", "links", "--rate", "400,unshaped", "--", "sh", "-c", show]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(stdout(&output), "a 10.77.0.1,10.77.1.1 10.77.0.2,10.77.1.2 rail0a,rail1a\n");
    let said = stderr(&output);
    assert!(
        said.contains("400 Mbit/s (tbf") && said.contains("rail1a 10.77.1.1 <> rail1b 10.77.1.2: unshaped"),
        "{said}"
    );
    namespaces(&said).iter().for_each(|name| assert!(!exists(name), "{name}"));
    let killed = run(["lab", "links", "--rate", "400", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(killed.status.code(), Some(137));
    let missing = run(["lab", "links", "--rate", "400", "--", "no-such-program"]);
    assert!(!missing.status.success());
    assert!(stderr(&missing).contains("no-such-program"), "{}", stderr(&missing));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_stream_over_two_emulated_links() {
    let program = assert_cmd::cargo::cargo_bin("rails-bench").display().to_string();
    let serve = format!("{program} serve --once --insecure --listen $RAILS_LAB_LOCAL");
    let stream = format!("{program} stream --insecure --to $RAILS_LAB_PEER --bytes 4MiB --congestion cubic");
    let emulated =
        ["lab", "emulated", "--rate", "100", "--rtt", "5ms", "--links", "2", "--seed", "7", "--serve", &serve];
    let output = run(emulated.into_iter().chain(["--", "sh", "-c", &stream]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(stdout(&output).starts_with("one stream, adaptive: 4 MiB"), "{}", stdout(&output));
    assert!(said.contains("received 4 MiB in "), "the server had time to say it: {said}");
    assert!(said.contains("seed 7") && said.contains("seed 8"), "{said}");
    for line in ["link 0   a>b carried ", "link 1   a>b carried "] {
        let line = said.lines().find(|said| said.starts_with(line)).expect("each link prints its counters");
        assert!(line.contains(" 0 by loss") && line.contains(" 0 unplanned"), "{line}");
    }
    namespaces(&said).iter().for_each(|name| assert!(!exists(name), "{name}"));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_server_that_ends_early_fails_the_lab() {
    let output = run(["lab", "links", "--rate", "400", "--serve", "exit 4", "--", "echo", "not run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("error: --serve: it ended (exit status: 4)"), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_signal_takes_the_lab_down() {
    let emulated = ["lab", "emulated", "--rate", "100"];
    let with_programs = ["--serve", "sleep 1000", "--", "sleep", "1000"];
    for (more, stop, expected) in
        [(&[][..], interrupt as fn(u32), 130), (&with_programs, interrupt, 130), (&[], terminate, 143)]
    {
        let (child, lines) = start(rails_bench(emulated.into_iter().chain(more.iter().copied())));
        let sides = [wait_for(&lines, "side a"), wait_for(&lines, "side b")].join("\n");
        let names = namespaces(&sides);
        assert!(names.len() == 2 && names.iter().all(|name| exists(name)), "{sides}");
        wait_for(&lines, if more.is_empty() { "the lab stays" } else { "warning: --serve: no socket" });
        stop(child.id());
        let (code, _, said) = finish(child, &lines);
        assert_eq!(code, expected, "{said}");
        assert!(said.contains("b>a carried 0 frames"), "{said}");
        names.iter().for_each(|name| assert!(!exists(name), "{name}"));
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_lane_follows_an_address_that_changes() {
    let program = assert_cmd::cargo::cargo_bin("rails-bench").display().to_string();
    let serve = format!("{program} serve --once --insecure --listen $RAILS_LAB_LOCAL");
    // The address changes when a part of the bytes has left.
    let stream = format!(
        "{program} stream --insecure --to $RAILS_LAB_PEER --bytes 24MiB --json &
         until [ $(awk '/rail0a:/ {{ print $10 }}' /proc/net/dev) -gt 1000000 ]; do sleep 0.05; done
         ip addr del $RAILS_LAB_LOCAL/24 dev rail0a && ip addr add 10.77.0.77/24 dev rail0a
         wait $! || true"
    );
    let output = run(["lab", "links", "--rate", "50", "--serve", &serve, "--", "sh", "-ec", &stream]);
    let measured: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("it is measured to its end");
    assert_eq!(measured["bytes"], 24 << 20, "{measured}");
    assert!(measured.to_string().contains("10.77.0.77:"), "a lane begins at the new address: {measured}");
}

/// An emulated link that stands still while more is sent than the kernel holds for it.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_warning_of_unplanned_drops() {
    let (child, lines) = start(rails_bench(["lab", "emulated", "--rate", "500"]));
    let side = wait_for(&lines, "side a");
    wait_for(&lines, "the lab stays");
    let run = |script| {
        let status = Command::new("ip").args(["netns", "exec", &namespaces(&side)[0], "bash", "-c", script]).status();
        assert!(status.unwrap().success(), "{script}");
    };
    // A permanent entry avoids ARP requests, so only the packets sent here count.
    run("ip neighbour replace 10.77.0.2 lladdr 02:72:61:69:00:02 nud permanent dev rail0a");
    send(child.id(), Signal::SIGSTOP);
    run("for _ in {1..9000}; do echo > /dev/udp/10.77.0.2/9; done");
    send(child.id(), Signal::SIGCONT);
    interrupt(child.id());
    let (_, _, said) = finish(child, &lines);
    // 8192 frames wait for the link; the rest was dropped by the kernel.
    assert!(said.contains("while down, 808 unplanned"), "{said}");
    assert!(said.contains("warning: link 0 dropped 808 frames that it was not told to"), "{said}");
}

fn terminate(id: u32) {
    send(id, Signal::SIGTERM);
}

fn send(id: u32, request: Signal) {
    let id = Pid::from_raw(i32::try_from(id).expect("process numbers are small"));
    signal::kill(id, request).expect("it runs");
}

/// The names of the two namespaces, from the lines about the sides.
fn namespaces(said: &str) -> Vec<String> {
    let names = said.lines().filter(|line| line.starts_with("side "));
    names.filter_map(|line| line.split("namespace ").nth(1)?.split(';').next().map(str::to_owned)).collect()
}

fn exists(namespace: &str) -> bool {
    fs::exists(Path::new("/var/run/netns").join(namespace)).expect("the folder can be read")
}
