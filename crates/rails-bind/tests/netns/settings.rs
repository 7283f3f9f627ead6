//! Settings of interfaces that `/sys` does not show.

use rails_bind::settings::{Change, Host, Journal, Refusals, Setting, SettingError, Value};
use std::{env, process::Command};

/// `/sys` is of a first namespace, and the test runs in a second one with another interface of the
/// same name.
#[test]
#[ignore = "needs root: it makes network namespaces"]
fn netns_foreign_interfaces_are_left_alone() {
    if env::var_os(INSIDE).is_some() {
        return foreign_interfaces_are_left_alone();
    }
    let run = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-ec", SCRIPT, "sh"])
        .arg(env::current_exe().expect("it is running"))
        .args(["--ignored", "--exact", "settings::netns_foreign_interfaces_are_left_alone"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare is part of util-linux");
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

fn foreign_interfaces_are_left_alone() {
    let setting = |name: &str| Setting::ReceiveFlows { interface: name.parse().expect("a good name"), queue: 0 };
    let journal = tempfile::tempdir().expect("there is room");
    let journal = Journal::at(journal.path()).expect("there is room");
    let apply = |name| {
        let change = Change { setting: setting(name), value: Value::Number(64) };
        Host::this().apply(&journal, &[change], Refusals::Fail)
    };
    for name in ["eth0", "only0"] {
        let error = Host::this().read(&setting(name)).expect_err("it is not of this namespace");
        assert!(matches!(error, SettingError::Foreign { .. }), "{error}");
        apply(name).expect_err("it is not of this namespace");
    }
    let flows = || std::fs::read_to_string("/sys/class/net/eth0/queues/rx-0/rps_flow_cnt").expect("there is one");
    assert_eq!(flows().trim(), "0");
    assert_eq!(Host::this().read(&setting("lo")).expect("every namespace has it"), Value::Number(0));
}

/// The shell keeps the first namespace until the test has ended.
const SCRIPT: &str = "
mount -t sysfs sysfs /sys
ip link add eth0 type veth peer name only0
unshare --net sh -ec '
ip link add eth0 type veth peer name other0
exec \"$@\"' sh \"$@\"
true
";

/// Tells the second run that it is the one inside.
const INSIDE: &str = "RAILS_TEST_INSIDE";
