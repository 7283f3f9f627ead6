//! Nodes, NICs, modules and file systems.

use rails_lab::{
    SystemError,
    guest::{GuestError, load_module, require},
};
use std::{
    fs::{self, File},
    io::ErrorKind,
    path::Path,
};

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.trim_end().to_owned()
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_two_nodes_with_all_that_is_theirs() {
    require();
    let node = |file: &str| read(Path::new("/sys/devices/system/node").join(file));
    assert_eq!(node("online"), "0-1");
    assert_eq!(node("has_memory"), "0-1");
    assert_eq!((node("node0/cpulist"), node("node1/cpulist")), ("0-1".into(), "2-3".into()));
    assert_eq!((node("node0/distance"), node("node1/distance")), ("10 21".into(), "21 10".into()));
    for (cpu, package) in [(0, "0"), (1, "0"), (2, "1"), (3, "1")] {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        assert_eq!(read(file), package);
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_four_nics_on_their_nodes() {
    require();
    for (number, node) in [(1, "0"), (2, "1"), (3, "0"), (4, "1")] {
        let device = Path::new("/sys/class/net").join(interface(number)).join("device");
        // The interface's device is the virtio one, whose parent is the PCI function.
        assert_eq!(read(device.join("../numa_node")), node, "NIC {number}");
        assert!(fs::read_dir(device.join("../msi_irqs")).unwrap().count() >= 3, "NIC {number}");
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_loads_modules_of_its_kernel() {
    require();
    for module in ["bonding", "sch_netem"] {
        load_module(module).unwrap();
        load_module(module).unwrap();
        assert!(Path::new("/sys/module").join(module).is_dir(), "{module}");
    }
    let error = load_module("no_such_module").unwrap_err();
    assert!(matches!(error, GuestError::System(SystemError::Command { .. })), "{error}");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_can_write_to_its_own_file_systems_only() {
    require();
    for folder in [env!("CARGO_MANIFEST_DIR"), "/", "/usr"] {
        let error = File::create(Path::new(folder).join("rails-guest-test")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{folder}");
    }
    let home = std::env::var("HOME").unwrap();
    for folder in ["/run", "/tmp", "/dev/shm", &home] {
        let file = Path::new(folder).join("rails-guest-test");
        fs::write(&file, "x").unwrap_or_else(|error| panic!("{folder}: {error}"));
        fs::remove_file(file).unwrap();
    }
    let group = Path::new("/sys/fs/cgroup/rails-guest-test");
    fs::create_dir(group).unwrap();
    assert!(read("/sys/fs/cgroup/cgroup.controllers").contains("cpuset"));
    fs::remove_dir(group).unwrap();
}

/// The interface with this last byte of its address.
fn interface(number: u8) -> String {
    let address = format!("52:54:00:00:00:{number:02x}");
    let interfaces = fs::read_dir("/sys/class/net").unwrap().map(|entry| entry.unwrap().path());
    let path = interfaces.into_iter().find(|path| read(path.join("address")) == address);
    path.expect("every NIC of the guest has a driver").file_name().unwrap().to_str().unwrap().to_owned()
}
