//! hwloc's environment variables can make it describe another machine.

use rails_topo::{DetectError, Topology};
use std::process::Command;

/// hwloc's variables are the process's, so the test runs itself again with one of them set.
#[test]
fn detection_refuses_to_describe_another_machine() {
    if std::env::var_os("HWLOC_SYNTHETIC").is_some() {
        assert!(matches!(Topology::detect(), Err(DetectError::NotThisMachine)));
        return;
    }
    let itself = std::env::current_exe().unwrap();
    let status = Command::new(itself)
        .args(["--exact", "redirected::detection_refuses_to_describe_another_machine"])
        .env("HWLOC_SYNTHETIC", "pu:4")
        .status();
    assert!(status.unwrap().success());
}
