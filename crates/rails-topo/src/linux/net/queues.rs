//! Queues and how packets are steered to CPUs, from an interface's `queues`
//! (Documentation/networking/scaling.rst in the kernel's sources).

use super::super::root::Root;
use crate::{CpuSet, RxQueue, TxQueue};

/// The receive queues, by index, without their interrupts.
pub(super) fn receive(root: &Root, folder: &str) -> Vec<RxQueue> {
    let queue = |index| RxQueue {
        index,
        rps_cpus: mask(root, &format!("{folder}/rx-{index}/rps_cpus")),
        rps_flows: root.value(&format!("{folder}/rx-{index}/rps_flow_cnt")),
        interrupt: None,
    };
    root.numbered(folder, "rx-").into_iter().map(queue).collect()
}

/// The transmit queues, by index, without their interrupts.
pub(super) fn transmit(root: &Root, folder: &str) -> Vec<TxQueue> {
    let queue =
        |index| TxQueue { index, xps_cpus: mask(root, &format!("{folder}/tx-{index}/xps_cpus")), interrupt: None };
    root.numbered(folder, "tx-").into_iter().map(queue).collect()
}

fn mask(root: &Root, path: &str) -> Option<CpuSet> {
    CpuSet::parse_mask(&root.text(path)?).ok()
}
