use crate::{
    Bandwidth, BlockDevice, Cache, CacheKind, CoreKind, CpuId, CpuSet, DataSize, Die, Gpu, Hugepages, InterfaceAddress,
    Interrupt, MacAddress, MemoryPerformance, Nic, NicKind, NodeId, NumaNode, PciDevice, PciLink, RdmaDevice, RdmaPort,
    RxQueue, Topology, TxQueue, VirtualFunctions,
};

#[test]
fn machine_is_printed_as_a_tree() {
    let eth0 = Nic {
        pci: Some("0000:3b:00.0".parse().unwrap()),
        driver: Some("igb".to_owned()),
        node: Some(NodeId(1)),
        speed: Some(Bandwidth::mbps(1000)),
        up: Some(true),
        mtu: Some(1500),
        mac: Some(MacAddress([2, 0, 0, 0, 0, 1])),
        addresses: vec![InterfaceAddress { ip: "10.0.0.1".parse().unwrap(), prefix_len: 24 }],
        rx_queues: vec![
            RxQueue { rps_cpus: Some(CpuSet::new()), ..RxQueue::default() },
            RxQueue { index: 1, rps_cpus: Some("4-7".parse().unwrap()), ..RxQueue::default() },
        ],
        tx_queues: vec![TxQueue::default()],
        interrupts: vec![
            Interrupt {
                number: 101,
                name: Some("eth0-TxRx-0".to_owned()),
                affinity: Some("0-7".parse().unwrap()),
                effective: Some("5".parse().unwrap()),
            },
            Interrupt { number: 102, name: None, affinity: None, effective: None },
        ],
        ..Nic::named("eth0")
    };
    let lo = Nic { kind: NicKind::Loopback, ..Nic::named("lo") };
    let machine = Topology::synthetic("package:2 numa:1 l3:1 core:2 pu:2", vec![lo, eth0]).unwrap();
    let machine = machine.with_allowed("0-3,9".parse().unwrap());
    assert_eq!(
        machine.tree().to_string(),
        "\
machine of unknown make (described as `package:2 numa:1 l3:1 core:2 pu:2`)
  package 0                                       CPUs 0-3
    node 0                1 GiB                   CPUs 0-3
      L3 of unknown size  cores 0-1 (2 PUs each)  CPUs 0-3
  package 1                                       CPUs 4-7
    node 1                1 GiB                   CPUs 4-7
      L3 of unknown size  cores 0-1 (2 PUs each)  CPUs 4-7
NICs
  eth0  0000:3b:00.0  igb  node 1  1 Gbit/s  up             mtu 1500  02:00:00:00:00:01
      10.0.0.1/24
      queues: 2 receive (RPS of 1: CPUs 4-7), 1 transmit (XPS unknown)
      interrupt 101 eth0-TxRx-0: on CPUs 5 of 0-7
      interrupt 102: CPUs unknown
  lo    loopback                             state unknown
distances
  node  0  1
     0 10 20
     1 20 10
allowed CPUs 0-3 of 0-7, nodes 0-1
"
    );
}

#[test]
fn machine_of_unknown_parts_is_printed() {
    let machine = Topology::synthetic("pu:3", vec![]).unwrap();
    assert_eq!(
        machine.tree().to_string(),
        "\
machine of unknown make (described as `pu:3`)
  PUs  of unknown cores  CPUs 0-2
NICs: none
allowed CPUs 0-2, no NUMA nodes
"
    );
}

#[test]
fn largest_description_in_a_line_per_package() {
    let machine = Topology::synthetic("package:8 numa:1 l3:1 core:256 l2:1 l1:1 pu:2", vec![]).unwrap();
    let tree = machine.tree().to_string();
    assert_eq!(tree.lines().filter(|line| line.contains("cores 0-255 (2 PUs each)")).count(), 8, "{tree}");
    assert!(!tree.contains("L2") && !tree.contains("L1"), "private caches of unknown size are left out");
}

#[test]
fn cores_of_different_caches_have_lines_of_their_own() {
    let mut machine = Topology::synthetic("package:1 numa:1 l3:1 core:6 pu:1", vec![]).unwrap();
    // Small and large cores by turns, as firmware may number them.
    let cache = |cpu: u32| {
        let kib = if cpu.is_multiple_of(2) { 512 } else { 2048 };
        let cpus = CpuSet::single(CpuId(cpu));
        Cache { level: 2, kind: CacheKind::Unified, size: Some(DataSize::bytes(kib << 10)), cpus }
    };
    machine.caches.extend((0..6).map(cache));
    let tree = machine.in_order().tree().to_string();
    let cores: Vec<String> = tree
        .lines()
        .filter(|line| line.trim_start().starts_with("cores"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        cores,
        ["cores 0,2,4 1 PU each; L2 512 KiB CPUs 0,2,4", "cores 1,3,5 1 PU each; L2 2 MiB CPUs 1,3,5"],
        "{tree}"
    );
}

#[test]
fn tree_of_every_kind_of_fact() {
    let pci = "0000:3b:00.0".parse().unwrap();
    let eth0 = Nic { pci: Some(pci), up: Some(false), carrier: Some(false), ..Nic::named("eth0") };
    let bond0 = Nic {
        kind: NicKind::Virtual,
        virtual_kind: Some("bond".to_owned()),
        lowers: vec!["eth0".to_owned(), "eth1".to_owned()],
        up: Some(true),
        ..Nic::named("bond0")
    };
    let mut machine = Topology::synthetic("package:1 numa:1 core:4 pu:2", vec![eth0, bond0]).unwrap();
    machine.dies =
        vec![Die { id: Some(0), cpus: "0-3".parse().unwrap() }, Die { id: Some(1), cpus: "4-7".parse().unwrap() }];
    let node = &mut machine.nodes[0];
    node.tier = Some(4);
    let size = DataSize::bytes(2 << 20);
    node.hugepages =
        vec![Hugepages { size, total: Some(512), free: Some(500) }, Hugepages { size, total: Some(0), free: Some(0) }];
    let reads = MemoryPerformance {
        read_bandwidth: Some(Bandwidth::mbps(2_400_000)),
        read_latency: Some(96),
        ..MemoryPerformance::default()
    };
    node.performance = vec![reads];
    machine.nodes.push(NumaNode {
        memory: Some(DataSize::bytes(1 << 40)),
        tier: Some(22),
        ..NumaNode::of(NodeId(1), CpuSet::new())
    });
    machine.core_kinds = vec![CoreKind {
        cpus: "6-7".parse().unwrap(),
        efficiency: Some(0),
        name: Some("cpu_atom".to_owned()),
        max_frequency: Some(3_800_000),
        ..CoreKind::default()
    }];
    machine.isolated_cpus = "2-3".parse().unwrap();
    machine.nohz_full_cpus = "3".parse().unwrap();
    let link = |speed, width| Some(PciLink { speed, width });
    machine.pci_devices = vec![PciDevice {
        link: link(8_000, 8),
        max_link: link(16_000, 16),
        virtual_functions: Some(VirtualFunctions { enabled: 4, total: 16 }),
        ..PciDevice::at(pci)
    }];
    let port = RdmaPort {
        number: 1,
        nic: Some("eth0".to_owned()),
        active: Some(false),
        link_layer: Some("Ethernet".to_owned()),
        speed: None,
    };
    machine.rdma_devices =
        vec![RdmaDevice { name: "mlx5_0".to_owned(), pci: Some(pci), node: None, local_cpus: None, ports: vec![port] }];
    machine.gpus = vec![Gpu {
        name: "card0".to_owned(),
        pci: None,
        model: Some("a\u{1b}[2J model".to_owned()),
        driver: None,
        node: Some(NodeId(0)),
        local_cpus: None,
    }];
    machine.block_devices =
        vec![BlockDevice { name: "sda".to_owned(), pci: None, size: None, model: None, node: None, local_cpus: None }];
    assert_eq!(
        machine.tree().to_string(),
        "\
machine of unknown make (described as `package:1 numa:1 core:4 pu:2`)
  package 0                                                                                         CPUs 0-7
    node 0           1 GiB, tier 4, 512 pages of 2 MiB (500 free), reads 2.4 Tbit/s, latency 96 ns  CPUs 0-7
      die 0          cores 0-1 (2 PUs each)                                                         CPUs 0-3
      die 1          cores 2-3 (2 PUs each)                                                         CPUs 4-7
  node 1             1 TiB, tier 22                                                                 no CPUs
  cores of cpu_atom  speed rank 0, up to 3.8 GHz                                                    CPUs 6-7
NICs
  eth0   0000:3b:00.0  driver unknown  node unknown  no carrier
      PCIe 8 GT/s x8 (63 Gbit/s), could be 16 GT/s x16 (252 Gbit/s), 4 of 16 virtual functions
  bond0  bond                                        up
      over eth0, eth1
RDMA
  mlx5_0  0000:3b:00.0  node unknown  port 1: eth0, not active, Ethernet
GPUs
  card0  node 0  a\u{fffd}[2J model
disks
  sda  size unknown
allowed CPUs 0-7, nodes 0
isolated CPUs 2-3
nohz_full CPUs 3
"
    );
}

#[test]
fn tree_of_192_pus_and_eight_nics_on_two_screens() {
    let nic = |index: u32| {
        let interrupt = |nth| Interrupt {
            number: 100 + index * 64 + nth,
            name: Some(format!("eth{index}-TxRx-{nth}")),
            affinity: Some(CpuSet::single(CpuId(nth))),
            effective: Some(CpuSet::single(CpuId(nth))),
        };
        let transmit = |nth| TxQueue { index: nth, xps_cpus: Some(CpuSet::single(CpuId(nth))), interrupt: None };
        Nic {
            interrupts: (0..64).map(interrupt).collect(),
            tx_queues: (0..64).map(transmit).collect(),
            ..Nic::named(&format!("eth{index}"))
        }
    };
    let machine = Topology::synthetic("package:2 numa:4 l3:3 core:4 pu:2", (0..8).map(nic).collect()).unwrap();
    assert_eq!(machine.online_cpus().len(), 192);
    let tree = machine.tree().to_string();
    assert!(tree.lines().count() <= 90, "{tree}");
    assert!(tree.contains("interrupts 100-163 eth0-TxRx-0 to eth0-TxRx-63: on CPUs 0-63, one each"), "{tree}");
    assert!(tree.contains("64 transmit (XPS of 64: CPUs 0-63 together)"), "{tree}");
}
