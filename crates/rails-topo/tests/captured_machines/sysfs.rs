//! Trees of `/sys` and `/proc`.

use crate::machines::{Counts, assert_sound, counts, name};
use rails_lab::captures::{self, Unpacked};
use rails_topo::{Bandwidth, CpuId, DataSize, Hugepages, NicKind, NodeId, Topology};
use std::fs;

/// hwloc agrees but for a node that it makes up on `2i386` (a kernel without NUMA) and a package
/// and an L3 that it drops from `40intel64` (where CPU 2 claims to share an L3 with CPUs of other
/// packages).
const KNOWN: [(&str, Counts); 7] = [
    ("16amd64-8n2c.tar.bz2", [8, 8, 16, 16, 0]),
    ("16em64t-4s2c2t-offlines.tar.bz2", [4, 1, 7, 12, 4]),
    ("2i386-2c-nohugepage.tar.bz2", [1, 0, 2, 2, 0]),
    ("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2", [2, 2, 16, 16, 2]),
    ("32intel64-2p8co2t+8ve.tar.bz2", [2, 2, 16, 32, 2]),
    ("40intel64-4n10c+pci-conflicts.tar.bz2", [4, 4, 40, 40, 4]),
    ("fakepcilocalities.tar.bz2", [4, 4, 40, 40, 0]),
];

fn read(archive: &str) -> Topology {
    Topology::from_sysfs_root(Unpacked::of(&captures::tree(archive)).root()).unwrap()
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_trees_are_read_without_exception() {
    for archive in captures::trees() {
        let machine =
            Topology::from_sysfs_root(Unpacked::of(&archive).root()).unwrap_or_else(|error| panic!("{error}"));
        assert_sound(&machine);
        if let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == name(&archive)) {
            assert_eq!(counts(&machine), *known, "{}", archive.display());
        }
    }
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_nodes_have_pools_of_huge_pages() {
    let machine = read("32intel64-2p8co2t+8ve.tar.bz2");
    let pool = |size, total| Hugepages { size: DataSize::bytes(size), total: Some(total), free: Some(total) };
    for node in machine.nodes() {
        assert_eq!(node.hugepages, [pool(2 << 20, 2048), pool(1 << 30, 0)]);
    }
    assert_eq!(read("fakepcilocalities.tar.bz2").nodes()[0].hugepages, []);
}

/// The process that captured it was alone on its machine, in a cpuset with all of it.
#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_cpusets_limit_the_allowed_cpus() {
    let tree = Unpacked::of(&captures::tree("40intel64-4n10c+pci-conflicts.tar.bz2"));
    let machine = Topology::from_sysfs_root(tree.root()).unwrap();
    assert_eq!(machine.allowed_cpus(), machine.online_cpus());
    let group = tree.root().join("dev/cpuset/torque/513099.master.cm.cluster");
    fs::write(group.join("cpus"), "0,2-3\n").unwrap();
    fs::write(group.join("mems"), "2\n").unwrap();
    let machine = Topology::from_sysfs_root(tree.root()).unwrap();
    assert_eq!((machine.allowed_cpus().to_string(), machine.allowed_nodes().to_string()), ("0,2-3".into(), "2".into()));
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_nics_have_queues_and_interrupts() {
    let machine = read("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2");
    assert_eq!(machine.distances().unwrap().between(NodeId(0), NodeId(1)), Some(21));
    assert_eq!(machine.sharing_last_level_cache(CpuId(9)).unwrap().to_string(), "8-15");
    let eth0 = machine.nic("eth0").unwrap();
    assert_eq!((eth0.pci.unwrap().to_string(), eth0.driver.as_deref()), ("0000:02:00.0".to_owned(), Some("igb")));
    assert_eq!((eth0.node, eth0.speed, eth0.up), (Some(NodeId(0)), Some(Bandwidth::mbps(1000)), Some(true)));
    assert_eq!(eth0.local_cpus.as_ref().unwrap().to_string(), "0-7");
    assert_eq!((eth0.rx_queues.len(), eth0.tx_queues.len()), (8, 8));
    assert_eq!(eth0.rx_queues[3].rps_cpus.as_ref().unwrap().to_string(), "", "RPS is off");
    let numbers: Vec<u32> = eth0.interrupts.iter().map(|interrupt| interrupt.number).collect();
    assert_eq!(numbers, (101..=109).collect::<Vec<_>>());
    let first = &eth0.interrupts[0];
    assert_eq!((&first.name, &first.affinity, &first.effective), (&None, &None, &None), "the tree holds no /proc/irq");
    let ib0 = machine.nic("ib0").unwrap();
    assert_eq!((ib0.node, ib0.speed, ib0.mac), (Some(NodeId(1)), None, None), "its address has 20 bytes");
    assert_eq!((eth0.carrier, ib0.carrier, eth0.port, eth0.threaded_napi), (Some(true), Some(true), None, None));
    assert!(eth0.rx_queues.iter().all(|queue| queue.interrupt.is_none()), "their names are not captured");
    assert_eq!(machine.lanes_of(eth0).devices, [eth0]);
    // The tree holds only a broken link to these: the interfaces under them, and their kind, are
    // unknown.
    for name in ["br0", "eth0.1015", "mic0"] {
        let nic = machine.nic(name).unwrap();
        let lanes = machine.lanes_of(nic);
        assert_eq!((&nic.virtual_kind, &lanes.in_software[..], lanes.is_complete()), (&None, &[nic][..], false));
    }
    let kinds: Vec<(&str, NicKind)> = machine.nics().iter().map(|nic| (nic.name.as_str(), nic.kind)).collect();
    let (device, software) = (NicKind::Device, NicKind::Virtual);
    assert_eq!(
        kinds,
        [
            ("br0", software),
            ("eth0", device),
            ("eth0.1015", software),
            ("eth1", device),
            ("ib0", device),
            ("lo", NicKind::Loopback),
            ("mic0", software),
        ]
    );
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_offline_cpus_are_nowhere() {
    let machine = read("16em64t-4s2c2t-offlines.tar.bz2");
    assert_eq!(machine.online_cpus().to_string(), "0-1,3-4,6-12,15");
    assert_eq!(machine.packages()[1].cpus.to_string(), "1,9");
    assert!(machine.core_of_cpu(CpuId(5)).is_none());
    assert_eq!(machine.nearest_node(CpuId(15)), Some(NodeId(0)));
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_nics_with_a_mask_of_local_cpus() {
    let machine = read("fakepcilocalities.tar.bz2");
    let ib0 = machine.nic("ib0").unwrap();
    assert_eq!(ib0.locality(&machine).unwrap().to_string(), "1,5,9,13,17,21,25,29,33,37");
    let eth0 = machine.nic("eth0").unwrap();
    let numbers: Vec<u32> = eth0.interrupts.iter().map(|interrupt| interrupt.number).collect();
    assert_eq!(numbers, [34], "without MSI vectors, the legacy interrupt");
}
