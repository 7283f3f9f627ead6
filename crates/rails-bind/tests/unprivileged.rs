//! Threads without capabilities and limits: their rights, and the errors beyond them.
//!
//! Each test runs itself once more in a process of its own that has neither, by `setpriv` and
//! `prlimit` of util-linux.

use rails_bind::{
    BindError, Outcome,
    thread::{self, SchedulingClass, ThreadPlacement, Tid},
    usage::ThreadUsage,
};
use rails_topo::CpuSet;
use std::{env, process::Command};

/// Set where a test runs without privileges.
const INSIDE: &str = "RAILS_BIND_TEST_UNPRIVILEGED";

/// Runs `test` without privileges: it is the body of the test called `name`.
fn without_privileges(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    let this_program = env::current_exe().expect("a test knows its program");
    let mut command = Command::new("prlimit");
    command.args(["--rtprio=0", "--nice=0"]);
    if nix::unistd::geteuid().is_root() {
        command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    }
    let output = command.arg(this_program).args(["--exact", name, "--nocapture"]).env(INSIDE, "1").output();
    let output = output.expect("prlimit and setpriv are there: they are part of util-linux");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn denied(error: &BindError, needs: &str) {
    let message = error.to_string();
    assert!(matches!(error, BindError::Denied { .. }) && message.contains(needs), "{message}");
}

#[test]
fn real_time_denied_with_nothing_half_done() {
    without_privileges("real_time_denied_with_nothing_half_done", || {
        let tid = thread::current_tid();
        let cpus = thread::current_affinity().expect("readable");
        let before =
            (cpus.clone(), thread::scheduling_of(tid).expect("readable"), thread::name_of(tid).expect("readable"));
        for class in [SchedulingClass::Fifo(10), SchedulingClass::RoundRobin(10)] {
            let one = CpuSet::single(cpus.first().expect("a thread may run somewhere"));
            // Name and CPUs are set first, and the class fails.
            let placement = ThreadPlacement::new().name("rail0").cpus(one).class(class);
            denied(
                &placement.apply().expect_err("it needs a privilege"),
                "CAP_SYS_NICE or RLIMIT_RTPRIO of at least 10",
            );
            denied(&placement.apply_to(tid).expect_err("it needs a privilege"), "RLIMIT_RTPRIO");
            let after = (
                thread::current_affinity().expect("readable"),
                thread::scheduling_of(tid).expect("readable"),
                thread::name_of(tid).expect("readable"),
            );
            assert_eq!(after, before);
        }
        let lower = before.1.nice - 1;
        let error = ThreadPlacement::new().nice(lower).apply().expect_err("it needs a privilege");
        denied(&error, &format!("CAP_SYS_NICE or RLIMIT_NICE of at least {}", 20 - lower));
    });
}

#[test]
fn placements_without_privilege() {
    without_privileges("placements_without_privilege", || {
        let tid = thread::current_tid();
        let cpus = thread::current_affinity().expect("readable");
        let before = (thread::scheduling_of(tid).expect("readable"), thread::name_of(tid).expect("readable"));
        let placement = ThreadPlacement::new().cpus(cpus).class(SchedulingClass::Batch).name("rail0");
        placement.apply().expect("it takes no privilege").restore().expect("there is a way back");
        let after = (thread::scheduling_of(tid).expect("readable"), thread::name_of(tid).expect("readable"));
        assert_eq!(after, before);
    });
}

#[test]
fn where_there_is_no_way_back_the_guard_says_so() {
    without_privileges("where_there_is_no_way_back_the_guard_says_so", || {
        let nice = thread::scheduling_of(thread::current_tid()).expect("readable").nice;
        let guard = ThreadPlacement::new().nice(nice + 1).apply().expect("everyone may be nicer");
        assert!(matches!(guard.outcome().scheduling, Some(Outcome::Applied(now)) if now.nice == nice + 1));
        denied(&guard.restore().expect_err("nobody may go back"), "RLIMIT_NICE");
    });
}

#[test]
fn thread_of_another_user_is_denied_and_can_be_read() {
    // Process 1 is the superuser's and has every capability, also where this test is run by the
    // superuser, without any.
    let name = "thread_of_another_user_is_denied_and_can_be_read";
    without_privileges(name, || {
        let first = Tid::from_raw(1).expect("above zero");
        let cpus = thread::affinity_of(first).expect("anyone may read it");
        denied(&thread::bind(first, &cpus).expect_err("it is not ours"), "CAP_SYS_NICE");
        let error = ThreadPlacement::new().nice(19).apply_to(first).expect_err("it is not ours");
        denied(&error, "CAP_SYS_NICE");
        ThreadUsage::of_process_thread(first, first).expect("anyone may read it");
    });
}
