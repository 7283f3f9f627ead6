//! Captured machines with NICs at both nodes.
//!
//! Run: `RAILS_CAPTURES=FOLDER cargo test -p rails-multirail --test planner -- --ignored`. Without
//! the variable the folder is `shared/topologies` beside the repository.

use crate::{interfaces, planned};
use rails_lab::captures::{self, Unpacked};
use rails_topo::{NicKind, NodeId, Topology};
use std::collections::BTreeSet;

/// A machine of hwloc's test suite.
fn read(archive: &str) -> Topology {
    Topology::from_sysfs_root(Unpacked::of(&captures::tree(archive)).root()).unwrap()
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_nics_get_rails_on_their_own_node() {
    let machine = read("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2");
    let plan = planned(&machine, "eth0,ib0");
    println!("{plan}{}", planned(&machine, "auto"));
    let nodes: Vec<_> = plan.rails.iter().map(|rail| rail.node).collect();
    assert_eq!(nodes, [Some(NodeId(0)), Some(NodeId(1))]);
    for rail in &plan.rails {
        assert!(machine.node_of_cpu(rail.cpu).is_some_and(|node| Some(node.id) == rail.node), "{plan}");
    }
    let auto = planned(&machine, "auto");
    for name in interfaces(&auto) {
        let nic = machine.nic(name).unwrap();
        assert!(nic.kind == NicKind::Device && nic.up != Some(false), "{auto}");
    }
    let loopback = planned(&machine, "loopback");
    assert_eq!(loopback.rails.len(), machine.cores().len());
}

/// The guest with two sockets, as `rails-topo` keeps it for its tests.
#[test]
fn nics_of_two_sockets_get_rails_beside_them() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../rails-topo/tests/fixtures/two-sockets.tar.gz");
    let machine = Topology::from_capture(capture).unwrap();
    let plan = planned(&machine, "auto");
    assert_eq!(interfaces(&plan), ["eth0", "eth2", "eth1", "eth3"], "both nodes before one of them twice");
    let nodes: Vec<_> = plan.rails.iter().map(|rail| rail.node).collect();
    assert_eq!(nodes, [1, 0, 1, 0].map(|node| Some(NodeId(node))));
    let cpus: BTreeSet<_> = plan.rails.iter().map(|rail| rail.cpu).collect();
    assert_eq!(cpus.len(), 4, "each rail has a core of its own: {plan}");
}
