//! `redirect`: cgroups that go and come, and gates.

use super::{Gates, Running};
use crate::util::text;
use nix::sys::signal::Signal;
use rails_lab::{Entered, LinkLab, Shape, Side};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// A cgroup, removed when it is dropped.
pub(super) struct Cgroup(pub(super) PathBuf);

impl Cgroup {
    pub(super) fn new(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")).expect("cgroup2 is mounted");
        let folder =
            PathBuf::from(mount.split(' ').nth(1).unwrap()).join(format!("rails-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// A command that runs in the cgroup, and in the network namespace of the thread that spawns
    /// it.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-ec", "echo $$ > \"$0\"/cgroup.procs; exec \"$@\"", text(&self.0), program]);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A place where a gate and a service are, and a redirect of a cgroup.
struct Place {
    redirect: Running,
    gates: Gates,
    cgroup: Cgroup,
    address: String,
    _inside: Entered,
    _lab: LinkLab,
}

impl Place {
    fn new(name: &str) -> Self {
        let lab = LinkLab::builder().links([Shape::Unshaped, Shape::Unshaped]).build().unwrap();
        let gates = Gates::of_lab(&lab);
        let listener = {
            let _inside = lab.enter(Side::B).unwrap();
            TcpListener::bind((lab.address(Side::B, 0), 0)).unwrap()
        };
        let address = format!("{} {}", lab.address(Side::B, 0), listener.local_addr().unwrap().port());
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || stream.write_all(b"word").and_then(|()| stream.read_to_end(&mut Vec::new())));
            }
        });
        let cgroup = Cgroup::new(name);
        // `ip netns exec` hides the cgroups.
        let inside = lab.enter(Side::A).unwrap();
        let command = gates.door(["redirect", "--cgroup", text(&cgroup.0)]);
        let redirect = Running::start(command);
        redirect.wait_for("redirecting the connections of ");
        Self { redirect, gates, cgroup, address, _inside: inside, _lab: lab }
    }

    /// Connects, and hears the word.
    fn connect(&self) {
        let hear = format!(
            "
import socket
host, port = '{}'.split()
print(socket.create_connection((host, int(port)), 60).recv(4).decode())",
            self.address
        );
        let output = self.cgroup.command("python3").args(["-c", &hear]).output().unwrap();
        assert_eq!(crate::util::stdout(&output), "word\n", "{}", crate::util::stderr(&output));
    }

    /// The connections that the gate carried.
    fn carried(&self) -> u64 {
        self.gates.status()["connections"][0]["opened"].as_u64().unwrap_or(0)
    }

    fn connect_until_carried(&self, number: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.carried() < number {
            assert!(Instant::now() < until, "the gate carries none");
            self.connect();
        }
    }
}

#[test]
#[ignore = "needs root, `ip`, `tc` and cgroup2"]
fn netns_a_restarted_service_is_redirected() {
    let place = Place::new("anew");
    place.connect_until_carried(1);
    fs::remove_dir(&place.cgroup.0).unwrap();
    place.redirect.wait_for_words("is gone: waiting until it is there again");
    fs::create_dir(&place.cgroup.0).unwrap();
    place.redirect.wait_for("redirecting the connections of ");
    let before = place.carried();
    place.connect_until_carried(before + 1);
    // Between two looks, it is another one as well.
    fs::remove_dir(&place.cgroup.0).unwrap();
    fs::create_dir(&place.cgroup.0).unwrap();
    place.redirect.wait_for("redirecting the connections of ");
    let before = place.carried();
    place.connect_until_carried(before + 1);
}

#[test]
#[ignore = "needs root, `ip`, `tc` and cgroup2"]
fn netns_a_gate_inside_the_cgroup_is_noticed() {
    let place = Place::new("inside");
    place.connect_until_carried(1);
    let gate = place.gates.near.child.id().to_string();
    fs::write(place.cgroup.0.join("cgroup.procs"), &gate).unwrap();
    let line = place.redirect.wait_for("nothing is redirected: ");
    assert!(line.contains(&gate), "{line}");
    let before = place.carried();
    place.connect();
    assert_eq!(place.carried(), before, "it is plain");
    let outside = place.cgroup.0.parent().unwrap().join("cgroup.procs");
    fs::write(outside, &gate).unwrap();
    place.connect_until_carried(before + 1);
}

#[test]
#[ignore = "needs root, `ip`, `tc` and cgroup2"]
fn netns_networks_follow_the_policy() {
    let mut place = Place::new("follow");
    place.connect_until_carried(1);
    let policy = place.gates.policy();
    let right = fs::read_to_string(&policy).unwrap();
    let networks = right.lines().find(|line| line.starts_with("networks")).unwrap();
    // One that is for other doors does not keep the others from being redirected.
    fs::write(&policy, right.replace(networks, "networks = ['127.0.0.0/8', '203.0.113.0/24']")).unwrap();
    place.gates.near.signal(Signal::SIGHUP);
    place.redirect.wait_for("not redirected: ");
    let before = place.carried();
    place.connect();
    assert_eq!(place.carried(), before);
    fs::write(&policy, right.replace("networks = [", "networks = ['127.0.0.0/8', ")).unwrap();
    place.gates.near.signal(Signal::SIGHUP);
    place.connect_until_carried(before + 1);

    // A gate that is killed: plain. The redirect killed: plain as well.
    place.gates.near.signal(Signal::SIGKILL);
    place.connect();
    place.redirect.signal(Signal::SIGKILL);
    place.redirect.child.wait().unwrap();
    place.connect();
}
