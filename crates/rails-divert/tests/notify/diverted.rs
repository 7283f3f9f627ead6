//! Connections that are diverted. None leaves the machine: their destinations do not exist.

use crate::support::{NOWHERE, NOWHERE_V6, divert_all, end, program, serve, start, talk, until};
use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use rails_divert::notify::{Attempts, Passed};
use std::{
    net::TcpListener,
    sync::{Barrier, mpsc::channel},
    thread,
};

/// Runs a program of which each connection is diverted, and returns their number.
fn all_diverted(name: &str, to: &str, count: usize) -> u64 {
    let (mut child, notifier) = start(program(name, to, count));
    let counters = divert_all(notifier);
    assert!(end(&mut child).success(), "{counters:?}");
    assert_eq!((counters.plain(), counters.failed(), counters.gone()), (0, 0, 0));
    counters.diverted()
}

fn has_v6() -> bool {
    TcpListener::bind("[::1]:0").is_ok()
}

#[test]
fn a_program_talks_to_the_gate() {
    assert_eq!(all_diverted("blocking", NOWHERE, 3), 3);
    assert_eq!(all_diverted("nonblocking", NOWHERE, 3), 3);
    assert_eq!(all_diverted("bound-port", NOWHERE, 1), 1);
}

#[test]
fn sockets_of_ipv6_are_diverted() {
    if has_v6() {
        assert_eq!(all_diverted("blocking", NOWHERE_V6, 1), 1);
        assert_eq!(all_diverted("nonblocking", NOWHERE_V6, 1), 1);
        assert_eq!(all_diverted("only-v6", NOWHERE_V6, 1), 1);
    }
    assert_eq!(all_diverted("mapped", NOWHERE, 1), 1);
}

#[test]
fn threads_and_processes_are_told_of() {
    assert_eq!(all_diverted("threads", NOWHERE, 5), 5 * crate::program::THREADS as u64);
    // Each starts three.
    assert_eq!(all_diverted("forks", NOWHERE, 2), 1 + 3 + 9);
    assert_eq!(all_diverted("execs", NOWHERE, 1), 1);
}

#[test]
fn a_program_without_connections_ends_the_attempts() {
    assert_eq!(all_diverted("nothing", NOWHERE, 0), 0);
}

#[test]
fn attempts_are_answered_in_any_order() {
    let (mut child, notifier) = start(program("waits", NOWHERE, 1));
    // Each attempt waits until the other one has come.
    let both = Barrier::new(2);
    let counters = serve(notifier, |attempt| {
        both.wait();
        let destination = attempt.destination();
        talk(attempt.divert().expect("the program waits"), &format!("gate {destination}\n"));
    });
    assert!(end(&mut child).success());
    assert_eq!(counters.diverted(), 2);
}

#[test]
fn a_program_that_dies_ends_its_attempt() {
    let (mut child, notifier) = start(program("dies", NOWHERE, 1));
    let attempt = notifier.next().expect("it is told").expect("the program connects");
    child.kill().expect("it runs");
    end(&mut child);
    assert_eq!(attempt.divert().expect_err("nobody waits").kind(), std::io::ErrorKind::NotFound);
    assert!(notifier.next().expect("it is told").is_none());
    assert_eq!(notifier.counters().gone(), 1);
}

#[test]
fn a_stopped_program_goes_on() {
    let (mut child, notifier) = start(program("blocking", NOWHERE, 2));
    let pid = Pid::from_raw(child.id() as i32);
    let (send, waiting) = channel();
    let serving = thread::spawn(move || {
        serve(notifier, |attempt| {
            send.send(attempt).expect("the test listens");
        })
    });
    let answer = |attempt: rails_divert::notify::Attempt| {
        let stream = attempt.divert().expect("the program waits");
        thread::spawn(move || talk(stream, &format!("gate {NOWHERE}\n")))
    };
    let first = waiting.recv().expect("the program connects");
    kill(pid, Signal::SIGSTOP).expect("it is ours");
    // The other threads stop, and the one that waits once it is answered.
    until("the first thread stops", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is a child");
        status.contains("State:\tT").then_some(())
    });
    answer(first);
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("it is a child");
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    kill(pid, Signal::SIGCONT).expect("it is ours");
    answer(waiting.recv().expect("the program goes on"));
    assert!(end(&mut child).success());
    assert_eq!(serving.join().expect("it ends").diverted(), 2);
}

#[tokio::test]
async fn a_runtime_waits_for_attempts() {
    let (mut child, notifier) = start(program("threads", NOWHERE, 2));
    let counters = notifier.counters();
    let attempts = Attempts::new(notifier).expect("it can be watched");
    while let Some(attempt) = attempts.next().await.expect("it is told") {
        tokio::task::spawn_blocking(move || {
            let destination = attempt.destination();
            talk(attempt.divert().expect("the program waits"), &format!("gate {destination}\n"));
        });
    }
    assert!(end(&mut child).success());
    assert_eq!(counters.diverted(), 2 * crate::program::THREADS as u64);
    // Half of the sockets call twice more.
    assert_eq!(counters.passed(Passed::InUse), 2 * crate::program::THREADS as u64);
}
