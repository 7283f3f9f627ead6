use super::{cpus, nodes, on_node, with_distances, with_memory};
use rails_topo::{CpuId, Locality, Nic, NodeId, Tiers, Topology};

/// As text: the distance, then the nodes.
fn text(tiers: Tiers<'_>) -> Vec<String> {
    let number = |distance: Option<u64>| distance.map_or("?".to_owned(), |distance| distance.to_string());
    tiers
        .map(|tier| {
            format!("{}: {:?}", number(tier.distance), tier.nodes.iter().map(|node| node.0).collect::<Vec<_>>())
        })
        .collect()
}

/// Four nodes of two PUs; 0 and 1 are near each other, and so are 2 and 3.
fn four_nodes(nics: Vec<Nic>) -> Topology {
    let machine = Topology::synthetic("package:2 numa:2 core:2 pu:1", nics).unwrap();
    let rows = vec![10, 12, 32, 32, 12, 10, 32, 32, 32, 32, 10, 12, 32, 32, 12, 10];
    with_distances(&machine, Some(rows))
}

#[test]
fn nodes_come_in_tiers_of_equal_distance() {
    let machine = four_nodes(vec![]);
    let locality = machine.locality();
    assert_eq!(text(locality.nodes_from_cpu(CpuId(3))), ["10: [1]", "12: [0]", "32: [2, 3]"]);
    assert_eq!(text(locality.nodes_from_node(NodeId(2))), ["10: [2]", "12: [3]", "32: [0, 1]"]);
    assert_eq!(locality.nearest_node(CpuId(3)), Some(NodeId(1)));
}

#[test]
fn unknown_distances_as_the_last_tier() {
    let machine = with_distances(&four_nodes(vec![]), None);
    let locality = machine.locality();
    assert_eq!(text(locality.nodes_from_cpu(CpuId(0))), ["10: [0]", "?: [1, 2, 3]"]);
    assert_eq!(text(locality.nodes_from_cpu(CpuId(999))), ["?: [0, 1, 2, 3]"], "there is no such PU");
    assert_eq!(text(locality.nodes_from_node(NodeId(9))), ["?: [0, 1, 2, 3]"]);
    assert_eq!(locality.nearest_node(CpuId(999)), None);
}

#[test]
fn only_nodes_that_memory_may_come_from_are_named() {
    let machine = with_memory(&four_nodes(vec![]), &[Some(1), Some(0), None, Some(1)]).with_allowed_nodes(nodes("1-3"));
    let locality = machine.locality();
    assert_eq!(text(locality.nodes_from_cpu(CpuId(0))), ["32: [2, 3]"], "0 is not allowed, 1 has no memory");
    assert_eq!(locality.nearest_node(CpuId(0)), Some(NodeId(2)));
    assert_eq!(machine.nearest_node(CpuId(0)), Some(NodeId(2)));
}

/// As `numa=fake` makes them: the kernel puts nodes of one piece of memory at distance 10.
#[test]
fn own_node_first_in_a_tie() {
    let machine = Topology::synthetic("numa:2 core:1 pu:1", vec![]).unwrap();
    let machine = with_distances(&machine, Some(vec![10; 4]));
    let locality = machine.locality();
    assert_eq!(text(locality.nodes_from_cpu(CpuId(1))), ["10: [1, 0]"]);
    assert_eq!(locality.nearest_node(CpuId(1)), Some(NodeId(1)));
}

#[test]
fn closest_pus_beside_a_device() {
    let machine = four_nodes(vec![
        on_node(Nic::named("eth0"), 2),
        Nic { local_cpus: Some(cpus("0-3")), ..Nic::named("package") },
        Nic::named("nowhere"),
    ]);
    let locality = machine.locality();
    let [eth0, nowhere, package] = machine.nics() else { panic!("there are three") };
    assert_eq!(closest(&locality, eth0), Some(("4-5".into(), true, None)));
    assert_eq!(locality.closest_nodes(eth0).unwrap().nodes, [NodeId(2)]);
    assert_eq!(closest(&locality, package), Some(("0-3".into(), true, None)));
    assert_eq!(text(locality.nodes_from(package)), ["10: [0, 1]", "32: [2, 3]"], "it is beside two nodes");
    assert_eq!(closest(&locality, nowhere), None);
    assert_eq!(locality.closest_nodes(nowhere), None);
    assert_eq!(text(locality.nodes_from(nowhere)), ["?: [0, 1, 2, 3]"]);
}

#[test]
fn closest_pus_where_local_ones_are_forbidden() {
    let machine = four_nodes(vec![on_node(Nic::named("eth0"), 0)]);
    let eth0 = &machine.nics()[0].clone();
    let machine = machine.with_allowed_nodes(nodes("2-3"));
    assert_eq!(machine.locality().closest_nodes(eth0).unwrap().nodes, [NodeId(2), NodeId(3)], "a tie");

    let machine = machine.with_allowed(cpus("3,5-6"));
    assert_eq!(closest(&machine.locality(), eth0), Some(("3".into(), false, Some(12))));
    let machine = machine.with_allowed(cpus("5-6"));
    assert_eq!(closest(&machine.locality(), eth0), Some(("5-6".into(), false, Some(32))), "a tie");
    let unknown = with_distances(&machine, None);
    assert_eq!(closest(&unknown.locality(), eth0), None, "nothing says which of the two nodes is nearer");
    let only = unknown.with_allowed(cpus("5"));
    assert_eq!(closest(&only.locality(), eth0), Some(("5".into(), false, None)), "there is nothing to choose");
}

#[test]
fn closest_pus_without_nodes() {
    let machine = Topology::synthetic("package:1 core:2 pu:1", vec![Nic::named("eth0")]).unwrap();
    let locality = machine.locality();
    assert_eq!(closest(&locality, &machine.nics()[0]), Some(("0-1".into(), true, None)));
    assert_eq!(locality.closest_nodes(&machine.nics()[0]), None);
    assert_eq!(locality.nodes_from_cpu(CpuId(0)).count(), 0);
}

fn closest(locality: &Locality<'_>, nic: &Nic) -> Option<(String, bool, Option<u64>)> {
    locality.closest_pus(nic).map(|closest| (closest.cpus.to_string(), closest.beside, closest.distance))
}
