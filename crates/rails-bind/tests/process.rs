//! Processes that are not ours: another user's, and one in another network.

use nix::{
    sched::{CloneFlags, unshare},
    unistd::geteuid,
};
use rails_bind::{
    process::{Process, ProcessError, Protocol},
    thread::Tid,
};
use std::{
    env,
    net::UdpSocket,
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::mpsc,
};

/// Says in a process with fewer capabilities which process to look at.
const LOOK_AT: &str = "RAILS_BIND_TEST_LOOK_AT";

/// Ends the process when the test does.
struct Sleeper(Child);

impl Sleeper {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("it is there: setpriv is part of util-linux, sleep of coreutils"))
    }

    fn process(&self) -> Process {
        process(&self.0.id().to_string())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn process(pid: &str) -> Process {
    Process::of(Tid::from_raw(pid.parse().expect("a number")).expect("above zero"))
}

#[test]
fn denied_sockets_are_not_no_sockets() {
    const NAME: &str = "denied_sockets_are_not_no_sockets";
    if let Ok(pid) = env::var(LOOK_AT) {
        let error = process(&pid).sockets().expect_err("it is another user's");
        let both = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
        assert!(matches!(error, ProcessError::NotPermitted { needs, .. } if needs == both), "{error}");
        return;
    }
    let this_program = env::current_exe().expect("a test knows its program");
    let look = |mut command: Command, pid: &str| {
        let output = command.args(["--exact", NAME, "--nocapture"]).env(LOOK_AT, pid).output();
        let output = output.expect("setpriv is there: it is part of util-linux");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    };
    if !geteuid().is_root() {
        // The first process is root's.
        return look(Command::new(this_program), "1");
    }
    let other = Sleeper::start(Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "sleep", "60"]));
    wait_until_it_sleeps(&other);
    for capabilities in ["-all", "-all,+sys_ptrace", "-all,+dac_read_search", "-all,+dac_override"] {
        let mut command = Command::new("setpriv");
        command.args([&format!("--bounding-set={capabilities}"), "--inh-caps=-all"]).arg(&this_program);
        look(command, &other.0.id().to_string());
    }
    other.process().sockets().expect("root with all capabilities sees it");
}

/// Waits for the sleeper's program: before, the process is `setpriv`, and root's.
fn wait_until_it_sleeps(sleeper: &Sleeper) {
    let comm = format!("/proc/{}/comm", sleeper.0.id());
    while std::fs::read_to_string(&comm).expect("it runs for a minute").trim_end() != "sleep" {
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn netns_sockets_of_another_namespaces_process() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("it takes CAP_SYS_ADMIN");
        let socket = UdpSocket::bind("0.0.0.0:4711").expect("the port is free in a network of its own");
        let sleeper = Sleeper::start(Command::new("sleep").arg("60").stdin(OwnedFd::from(socket)));
        let shares = sleeper.process().shares_network_namespace().expect("root sees it");
        tell.send((shares, sleeper)).expect("it is waited for");
    });
    let (shared_there, sleeper) = told.recv().expect("the thread does not panic");
    let process = sleeper.process();
    assert!(shared_there);
    assert!(!process.shares_network_namespace().expect("root sees it"));
    let sockets = process.sockets().expect("root sees it");
    let [socket] = sockets.as_slice() else { panic!("it has one: {sockets:?}") };
    assert_eq!((socket.local.to_string().as_str(), socket.remote), ("0.0.0.0:4711", None));
    assert_eq!(socket.protocol, Protocol::Udp);
}
