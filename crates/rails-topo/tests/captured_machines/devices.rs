//! Devices of captured machines, as checked by hand against the files.

use rails_lab::captures::{self, Unpacked};
use rails_topo::{Bandwidth, NodeId, PciAddress, PciBridge, PciDevice, PciLink, Topology};

fn tree(archive: &str) -> Topology {
    Topology::from_sysfs_root(Unpacked::of(&captures::tree(archive)).root()).unwrap()
}

fn function<'a>(machine: &'a Topology, address: &str) -> &'a PciDevice {
    machine.pci_device(address.parse().unwrap()).unwrap_or_else(|| panic!("no {address}"))
}

fn above(machine: &Topology, address: &str) -> Vec<String> {
    let parent = |address: &PciAddress| machine.pci_device(*address)?.parent;
    std::iter::successors(parent(&address.parse().unwrap()), parent).map(|address| address.to_string()).collect()
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_switches_with_links_and_devices() {
    let machine = tree("32intel64-2p8co2t+8ve.tar.bz2");
    let engine = function(&machine, "0000:1b:00.0");
    let link = PciLink { speed: 8_000, width: 16 };
    assert_eq!((engine.link, engine.bandwidth), (Some(link), Some(link.bandwidth())));
    assert_eq!((engine.class, engine.node), (Some(0x0b4000), Some(NodeId(0))));
    assert_eq!(above(&machine, "0000:1b:00.0"), ["0000:19:08.0", "0000:18:00.0", "0000:17:00.0"]);
    assert_eq!(function(&machine, "0000:18:00.0").bridge, Some(PciBridge { secondary: 0x19, subordinate: 0x1e }));
    assert_eq!(above(&machine, "0000:60:00.1"), ["0000:5e:00.0", "0000:5d:02.0"], "the tree lacks the port between");
    let nic = machine.nic("enp96s0f0").unwrap();
    assert_eq!(function(&machine, "0000:60:00.0").link, Some(PciLink { speed: 2_500, width: 1 }));
    assert_eq!(nic.pci, Some("0000:60:00.0".parse().unwrap()));
    let engines: Vec<(&str, Option<PciAddress>)> =
        machine.gpus().iter().map(|engine| (engine.name.as_str(), engine.pci)).collect();
    assert_eq!((engines.len(), engines[0]), (8, ("ve0", Some("0000:1b:00.0".parse().unwrap()))));
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_infiniband_belongs_to_its_interface() {
    let machine = tree("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2");
    let names: Vec<&str> = machine.rdma_devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["mlx4_0", "scif0"]);
    let card = &machine.rdma_devices()[0];
    assert_eq!((card.pci, card.node), (Some("0000:82:00.0".parse().unwrap()), Some(NodeId(1))));
    let [port] = &card.ports[..] else { panic!("{:?}", card.ports) };
    assert_eq!((port.number, port.nic.as_deref(), port.active), (1, Some("ib0"), Some(true)));
    assert_eq!((port.link_layer.as_deref(), port.speed), (Some("InfiniBand"), Some(Bandwidth::mbps(56_000))));
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_disks_are_no_partitions() {
    let machine = tree("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2");
    let disks: Vec<(&str, Option<NodeId>, bool)> =
        machine.block_devices().iter().map(|disk| (disk.name.as_str(), disk.node, disk.pci.is_some())).collect();
    let (zero, one) = (Some(NodeId(0)), Some(NodeId(1)));
    assert_eq!(
        disks,
        [
            ("nvme0n1", None, true),
            ("pmem0.1", zero, false),
            ("pmem0.2s", zero, false),
            ("pmem0.3", zero, false),
            ("pmem1", one, false),
            ("pmem1.1s", one, false),
            ("pmem1.2", one, false),
            ("sda", zero, true),
        ]
    );
}

#[test]
#[cfg(feature = "hwloc")]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_files_hold_devices() {
    let read = |name| Topology::from_xml(captures::xml_file(name)).unwrap();
    let machine = read("32em64t-2n8c2t-pci-wholeio.xml");
    let gpus: Vec<(&str, Option<&str>)> =
        machine.gpus().iter().map(|gpu| (gpu.name.as_str(), gpu.model.as_deref())).collect();
    assert_eq!(
        gpus,
        [
            ("0000:03:00.0", None),
            ("0000:05:03.0", None),
            ("0000:83:00.0", None),
            ("cuda0", Some("Tesla K40m")),
            ("opencl0d1", Some("AMD Radeon R9 200 / HD 7900 Series")),
        ],
        "`card0` is another name of `cuda0`, and two of three Tesla cards and the screen's have no name"
    );
    assert_eq!((machine.gpus()[2].node, machine.gpus()[2].driver.as_deref()), (Some(NodeId(1)), None));
    assert!(machine.tree().to_string().contains("3D controller, driver unknown"));
    let rdma = &machine.rdma_devices()[0];
    assert_eq!((rdma.name.as_str(), rdma.ports[0].nic.as_deref()), ("mlx5_0", Some("ib0")));
    let claimed_twice = function(&machine, "0000:04:00.0");
    assert_eq!((claimed_twice.class, claimed_twice.vendor, claimed_twice.parent), (None, None, None));

    let machine = read("24em64t-2n6c2t-pci.xml");
    let card = function(&machine, "0000:05:00.0");
    assert_eq!((card.bandwidth, card.link), (Some(Bandwidth::mbps(16_000)), None));
    assert_eq!((card.vendor, card.device, card.class), (Some(0x15b3), Some(0x6746), Some(0x0c0600)));
    assert_eq!((card.node, above(&machine, "0000:05:00.0")), (Some(NodeId(0)), vec!["0000:00:05.0".to_owned()]));
    assert!(machine.rdma_devices()[0].ports.is_empty(), "a file of a time when hwloc did not name them");

    let machine = read("16intel64-manyVFs.xml");
    let bridges = ["0000:0a:00.0", "0000:09:00.0", "0000:07:01.0", "0000:06:00.0", "0000:00:03.0"];
    assert_eq!(above(&machine, "0000:0b:00.3"), bridges);
    let rdma: Vec<(&str, Option<&str>)> =
        (machine.rdma_devices().iter()).map(|device| (device.name.as_str(), device.ports[0].nic.as_deref())).collect();
    assert_eq!(rdma[..2], [("usnic_0", Some("eth4")), ("usnic_1", Some("eth5"))]);

    let machine = read("cxlmem+dax.v2.xml");
    let disks: Vec<(&str, Option<&str>)> =
        machine.block_devices().iter().map(|disk| (disk.name.as_str(), disk.model.as_deref())).collect();
    assert_eq!(disks, [("sda", Some("QEMU_HARDDISK")), ("sr0", Some("QEMU_DVD-ROM"))], "CXL memory is no disk");
}
