//! Captured trees come from strangers: the reader stays inside.

use crate::tree::Tree;
use std::process::Command;

#[test]
fn links_out_of_the_root_are_not_followed() {
    let outside = Tree::new();
    outside.file("mtu", "1234").file("device/numa_node", "1").file("online", "0-63");
    let tree = Tree::two_nodes();
    let climb = "../".repeat(40);
    let outside_path = outside.path().to_str().unwrap();
    tree.link("sys/class/net/abs", outside_path);
    tree.link("sys/class/net/rel", &format!("{climb}{}", &outside_path[1..]));
    tree.folder("sys/class/net/eth0").link("sys/class/net/eth0/mtu", &format!("{outside_path}/mtu"));
    tree.link("sys/class/net/eth0/device", &format!("{outside_path}/device"));
    std::fs::remove_file(tree.path().join("sys/devices/system/cpu/online")).unwrap();
    tree.link("sys/devices/system/cpu/online", &format!("{outside_path}/online"));
    let machine = tree.read().unwrap();
    assert_eq!(machine.online_cpus().to_string(), "0-7", "the list outside is not read");
    for nic in machine.nics() {
        assert_eq!((nic.mtu, nic.node), (None, None), "{}", nic.name);
    }
    assert_eq!(machine.nics().len(), 3);
}

#[test]
fn loops_pipes_and_folders_instead_of_files() {
    let tree = Tree::two_nodes();
    tree.link("sys/class/net/loop", "loop").folder("sys/class/net/eth0/mtu").folder("sys/class/net/eth0/speed");
    let pipe = tree.path().join("sys/class/net/eth0/operstate");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let machine = tree.read().unwrap();
    let eth0 = machine.nic("eth0").unwrap();
    assert_eq!((eth0.mtu, eth0.speed, eth0.up), (None, None, None));
    assert!(machine.nic("loop").is_some());
}

#[test]
fn binary_nonsense_in_files_is_unknown() {
    let tree = Tree::two_nodes().with_pci_nic();
    let nonsense: Vec<u8> = (0..=255).collect();
    for path in [
        "proc/interrupts",
        "proc/self/status",
        "proc/cpuinfo",
        "proc/net/if_inet6",
        "sys/devices/system/node/node0/meminfo",
        "sys/devices/system/node/node0/distance",
        "sys/devices/system/cpu/cpu0/cache/index0/size",
        "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0/net/eth0/address",
    ] {
        tree.file(path, "");
        std::fs::write(tree.path().join(path), &nonsense).unwrap();
    }
    let machine = tree.read().unwrap();
    assert_eq!(machine.nodes()[0].memory, None);
    assert_eq!(machine.nic("eth0").unwrap().mac, None);
    assert!(machine.distances().is_none());
}
