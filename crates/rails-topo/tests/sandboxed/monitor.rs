//! A monitor whose sources are refused, or that gets no thread.

use nix::{errno::Errno, libc::AF_NETLINK};
use rails_lab::Sandbox;
use rails_topo::{
    Topology,
    monitor::{Monitor, MonitorError, MonitorOptions},
};
use tokio::runtime;

#[test]
fn refused_sources_are_told_and_left_out() {
    let sandbox = Sandbox::new().deny_where(Errno::EAFNOSUPPORT, "socket", 0, AF_NETLINK);
    let sandbox = sandbox.deny(Errno::EMFILE, &["inotify_init1"]);
    sandbox.rerun("monitor::refused_sources_are_told_and_left_out", || {
        started(|monitor| {
            let name = |error: &MonitorError| match error {
                MonitorError::Source { source_name, .. } => *source_name,
                error => panic!("{error}"),
            };
            assert_eq!(monitor.refused().iter().map(name).collect::<Vec<_>>(), ["uevents", "rtnetlink", "inotify"]);
            assert_eq!(monitor.snapshot().topology.online_cpus(), Topology::detect().unwrap().online_cpus());
        });
    });
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_monitor_without_a_thread_reads_by_itself() {
    // The program of tests has two threads.
    let sandbox = Sandbox::new().user(UNUSED).max_processes(2);
    sandbox.rerun("monitor::netns_monitor_without_a_thread_reads_by_itself", || {
        std::thread::Builder::new().spawn(|| ()).expect_err("the limit is reached");
        started(|monitor| assert!(!monitor.snapshot().topology.online_cpus().is_empty()));
    });
}

/// Starts a monitor on this thread.
fn started(then: impl FnOnce(&Monitor)) {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        then(&Monitor::start(MonitorOptions::new()).await.expect("it starts"));
    });
}

/// A user whom no system has.
const UNUSED: u32 = 3_650_000_037;
