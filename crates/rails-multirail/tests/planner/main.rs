//! Plans for other machines: described ones and captured ones.

mod addresses;
mod captured;
mod cpus_and_memory;
mod devices;
mod lanes;
mod odd_machines;
mod plans_as_json;
mod properties;
mod reasons;
mod renumbering;
mod replan;
mod tasks;

use rails_multirail::{RailPlan, RailRequest, plan_rails, planner::PlanError};
use rails_topo::{Bandwidth, CpuSet, InterfaceAddress, Interrupt, Nic, NicKind, NodeId, Topology};

/// A NIC on a node, with an address and a speed.
fn nic(name: &str, node: u32, gigabits: u64, address: &str) -> Nic {
    Nic {
        node: Some(NodeId(node)),
        speed: Some(Bandwidth::mbps(1000 * gigabits)),
        up: Some(true),
        addresses: vec![InterfaceAddress { ip: address.parse().unwrap(), prefix_len: 24 }],
        ..Nic::named(name)
    }
}

fn on_card(nic: Nic, pci: &str) -> Nic {
    Nic { pci: Some(pci.parse().unwrap()), ..nic }
}

fn served_by(nic: Nic, cpus: &str) -> Nic {
    let effective = Some(self::cpus(cpus));
    Nic { interrupts: vec![Interrupt { number: 40, name: None, affinity: effective.clone(), effective }], ..nic }
}

fn loopback() -> Nic {
    Nic { kind: NicKind::Loopback, ..Nic::named("lo") }
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Two packages with a node and an L3 each, of four cores with two PUs: CPUs 0-7 and 8-15, cores
/// are pairs.
fn two_packages(nics: Vec<Nic>) -> Topology {
    Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:2", nics).unwrap()
}

fn planned(machine: &Topology, request: &str) -> RailPlan {
    let request: RailRequest = request.parse().unwrap();
    plan_rails(machine, &request).unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

fn planned_with(machine: &Topology, request: &str, adjust: impl Fn(&mut RailRequest)) -> Result<RailPlan, PlanError> {
    let mut request: RailRequest = request.parse().unwrap();
    adjust(&mut request);
    plan_rails(machine, &request)
}

/// The machine with changes to its JSON.
fn changed(machine: &Topology, change: impl FnOnce(&mut serde_json::Value)) -> Topology {
    let mut json = serde_json::to_value(machine).unwrap();
    change(&mut json);
    serde_json::from_value(json).unwrap()
}

fn refused(machine: &Topology, request: &str) -> String {
    plan_rails(machine, &request.parse().unwrap()).unwrap_err().to_string()
}

fn interfaces(plan: &RailPlan) -> Vec<&str> {
    plan.rails.iter().map(|rail| rail.interface.as_deref().unwrap()).collect()
}

fn chosen_cpus(plan: &RailPlan) -> Vec<u32> {
    plan.rails.iter().map(|rail| rail.cpu.0).collect()
}
