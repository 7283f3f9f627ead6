//! Ends and paths that stand still.

use crate::{
    transfers::wait_for_size,
    util::{Receiver, finish, finish_within, pattern, rails_bench, signal, start, text, wait_for},
};
use nix::sys::signal::Signal;
use rails_lab::{EmulatedLink, LinkLab, Namespace, Shape, Side};
use std::{fs, path::Path, process::Child, sync::mpsc, time::Duration};

/// Much longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(120);

type Program = (Child, mpsc::Receiver<String>);

#[test]
fn a_batch_that_stands_still_gives_way_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = folder.path().join("inbox");
    let (large, small) = (folder.path().join("large"), folder.path().join("small"));
    fs::File::create(&large).unwrap().set_len(64 << 30).unwrap();
    fs::write(&small, pattern(100_000, 8)).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure", "--idle-timeout", "0.2", "--parallel", "1"]);
    let send = |file: &Path| {
        start(rails_bench(["send", text(file), "--to", &receiver.addresses, "--insecure", "--retry", "0"]))
    };
    let (stopped, said) = send(&large);
    wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
    signal(stopped.id(), Signal::SIGSTOP);
    let (other, others) = send(&small);
    let (code, _, told) = finish_within(other, &others, PATIENCE);
    assert_eq!(code, 0, "{told}");
    let gave_way = receiver.wait_for("error: the batch was not received: nothing came from 127.0.0.1:");
    assert!(gave_way.contains("for 0.2 s, and it gave way to another"), "{gave_way}");
    assert!(inbox.join("small").exists() && inbox.join(".large.rails-part").exists(), "parts are kept");
    signal(stopped.id(), Signal::SIGCONT);
    let (code, _, told) = finish_within(stopped, &said, PATIENCE);
    assert!(code == 1 && told.contains("nothing came for too long, and another waited"), "{code}: {told}");
}

/// Starts the program in a namespace.
pub(crate) fn start_in(namespace: &Namespace, arguments: &[&str]) -> Program {
    let program = rails_bench(arguments.iter().copied());
    let mut command = namespace.command(program.get_program());
    command.args(program.get_args()).env_remove("RAILS_SECRET").env("XDG_CONFIG_HOME", "/nonexistent");
    start(command)
}

/// One file from side A to side B.
struct Transfer {
    receiver: Program,
    sender: Program,
}

impl Transfer {
    /// Starts it below a folder of its own.
    fn start(lab: &LinkLab, scheme: &str, folder: &Path, bytes: usize, more: &[&str]) -> Self {
        let (inbox, file) = (folder.join("inbox"), folder.join("file"));
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, pattern(bytes, 9)).unwrap();
        let (near, far) = (lab.address(Side::A, 0).to_string(), lab.address(Side::B, 0));
        let listen = format!("{scheme}://{far}:0");
        let recv = ["recv", "--insecure", "--once", "--listen", &listen, "--into", text(&inbox)];
        let receiver = start_in(lab.side(Side::B), &[&recv, more].concat());
        let to = wait_for(&receiver.1, "listening on ").trim_start_matches("listening on ").to_owned();
        let send = ["send", text(&file), "--insecure", "--from", &near, "--to", &to];
        let sender = start_in(lab.side(Side::A), &[&send, more].concat());
        Self { receiver, sender }
    }

    /// Asserts that the file arrives.
    fn arrives(self, what: &str, folder: &Path) {
        let (code, _, said) = finish_within(self.sender.0, &self.sender.1, PATIENCE);
        assert_eq!(code, 0, "{what}: {said}");
        assert_eq!(finish(self.receiver.0, &self.receiver.1).0, 0, "{what}");
        assert!(fs::read(folder.join("inbox/file")).unwrap() == fs::read(folder.join("file")).unwrap(), "{what}");
    }
}

/// An end's process is stopped, or its machine is silent, for longer than an outage (10 s), than
/// TCP's retransmissions each second (14 s) and than a path of Celeritas (5 s) may last by any
/// limit of a single lane. With `RAILS_RUNS`, for a minute.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_ends_that_stand_still_go_on() {
    let time = Duration::from_secs(if std::env::var("RAILS_RUNS").is_ok() { 60 } else { 16 });
    let folder = tempfile::tempdir().unwrap();
    // So slow that no file is through before it is stopped.
    let [stopped, silent] =
        [(); 2].map(|()| LinkLab::builder().link(Shape::mbit(30)).build().expect("labs can be built here"));
    let mut transfers = Vec::new();
    let still = |transfer: &Transfer, what: &str| match what {
        what if what.ends_with("receiver stopped") => Some(transfer.receiver.0.id()),
        what if what.ends_with("sender stopped") => Some(transfer.sender.0.id()),
        _ => None,
    };
    for (what, lab) in [("receiver stopped", &stopped), ("sender stopped", &stopped), ("silent", &silent)] {
        for scheme in ["tcp", "celeritas"] {
            let what = format!("{scheme}, {what}");
            let own = folder.path().join(&what);
            let transfer = Transfer::start(lab, scheme, &own, 16 << 20, &[]);
            wait_for_size(&own.join("inbox/.file.rails-part"), 1 << 17);
            // At once: on a busy machine this file would be through before the last one has begun.
            still(&transfer, &what).iter().for_each(|end| signal(*end, Signal::SIGSTOP));
            transfers.push((transfer, what, own));
        }
    }
    let black_hole = |on| Side::BOTH.map(|side| silent.set_black_hole(side, 0, on).expect("root may do that"));
    black_hole(true);
    std::thread::sleep(time);
    black_hole(false);
    for (transfer, what, _) in &transfers {
        still(transfer, what).iter().for_each(|end| signal(*end, Signal::SIGCONT));
    }
    transfers.into_iter().for_each(|(transfer, what, folder)| transfer.arrives(&what, &folder));
}

/// A wrong MTU, and no ICMP that says so: handshakes pass, and no chunk does.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_path_that_swallows_large_packets_is_named() {
    let link = EmulatedLink::mbit(100).rtt(Duration::from_millis(2));
    let lab = LinkLab::builder().emulated(link).build().expect("labs can be built here");
    lab.set_large_packets_lost(Side::B, 0, Some(700)).expect("root may do that");
    let folder = tempfile::tempdir().unwrap();
    let transfer = Transfer::start(&lab, "tcp", folder.path(), 1 << 20, &["--outage-limit", "3", "-v"]);
    let (code, _, said) = finish_within(transfer.sender.0, &transfer.sender.1, PATIENCE);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("net.ipv4.tcp_mtu_probing=1") && said.contains("help: try `--mss 1200`"), "{said}");
    let stalls = said.matches("a lane cannot be used").count();
    assert!((2..=8).contains(&stalls), "{stalls} lanes were dialled in three seconds: {said}");
    let (mut receiver, _) = transfer.receiver;
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    let smaller = folder.path().join("smaller");
    Transfer::start(&lab, "tcp", &smaller, 1 << 20, &["--mss", "600"]).arrives("smaller segments", &smaller);
}
