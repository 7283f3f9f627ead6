//! Where the system refuses calls that place threads and memory, as containers, sandboxes and
//! services do.

use crate::util::{finish, pattern, rails_bench, stderr, stdout, text, wait_for, watch_stderr};
use nix::{
    errno::Errno,
    libc::{AF_NETLINK, SO_BINDTODEVICE},
};
use rails_lab::Sandbox;
use std::fs;

const MEMORY: &[&str] = &["get_mempolicy", "set_mempolicy", "mbind", "move_pages"];

/// A transfer inside, and what both ends say of it on stdout.
fn transferred(sandbox: &Sandbox) -> (String, String) {
    transferred_over("127.0.0.1:0", sandbox)
}

/// A transfer inside to a receiver that listens at this address, and the words of both ends on
/// stdout.
fn transferred_over(address: &str, sandbox: &Sandbox) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (file, inbox) = (folder.path().join("file"), folder.path().join("inbox"));
    fs::write(&file, pattern(300_000, 1)).unwrap();
    let listen = ["recv", "--insecure", "--once", "--listen", address, "--into", text(&inbox)];
    let mut receiver = sandbox.spawn(&rails_bench(listen));
    let lines = watch_stderr(&mut receiver);
    let line = wait_for(&lines, "listening on ");
    let address = line.trim_start_matches("listening on ");
    let sent = sandbox.output(&rails_bench(["send", "--insecure", "--to", address, text(&file)]));
    assert!(sent.status.success(), "{}", stderr(&sent));
    let (code, told, said) = finish(receiver, &lines);
    assert_eq!(code, 0, "{said}");
    assert!(fs::read(inbox.join("file")).unwrap() == fs::read(file).unwrap());
    (stdout(&sent), told)
}

#[test]
fn transfer_without_memory_policies() {
    let (sent, received) = transferred(&Sandbox::new().deny(Errno::EPERM, MEMORY));
    for told in [sent, received] {
        let lacks = "\nnot held: the memory policy is not set: get_mempolicy is refused: Operation not permitted (os \
                     error 1)\n          Docker, Podman: --cap-add SYS_NICE\n";
        assert!(told.contains(lacks), "{told}");
    }
}

#[test]
fn transfer_by_threads_that_cannot_be_bound() {
    let calls = ["sched_setaffinity", "sched_getaffinity"];
    let (sent, received) = transferred(&Sandbox::new().deny(Errno::ENOSYS, &calls));
    for told in [sent, received] {
        assert!(
            told.contains("\nnot held: threads are not bound to their CPUs: sched_getaffinity is refused"),
            "{told}"
        );
    }
}

#[test]
fn transfer_where_no_improving_call_is_allowed() {
    let calls =
        ["prctl", "madvise", "sched_setscheduler", "setpriority", "pidfd_open", "mlock", "getcpu", "membarrier"];
    let (sent, _) = transferred(&Sandbox::new().deny(Errno::EPERM, &calls));
    assert!(!sent.contains("not held"), "{sent}");
}

#[test]
fn plan_and_doctor_tell_of_refused_placement() {
    let sandbox = Sandbox::new().deny(Errno::EPERM, MEMORY).deny(Errno::EPERM, &["sched_setaffinity"]);
    for args in [vec!["plan", "--rails", "loopback:1"], vec!["doctor", "--seconds", "0.01", "--rails", "loopback:1"]] {
        let output = sandbox.output(&rails_bench(args.clone()));
        let told = stdout(&output);
        assert!(output.status.success(), "{}", stderr(&output));
        for lacks in
            ["not held: threads are not bound to their CPUs: sched_setaffinity is refused", "--cap-add SYS_NICE"]
        {
            assert!(told.contains(lacks), "{args:?}: {told}");
        }
        let output = sandbox.output(rails_bench(args).arg("--json"));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let unheld = told.get("unheld").unwrap_or_else(|| &told["examined"][0]["unheld"]);
        assert_eq!(unheld[0]["property"], "cpus", "{told}");
        assert_eq!(unheld[0]["cause"]["refused"]["call"], "sched_setaffinity", "{told}");
    }
}

#[test]
fn required_placement_is_refused_where_rails_are() {
    let sandbox = Sandbox::new().deny(Errno::EPERM, &["sched_setaffinity"]);
    let folder = tempfile::tempdir().unwrap();
    let recv = ["recv", "--insecure", "--listen", "127.0.0.1:0", "--into", text(folder.path())];
    for args in [&["plan", "--rails", "loopback:1"][..], &recv] {
        let output = sandbox.output(rails_bench(args.iter().copied()).arg("--require-placement"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("rail `rail-0` could not be placed: sched_setaffinity was refused"), "{said}");
    }
}

#[test]
fn tasks_of_the_machine_are_measured_unbound() {
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        let sandbox = Sandbox::new().deny(errno, &["sched_setaffinity", "sched_getaffinity"]);
        let output = sandbox.output(&rails_bench(["tasks", "--tasks", "100", "--seconds", "0.01"]));
        assert!(output.status.success(), "{}", stderr(&output));
        let told = stdout(&output);
        assert!(told.contains("the submitting thread is bound to no CPU, as the system refuses that"), "{told}");
    }
}

#[test]
fn undo_where_flock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        let sandbox = Sandbox::new().deny(errno, &["flock"]);
        for list in [&["--list"][..], &[]] {
            let undo = ["undo", "--journal", text(folder.path())].into_iter().chain(list.iter().copied());
            let output = sandbox.output(&rails_bench(undo));
            assert!(output.status.success(), "{}", stderr(&output));
        }
    }
}

#[test]
fn demo_where_free_space_is_not_told() {
    let sandbox = Sandbox::new().deny(Errno::EPERM, &["statfs", "fstatfs"]);
    let output = sandbox.output(&rails_bench(["demo", "--size", "100KiB"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("which has an unknown number of bytes free"), "{}", stdout(&output));
}

#[test]
fn celeritas_transfer_where_no_route_is_told() {
    for errno in [Errno::EPERM, Errno::EAFNOSUPPORT, Errno::EPROTONOSUPPORT] {
        transferred_over("celeritas://127.0.0.1:0", &Sandbox::new().deny_where(errno, "socket", 0, AF_NETLINK));
    }
    let no_device = Sandbox::new().deny_where(Errno::EPERM, "getsockopt", 2, SO_BINDTODEVICE);
    transferred_over("celeritas://127.0.0.1:0", &no_device);
}

#[test]
fn celeritas_transfer_without_improving_options() {
    for errno in [Errno::EPERM, Errno::EINVAL] {
        transferred_over("celeritas://127.0.0.1:0", &Sandbox::new().deny(errno, &["setsockopt"]));
    }
}
