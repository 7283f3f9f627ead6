//! A watching process that is killed at any moment.

use crate::support::{end, inside, program, serve, serve_plain, start, talk, this, until};
use nix::{
    errno::Errno,
    sys::{
        prctl::set_child_subreaper,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
};
use std::{
    env,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// Starts a program, diverts all of its connections, and waits to be killed.
pub(crate) fn watch(to: SocketAddr, count: usize) {
    let (mut child, notifier) = start(program("survives", to, count));
    println!("{MARK}");
    serve(notifier, |attempt| {
        // Some threads wait longer for an answer, so that there are always calls without one.
        thread::sleep(Duration::from_millis(u64::from(attempt.tid() % 4)));
        if let Ok(stream) = attempt.divert() {
            talk(stream, &format!("gate {to}\n"));
        }
    });
    assert!(end(&mut child).success());
    loop {
        thread::park();
    }
}

/// Starts a program, diverts its connection, and waits to be killed.
pub(crate) fn answer(to: SocketAddr) {
    let (_child, notifier) = start(program("is-reset", to, 1));
    let attempt = notifier.next().expect("it is told").expect("the program connects");
    let _stream = attempt.divert().expect("the program waits");
    println!("{MARK}");
    loop {
        thread::park();
    }
}

#[test]
#[ignore = "needs root: it makes a network namespace, and becomes another user"]
fn netns_reset_of_a_connection_with_a_dead_watcher() {
    inside("killed::netns_reset_of_a_connection_with_a_dead_watcher", || {
        // The program's status is known to this process.
        set_child_subreaper(true).expect("it is permitted");
        kill_and_reap(&mut this("answerer"), Duration::ZERO);
    });
}

#[test]
#[ignore = "needs root: it makes a network namespace, and becomes another user"]
fn netns_a_killed_watcher_leaves_its_program_alive() {
    inside("killed::netns_a_killed_watcher_leaves_its_program_alive", || {
        // Orphans become children of this process, so that their status is known.
        set_child_subreaper(true).expect("it is permitted");
        let runs: u32 = env::var("RAILS_RUNS").map_or(20, |runs| runs.parse().expect("a number"));
        for run in 0..runs {
            // Each has ports of its own for the ends of connections that wait for late packets.
            let service = serve_plain("10.99.0.1:0");
            killed_after(service, Duration::from_micros(u64::from(run) * 7919 % 20_000));
        }
    });
}

fn killed_after(service: SocketAddr, moment: Duration) {
    let mut watcher: Command = this("watcher");
    watcher.env("RAILS_DIVERT_TEST_TO", service.to_string()).env("RAILS_DIVERT_TEST_COUNT", "50");
    kill_and_reap(&mut watcher, moment);
}

/// Kills a watching process some time after it has said the mark. Its program has to end well.
fn kill_and_reap(watcher: &mut Command, moment: Duration) {
    let mut watcher = watcher.stdout(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(watcher.stdout.take().expect("it is piped"));
    assert!(said.lines().any(|line| line.expect("text").contains(MARK)));
    thread::sleep(moment);
    watcher.kill().expect("it runs");
    let status = watcher.wait().expect("it is a child");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "its program failed before");
    // The program and its keeper, unless they had ended before, have become children of this process,
    // which has no others.
    until("the program and its keeper end", || match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::StillAlive) => None,
        Ok(status) => {
            assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?} after {moment:?}");
            None
        }
        Err(errno) => (errno == Errno::ECHILD).then_some(()),
    });
}

const MARK: &str = "the program runs";
