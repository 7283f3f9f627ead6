//! Interfaces that the kernel makes, in a network namespace.
//!
//! Run as root: `cargo test -p rails-topo --test netns -- --ignored netns_`

use rails_topo::{Nic, NicKind, Topology, sysfs_shows};
use std::{path::Path, process::Command};

/// `/sys` shows the interfaces of the namespace that it was mounted in, so the test runs itself
/// again in one of its own, which ends with it.
#[test]
#[ignore = "needs root: it makes a network namespace"]
fn netns_layers_resolved_to_their_lanes() {
    inside("netns_layers_resolved_to_their_lanes", LAYERS, layers_are_resolved);
}

/// `/sys` is of a first namespace, and the test runs in a second one, whose interfaces it does not
/// show.
#[test]
#[ignore = "needs root: it makes network namespaces"]
fn netns_foreign_files_are_no_facts() {
    inside("netns_foreign_files_are_no_facts", FOREIGN, || {
        assert!(Path::new("/sys/class/net/host0").exists(), "the first namespace is there");
        let machine = Topology::detect().unwrap();
        let names: Vec<&str> = machine.nics().iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth1", "lo", "other0", "other1"], "those of this namespace");
        let nic = |name: &str| machine.nic(name).unwrap();
        for name in ["eth0", "eth1", "other0", "other1"] {
            let nic = nic(name);
            assert_eq!(
                (nic.kind, nic.speed, nic.mtu, nic.rx_queues.len()),
                (NicKind::Unknown, None, None, 0),
                "{nic:?}"
            );
            assert_eq!((sysfs_shows(name), nic.index.is_some(), nic.mac.is_some()), (false, true, true), "{nic:?}");
        }
        let addresses = |name| nic(name).addresses.iter().map(|address| address.ip.to_string()).collect::<Vec<_>>();
        assert_eq!(addresses("eth0")[..2], ["192.0.2.1", "192.0.2.9"], "the second one has a label");
        assert_eq!((nic("eth0").up, nic("other1").up), (Some(true), Some(false)));
        // The files of loopback, which has no other index or address in the first namespace, say that it is
        // up.
        let lo = nic("lo");
        assert_eq!((lo.kind, lo.up, lo.carrier), (NicKind::Loopback, Some(false), None));
    });
}

/// Runs `test` once more as the command of the script, in a network namespace and with mounts of
/// its own.
fn inside(name: &str, script: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let run = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-ec", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", name])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

fn layers_are_resolved() {
    let machine = Topology::detect().unwrap();
    assert_eq!(machine, Topology::detect().unwrap(), "the interfaces stay as they are");
    let nic = |name: &str| machine.nic(name).unwrap_or_else(|| panic!("no {name} among {:?}", machine.nics()));
    assert_eq!(nic("bridge0").lowers, ["tap0", "veth0"]);
    assert_eq!((&nic("macvlan0").lowers[..], nic("macvlan0").kind), (&["bridge0".to_owned()][..], NicKind::Virtual));
    assert_eq!(nic("macvlan0").addresses[0].ip.to_string(), "192.0.2.1");
    let ends = |name: &str| -> Vec<&str> {
        let lanes = machine.lanes_of(nic(name));
        assert!(lanes.devices.is_empty() && lanes.missing.is_empty(), "{lanes:?}");
        lanes.in_software.iter().map(|nic: &&Nic| nic.name.as_str()).collect()
    };
    assert_eq!(ends("macvlan0"), ["tap0", "veth0"], "through the bridge");
    assert_eq!(ends("macvlan1"), ["veth1"]);
    assert_eq!((ends("veth0"), ends("lo")), (vec!["veth0"], vec!["lo"]));
    let kinds = ["bridge0", "tap0", "veth0", "macvlan0", "lo"].map(|name| nic(name).virtual_kind.as_deref());
    assert_eq!(kinds, [Some("bridge"), Some("tap"), None, None, None], "no file tells of veth and macvlan");
    assert_eq!((nic("veth0").carrier, nic("tap0").carrier), (Some(true), Some(false)));
    assert_eq!((nic("veth1").carrier, nic("macvlan1").carrier), (Some(true), None), "while it is down, it has none");
    assert_eq!(nic("veth0").threaded_napi, Some(false));
    assert_eq!((nic("veth0").rx_queues[0].rps_flows, nic("veth1").rx_queues[0].rps_flows), (Some(256), Some(0)));
}

/// Prepares two namespaces; the shell keeps the first one until the test has ended. In the second,
/// `eth0` has the index of that of the first and another hardware address, and `eth1` has its
/// hardware address and another index.
const FOREIGN: &str = "
mount -t sysfs sysfs /sys
ip link set lo up
ip link add eth0 type veth peer name host0
ip link add eth1 address 02:00:00:00:00:01 type veth peer name host1
unshare --net sh -ec '
ip link add eth0 type veth peer name other0
ip link add other1 type veth peer name eth1 address 02:00:00:00:00:01
ip address add 192.0.2.1/24 dev eth0
ip address add 192.0.2.9/24 dev eth0 label eth0:1
ip link set eth0 up
ip link set other0 up
timeout 60 sh -c \"until ip -o link show eth0 | grep -q state.UP; do sleep 0.01; done\"
exec \"$@\"' sh \"$@\"
true
";

/// Prepares a namespace, and runs its arguments as a command in it.
const LAYERS: &str = "
mount -t sysfs sysfs /sys
ip link add veth0 type veth peer name veth1
ip tuntap add dev tap0 mode tap
ip link add bridge0 type bridge
ip link set veth0 master bridge0
ip link set tap0 master bridge0
ip link add macvlan0 link bridge0 type macvlan
ip link add macvlan1 link veth1 type macvlan
ip address add 192.0.2.1/24 dev macvlan0
ip link set veth0 up
ip link set veth1 up
ip link set tap0 up
for end in veth0 veth1; do
    timeout 60 sh -c \"until ip -o link show $end | grep -q state.UP; do sleep 0.01; done\"
done
echo 256 > /sys/class/net/veth0/queues/rx-0/rps_flow_cnt
exec \"$@\"
";

/// Tells the second run that it is the one inside.
const INSIDE: &str = "RAILS_TEST_INSIDE";
