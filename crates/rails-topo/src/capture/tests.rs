use super::*;
use crate::NicKind;
use std::{fs, io::Read, os::unix::fs::symlink};
use tempfile::TempDir;

/// The model that the readers of the kernel's files make of this machine, without hwloc.
fn this_machine() -> Topology {
    let origin = Origin::ThisMachine { reader: "sysfs".to_owned() };
    linux::read_root(&Root::this_machine().unwrap(), Path::new("/"), origin).unwrap()
}

fn packed(capture: &Capture) -> Vec<u8> {
    let mut bytes = Vec::new();
    capture.write(&mut bytes).unwrap();
    bytes
}

/// The model without its changing facts and its origin.
fn steady(topology: Topology) -> Topology {
    Topology { origin: Origin::Capture { path: "machine.tar.gz".into() }, ..topology }
}

#[test]
fn replay_of_a_capture_of_this_machine() {
    let capture = Capture::of_this_machine().unwrap();
    let read = Capture::read(&packed(&capture)[..]).unwrap();
    assert_eq!(read, capture);
    assert_eq!(steady(read.replay("machine.tar.gz").unwrap()), steady(this_machine()));
}

#[test]
fn anonymous_capture_keeps_the_structure() {
    let capture = Capture::of_this_machine().unwrap();
    let (plain, hidden) = (capture.clone().replay("x").unwrap(), capture.clone().anonymous().replay("x").unwrap());
    assert_ne!(hidden.machine().host, plain.machine().host);
    let nameless = |mut topology: Topology| {
        topology.machine.host = None;
        for nic in &mut topology.nics {
            nic.mac = None;
            nic.physical_port = None;
            nic.physical_switch = None;
            nic.addresses.iter_mut().for_each(|address| address.ip = "::".parse().unwrap());
        }
        topology
    };
    for (plain, hidden) in plain.nics().iter().zip(hidden.nics()).filter(|(nic, _)| nic.kind != NicKind::Loopback) {
        assert!(plain.mac.is_none() || plain.mac != hidden.mac, "{}", plain.name);
        let addresses = plain.addresses.iter().zip(&hidden.addresses);
        assert!(addresses.into_iter().all(|(plain, hidden)| plain != hidden), "{}", plain.name);
    }
    assert_eq!(nameless(plain), nameless(hidden));
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let bytes = packed(&capture.anonymous());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
    let line = format!("\0{name}");
    assert!(!String::from_utf8_lossy(&unpacked).contains(&line), "the name is still in it");
}

#[test]
fn links_are_captured_and_followed_as_in_the_folder() {
    let folder = TempDir::new().unwrap();
    let path = |path: &str| folder.path().join(path);
    fs::create_dir_all(path("sys/devices/system/cpu")).unwrap();
    fs::write(path("sys/devices/system/cpu/online"), "0-3\n").unwrap();
    fs::create_dir_all(path("sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0")).unwrap();
    fs::write(path("sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0/mtu"), "9000\n").unwrap();
    symlink("../../../virtio1", path("sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0/device")).unwrap();
    fs::create_dir_all(path("sys/class/net")).unwrap();
    symlink("../../devices/pci0000:00/0000:00:03.0/virtio1/net/eth0", path("sys/class/net/eth0")).unwrap();
    symlink("../../../../../../../../../../etc", path("sys/class/net/out")).unwrap();
    symlink("/etc", path("sys/class/net/root")).unwrap();
    symlink("loop", path("sys/class/net/loop")).unwrap();
    let read = Topology::from_sysfs_root(folder.path()).unwrap();
    let capture = Capture::of_folder(folder.path()).unwrap();
    let replayed = Capture::read(&packed(&capture)[..]).unwrap().replay("x").unwrap();
    assert_eq!(steady(replayed.clone()), steady(read));
    let eth0 = replayed.nic("eth0").unwrap();
    assert_eq!((eth0.mtu, eth0.pci.unwrap().to_string()), (Some(9000), "0000:00:03.0".to_owned()));
}
