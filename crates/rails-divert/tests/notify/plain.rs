//! Connections that go on in the kernel.

use crate::support::{NOWHERE, end, inside, program, serve, serve_plain, start};
use rails_divert::notify::{Counters, Passed};
use std::{
    process::{Command, Stdio},
    sync::Arc,
};

/// Runs a program all of whose connections go plain; returns its words.
fn plain(mut command: Command) -> (String, Arc<Counters>) {
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let (child, notifier) = start(command);
    let counters = serve(notifier, |attempt| attempt.go_plain());
    let output = child.wait_with_output().expect("it is a child");
    assert!(output.status.success());
    (String::from_utf8(output.stdout).expect("text"), counters)
}

#[test]
#[ignore = "needs root: it makes a network namespace, and becomes another user"]
fn netns_calls_end_as_without_a_filter() {
    inside("plain::netns_calls_end_as_without_a_filter", || {
        let service = serve_plain("10.99.0.1:0");
        let errors = || program("errors", service, 1);
        let output = errors().stdout(Stdio::piped()).output().expect("it starts");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let results = |said: &str| {
            said.lines()
                .filter(|line| line.contains("Ok(") || line.contains("Err("))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (filtered, counters) = plain(errors());
        assert_eq!(results(&filtered), results(&said));
        assert!(results(&said).len() > 30, "{said}");
        let never = [Passed::NoLoopback, Passed::Network, Passed::Untouchable, Passed::BadAddress];
        for reason in Passed::ALL {
            assert_eq!(counters.passed(reason) == 0, never.contains(&reason), "{reason}: {counters:?}");
        }
        assert!(counters.plain() >= 8, "{counters:?}");
        assert_eq!((counters.diverted(), counters.failed(), counters.gone()), (0, 0, 0));
    });
}

#[test]
#[ignore = "needs root: it makes a network namespace, and becomes another user"]
fn netns_no_gate_is_no_loss() {
    inside("plain::netns_no_gate_is_no_loss", || {
        for (service, name) in [("10.99.0.1:0", "survives"), ("[fd00::1]:0", "survives")] {
            let service = serve_plain(service);
            let (_, counters) = plain(program(name, service, 5));
            assert_eq!((counters.plain(), counters.diverted()), (20, 0), "{counters:?}");
            // Nobody asks for attempts any more: the keeper answers.
            let (mut child, notifier) = start(program(name, service, 5));
            drop(notifier);
            assert!(end(&mut child).success());
            // The keeper answers while an attempt is pending, too, once that one is dropped.
            let (mut child, notifier) = start(program(name, service, 5));
            let attempt = notifier.next().expect("it is told").expect("the program connects");
            drop(notifier);
            attempt
                .divert()
                .map(|stream| crate::support::talk(stream, &format!("gate {service}\n")))
                .expect("it waits");
            assert!(end(&mut child).success());
        }
    });
}

#[test]
#[ignore = "needs root: it makes a network namespace, and becomes another user"]
fn netns_a_task_that_may_not_be_touched_passes() {
    inside("plain::netns_a_task_that_may_not_be_touched_passes", || {
        let (_, counters) = plain(program("undumpable", serve_plain("10.99.0.1:0"), 1));
        assert_eq!(counters.passed(Passed::Untouchable), 1, "{counters:?}");
    });
}

#[test]
#[ignore = "needs root: it makes a network namespace"]
fn netns_sockets_of_another_network_pass() {
    let lost = program("lost", NOWHERE, 1);
    let mut command = Command::new("unshare");
    command.arg("--net").arg(lost.get_program()).args(lost.get_args());
    command.envs(lost.get_envs().map(|(name, value)| (name, value.expect("none is removed"))));
    let (_, counters) = plain(command);
    assert_eq!(counters.passed(Passed::Network), 1, "{counters:?}");
}
