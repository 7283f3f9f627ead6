//! A machine of 192 PUs with 16 NICs of 64 queues, as large as servers are.

use rails_topo::{
    Bandwidth, CpuId, CpuSet, Gpu, InterfaceAddress, Interrupt, MacAddress, Nic, NodeId, PciAddress, PciBridge,
    PciDevice, PciLink, RxQueue, Topology, TxQueue, VirtualFunctions,
};

/// Two packages of four nodes of three L3 caches of four cores with two PUs. On each node a root
/// port, below it a switch with a card of two ports, whose first has virtual functions, and a GPU.
pub(crate) fn machine() -> Topology {
    let ports: Vec<Port> = (0..8).map(|node| Port { node }).collect();
    let nics = ports.iter().flat_map(|port| (0..2).map(|function| port.nic(function))).collect();
    let pci = ports.iter().flat_map(Port::functions).collect();
    let gpus = ports.iter().map(Port::gpu).collect();
    Topology::synthetic("package:2 numa:4 l3:3 l2:4 l1:1 core:1 pu:2", nics)
        .expect("it is a description")
        .with_pci_devices(pci)
        .with_gpus(gpus)
}

/// A root port of a node.
struct Port {
    node: u8,
}

impl Port {
    fn bus(&self) -> u8 {
        self.node * 32
    }

    fn cpus(&self) -> CpuSet {
        let first = u32::from(self.node) * 24;
        (first..first + 24).map(CpuId).collect()
    }

    fn at(&self, bus: u8, device: u8, function: u8) -> PciAddress {
        PciAddress { domain: 0, bus: self.bus() + bus, device, function }
    }

    fn nic(&self, function: u8) -> Nic {
        let index = u32::from(self.bus()) * 2 + u32::from(function);
        let address = self.at(3, 0, function);
        let queue_cpu = |queue: u32| u32::from(self.node) * 24 + queue % 24;
        let interrupt = |queue: u32| Interrupt {
            number: 1000 + index * 65 + queue,
            name: Some(format!("mlx5_comp{queue}@pci:{address}")),
            affinity: Some(self.cpus()),
            effective: Some(CpuSet::single(CpuId(queue_cpu(queue)))),
        };
        let rx = |queue: u32| RxQueue {
            index: queue,
            rps_cpus: Some(self.cpus()),
            rps_flows: Some(32_768),
            interrupt: Some(interrupt(queue).number),
        };
        let tx = |queue: u32| TxQueue {
            index: queue,
            xps_cpus: Some([queue_cpu(queue), queue_cpu(queue + 7)].map(CpuId).into_iter().collect()),
            interrupt: Some(interrupt(queue).number),
        };
        let held = |host: u16| InterfaceAddress {
            ip: [0xfd00, 0, 0, index as u16, 0x1234, 0x5678, 0x9abc, host].into(),
            prefix_len: 64,
        };
        Nic {
            pci: Some(address),
            driver: Some("mlx5_core".into()),
            node: Some(NodeId(self.node.into())),
            local_cpus: Some(self.cpus()),
            speed: Some(Bandwidth::mbps(200_000)),
            up: Some(true),
            carrier: Some(true),
            port: Some(function.into()),
            physical_port: Some(format!("e8ebd3030{index:07x}")),
            physical_switch: Some(format!("e8ebd303{:08x}", self.bus())),
            threaded_napi: Some(false),
            mtu: Some(9000),
            mac: Some(MacAddress([2, 0, 0, 0, self.bus(), function])),
            addresses: (0..4).map(held).collect(),
            rx_queues: (0..64).map(rx).collect(),
            tx_queues: (0..64).map(tx).collect(),
            interrupts: (0..65).map(interrupt).collect(),
            ..Nic::named(&format!("ens{index}f{function}np{function}"))
        }
    }

    fn gpu(&self) -> Gpu {
        let pci = self.at(4, 0, 0);
        Gpu {
            name: format!("card{}", self.bus()),
            pci: Some(pci),
            model: Some("NVIDIA H100 80GB HBM3".into()),
            driver: Some("nvidia".into()),
            node: Some(NodeId(self.node.into())),
            local_cpus: Some(self.cpus()),
        }
    }

    /// The root port, the switch, the functions of the card and the GPU.
    fn functions(&self) -> Vec<PciDevice> {
        let bridge = |device: PciDevice, secondary: u8, subordinate: u8| PciDevice {
            class: Some(0x06_0400),
            bridge: Some(PciBridge { secondary: self.bus() + secondary, subordinate: self.bus() + subordinate }),
            ..device
        };
        let (root, upper) = (self.at(0, 1, 0), self.at(1, 0, 0));
        let (lower, other) = (self.at(2, 0, 0), self.at(2, 1, 0));
        let mut functions = vec![
            bridge(self.function(root, None), 1, 4),
            bridge(self.function(upper, Some(root)), 2, 4),
            bridge(self.function(lower, Some(upper)), 3, 3),
            bridge(self.function(other, Some(upper)), 4, 4),
            self.function(self.at(4, 0, 0), Some(other)),
            self.function(self.at(3, 0, 1), Some(lower)),
        ];
        let physical = self.at(3, 0, 0);
        let virtual_functions = Some(VirtualFunctions { enabled: 16, total: 127 });
        functions.push(PciDevice { virtual_functions, ..self.function(physical, Some(lower)) });
        functions.extend((0..16).map(|index| PciDevice {
            physical_function: Some(physical),
            ..self.function(self.at(3, 2 + index / 8, index % 8), Some(lower))
        }));
        functions
    }

    fn function(&self, at: PciAddress, parent: Option<PciAddress>) -> PciDevice {
        let link = PciLink { speed: 32_000, width: 16 };
        PciDevice {
            class: Some(0x02_0000),
            vendor: Some(0x15b3),
            device: Some(0x1021),
            parent,
            link: Some(link),
            max_link: Some(link),
            bandwidth: Some(link.bandwidth()),
            driver: Some("mlx5_core".into()),
            node: Some(NodeId(self.node.into())),
            local_cpus: Some(self.cpus()),
            ..PciDevice::at(at)
        }
    }
}
