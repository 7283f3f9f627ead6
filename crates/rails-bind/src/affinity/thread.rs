//! Thread affine: on the CPU that serves the interrupt, or sharing its last-level cache.

use super::{Evidence, Verdict, cpus, no_interrupts, served};
use crate::interrupt::InterruptStatus;
use rails_topo::{CpuSet, Topology};

pub(super) fn assess(topology: &Topology, evidence: &Evidence<'_>) -> Verdict {
    if evidence.interrupts.is_empty() {
        return Verdict::unknown(no_interrupts(evidence.nic));
    }
    if evidence.thread_cpus.is_empty() {
        return Verdict::unknown("it is not known where the thread may run");
    }
    let thread = whereabouts(evidence);
    let mut near = Vec::new();
    let mut far = Vec::new();
    let mut unknown = Vec::new();
    // A lane's traffic may raise any of its interrupts, so the thread has to be beside each of them.
    for interrupt in evidence.interrupts {
        let number = interrupt.number;
        let Some(on) = served(interrupt) else {
            unknown.push(format!("the kernel does not say where interrupt {number} is served"));
            continue;
        };
        let sharing = sharing_cache(topology, on);
        if evidence.thread_cpus.is_subset(on) {
            near.push(format!("interrupt {number} is served there"));
        } else if evidence.thread_cpus.is_subset(&sharing.cpus) {
            near.push(format!("shares the last-level cache with {}, where interrupt {number} is served", cpus(on)));
        } else if sharing.is_complete {
            far.push(format!("interrupt {number} is served on {}", cpus(on)));
        } else {
            unknown.push(format!("it is not known which CPUs share a cache with {}", cpus(on)));
        }
    }
    if !far.is_empty() {
        return Verdict::Broken { evidence: format!("{thread}, but {}", far.join(", ")), fix: fix(topology, evidence) };
    }
    if !unknown.is_empty() {
        return Verdict::unknown(unknown.join(", "));
    }
    Verdict::Holds { evidence: format!("{thread}; {}", near.join(", ")) }
}

fn whereabouts(evidence: &Evidence<'_>) -> String {
    let now = match evidence.current_cpu {
        Some(cpu) if evidence.thread_cpus.len() > 1 => format!(" (now on CPU {cpu})"),
        _ => String::new(),
    };
    format!("the thread may run on {}{now}", cpus(evidence.thread_cpus))
}

/// To move the thread needs no privilege, so that is proposed first; interrupts that are apart have to be moved
/// together.
fn fix(topology: &Topology, evidence: &Evidence<'_>) -> String {
    let common = |reach: &dyn Fn(&CpuSet) -> CpuSet| {
        let known = evidence.interrupts.iter().filter_map(served).map(reach);
        known.reduce(|a, b| a.intersection(&b)).unwrap_or_default().intersection(topology.allowed_cpus())
    };
    let serving = common(&CpuSet::clone);
    let sharing = common(&|on| sharing_cache(topology, on).cpus);
    match [serving, sharing].into_iter().find(|set| !set.is_empty()) {
        Some(best) => format!("bind the thread to {}", cpus(&best)),
        None => {
            let numbers: Vec<String> =
                evidence.interrupts.iter().map(|InterruptStatus { number, .. }| number.to_string()).collect();
            format!(
                "no CPU that this process may use is beside all of them: serve interrupts {} on one CPU and bind the \
                 thread to it",
                numbers.join(", ")
            )
        }
    }
}

/// CPUs that share a core or the last-level cache with some of `cpus`.
struct Sharing {
    cpus: CpuSet,
    /// Whether the caches of all of them are known.
    is_complete: bool,
}

fn sharing_cache(topology: &Topology, on: &CpuSet) -> Sharing {
    let mut sharing = Sharing { cpus: on.clone(), is_complete: true };
    for cpu in on.iter() {
        // Hardware threads of one core share its caches even where the machine does not list them.
        if let Some(core) = topology.core_of_cpu(cpu) {
            sharing.cpus = sharing.cpus.union(&core.cpus);
        }
        match topology.sharing_last_level_cache(cpu) {
            Some(cache) => sharing.cpus = sharing.cpus.union(cache),
            None => sharing.is_complete = false,
        }
    }
    sharing
}
