//! The machine as a text for people.

mod nics;
mod places;

use crate::{Distances, NodeId, Origin, Topology};
use std::fmt;

impl Topology {
    /// The machine as an indented text: packages, nodes, caches and cores, then NICs, distances and what is allowed.
    pub fn tree(&self) -> Tree<'_> {
        Tree(self)
    }
}

/// Prints a [`Topology`]; made by [`Topology::tree`].
#[derive(Debug, Clone, Copy)]
pub struct Tree<'a>(&'a Topology);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topology = self.0;
        machine(f, topology)?;
        places::write(f, topology)?;
        nics::write(f, topology)?;
        if let Some(distances) = &topology.distances {
            write_distances(f, distances)?;
        }
        allowed(f, topology)
    }
}

fn machine(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    let machine = &topology.machine;
    let kernel = machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
    let known = [machine.host.clone(), machine.product.clone(), machine.cpu_model.clone(), kernel];
    let known: Vec<String> = known.into_iter().flatten().collect();
    let known = if known.is_empty() { "of unknown make".to_owned() } else { known.join(", ") };
    match &topology.origin {
        Origin::ThisMachine { reader } => writeln!(f, "machine {known} (this machine, read by {reader})"),
        Origin::Xml { path } => writeln!(f, "machine {known} (hwloc XML {})", path.display()),
        Origin::Sysfs { path } => writeln!(f, "machine {known} (captured in {})", path.display()),
        Origin::Capture { path } => writeln!(f, "machine {known} (capture {})", path.display()),
        Origin::Synthetic { description } => writeln!(f, "machine {known} (described as `{description}`)"),
    }
}

fn write_distances(f: &mut fmt::Formatter<'_>, distances: &Distances) -> fmt::Result {
    let width = distances.values.iter().map(|value| value.to_string().len()).max().unwrap_or(1).max(2);
    writeln!(f, "distances")?;
    let column = |f: &mut fmt::Formatter<'_>, node: &NodeId| write!(f, " {:>width$}", node.0);
    write!(f, "  node")?;
    distances.nodes.iter().try_for_each(|node| column(f, node))?;
    writeln!(f)?;
    for (node, row) in distances.nodes.iter().zip(distances.values.chunks(distances.nodes.len().max(1))) {
        write!(f, "  {:>4}", node.0)?;
        row.iter().try_for_each(|value| write!(f, " {value:>width$}"))?;
        writeln!(f)?;
    }
    Ok(())
}

fn allowed(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    let (allowed, online) = (&topology.allowed_cpus, &topology.online_cpus);
    write!(f, "allowed CPUs {}", if allowed.is_empty() { "none".to_owned() } else { allowed.to_string() })?;
    if allowed != online {
        write!(f, " of {online}")?;
    }
    match topology.nodes.len() {
        0 => writeln!(f, ", no NUMA nodes"),
        _ => writeln!(f, ", nodes {}", topology.allowed_nodes),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Bandwidth, CpuSet, InterfaceAddress, Interrupt, MacAddress, Nic, NicKind, NodeId, RxQueue, Topology, TxQueue,
    };

    #[test]
    fn a_machine_is_printed_as_a_tree() {
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
  package 0: CPUs 0-3
    node 0: 1 GiB, CPUs 0-3
      L3: size unknown, CPUs 0-3
        cores 0-1 (2 PUs each): CPUs 0-3
  package 1: CPUs 4-7
    node 1: 1 GiB, CPUs 4-7
      L3: size unknown, CPUs 4-7
        cores 0-1 (2 PUs each): CPUs 4-7
NICs
  eth0  0000:3b:00.0  igb        node 1        1 Gbit/s       up             mtu 1500     02:00:00:00:00:01
        10.0.0.1/24
        queues: 2 receive (RPS of 1: CPUs 4-7), 1 transmit (XPS unknown)
        interrupt 101 eth0-TxRx-0: on CPUs 5 of 0-7
        interrupt 102: CPUs unknown
  lo    loopback      no driver  node unknown  speed unknown  state unknown  mtu unknown  MAC unknown
distances
  node  0  1
     0 10 20
     1 20 10
allowed CPUs 0-3 of 0-7, nodes 0-1
"
        );
    }

    #[test]
    fn a_machine_of_unknown_parts_is_printed() {
        let machine = Topology::synthetic("pu:3", vec![]).unwrap();
        assert_eq!(
            machine.tree().to_string(),
            "\
machine of unknown make (described as `pu:3`)
  PUs of unknown cores: CPUs 0-2
NICs: none
allowed CPUs 0-2, no NUMA nodes
"
        );
    }
    #[test]
    fn the_largest_description_is_printed_in_one_line_for_each_package() {
        let machine = Topology::synthetic("package:8 numa:1 l3:1 core:256 l2:1 l1:1 pu:2", vec![]).unwrap();
        let tree = machine.tree().to_string();
        assert_eq!(tree.lines().filter(|line| line.contains("cores 0-255 (2 PUs each)")).count(), 8, "{tree}");
        assert!(!tree.contains("L2") && !tree.contains("L1"), "private caches are left out");
    }
}
