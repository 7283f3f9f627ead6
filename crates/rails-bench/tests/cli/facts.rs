//! Files that complete the kernel's description of a machine.

use crate::util::{rails_bench, run, stderr, stdout};
use rails_topo::Topology;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};
use tempfile::TempDir;

/// A saved machine of two nodes with two CPUs each, a NIC whose node no file tells, and one on node
/// 0.
fn machine() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("sys/devices/system/cpu/online", "0-3"),
        ("sys/devices/system/node/node0/cpulist", "0-1"),
        ("sys/devices/system/node/node0/distance", "10 21"),
        ("sys/devices/system/node/node1/cpulist", "2-3"),
        ("sys/devices/system/node/node1/distance", "21 10"),
        ("sys/class/net/eth0/type", "1"),
        ("sys/class/net/eth0/speed", "10000"),
        ("sys/class/net/eth0/device/numa_node", "-1"),
        ("sys/class/net/eth1/type", "1"),
        ("sys/class/net/eth1/device/numa_node", "0"),
        ("sys/class/net/eth1/device/local_cpulist", "0-1"),
    ] {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    root
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// The stdout of a run that succeeds.
fn good(output: Output) -> String {
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// The stderr of a run that fails with code 1.
fn failed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    stderr(&output)
}

#[test]
fn every_fact_is_explained() {
    let root = machine();
    let facts = file(
        root.path(),
        "facts.toml",
        "[nic.eth0]\nnode = 1\n[[distance]]\nfrom = 0\nto = 1\nvalue = 24\n[nic.eth1]\nhide = 'not ours'\n",
    );
    let more = file(root.path(), "more.toml", "nic.eth0.speed = '25 Gbit/s'\nnic.eth0.node = 0\n");
    let [machine, facts, more] = [root.path(), &facts, &more].map(|path| path.to_str().unwrap());
    let topo = ["topo", "--explain", "--sysfs", machine, "--config", facts, "--topology", more];
    let said = good(run(topo)).replace(machine, "");
    let expected = "\
eth0 node              0          /more.toml:2 (instead of 1); /facts.toml:2 (instead of unknown); /sys/class/net/eth0/device/numa_node says `-1`
eth0 local CPUs        0-1        /more.toml:2, following nic.eth0.node (instead of 2-3); /facts.toml:2, following nic.eth0.node (instead of unknown); \
/sys/class/net/eth0/device/local_cpulist is missing
eth0 speed             25 Gbit/s  /more.toml:1 (instead of 10 Gbit/s); /sys/class/net/eth0/speed
eth1 node              0          /sys/class/net/eth1/device/numa_node
eth1 local CPUs        0-1        /sys/class/net/eth1/device/local_cpulist
eth1 speed             unknown    /sys/class/net/eth1/speed is missing
distances from node 0  10 24      to node 1: /facts.toml:6 (instead of 21); /sys/devices/system/node/node0/distance
distances from node 1  24 10      to node 0: /facts.toml:6 (instead of 21); /sys/devices/system/node/node1/distance
allowed CPUs           0-3        /sys/devices/system/cpu/online: all that are online
nic.eth1.hide          not ours   /facts.toml:8 (instead of unknown)
";
    assert_eq!(said, expected);
}

#[test]
fn this_machine_is_explained() {
    let said = good(run(["topo", "--explain"]));
    let row = |fact: &str| said.lines().any(|line| line.starts_with(fact));
    assert!(row("lo node") && row("allowed CPUs") && said.contains("/proc/self/status (Cpus_allowed_list)"), "{said}");
}

#[test]
fn users_file_for_this_machine_alone() {
    let folder = machine();
    file(folder.path(), "rails/topology.toml", "nic.lo.mtu = 1234\n");
    let topo = |more: &[&str]| -> Topology {
        let args = ["topo", "--json"].iter().chain(more).copied();
        let output = rails_bench(args).env("XDG_CONFIG_HOME", folder.path()).output().unwrap();
        serde_json::from_str(&good(output)).unwrap()
    };
    assert_eq!(topo(&[]).nic("lo").unwrap().mtu, Some(1234));
    assert_ne!(topo(&["--no-config"]).nic("lo").unwrap().mtu, Some(1234));
    assert!(topo(&["--sysfs", folder.path().to_str().unwrap()]).overrides().is_empty());
    let last = file(folder.path(), "last.toml", "nic.lo.mtu = 4321\n");
    let machine = topo(&["--config", last.to_str().unwrap()]);
    assert_eq!(machine.nic("lo").unwrap().mtu, Some(4321));
    assert_eq!(machine.overrides_of(&["nic", "lo", "mtu"]).count(), 2);
}

#[test]
fn a_lane_that_is_hidden_is_shown_and_left_alone() {
    let root = machine();
    let facts = file(root.path(), "facts.toml", "[nic.eth0]\nhide = 'not ours'\n");
    let with = |command: &[&'static str]| {
        let more = ["--sysfs", root.path().to_str().unwrap(), "--config", facts.to_str().unwrap()].map(str::to_owned);
        let args: Vec<String> = command.iter().map(ToString::to_string).chain(more).collect();
        run(args.iter().map(String::as_str))
    };
    assert!(good(with(&["topo"])).contains("left alone: not ours"));
    let plan = good(with(&["plan", "--rails", "auto"]));
    assert!(plan.contains("eth1") && plan.contains("not eth0: left alone: not ours"), "{plan}");
    let refused = failed(with(&["plan", "--rails", "eth0"]));
    assert!(refused.contains(&format!("`eth0` is hidden: not ours ({}:2)", facts.display())), "{refused}");
}

#[test]
fn wrong_file_with_its_place_and_the_help() {
    let root = machine();
    let wrong = file(root.path(), "rails/topology.toml", "[nic.lo]\nsped = '1 Gbit/s'\n");
    let place = format!("{}:2:1: nic.lo.sped: unknown field `sped`", wrong.display());
    let usual = rails_bench(["topo"]).env("XDG_CONFIG_HOME", root.path()).output().unwrap();
    let said = failed(usual);
    assert!(said.contains(&format!("error: {place}")) && said.contains("help: --no-config"), "{said}");
    let [machine, wrong] = [root.path(), &wrong].map(|path| path.to_str().unwrap());
    let said = failed(run(["plan", "--rails", "auto", "--sysfs", machine, "--config", wrong]));
    assert!(said.contains(&format!("error: --config: {place}")), "{said}");
    let said = failed(run(["topo", "--config", "/no/such.toml"]));
    assert!(said.contains("error: --config: cannot read `/no/such.toml`: No such file"), "{said}");
    let other = file(root.path(), "machine.xml", "<?xml version=\"1.0\"?>");
    let said = failed(run(["topo", "--topology", other.to_str().unwrap()]));
    assert!(said.contains("is not an hwloc XML file: it has no `topology` element"), "{said}");
}
