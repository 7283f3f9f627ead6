//! Ends that are killed or stopped, and links that are pulled, in the middle of a read.

use crate::{
    relay::Relay,
    util::{Data, Node, done, lram, stderr},
};
use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use rails_lab::{LinkLab, Namespace, Shape, Side};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// A read of the whole array `noise`, into a file.
struct Get {
    child: Child,
    target: PathBuf,
}

impl Get {
    fn start(data: &Data, address: &str, patience: &str) -> Self {
        Self::start_by(|command| command, data, address, patience, &[])
    }

    fn start_by(
        change: impl FnOnce(Command) -> Command,
        data: &Data,
        address: &str,
        patience: &str,
        more: &[&str],
    ) -> Self {
        let target = data.text("copy.raw");
        let get = ["get", address, "--box", "noise[...]", "-o", &target, "--patience", patience];
        let mut command = change(lram(get.into_iter().chain(more.iter().copied())));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Self { child: command.spawn().expect("it can be started"), target: target.into() }
    }

    /// Asserts that it is in the middle of its read.
    fn is_reading(&mut self) {
        if let Some(status) = self.child.try_wait().expect("it can be asked") {
            let said = self.child.stderr.take().map(|stderr| std::io::read_to_string(stderr).expect("it is text"));
            panic!("it has ended, with {status}: {said:?}");
        }
        assert!(!self.target.exists(), "a file that is not whole has its name");
    }

    fn output(self) -> Output {
        self.child.wait_with_output().expect("it can be waited for")
    }

    /// Asserts that it ends well, with the right elements.
    fn ends_well(self) {
        let target = self.target.clone();
        let output = self.output();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(fs::read(target).unwrap() == Data::noise(), "other elements were read");
    }

    /// Asserts that it fails, says so, and leaves nothing behind.
    fn has_failed(self, words: &str, data: &Data, before: &[String]) {
        let output = self.output();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let error = said.lines().find(|line| line.starts_with("error: ")).expect("an error is printed");
        assert!(error.contains("of the array `noise` cannot be read: ") && error.contains(words), "{said}");
        assert_eq!(data.names(), before);
    }
}

/// Stops a child, and waits until it stands still.
fn stop(pid: u32) {
    let pid = Pid::from_raw(pid as i32);
    kill(pid, Signal::SIGSTOP).expect("it runs");
    assert_eq!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)), Ok(WaitStatus::Stopped(pid, Signal::SIGSTOP)));
}

fn go_on(pid: u32) {
    kill(Pid::from_raw(pid as i32), Signal::SIGCONT).expect("it is there");
}

/// A part of the array is on its way, and most of it is not.
const PART: u64 = 2 << 20;

#[test]
fn a_killed_node_is_an_error() {
    let data = Data::with_noise();
    let node = Node::start(&data.text("noise.nc"), &[]);
    let before = data.names();
    let relay = Relay::to(&node.address, PART);
    // Long enough for a handshake on a busy machine.
    let mut get = Get::start(&data, &relay.dataset("noise"), "3s");
    relay.wait_until_it_stands_still();
    node.end(Signal::SIGKILL);
    relay.refuse();
    get.is_reading();
    relay.open();
    get.has_failed("cannot be asked: no lane came up", &data, &before);
}

#[test]
fn another_node_goes_on_in_place_of_a_killed_one() {
    let data = Data::with_noise();
    let [one, other] = [(); 2].map(|()| Node::start(&data.text("noise.nc"), &[]));
    let relays = [&one, &other].map(|node| Relay::to(&node.address, PART));
    let [first, second] = &relays;
    let mut get = Get::start(&data, &format!("lram://{},{}/noise", first.address(), second.address()), "20s");
    relays.iter().for_each(Relay::wait_until_it_stands_still);
    one.end(Signal::SIGKILL);
    first.refuse();
    get.is_reading();
    relays.iter().for_each(Relay::open);
    get.ends_well();
    assert!(second.carried() > first.carried(), "{} and {} bytes", first.carried(), second.carried());
}

#[test]
fn a_node_that_is_started_again_is_read_on() {
    let data = Data::with_noise();
    let file = data.text("noise.nc");
    let node = Node::start(&file, &[]);
    let address = node.address.clone();
    let relay = Relay::to(&address, PART);
    let mut get = Get::start(&data, &relay.dataset("noise"), "60s");
    relay.wait_until_it_stands_still();
    node.end(Signal::SIGKILL);
    let again = Node::start_at(&file, address.trim_start_matches("lram://"), &[]);
    assert_eq!(again.address, address);
    get.is_reading();
    relay.open();
    get.ends_well();
}

#[test]
fn a_killed_reader_is_forgotten() {
    let data = Data::with_noise();
    let node = Node::start(&data.text("noise.nc"), &["--patience", "500ms"]);
    let before = data.names();
    assert_eq!(node.status()["links"], 1, "that of the question");
    // The file of the dataset stays open.
    let idle = node.descriptors() + 1;
    let relay = Relay::to(&node.address, PART);
    let mut get = Get::start(&data, &relay.dataset("noise"), "60s");
    relay.wait_until_it_stands_still();
    get.is_reading();
    assert_eq!(node.status()["links"], 2, "that of the reader, and that of the question");
    get.child.kill().unwrap();
    get.child.wait().unwrap();
    assert_eq!(data.names(), before, "a killed reader has left a file");
    relay.open();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let status = node.status();
        let figure = |name: &str| status[name].as_u64().unwrap();
        let descriptors = node.descriptors();
        let is_over = figure("links") == 1 && figure("in_transit") == 0 && figure("credited") == 0;
        if is_over && descriptors <= idle {
            assert_eq!(figure("free") + figure("cached"), figure("slots"), "{status}");
            break;
        }
        assert!(Instant::now() < until, "the node keeps {status} and {descriptors} descriptors, not {idle}");
        sleep(Duration::from_millis(10));
    }
    Get::start(&data, &node.dataset("noise"), "60s").ends_well();
}

#[test]
fn a_node_that_stands_still_is_waited_for() {
    let data = Data::with_noise();
    let node = Node::start(&data.text("noise.nc"), &[]);
    let relay = Relay::to(&node.address, PART);
    let mut get = Get::start(&data, &relay.dataset("noise"), "60s");
    relay.wait_until_it_stands_still();
    stop(node.pid());
    relay.allow(PART);
    get.is_reading();
    go_on(node.pid());
    relay.open();
    get.ends_well();
}

#[test]
fn a_reader_that_stands_still_holds_up_no_other() {
    let data = Data::with_noise();
    let node = Node::start(&data.text("noise.nc"), &[]);
    let relay = Relay::to(&node.address, PART);
    let get = Get::start(&data, &relay.dataset("noise"), "60s");
    relay.wait_until_it_stands_still();
    stop(get.child.id());
    relay.open();
    done(["get", &node.dataset("noise"), "--box", "noise[...]", "-o", &data.text("other.raw")]);
    assert!(fs::read(data.path("other.raw")).unwrap() == Data::noise());
    assert!(!get.target.exists());
    go_on(get.child.id());
    get.ends_well();
}

#[test]
fn a_line_that_stands_still_is_waited_for() {
    let data = Data::with_noise();
    let node = Node::start(&data.text("noise.nc"), &[]);
    let relay = Relay::to(&node.address, PART);
    let mut get = Get::start(&data, &relay.dataset("noise"), "60s");
    for _ in 0..3 {
        relay.wait_until_it_stands_still();
        get.is_reading();
        relay.allow(PART);
    }
    relay.open();
    get.ends_well();
}

/// The command, run in a namespace.
fn inside(namespace: &Namespace) -> impl FnOnce(Command) -> Command {
    let namespace = namespace.clone();
    move |command| {
        let mut inside = namespace.command(command.get_program());
        inside.args(command.get_args()).env_remove("RAILS_SECRET").stdin(Stdio::null());
        inside
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_pulled_link_is_waited_for_and_told() {
    let data = Data::with_noise();
    // The array takes three seconds.
    let lab = LinkLab::builder().link(Shape::mbit(50)).build().expect("labs can be built here");
    let listen = format!("{}:0", lab.address(Side::B, 0));
    let node = Node::start_by(inside(lab.side(Side::B)), &data.text("noise.nc"), &listen, &["--insecure"]);
    let before = data.names();
    let pulled = |patience: &str| {
        let begin = lab.counters(Side::A, 0).unwrap().rx_bytes;
        let reader = inside(lab.side(Side::A));
        let mut get = Get::start_by(reader, &data, &node.dataset("noise"), patience, &["--insecure"]);
        while lab.counters(Side::A, 0).unwrap().rx_bytes < begin + PART {
            get.is_reading();
            sleep(Duration::from_millis(1));
        }
        lab.set_link_up(Side::B, 0, false).unwrap();
        get.is_reading();
        get
    };
    pulled("5s").has_failed("", &data, &before);
    lab.set_link_up(Side::B, 0, true).unwrap();

    let mut get = pulled("60s");
    // The reader tells that it has noticed.
    let mut said = BufReader::new(get.child.stderr.take().expect("it is piped")).lines();
    let noticed = said.by_ref().map(|line| line.expect("it is text")).find(|line| line.contains("its link is down"));
    assert!(noticed.is_some(), "it has ended");
    lab.set_link_up(Side::B, 0, true).unwrap();
    let rest: Vec<String> = said.map(|line| line.expect("it is text")).collect();
    assert!(get.child.wait().unwrap().success(), "{rest:?}");
    assert!(fs::read(get.target).unwrap() == Data::noise(), "other elements were read");
}
