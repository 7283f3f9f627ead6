//! Machines written as hwloc XML, and read again.
#![cfg(feature = "hwloc")]

use rails_topo::{CpuSet, MacAddress, Nic, NicKind, NodeId, PciAddress, Topology};
use std::{fs, process::Command};

fn read_back(machine: &Topology) -> Topology {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    fs::write(&path, machine.to_hwloc_xml()).unwrap();
    Topology::from_xml(&path).unwrap()
}

fn nic(name: &str, pci: &str, node: Option<u32>, cpus: Option<&str>) -> Nic {
    Nic {
        pci: Some(pci.parse::<PciAddress>().unwrap()),
        node: node.map(NodeId),
        local_cpus: cpus.map(|cpus| cpus.parse::<CpuSet>().unwrap()),
        mac: Some(MacAddress([0x52, 0x54, 0, 0, 0, 1])),
        ..Nic::named(name)
    }
}

/// A machine with two devices in the second package, one of a card, and one of unknown locality.
fn machine() -> Topology {
    let nics = vec![
        nic("eth0", "0000:81:00.0", Some(1), Some("8-15")),
        nic("eth1", "0000:81:00.1", Some(1), Some("8-15")),
        nic("far0", "0001:02:00.0", None, None),
        Nic { node: Some(NodeId(0)), local_cpus: Some("0-7".parse().unwrap()), ..Nic::named("soc0") },
        Nic { kind: NicKind::Virtual, ..Nic::named("br0") },
    ];
    Topology::synthetic("package:2 numa:1 l3:2 l2:2 core:1 pu:2", nics).unwrap()
}

#[test]
fn machine_survives_being_written_as_xml() {
    let written = machine();
    let read = read_back(&written);
    assert_eq!(read.packages(), written.packages());
    assert_eq!(read.nodes().len(), 2);
    for (read, written) in read.nodes().iter().zip(written.nodes()) {
        assert_eq!((read.id, &read.cpus), (written.id, &written.cpus));
    }
    assert_eq!(read.distances(), written.distances());
    assert_eq!(read.caches(), written.caches());
    assert_eq!(read.cores(), written.cores());
    assert_eq!((read.online_cpus(), read.allowed_cpus()), (written.online_cpus(), written.allowed_cpus()));
    assert_eq!(read.allowed_nodes(), written.allowed_nodes());
    let place = |nic: &Nic| (nic.name.clone(), nic.pci, nic.mac, nic.node, nic.local_cpus.clone());
    let devices = written.nics().iter().filter(|nic| nic.kind == NicKind::Device);
    assert_eq!(read.nics().iter().map(place).collect::<Vec<_>>(), devices.map(place).collect::<Vec<_>>());
}

#[test]
fn allowed_sets_and_escaped_text_as_xml() {
    let folder = tempfile::tempdir().unwrap();
    let cpus = folder.path().join("sys/devices/system/cpu");
    let kernel = folder.path().join("proc/sys/kernel");
    [&cpus, &kernel].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    fs::write(cpus.join("online"), "0-63,100\n").unwrap();
    fs::write(kernel.join("hostname"), "a <b> & \"c\" \u{1b}[31m é\n").unwrap();
    let written = Topology::from_sysfs_root(folder.path()).unwrap().with_allowed("3-5".parse().unwrap());
    let read = read_back(&written);
    assert_eq!((read.online_cpus(), read.allowed_cpus()), (written.online_cpus(), written.allowed_cpus()));
    assert_eq!(read.machine().host.as_deref(), Some("a <b> & \"c\" [31m é"));
    assert_eq!(read.nodes().len(), 1, "hwloc demands a node, so that one is made up");
}

#[test]
fn gpu_without_a_driver_survives_without_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let function = folder.path().join("sys/bus/pci/devices/0000:02:00.0");
    let cpus = folder.path().join("sys/devices/system/cpu");
    [&cpus, &function].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    fs::write(cpus.join("online"), "0-3\n").unwrap();
    fs::write(function.join("class"), "0x030200\n").unwrap();
    let written = Topology::from_sysfs_root(folder.path()).unwrap();
    assert!(!written.to_hwloc_xml().contains("OSDev"), "the kernel made no device of it");
    let names = |machine: &Topology| machine.gpus().iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&written), names(&read_back(&written))), (vec!["0000:02:00.0".to_owned()], names(&written)));
}

#[test]
fn this_machine_survives_being_written_as_xml() {
    let written = Topology::detect().unwrap();
    let read = read_back(&written);
    assert_eq!(read.packages(), written.packages());
    assert_eq!(read.caches(), written.caches());
    assert_eq!(read.cores(), written.cores());
    let of_devices = |machine: &Topology| -> Vec<(String, Option<PciAddress>)> {
        let devices = machine.nics().iter().filter(|nic| nic.kind == NicKind::Device);
        devices.map(|nic| (nic.name.clone(), nic.pci)).collect()
    };
    assert_eq!(of_devices(&read), of_devices(&written));
}

#[test]
#[ignore = "needs lstopo (package hwloc)"]
fn lstopo_counts_the_written_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours.xml"), folder.path().join("theirs.xml"));
    for machine in [machine(), Topology::detect().unwrap()] {
        let xml = machine.to_hwloc_xml();
        fs::write(&ours, &xml).unwrap();
        let mut lstopo = Command::new("lstopo");
        lstopo.arg("-i").arg(&ours).args(["--whole-io", "-f", "--of", "xml"]).arg(&theirs);
        let output = lstopo.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let theirs = fs::read_to_string(&theirs).unwrap();
        for kind in
            ["Package", "NUMANode", "L3Cache", "L2Cache", "L1Cache", "L1iCache", "Core", "PU", "PCIDev", "OSDev"]
        {
            let count = |xml: &str| xml.matches(&format!("<object type=\"{kind}\"")).count();
            assert_eq!(count(&theirs), count(&xml), "{kind}");
        }
    }
}
