//! Interrupt affine: the processor that the NIC is attached to serves the interrupt and the
//! packets.

use super::{Evidence, Fix, ObservedInterrupt, ObservedThread, Verdict, cpus, no_interrupts};
use crate::settings::{Change, InterfaceName, Setting, Value};
use rails_topo::{CpuId, CpuSet, Nic, RxQueue, Topology};

pub(super) fn assess(topology: &Topology, evidence: &Evidence<'_>) -> Verdict {
    let Some(nic) = evidence.nic.filter(|_| !evidence.interrupts.is_empty()) else {
        return Verdict::unknown(no_interrupts(evidence.nic));
    };
    let local = match LocalCpus::of(topology, nic) {
        Ok(local) => local,
        Err(reason) => return Verdict::unknown(reason),
    };
    let served = served(evidence.interrupts, &local);
    let steered = nic.rx_queues.iter().filter_map(|queue| steered(nic, queue, &local));
    let handled = evidence.napi_threads.iter().filter_map(|thread| handled(thread, &local));
    Verdict::all(std::iter::once(served).chain(steered).chain(handled))
}

/// The verdict on the CPUs that serve the interrupts themselves.
fn served(interrupts: &[ObservedInterrupt], local: &LocalCpus) -> Verdict {
    let mut in_place = Vec::new();
    let mut astray = Vec::new();
    let mut changes = Vec::new();
    let mut stay = Vec::new();
    let mut unknown = Vec::new();
    for interrupt in interrupts {
        let number = interrupt.status.number;
        match interrupt.served_on() {
            None => unknown.push(format!("the kernel does not say where interrupt {number} is served")),
            Some(on) if on.is_subset(&local.cpus) => in_place.push((interrupt, on)),
            Some(on) => {
                astray.push((interrupt, on));
                if interrupt.stays {
                    stay.push(number);
                } else {
                    changes.push(Change::interrupt(number, local.cpus.clone()));
                }
            }
        }
    }
    if !astray.is_empty() {
        return Verdict::Broken {
            evidence: format!("{}, but {} ({})", seen(&astray), local.says, cpus(&local.cpus)),
            fix: match changes.is_empty() {
                true => Fix::advice(format!("{} cannot be moved: let the threads follow", list(&stay))),
                false => Fix::changes(changes, "as root or with CAP_DAC_OVERRIDE; a running irqbalance may undo it"),
            },
        };
    }
    if !unknown.is_empty() {
        return Verdict::unknown(unknown.join(", "));
    }
    Verdict::Holds { evidence: format!("{}, and {} ({})", seen(&in_place), local.says, cpus(&local.cpus)) }
}

/// `interrupt 24 is served on CPU 2`, or, with counts, its count; interrupts with the same CPUs
/// share a phrase.
fn seen(interrupts: &[(&ObservedInterrupt, CpuSet)]) -> String {
    let mut said: Vec<(Seen, &CpuSet, Vec<u32>, u64)> = Vec::new();
    for (interrupt, on) in interrupts {
        let times = interrupt.served.values().sum::<u64>();
        let how = match times {
            0 if interrupt.is_pending() => Seen::Pending,
            0 => Seen::Stated,
            _ => Seen::Counted,
        };
        match said.iter_mut().find(|(known, known_on, ..)| (*known, *known_on) == (how, on)) {
            Some((_, _, numbers, all)) => {
                numbers.push(interrupt.status.number);
                *all += times;
            }
            None => said.push((how, on, vec![interrupt.status.number], times)),
        }
    }
    let in_words = |(how, on, numbers, times): &(Seen, &CpuSet, Vec<u32>, u64)| {
        let (which, one) = (list(numbers), numbers.len() == 1);
        match how {
            Seen::Pending => format!("{which} {} to {} when next fired", if one { "goes" } else { "go" }, cpus(on)),
            Seen::Stated => format!("{which} {} served on {}", if one { "is" } else { "are" }, cpus(on)),
            Seen::Counted => {
                format!("{which} {} served {times} times on {}", if one { "was" } else { "were" }, cpus(on))
            }
        }
    };
    said.iter().map(in_words).collect::<Vec<_>>().join(", ")
}

/// The evidence for the CPUs that serve an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// The interrupt was counted there.
    Counted,
    /// The kernel states that CPU.
    Stated,
    /// The interrupt was moved, and has not fired since.
    Pending,
}

/// `interrupt 24` or `interrupts 24-26,30`.
pub(super) fn list(numbers: &[u32]) -> String {
    // A list of CPUs has the same syntax.
    let list: CpuSet = numbers.iter().copied().map(CpuId).collect();
    format!("{} {list}", if numbers.len() == 1 { "interrupt" } else { "interrupts" })
}

/// Receive packet steering moves the work after an interrupt to other CPUs; `None` if it is off.
fn steered(nic: &Nic, queue: &RxQueue, local: &LocalCpus) -> Option<Verdict> {
    let to = queue.rps_cpus.as_ref().filter(|to| !to.is_empty())?;
    let says = format!("{} rx-{} hands its packets on to {}", nic.name, queue.index, cpus(to));
    if to.is_subset(&local.cpus) {
        return Some(Verdict::Holds { evidence: says });
    }
    let fix = match nic.name.parse::<InterfaceName>() {
        Ok(interface) => {
            // The CPUs in place stay; without any, steering is off.
            let value = Value::Cpus(to.intersection(&local.cpus));
            let setting = Setting::ReceiveSteering { interface, queue: queue.index };
            Fix::changes(vec![Change { setting, value }], "with CAP_NET_ADMIN, as root")
        }
        Err(_) => Fix::advice("switch receive packet steering off"),
    };
    Some(Verdict::Broken { evidence: format!("{says}, but {}", local.says), fix })
}

/// With threaded NAPI a kernel thread does the work after an interrupt on its own CPU.
fn handled(thread: &ObservedThread, local: &LocalCpus) -> Option<Verdict> {
    let says = format!("its packets are handled by {}", thread.whereabouts());
    if thread.may_run_on.is_subset(&local.cpus) {
        return Some(Verdict::Holds { evidence: says });
    }
    let change = thread.bound_to(&local.cpus);
    let fix = Fix::changes(vec![change], "as root or with CAP_SYS_NICE");
    Some(Verdict::Broken { evidence: format!("{says}, but {}", local.says), fix })
}

/// The CPUs beside a NIC, and the evidence for them.
pub(super) struct LocalCpus {
    pub(super) cpus: CpuSet,
    pub(super) says: String,
}

impl LocalCpus {
    /// The paper counts any core of the processor that the device is attached to, so the CPUs of
    /// the NIC's node are widened to their packages (a package may be cut into several nodes).
    pub(super) fn of(topology: &Topology, nic: &Nic) -> Result<Self, String> {
        let name = &nic.name;
        let node = nic.node.and_then(|id| topology.nodes().iter().find(|node| node.id == id));
        if let Some(node) = node.filter(|node| !node.cpus.is_empty()) {
            return Ok(Self {
                cpus: with_packages(topology, &node.cpus),
                says: format!("{name} is attached to node {}", node.id),
            });
        }
        // For a device of unknown locality the kernel lists all CPUs, so only a list that leaves some out
        // is evidence.
        if let Some(local) = nic.local_cpus.as_ref().filter(|local| is_telling(topology, local)) {
            return Ok(Self {
                cpus: with_packages(topology, local),
                says: format!("{name} is local to {}", cpus(local)),
            });
        }
        if topology.nodes().len() <= 1 && topology.packages().len() == 1 {
            return Ok(Self {
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
}

fn is_telling(topology: &Topology, local: &CpuSet) -> bool {
    !local.is_empty() && !topology.online_cpus().is_subset(local)
}

fn with_packages(topology: &Topology, cpus: &CpuSet) -> CpuSet {
    let touched = topology.packages().iter().filter(|package| package.cpus.intersects(cpus));
    touched.fold(cpus.clone(), |widened, package| widened.union(&package.cpus))
}
