//! Sandboxes.

use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    libc::AF_NETLINK,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::{Pid, geteuid},
};
use rails_lab::Sandbox;
use std::{
    fs,
    net::UdpSocket,
    path::Path,
    process::{Command, Output, exit},
};

#[test]
fn refused_calls_answer_with_the_error() {
    let sandbox = Sandbox::new().deny(Errno::EPERM, &["sched_setaffinity", "mbind"]).deny(Errno::ENOSYS, &["flock"]);
    sandbox.rerun("refused_calls_answer_with_the_error", || {
        let this = Pid::from_raw(0);
        let cpus: CpuSet = sched_getaffinity(this).expect("it is not refused");
        assert_eq!(sched_setaffinity(this, &cpus), Err(Errno::EPERM));
        let lock = fs::File::open("/proc/self/exe").unwrap().try_lock_shared().unwrap_err();
        let fs::TryLockError::Error(lock) = lock else { panic!("{lock}") };
        assert_eq!(lock.raw_os_error(), Some(Errno::ENOSYS as i32));
    });
}

#[test]
fn calls_refused_by_their_argument() {
    let sandbox = Sandbox::new().deny_where(Errno::EAFNOSUPPORT, "socket", 0, AF_NETLINK);
    sandbox.rerun("calls_refused_by_their_argument", || {
        assert_eq!(getifaddrs().err(), Some(Errno::EAFNOSUPPORT));
        UdpSocket::bind("127.0.0.1:0").expect("other families are not refused");
    });
}

#[test]
#[should_panic(expected = "exit status: 7")]
fn test_that_fails_inside_fails_outside() {
    // Inside, a panic would be expected as well.
    Sandbox::new().rerun("test_that_fails_inside_fails_outside", || exit(7));
}

#[test]
fn program_gets_its_command_under_limits() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $WORD; head -c 5000 /dev/zero >file; echo $?"]);
    shell.current_dir(folder.path()).env("WORD", "from the caller");
    let said = Sandbox::new().max_file_size(4096).output(&shell);
    assert_eq!(lines(&said), ["from the caller", "153"], "128 and the number of SIGXFSZ: {said:?}");
    assert_eq!(fs::metadata(folder.path().join("file")).unwrap().len(), 4096);
}

#[test]
fn each_sandbox_has_a_run_of_its_own() {
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        Sandbox::new().deny(errno, &["flock"]).rerun("each_sandbox_has_a_run_of_its_own", || {
            let lock = fs::File::open("/proc/self/exe").unwrap().lock_shared().unwrap_err();
            assert_eq!(lock.raw_os_error(), Some(errno as i32));
        });
    }
}

#[test]
#[ignore = "needs root: it makes a mount namespace"]
fn netns_hidden_files_are_empty_inside_alone() {
    let name = "netns_hidden_files_are_empty_inside_alone";
    Sandbox::new().hide("/sys/devices").hide("/etc/passwd").only_processes().user(65534).rerun(name, || {
        assert_eq!(fs::read_dir("/sys/devices").unwrap().count(), 0);
        assert!(fs::read("/etc/passwd").unwrap().is_empty());
        assert!(Path::new("/proc/self/status").exists() && !Path::new("/proc/interrupts").exists());
        assert_eq!(geteuid().as_raw(), 65534);
    });
    assert!(fs::read_dir("/sys/devices").unwrap().count() > 0);
    assert!(Path::new("/proc/interrupts").exists() && !fs::read("/etc/passwd").unwrap().is_empty());
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_threads_of_a_user_are_limited() {
    let name = "netns_threads_of_a_user_are_limited";
    // A program of tests has two threads; who else runs as this user makes the answer no other.
    Sandbox::new().user(UNUSED).max_processes(2).rerun(name, || {
        let refused = std::thread::Builder::new().spawn(|| ()).expect_err("the limit is reached");
        assert_eq!(refused.raw_os_error(), Some(Errno::EAGAIN as i32));
    });
}

fn lines(output: &Output) -> Vec<&str> {
    std::str::from_utf8(&output.stdout).expect("it is text").lines().collect()
}

/// A user whom no system has.
const UNUSED: u32 = 3_650_000_036;
