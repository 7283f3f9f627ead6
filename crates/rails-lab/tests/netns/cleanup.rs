//! Nothing of a lab stays behind, however its owner ends.

use crate::{exists, wait_until};
use rails_lab::{EmulatedLink, LabError, LinkLab, Shape, Side, SystemError};
use std::{
    env,
    io::{BufRead, BufReader},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_dropped_lab_leaves_nothing() {
    let lab = LinkLab::builder().link(Shape::Unshaped).emulated(EmulatedLink::mbit(100)).build().unwrap();
    let names = names(&lab);
    let inside = lab.side(Side::A).clone();
    assert!(names.iter().all(|name| exists(name)));
    drop(lab);
    assert!(!names.iter().any(|name| exists(name)));
    assert!(matches!(inside.enter(), Err(LabError::System(SystemError::File { call: "open", .. }))));
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_panic_leaves_nothing() {
    let seen = Mutex::new(Vec::new());
    let result = catch_unwind(AssertUnwindSafe(|| {
        let lab = LinkLab::builder().link(Shape::mbit(10)).emulated(EmulatedLink::mbit(10)).build().unwrap();
        let _inside = lab.enter(Side::A).unwrap();
        seen.lock().unwrap().extend(names(&lab));
        panic!("on purpose");
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
    let names = seen.into_inner().unwrap();
    assert_eq!(names.len(), 2);
    assert!(!names.iter().any(|name| exists(name)));
}

/// Both ways a process may end without running its drops: a signal that it could heed, and the one
/// that no process can catch. (A shell has its background jobs ignore that of Ctrl-C, and with them
/// a test that it runs there.)
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_a_killed_owner_leaves_nothing() {
    if env::var_os(OWNER).is_some() {
        own_until_killed();
    }
    for signal in ["-TERM", "-KILL"] {
        let mut owner = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "cleanup::netns_a_killed_owner_leaves_nothing"])
            .env(OWNER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(owner.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        let mut said = |what| lines.find_map(|line| line.strip_prefix(what).map(str::to_owned)).unwrap();
        let names = [said("owns "), said("owns ")];
        let program = format!("/proc/{}/exe", said("runs "));
        assert!(names.iter().all(|name| exists(name)) && Path::new(&program).exists());
        assert!(Command::new("kill").args([signal, &owner.id().to_string()]).status().unwrap().success());
        owner.wait().unwrap();
        wait_until(|| !names.iter().any(|name| exists(name)));
        // A program that has ended has no executable, even before its parent has looked.
        wait_until(|| !Path::new(&program).exists());
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_sweep_of_a_dead_owners_namespaces_alone() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let stale = format!("rails-{}-0-a", child.id());
    let foreign = format!("rails-{}-0-x", child.id());
    for name in [&stale, &foreign] {
        assert!(Command::new("ip").args(["netns", "add", name]).status().unwrap().success());
    }
    let alive = LinkLab::builder().link(Shape::Unshaped).build();
    // Every build sweeps, so a test beside this one may have been first; the assertion is that it is
    // gone.
    let swept = LinkLab::sweep();
    let foreign_stayed = exists(&foreign);
    let _ = Command::new("ip").args(["netns", "del", &foreign]).status();
    swept.unwrap();
    assert!(!exists(&stale));
    assert!(foreign_stayed);
    assert!(names(&alive.unwrap()).iter().all(|name| exists(name)));
}

/// The process that the test kills: the test runs its own binary again for it.
fn own_until_killed() -> ! {
    let lab = LinkLab::builder().link(Shape::Unshaped).emulated(EmulatedLink::mbit(100)).build().unwrap();
    for name in names(&lab) {
        println!("\nowns {name}");
    }
    let script = "sleep 1000 & echo runs $!; wait";
    let mut program = lab.side(Side::A).command("sh").args(["-c", script]).spawn().unwrap();
    program.wait().unwrap();
    panic!("nobody killed the owner");
}

fn names(lab: &LinkLab) -> [String; 2] {
    Side::BOTH.map(|side| lab.side(side).name().to_owned())
}

/// Set in the process that is to be killed.
const OWNER: &str = "RAILS_LAB_TEST_OWNER";
