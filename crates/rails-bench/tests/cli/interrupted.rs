//! Ctrl-C, SIGTERM, SIGHUP, and the signals of limits.

use crate::{
    transfers::wait_for_size,
    util::{Receiver, finish, finish_within, interrupt, pattern, rails_bench, signal, start, text, wait_for},
};
use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::Signal;
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command},
    sync::mpsc,
    time::Duration,
};

#[test]
fn interrupted_sender_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    fs::write(&file, pattern(256 << 20, 4)).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure", "--once"]);
    let (sender, lines) = start(rails_bench(["send", text(&file), "--to", &receiver.addresses, "--insecure"]));
    wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
    interrupt(sender.id());
    let (code, out, said) = finish(sender, &lines);
    assert_eq!(code, 130, "{said}");
    assert!(out.is_empty() && said.contains("the same command goes on from there"), "{said}");
    let (code, _, said) = receiver.finish();
    assert_eq!(code, 1, "the batch is not there: {said}");
    assert!(said.contains("large (") && said.contains("to go on from"), "{said}");
    assert!(!inbox.join("large").exists());
}

#[test]
fn interrupted_receiver_says_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    fs::write(&file, pattern(256 << 20, 5)).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let send = ["send", text(&file), "--to", &receiver.addresses, "--insecure", "--retry", "0"];
    let (sender, lines) = start(rails_bench(send));
    wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
    interrupt(receiver.id());
    let (code, _, said) = receiver.finish();
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("large (") && said.contains("to go on from"), "{said}");
    assert!(!inbox.join("large").exists() && inbox.join(".large.rails-part").exists());
    assert_eq!(finish(sender, &lines).0, 1, "the sender is told");
}

#[test]
fn an_idle_receiver_ends_at_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&folder.path().join("inbox"), ["--insecure"]);
    interrupt(receiver.id());
    assert_eq!(receiver.finish().0, 130);
}

#[test]
fn signals_ignored_at_the_start_stay_ignored() {
    let folder = tempfile::tempdir().unwrap();
    for what in SIGNALS {
        let mut command = Command::new("env");
        command.arg(format!("--ignore-signal={}", &what.as_str()["SIG".len()..])).arg(cargo_bin("rails-bench"));
        command.args(["recv", "--insecure", "--listen", "127.0.0.1:0", "--into", text(folder.path())]);
        let (mut child, lines) = start(command);
        wait_for(&lines, "listening on ");
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = |field: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            u64::from_str_radix(mask.trim(), 16).unwrap() >> (what as i32 - 1) & 1
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((mask("SigIgn:"), mask("SigCgt:")), (1, 0), "{what}");
    }
}

#[test]
fn a_limit_on_cpu_time_ends_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(folder.path(), ["--insecure"]);
    signal(receiver.id(), Signal::SIGXCPU);
    assert_eq!(receiver.finish().0, 152);
}

#[test]
fn a_file_past_the_size_limit_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    fs::create_dir(&source).unwrap();
    for (name, size) in [("a", 100_000), ("big", 3_000_000), ("z", 100_000)] {
        fs::write(source.join(name), pattern(size, 6)).unwrap();
    }
    let mut receiver = Command::new("prlimit");
    receiver.args(["--fsize=1000000", "--core=0"]).arg(cargo_bin("rails-bench"));
    receiver.args(["recv", "--insecure", "--once", "--listen", "127.0.0.1:0", "--into", text(&inbox)]);
    let (receiver, lines) = start(receiver);
    let address = wait_for(&lines, "listening on ");
    let to = address.trim_start_matches("listening on ");
    let (sender, said) = start(rails_bench(["send", "--insecure", text(&source), "--to", to]));
    let (code, out, said) = finish(sender, &said);
    assert_eq!(code, 1, "{said}");
    assert!(out.contains("2 sent") && out.contains("1 failed"), "{out}");
    assert!(said.contains("big: receiver: cannot write: File too large"), "{said}");
    assert_eq!(finish(receiver, &lines).0, 1);
    for name in ["a", "z"] {
        assert!(fs::read(inbox.join("tree").join(name)).unwrap() == pattern(100_000, 6), "{name}");
    }
}

#[test]
fn a_signal_ends_a_transfer_at_both_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    fs::File::create(&file).unwrap().set_len(64 << 30).unwrap();
    let listening = ["recv", "--once", "--into", text(&inbox), "--listen"];
    for ends in [Ends::Calling, Ends::Listening] {
        for what in SIGNALS {
            let _ = fs::remove_dir_all(&inbox);
            let pair = Pair::start(&listening, &["send", text(&file), "--retry", "0", "--to"]);
            wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
            pair.end_one_and_expect_the_other_to_hear(ends, what);
        }
    }
}

#[test]
fn a_signal_ends_a_measurement_at_both_ends_at_once() {
    let pair = || {
        let pair = Pair::start(&["serve", "--once", "--listen"], &["stream", "--seconds", "600", "--to"]);
        pair.wait_until_bytes_flow();
        pair
    };
    for what in SIGNALS {
        pair().end_one_and_expect_the_other_to_hear(Ends::Listening, what);
        // A signal ends the caller's sending, and the caller reports the bytes up to then.
        let Pair { listening, calling, .. } = pair();
        signal(calling.0.id(), what);
        let (code, out, said) = finish_within(calling.0, &calling.1, OUTAGE / 3);
        assert_eq!(code, 128 + what as i32, "{said}");
        assert!(out.contains("(ended early, by a signal)"), "{out}");
        let (code, out, said) = finish_within(listening.0, &listening.1, OUTAGE / 3);
        assert!(code == 0 && out.contains("received "), "{code} {out} {said}");
    }
}

#[test]
fn a_signal_ends_round_trips_at_both_ends_at_once() {
    for over in [&[][..], &["--messages"]] {
        for ends in [Ends::Calling, Ends::Listening] {
            for what in SIGNALS {
                let ping = ["stream", "--ping", "64KiB", "--round-trips", "10000000"];
                let pair = Pair::start(&["serve", "--once", "--listen"], &[&ping, over, &["--to"]].concat());
                pair.wait_until_bytes_flow();
                pair.end_one_and_expect_the_other_to_hear(ends, what);
            }
        }
    }
}

#[test]
fn a_plain_flow_that_a_signal_ended_is_not_counted() {
    let pair = Pair::start(&["serve", "--once", "--listen"], &["stream", "--plain", "--seconds", "600", "--to"]);
    pair.wait_until_flows_are_busy();
    signal(pair.calling.0.id(), Signal::SIGTERM);
    assert_eq!(finish_within(pair.calling.0, &pair.calling.1, OUTAGE / 3).0, 143);
    let (code, out, said) = finish_within(pair.listening.0, &pair.listening.1, OUTAGE / 3);
    assert_eq!((code, out.as_str()), (1, ""), "{said}");
    assert!(said.contains("reset by peer") || said.contains("a signal ended the command"), "{said}");
}

#[test]
fn a_peer_that_stands_still_does_not_hold_up_the_end() {
    let pair = Pair::start(&["serve", "--once", "--listen"], &["stream", "--seconds", "600", "--to"]);
    pair.wait_until_bytes_flow();
    signal(pair.listening.0.id(), Signal::SIGSTOP);
    signal(pair.calling.0.id(), Signal::SIGTERM);
    let (code, _, said) = finish_within(pair.calling.0, &pair.calling.1, OUTAGE / 3);
    assert_eq!(code, 143, "{said}");
    let (mut stopped, _) = pair.listening;
    stopped.kill().unwrap();
    stopped.wait().unwrap();
}

#[test]
fn a_signal_ends_a_receiver_that_reads_a_large_file() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    fs::create_dir(&inbox).unwrap();
    let there = inbox.join("large");
    for file in [&file, &there] {
        fs::File::create(file).unwrap().set_len(64 << 30).unwrap();
    }
    let pair = Pair::start(
        &["recv", "--once", "--into", text(&inbox), "--listen"],
        &["send", text(&file), "--checksum", "--retry", "0", "--to"],
    );
    wait_until_open(pair.listening.0.id(), &there);
    pair.end_one_and_expect_the_other_to_hear(Ends::Listening, Signal::SIGTERM);
}

/// Waits until a process has the file open.
fn wait_until_open(process: u32, file: &Path) {
    for _ in 0..6000 {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        // A descriptor that was closed meanwhile leads nowhere.
        if descriptors.flatten().any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|leads| leads == file)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} is not opened", file.display());
}

/// Which of two ends is ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    Calling,
    Listening,
}

/// Two commands, the second with a stream to the first.
struct Pair {
    listening: (Child, mpsc::Receiver<String>),
    calling: (Child, mpsc::Receiver<String>),
    /// The ports that are listened on.
    ports: Vec<u16>,
}

impl Pair {
    /// Starts both; addresses are put behind their arguments.
    fn start(listening: &[&str], calling: &[&str]) -> Self {
        let common = ["--insecure", "--outage-limit", "60"];
        let heeding_signals = |arguments: &[&str], addresses: &str| {
            start(rails_bench(arguments.iter().copied().chain([addresses]).chain(common)))
        };
        let listening = heeding_signals(listening, "127.0.0.1:0,127.0.0.2:0");
        let addresses = wait_for(&listening.1, "listening on ").trim_start_matches("listening on ").replace(' ', "");
        let calling = heeding_signals(calling, &addresses);
        let ports = addresses.split(',').map(|address| address.parse::<SocketAddr>().unwrap().port()).collect();
        Self { listening, calling, ports }
    }

    /// Waits until bytes are on their way between the two, by whichever lane.
    fn wait_until_bytes_flow(&self) {
        self.wait_until("no bytes flow", |sockets| {
            self.ports.iter().any(|port| sockets.lines().any(|socket| is_busy(socket, *port)))
        });
    }

    /// Waits until the receiver has read bytes of plain flows, which are beside the lanes: a flow
    /// that has not begun ends in another way.
    fn wait_until_flows_are_busy(&self) {
        let descriptors = format!("/proc/{}/fd", self.listening.0.id());
        self.wait_until("no flow is read", |sockets| {
            let links = fs::read_dir(&descriptors).unwrap().flatten().filter_map(|one| fs::read_link(one.path()).ok());
            let own: Vec<String> =
                links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.to_owned())).collect();
            let is_flow = |fields: &[&str]| {
                // The port that is no lane's, and the socket's number.
                let port = u16::from_str_radix(fields[1].split(':').nth(1).unwrap(), 16).unwrap();
                !self.ports.contains(&port) && own.iter().any(|own| own.strip_suffix(']') == Some(fields[9]))
            };
            sockets.lines().skip(1).any(|line| {
                let fields: Vec<&str> = line.split_ascii_whitespace().collect();
                is_flow(&fields) && longest_queue(&fields) > Some(HANDSHAKE)
            })
        });
    }

    fn wait_until(&self, fault: &str, is_so: impl Fn(&str) -> bool) {
        for _ in 0..6000 {
            if is_so(&fs::read_to_string("/proc/net/tcp").unwrap()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for (child, _) in [&self.listening, &self.calling] {
            signal(child.id(), Signal::SIGKILL);
        }
        panic!("{fault}");
    }

    fn end_one_and_expect_the_other_to_hear(self, ends: Ends, what: Signal) {
        let (ended, other) = match ends {
            Ends::Calling => (self.calling, self.listening),
            Ends::Listening => (self.listening, self.calling),
        };
        signal(ended.0.id(), what);
        let (code, _, said) = finish_within(ended.0, &ended.1, OUTAGE / 3);
        assert_eq!(code, 128 + what as i32, "{ends:?}: {said}");
        // A peer that was not told waits for the lanes to come back until the outage is over, and says so.
        let (code, _, said) = finish_within(other.0, &other.1, OUTAGE / 3);
        assert_eq!(code, 1, "{ends:?} by {what}: {said}");
        assert!(said.contains("error: ") && said.contains("a signal ended the command"), "{ends:?} by {what}: {said}");
    }
}

/// Whether a line of `/proc/net/tcp` is of a connection to `port` with more bytes that are not
/// acknowledged or not read than a handshake has: a stream that is not open yet ends in another
/// way. proc_pid_net(5): the peer's address, the state (01 is TCP_ESTABLISHED) and the two queues
/// are the third to the fifth field.
fn is_busy(socket: &str, port: u16) -> bool {
    let fields: Vec<&str> = socket.split_ascii_whitespace().collect();
    let [_, local, remote, ..] = fields[..] else { return false };
    let is_of = [local, remote].iter().any(|end| end.ends_with(&format!(":{port:04X}")));
    is_of && longest_queue(&fields) > Some(HANDSHAKE)
}

/// The bytes of the longer queue of an established connection.
fn longest_queue(fields: &[&str]) -> Option<u32> {
    let [_, _, _, "01", queues, ..] = fields[..] else { return None };
    queues.split(':').filter_map(|length| u32::from_str_radix(length, 16).ok()).max()
}

/// No end has so many bytes of a handshake on their way.
const HANDSHAKE: u32 = 1 << 10;
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
const OUTAGE: Duration = Duration::from_secs(60);
