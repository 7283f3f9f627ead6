//! Memory affine: on the node with the lowest latency from where the thread runs.

use super::{Evidence, Fix, MemoryOwner, ObservedMemory, Verdict, cpus, nodes};
use crate::settings::{Change, Setting, Value};
use rails_topo::{CpuId, CpuSet, NodeSet, NumaNode, Topology};

pub(super) fn assess(topology: &Topology, evidence: &Evidence<'_>) -> Verdict {
    let with_memory: NodeSet = topology.nodes().iter().filter(|node| has_memory(node)).map(|node| node.id).collect();
    match (with_memory.first(), with_memory.len()) {
        (None, _) => return Verdict::unknown("the memory nodes of the machine are not known"),
        (Some(only), 1) => return Verdict::Holds { evidence: format!("node {only} is the only one with memory") },
        _ => {}
    }
    let looked_at: Vec<&ObservedMemory> = evidence.memory.iter().filter(|memory| !memory.nodes().is_empty()).collect();
    if looked_at.is_empty() {
        return Verdict::unknown("the nodes of the buffers are not known");
    }
    let runs = evidence.threads.iter().fold(CpuSet::new(), |runs, thread| runs.union(&thread.may_run_on));
    if runs.is_empty() {
        return Verdict::unknown("it is not known where the threads may run");
    }
    // The node must be the nearest one wherever a thread may run.
    let mut nearest = with_memory.clone();
    for cpu in runs.iter() {
        match nearest_to(topology, &with_memory, cpu) {
            Ok(nearest_to_cpu) => nearest = nearest.intersection(&nearest_to_cpu),
            Err(reason) => return Verdict::unknown(reason),
        }
    }
    Verdict::all(looked_at.into_iter().map(|memory| placed(memory, &runs, &nearest)))
}

fn placed(memory: &ObservedMemory, runs: &CpuSet, nearest: &NodeSet) -> Verdict {
    let on = memory.counting_nodes();
    let lies = match &memory.of {
        MemoryOwner::Buffers => format!("the buffers lie on {}", nodes(&on)),
        MemoryOwner::Process { pid, .. } => format!("the memory of process {pid} lies on {}", nodes(&on)),
    };
    let threads = format!("its threads may run on {}", cpus(runs));
    if nearest.is_empty() {
        return Verdict::Broken {
            evidence: format!("{lies}, and {threads}, to which no node is nearest everywhere"),
            fix: Fix::advice(format!("bind the threads to CPUs of {}", nodes(&on))),
        };
    }
    if on.is_subset(nearest) {
        return Verdict::Holds { evidence: format!("{lies}, nearest to where {threads}") };
    }
    let fix = match memory.of {
        MemoryOwner::Buffers => Fix::advice(format!(
            "rebind the buffers to `bind {nearest}`, or set that policy before they are first touched"
        )),
        MemoryOwner::Process { pid, started_ns } => {
            let setting = Setting::ProcessMemory { process: pid, started_ns };
            let change = Change { setting, value: Value::Nodes(nearest.clone()) };
            Fix::changes(vec![change], "for the process's own user with its capabilities, or with CAP_SYS_NICE")
        }
    };
    Verdict::Broken { evidence: format!("{lies}, but {threads}, to which {} is nearest", nodes(nearest)), fix }
}

/// The nodes of `with_memory` that have the lowest latency from `cpu`; equals are all nearest.
fn nearest_to(topology: &Topology, with_memory: &NodeSet, cpu: CpuId) -> Result<NodeSet, String> {
    let Some(home) = topology.node_of_cpu(cpu) else {
        return Err(format!("it is not known which node CPU {cpu} is on"));
    };
    let Some(distances) = topology.distances() else {
        // Without a matrix only this is certain: no node is nearer than the one that the CPU is part of.
        return if with_memory.contains(home.id) {
            Ok(NodeSet::single(home.id))
        } else {
            Err(format!("node {} has no memory, and the distances to the others are not known", home.id))
        };
    };
    let measured: Option<Vec<_>> =
        with_memory.iter().map(|node| Some((distances.between(home.id, node)?, node))).collect();
    let measured =
        measured.ok_or_else(|| format!("the distances from node {} are not known to all others", home.id))?;
    let lowest = measured.iter().map(|(distance, _)| *distance).min();
    Ok(measured.into_iter().filter(|(distance, _)| Some(*distance) == lowest).map(|(_, node)| node).collect())
}

/// A node of unknown size counts as having memory.
fn has_memory(node: &NumaNode) -> bool {
    node.memory.is_none_or(|memory| memory.as_bytes() > 0)
}
