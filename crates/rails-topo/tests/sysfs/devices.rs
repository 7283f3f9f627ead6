//! RDMA devices, GPUs and disks.

use crate::tree::Tree;
use rails_topo::{Bandwidth, BlockDevice, DataSize, Gpu, NodeId, RdmaDevice, RdmaPort, Topology};

/// A PCI function of node 1, and the folder that its drivers fill.
fn function(tree: &Tree, address: &str) -> String {
    let path = format!("pci0000:80/{address}");
    tree.function(&path, &[("numa_node", "1"), ("local_cpulist", "2-3,6-7")]);
    format!("sys/devices/{path}")
}

/// An entry of a class that is a device below `folder`.
fn entry(tree: &Tree, folder: &str, class: &str, name: &str) -> String {
    let path = format!("{folder}/{class}/{name}");
    tree.folder(&path).link(&format!("sys/class/{class}/{name}"), &format!("../../../{path}"));
    tree.link(&format!("{path}/device"), "../..");
    path
}

fn port(number: u32, nic: Option<&str>) -> RdmaPort {
    RdmaPort { number, nic: nic.map(str::to_owned), active: None, link_layer: None, speed: None }
}

fn rdma<'a>(machine: &'a Topology, name: &str) -> &'a RdmaDevice {
    machine.rdma_devices().iter().find(|device| device.name == name).unwrap()
}

#[test]
fn rdma_device_names_the_interface_of_each_port() {
    let tree = Tree::two_nodes();
    let card = function(&tree, "0000:80:02.0");
    entry(&tree, &card, "net", "eth0");
    entry(&tree, &card, "net", "eth1");
    let device = entry(&tree, &card, "infiniband", "mlx5_0");
    for (file, text) in [("state", "4: ACTIVE"), ("rate", "100 Gb/sec (4X EDR)"), ("link_layer", "Ethernet")] {
        tree.file(&format!("{device}/ports/1/{file}"), text);
    }
    for (file, text) in [("state", "1: DOWN"), ("rate", "2.5 Gb/sec (1X SDR)"), ("link_layer", "Unspecified")] {
        tree.file(&format!("{device}/ports/2/{file}"), text);
    }
    tree.file(&format!("{device}/ports/1/gid_attrs/ndevs/0"), "eth1");
    tree.file(&format!("{device}/ports/2/gid_attrs/ndevs/0"), "eth7");
    let machine = tree.read().unwrap();
    let expected = RdmaDevice {
        name: "mlx5_0".to_owned(),
        pci: Some("0000:80:02.0".parse().unwrap()),
        node: Some(NodeId(1)),
        local_cpus: Some("2-3,6-7".parse().unwrap()),
        ports: vec![
            RdmaPort {
                active: Some(true),
                link_layer: Some("Ethernet".to_owned()),
                speed: Some(Bandwidth::mbps(100_000)),
                ..port(1, Some("eth1"))
            },
            // The possible rate of a port that is down is not its rate, and no interface has that name.
            RdmaPort { active: Some(false), ..port(2, None) },
        ],
    };
    assert_eq!(machine.rdma_devices(), [expected]);
}

#[test]
fn port_with_one_unnamed_interface() {
    let tree = Tree::two_nodes();
    let (one, two) = (function(&tree, "0000:80:02.0"), function(&tree, "0000:80:03.0"));
    // One port, one interface, and another one of a partition.
    entry(&tree, &one, "net", "ib0");
    let partition = entry(&tree, &one, "net", "ib0.8001");
    tree.file(&format!("{partition}/parent"), "ib0");
    let device = entry(&tree, &one, "infiniband", "mlx5_0");
    tree.folder(&format!("{device}/ports/1"));
    // Two ports, told apart by `dev_port`, and by the file of older drivers.
    for (name, file, number) in [("eth2", "dev_port", "0"), ("eth3", "dev_id", "0x1")] {
        let interface = entry(&tree, &two, "net", name);
        tree.file(&format!("{interface}/{file}"), number);
    }
    let device = entry(&tree, &two, "infiniband", "mlx4_0");
    for number in [1, 2, 3] {
        tree.folder(&format!("{device}/ports/{number}"));
    }
    let machine = tree.read().unwrap();
    assert_eq!(rdma(&machine, "mlx5_0").ports, [port(1, Some("ib0"))]);
    assert_eq!(rdma(&machine, "mlx4_0").ports, [port(1, Some("eth2")), port(2, Some("eth3")), port(3, None)]);
}

#[test]
fn interfaces_that_claim_the_same_port_are_none_of_it() {
    let tree = Tree::two_nodes();
    let card = function(&tree, "0000:80:02.0");
    for name in ["eth0", "eth0_rep"] {
        let interface = entry(&tree, &card, "net", name);
        tree.file(&format!("{interface}/dev_port"), "0");
    }
    let device = entry(&tree, &card, "infiniband", "mlx5_0");
    tree.folder(&format!("{device}/ports/1"));
    assert_eq!(rdma(&tree.read().unwrap(), "mlx5_0").ports, [port(1, None)]);
}

#[test]
fn rdma_in_software_has_an_interface_and_no_place() {
    let tree = Tree::two_nodes().with_pci_nic();
    let device = "sys/devices/virtual/infiniband/rxe0";
    tree.file(&format!("{device}/ports/1/gid_attrs/ndevs/0"), "eth0");
    tree.link("sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0");
    let machine = tree.read().unwrap();
    let rxe0 = rdma(&machine, "rxe0");
    assert_eq!((rxe0.pci, rxe0.node, &rxe0.local_cpus), (None, None, &None));
    assert_eq!(rxe0.ports, [port(1, Some("eth0"))]);
}

#[test]
fn one_gpu_of_several_names() {
    let tree = Tree::two_nodes();
    let card = function(&tree, "0000:80:02.0");
    tree.link(&format!("{card}/driver"), "../../../bus/pci/drivers/amdgpu");
    entry(&tree, &card, "drm", "renderD128");
    entry(&tree, &card, "drm", "card1");
    tree.folder(&format!("{card}/drm/card1/card1-DP-1"));
    tree.link("sys/class/drm/card1-DP-1", &format!("../../../{card}/drm/card1/card1-DP-1"));
    entry(&tree, "sys/devices/platform/gpu", "drm", "card0");
    entry(&tree, "sys/devices/virtual/vgem", "drm", "card2");
    entry(&tree, &function(&tree, "0000:80:03.0"), "accel", "accel0");
    tree.file("sys/class/drm/version", "drm 1.1.0 20060810");
    let machine = tree.read().unwrap();
    let names: Vec<&str> = machine.gpus().iter().map(|gpu| gpu.name.as_str()).collect();
    assert_eq!(names, ["accel0", "card0", "card1"]);
    let expected = Gpu {
        name: "card1".to_owned(),
        pci: Some("0000:80:02.0".parse().unwrap()),
        model: None,
        driver: Some("amdgpu".to_owned()),
        node: Some(NodeId(1)),
        local_cpus: Some("2-3,6-7".parse().unwrap()),
    };
    assert_eq!(machine.gpus()[2], expected);
    assert_eq!((machine.gpus()[1].pci, machine.gpus()[1].node), (None, None));
}

#[test]
fn display_controller_without_a_driver_is_a_gpu() {
    let tree = Tree::two_nodes();
    let card = |address: &str, class: &str| {
        let folder = function(&tree, address);
        tree.file(&format!("{folder}/class"), class);
        folder
    };
    card("0000:80:02.0", "0x030200");
    let taken = card("0000:80:03.0", "0x030000");
    tree.link(&format!("{taken}/driver"), "../../../bus/pci/drivers/vfio-pci");
    let named = card("0000:80:04.0", "0x030000");
    entry(&tree, &named, "drm", "card0");
    card("0000:80:05.0", "0x020000");
    let machine = tree.read().unwrap();
    let known: Vec<(&str, Option<&str>)> =
        machine.gpus().iter().map(|gpu| (gpu.name.as_str(), gpu.driver.as_deref())).collect();
    assert_eq!(known, [("0000:80:02.0", None), ("0000:80:03.0", Some("vfio-pci")), ("card0", None)]);
    let bare = &machine.gpus()[0];
    assert_eq!((bare.pci, bare.node), (Some("0000:80:02.0".parse().unwrap()), Some(NodeId(1))));
    assert_eq!(bare.local_cpus, Some("2-3,6-7".parse().unwrap()));
    let shown = machine.tree().to_string();
    let (_, shown) = shown.split_once("GPUs\n").unwrap();
    let lines: Vec<&str> = shown.lines().take(3).map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "  0000:80:02.0                node 1  3D controller, no driver",
            "  0000:80:03.0                node 1  VGA controller, vfio-pci",
            "  card0         0000:80:04.0  node 1",
        ]
    );
}

#[test]
fn disks_without_partitions_and_virtual_ones() {
    let tree = Tree::two_nodes();
    let controller = format!("{}/nvme/nvme0", function(&tree, "0000:80:02.0"));
    tree.file(&format!("{controller}/model"), "A fast disk          ");
    tree.file(&format!("{controller}/nvme0n1/size"), "4096").link(&format!("{controller}/nvme0n1/device"), "..");
    tree.file(&format!("{controller}/nvme0n1/nvme0n1p1/size"), "2048");
    tree.file(&format!("{controller}/nvme0c0n2/hidden"), "1");
    for name in ["nvme0n1", "nvme0n1/nvme0n1p1", "nvme0c0n2"] {
        let last = name.rsplit('/').next().unwrap();
        tree.link(&format!("sys/class/block/{last}"), &format!("../../../{controller}/{name}"));
    }
    for name in ["loop0", "dm-0"] {
        tree.folder(&format!("sys/devices/virtual/block/{name}"));
        tree.link(&format!("sys/class/block/{name}"), &format!("../../devices/virtual/block/{name}"));
    }
    let pmem = entry(&tree, "sys/devices/LNXSYSTM:00/ndbus0/region0/btt0.0", "block", "pmem0s");
    tree.file("sys/devices/LNXSYSTM:00/ndbus0/region0/btt0.0/numa_node", "0").file(&format!("{pmem}/size"), "-1");
    let machine = tree.read().unwrap();
    let disk = BlockDevice {
        name: "nvme0n1".to_owned(),
        pci: Some("0000:80:02.0".parse().unwrap()),
        size: Some(DataSize::bytes(2 << 20)),
        model: Some("A fast disk".to_owned()),
        node: Some(NodeId(1)),
        local_cpus: Some("2-3,6-7".parse().unwrap()),
    };
    let memory = BlockDevice {
        name: "pmem0s".to_owned(),
        pci: None,
        size: None,
        model: None,
        node: Some(NodeId(0)),
        local_cpus: None,
    };
    assert_eq!(machine.block_devices(), [disk, memory]);
}

#[test]
fn disk_of_several_controllers() {
    let tree = Tree::two_nodes();
    let subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    tree.file(&format!("{subsystem}/nvme0n1/size"), "8").file(&format!("{subsystem}/model"), "Two ways");
    tree.link(&format!("{subsystem}/nvme0n1/device"), "..");
    tree.link("sys/class/block/nvme0n1", "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
    let controller = |number: u32, address: &str| {
        let folder = format!("{}/nvme/nvme{number}", function(&tree, address));
        tree.folder(&folder).link(&format!("{subsystem}/nvme{number}"), &format!("../../../../../{folder}"));
    };
    controller(0, "0000:80:02.0");
    let place = |machine: Topology| (machine.block_devices()[0].pci, machine.block_devices()[0].node);
    assert_eq!(place(tree.read().unwrap()), (Some("0000:80:02.0".parse().unwrap()), Some(NodeId(1))));
    controller(1, "0000:80:03.0");
    assert_eq!(place(tree.read().unwrap()), (None, Some(NodeId(1))), "two ways, both from node 1");
    assert_eq!(tree.read().unwrap().block_devices()[0].model.as_deref(), Some("Two ways"));
}
