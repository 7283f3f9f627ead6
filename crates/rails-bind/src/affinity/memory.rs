//! Memory affine: on the node with the lowest latency from where the thread runs.

use super::{Evidence, Verdict, cpus, nodes};
use rails_topo::{CpuId, NodeSet, NumaNode, Topology};

pub(super) fn assess(topology: &Topology, evidence: &Evidence<'_>) -> Verdict {
    let with_memory: NodeSet = topology.nodes().iter().filter(|node| has_memory(node)).map(|node| node.id).collect();
    match (with_memory.first(), with_memory.len()) {
        (None, _) => return Verdict::unknown("the memory nodes of the machine are not known"),
        (Some(only), 1) => return Verdict::Holds { evidence: format!("node {only} is the only one with memory") },
        _ => {}
    }
    let Some(buffers) = evidence.buffer_nodes.filter(|nodes| !nodes.is_empty()) else {
        return Verdict::unknown("nobody has looked where the buffers lie");
    };
    if evidence.thread_cpus.is_empty() {
        return Verdict::unknown("it is not known where the thread may run");
    }
    // The node must be the nearest one wherever the thread may run.
    let mut nearest = with_memory.clone();
    for cpu in evidence.thread_cpus.iter() {
        match nearest_to(topology, &with_memory, cpu) {
            Ok(nearest_to_cpu) => nearest = nearest.intersection(&nearest_to_cpu),
            Err(reason) => return Verdict::unknown(reason),
        }
    }
    let lies = format!("the buffers lie on {}", nodes(buffers));
    let thread = format!("the thread may run on {}", cpus(evidence.thread_cpus));
    if nearest.is_empty() {
        return Verdict::Broken {
            evidence: format!("{lies}, and {thread}, to which no node is nearest everywhere"),
            fix: format!("bind the thread to CPUs of {}", nodes(buffers)),
        };
    }
    if buffers.is_subset(&nearest) {
        return Verdict::Holds { evidence: format!("{lies}, nearest to where {thread}") };
    }
    Verdict::Broken {
        evidence: format!("{lies}, but {thread}, to which {} is nearest", nodes(&nearest)),
        fix: format!("set the thread's memory policy to `bind {nearest}` before it first touches its buffers"),
    }
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

/// A node of unknown size is taken to have memory: that is what nodes are for.
fn has_memory(node: &NumaNode) -> bool {
    node.memory.is_none_or(|memory| memory.as_bytes() > 0)
}
