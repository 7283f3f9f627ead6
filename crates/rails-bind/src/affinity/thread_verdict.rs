//! Thread affine: on the CPU that serves the interrupt, or sharing its last-level cache.

use super::{
    Evidence, Fix, ObservedInterrupt, ObservedThread, Verdict, cpus, interrupt_verdict::LocalCpus, no_interrupts,
};
use crate::settings::{Change, Setting, Value};
use rails_topo::{CpuSet, InterruptRole, Nic, Topology};

pub(super) fn assess(topology: &Topology, evidence: &Evidence<'_>) -> Verdict {
    if evidence.interrupts.is_empty() {
        return Verdict::unknown(no_interrupts(evidence.nic));
    }
    if evidence.threads.is_empty() {
        return Verdict::unknown("it is not known which threads use it");
    }
    let local = evidence.nic.and_then(|nic| LocalCpus::of(topology, nic).ok()).map(|local| local.cpus);
    let traffic = Traffic::of(topology, &of_traffic(evidence), local.as_ref());
    Verdict::all(evidence.threads.iter().map(|thread| traffic.judge(thread)))
}

/// The interrupts that traffic raises: those with counts, or without any, all but control vectors,
/// unless there are no others. A flow raises one of the many queues of a NIC, and the CPUs of the
/// others do not matter to its thread.
fn of_traffic<'a>(evidence: &Evidence<'a>) -> Vec<&'a ObservedInterrupt> {
    let known = |number: u32| {
        let interrupts = |nic: &'a Nic| nic.interrupts.iter();
        evidence.nic.into_iter().flat_map(interrupts).find(|interrupt| interrupt.number == number)
    };
    let is_control = |interrupt: &ObservedInterrupt| {
        known(interrupt.status.number).is_some_and(|known| known.role() == InterruptRole::Control)
    };
    let of_traffic: Vec<_> = evidence.interrupts.iter().filter(|interrupt| !is_control(interrupt)).collect();
    let has_fired = |interrupt: &&ObservedInterrupt| interrupt.served.values().any(|times| *times > 0);
    let fired: Vec<_> = of_traffic.iter().copied().filter(has_fired).collect();
    match (fired.is_empty(), of_traffic.is_empty()) {
        (false, _) => fired,
        (true, false) => of_traffic,
        (true, true) => evidence.interrupts.iter().collect(),
    }
}

/// The interrupts that traffic raises, with the CPUs for a thread; the same for all threads.
struct Traffic {
    interrupts: Vec<Raised>,
    /// The CPUs that will serve all of these interrupts.
    serving: CpuSet,
    /// The CPUs beside all CPUs that will serve them.
    sharing: CpuSet,
}

/// An interrupt with its CPUs.
struct Raised {
    number: u32,
    /// The CPUs that serve the interrupt, and the CPUs beside those; `None` is unknown.
    served: Option<(CpuSet, Sharing)>,
}

impl Traffic {
    fn of(topology: &Topology, interrupts: &[&ObservedInterrupt], local: Option<&CpuSet>) -> Self {
        let raised = |interrupt: &&ObservedInterrupt| Raised {
            number: interrupt.status.number,
            served: interrupt.served_on().map(|on| {
                let sharing = Sharing::with(topology, &on);
                (on, sharing)
            }),
        };
        // Interrupts away from the NIC will be beside it after their own fix.
        let will_be = |interrupt: &&ObservedInterrupt| {
            let on = interrupt.served_on()?;
            Some(local.filter(|local| !interrupt.stays && !on.is_subset(local)).cloned().unwrap_or(on))
        };
        let common = |reach: &dyn Fn(&CpuSet) -> CpuSet| {
            let known = interrupts.iter().filter_map(will_be).map(|on| reach(&on));
            known.reduce(|a, b| a.intersection(&b)).unwrap_or_default().intersection(topology.allowed_cpus())
        };
        Self {
            interrupts: interrupts.iter().map(raised).collect(),
            serving: common(&CpuSet::clone),
            sharing: common(&|on| Sharing::with(topology, on).cpus),
        }
    }

    fn judge(&self, thread: &ObservedThread) -> Verdict {
        let may_run_on = &thread.may_run_on;
        if may_run_on.is_empty() {
            return Verdict::unknown(format!("it is not known where thread {} may run", thread.tid));
        }
        let whereabouts = thread.whereabouts();
        let mut near = Vec::new();
        let mut far = Vec::new();
        let mut unknown = Vec::new();
        // A lane's traffic may raise any of its interrupts, so the thread has to be beside each.
        for Raised { number, served } in &self.interrupts {
            let Some((on, sharing)) = served else {
                unknown.push(format!("the kernel does not say where interrupt {number} is served"));
                continue;
            };
            if may_run_on.is_subset(on) {
                near.push(format!("interrupt {number} is served there"));
            } else if may_run_on.is_subset(&sharing.cpus) {
                near.push(format!("shares the last-level cache with {}, where interrupt {number} is served", cpus(on)));
            } else if sharing.is_complete {
                far.push(format!("interrupt {number} is served on {}", cpus(on)));
            } else {
                unknown.push(format!("it is not known which CPUs share a cache with {}", cpus(on)));
            }
        }
        if !far.is_empty() {
            return Verdict::Broken {
                evidence: format!("{whereabouts}, but {}", far.join(", ")),
                fix: self.fix(thread),
            };
        }
        if !unknown.is_empty() {
            return Verdict::unknown(unknown.join(", "));
        }
        Verdict::Holds { evidence: format!("{whereabouts}; {}", near.join(", ")) }
    }

    /// Moves the thread to the CPUs that will serve the interrupts. Interrupts on CPUs too far
    /// apart must be moved together first.
    fn fix(&self, thread: &ObservedThread) -> Fix {
        let Self { serving, sharing, .. } = self;
        if thread.may_run_on.is_subset(serving) || thread.may_run_on.is_subset(sharing) {
            // The thread is not far from where the interrupts will be.
            return Fix::advice(format!("leave thread {} where it is, and move the interrupts", thread.tid));
        }
        match [serving, sharing].into_iter().find(|set| !set.is_empty()) {
            Some(best) => {
                let change = thread.bound_to(best);
                let advice = format!("bind thread {} to {}: {}", thread.tid, cpus(best), change.command());
                Fix { advice, changes: vec![change] }
            }
            None => {
                let numbers: Vec<String> = self.interrupts.iter().map(|raised| raised.number.to_string()).collect();
                Fix::advice(format!(
                    "no CPU that this process may use is beside all of them: serve interrupts {} on one CPU and bind \
                     the thread to it",
                    numbers.join(", ")
                ))
            }
        }
    }
}

impl ObservedThread {
    pub(super) fn bound_to(&self, cpus: &CpuSet) -> Change {
        let setting = Setting::ThreadAffinity { thread: self.tid, started_ns: self.started_ns };
        Change { setting, value: Value::Cpus(cpus.clone()) }
    }

    /// `thread 7 (rail-0) may run on CPUs 0-3 (seen on CPU 2)`.
    pub(super) fn whereabouts(&self) -> String {
        let seen = match &self.seen_on {
            // A thread that may run on one CPU only is seen there.
            seen if seen.is_empty() || (*seen == self.may_run_on && seen.len() == 1) => String::new(),
            seen => format!(" (seen on {})", cpus(seen)),
        };
        format!("thread {} ({}) may run on {}{seen}", self.tid, self.name, cpus(&self.may_run_on))
    }
}

/// CPUs that share a core or the last-level cache with any of some CPUs.
struct Sharing {
    cpus: CpuSet,
    /// Whether the caches of all these CPUs are known.
    is_complete: bool,
}

impl Sharing {
    fn with(topology: &Topology, on: &CpuSet) -> Self {
        let mut sharing = Self { cpus: on.clone(), is_complete: true };
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
}
