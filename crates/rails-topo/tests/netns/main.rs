//! Interfaces that the kernel makes, in a network namespace.
//!
//! Run as root: `cargo test -p rails-topo --test netns -- --ignored netns_`

use rails_topo::{Nic, NicKind, Topology};
use std::process::Command;

/// `/sys` shows the interfaces of the namespace that it was mounted in, so the test runs itself again in one of its
/// own, which ends with it.
#[test]
#[ignore = "needs root: it makes a network namespace"]
fn netns_layers_resolved_to_their_lanes() {
    if std::env::var_os(INSIDE).is_some() {
        return layers_are_resolved();
    }
    let name = "netns_layers_resolved_to_their_lanes";
    let run = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-ec", LAYERS, "sh"])
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
echo 256 > /sys/class/net/veth0/queues/rx-0/rps_flow_cnt
exec \"$@\"
";

/// Tells the second run that it is the one inside.
const INSIDE: &str = "RAILS_TEST_INSIDE";
