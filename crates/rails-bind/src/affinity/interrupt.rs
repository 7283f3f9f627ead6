//! Interrupt affine: served on the processor that the NIC is attached to.

use super::{Evidence, Verdict, cpus, no_interrupts, served};
use rails_topo::{CpuSet, Nic, Topology};

pub(super) fn assess(topology: &Topology, evidence: &Evidence<'_>) -> Verdict {
    let Some(nic) = evidence.nic.filter(|_| !evidence.interrupts.is_empty()) else {
        return Verdict::unknown(no_interrupts(evidence.nic));
    };
    let beside = match beside(topology, nic) {
        Ok(beside) => beside,
        Err(reason) => return Verdict::unknown(reason),
    };
    let mut in_place = Vec::new();
    let mut astray = Vec::new();
    let mut fixes = Vec::new();
    let mut unknown = Vec::new();
    for interrupt in evidence.interrupts {
        let number = interrupt.number;
        match served(interrupt) {
            None => unknown.push(format!("the kernel does not say where interrupt {number} is served")),
            Some(on) if on.is_subset(&beside.cpus) => {
                in_place.push(format!("interrupt {number} is served on {}", cpus(on)));
            }
            Some(on) => {
                astray.push(format!("interrupt {number} is served on {}", cpus(on)));
                fixes.push(format!("echo {} > /proc/irq/{number}/smp_affinity_list", beside.cpus));
            }
        }
    }
    if !astray.is_empty() {
        return Verdict::Broken {
            evidence: format!("{}, but {} ({})", astray.join(", "), beside.says, cpus(&beside.cpus)),
            fix: format!("{} (as root or with CAP_DAC_OVERRIDE; a running irqbalance may undo it)", fixes.join("; ")),
        };
    }
    if !unknown.is_empty() {
        return Verdict::unknown(unknown.join(", "));
    }
    Verdict::Holds { evidence: format!("{}, and {} ({})", in_place.join(", "), beside.says, cpus(&beside.cpus)) }
}

/// The CPUs beside a NIC, and what says so.
struct Beside {
    cpus: CpuSet,
    says: String,
}

/// The paper counts any core of the processor that the device is attached to, so the CPUs of the NIC's node are widened
/// to their packages (a package may be cut into several nodes).
fn beside(topology: &Topology, nic: &Nic) -> Result<Beside, String> {
    let name = &nic.name;
    let node = nic.node.and_then(|id| topology.nodes().iter().find(|node| node.id == id));
    if let Some(node) = node.filter(|node| !node.cpus.is_empty()) {
        return Ok(Beside {
            cpus: with_packages(topology, &node.cpus),
            says: format!("{name} is attached to node {}", node.id),
        });
    }
    // For a device of unknown locality the kernel lists all CPUs, so only a list that leaves some out says something.
    if let Some(local) = nic.local_cpus.as_ref().filter(|local| is_telling(topology, local)) {
        return Ok(Beside {
            cpus: with_packages(topology, local),
            says: format!("{name} is local to {}", cpus(local)),
        });
    }
    if topology.nodes().len() <= 1 && topology.packages().len() == 1 {
        return Ok(Beside {
            cpus: topology.online_cpus().clone(),
            says: format!("the machine that {name} is attached to has one package and one node"),
        });
    }
    Err(format!(
        "it is not known where {name} is attached, and the machine has {} packages and {} nodes",
        topology.packages().len(),
        topology.nodes().len()
    ))
}

fn is_telling(topology: &Topology, local: &CpuSet) -> bool {
    !local.is_empty() && !topology.online_cpus().is_subset(local)
}

fn with_packages(topology: &Topology, cpus: &CpuSet) -> CpuSet {
    let touched = topology.packages().iter().filter(|package| package.cpus.intersects(cpus));
    touched.fold(cpus.clone(), |widened, package| widened.union(&package.cpus))
}
