//! The examination of the subject, over some time.

use super::subject::Subject;
use crate::exit::Help;
use anyhow::{Context, Result, anyhow};
use rails_bind::{
    Unheld,
    affinity::{
        AffinityReport, Fix, MemoryOwner, Observation, ObserveError, ObservedMemory, ObservedThread, Observer, Verdict,
    },
    interrupt::irqbalance::{self, BalancerPlan},
    memory,
    process::{Process, ProcessError},
    settings::{Change, Host},
    thread::Tid,
    usage::{self, UsageError},
};
use rails_multirail::{Rail, RailRequest, Rails, plan_rails};
use rails_topo::{Nic, Topology};
use serde::Serialize;
use std::time::{Duration, Instant};

/// One NIC, or the parts of a process that use one, or one rail.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Examined {
    /// The name of the NIC, the process or the rail.
    pub(super) what: String,
    /// The reasons why something could not be examined.
    pub(super) notes: Vec<String>,
    /// The properties that the system refuses the placement; for a NIC, those that it would refuse
    /// a rail.
    pub(super) unheld: Vec<Unheld>,
    /// The observations.
    pub(super) seen: Observation,
    /// The verdicts on the observations.
    pub(super) report: AffinityReport,
}

impl Examined {
    pub(super) fn is_broken(&self) -> bool {
        self.report.verdicts().iter().any(|(_, verdict)| verdict.is_broken())
    }

    /// The changes that mend the first broken property that can be mended, without those already
    /// `tried`. Later properties are judged again after that, because the place of a thread depends
    /// on the interrupt.
    pub(super) fn next_changes(&self, tried: &[Change]) -> Vec<Change> {
        let fixes = self.report.verdicts().into_iter().filter_map(|(_, verdict)| Verdict::fix(verdict));
        let untried = |fix: &Fix| fix.changes.iter().filter(|change| !tried.contains(change)).cloned().collect();
        fixes.map(untried).find(|changes: &Vec<Change>| !changes.is_empty()).unwrap_or_default()
    }

    /// Judges the subject again, with interrupts that cannot be moved.
    pub(super) fn leave_interrupts(&mut self, topology: &Topology, refused: &[u32]) {
        for interrupt in &mut self.seen.interrupts {
            interrupt.stays = refused.contains(&interrupt.status.number);
        }
        self.report = self.seen.report(topology);
    }
}

/// Watches for `time`, and judges.
pub(super) fn examine(host: &Host, topology: &Topology, subject: &Subject, time: Duration) -> Result<Vec<Examined>> {
    match subject {
        Subject::Nics(names) => {
            let nics = names.iter().map(|name| topology.nic(name).context("it was there a moment ago"));
            let unheld = unheld_here(topology);
            let watched: Result<Vec<Watched>> = nics.map(|nic| Ok(Watched::nic(nic?, unheld.clone()))).collect();
            watch(host, topology, watched?, time, |_| Ok(Vec::new()))
        }
        Subject::Process(pid) => {
            let watched = of_process(*pid, topology)?;
            let examined = watch(host, topology, watched, time, |notes| memory_of(*pid, notes))?;
            match examined.iter().all(|one| one.seen.threads.is_empty()) {
                true => Err(anyhow!("--pid {pid}: it ended while it was watched")),
                false => Ok(examined),
            }
        }
        Subject::Rails(rails) => {
            let watched = rails.iter().map(|rail| Watched::rail(rail, topology)).collect();
            watch(host, topology, watched, time, |_| Ok(Vec::new()))
        }
    }
}

/// The interfaces and threads to watch together.
struct Watched {
    what: String,
    notes: Vec<String>,
    unheld: Vec<Unheld>,
    nic: Option<Nic>,
    threads: Vec<Tid>,
    /// Whether idle threads are left out.
    busy_only: bool,
    memory: Vec<ObservedMemory>,
}

impl Watched {
    fn nic(nic: &Nic, unheld: Vec<Unheld>) -> Self {
        let note = "no process was named (--pid), so nothing is known of threads and memory".to_owned();
        Self {
            what: nic.name.clone(),
            notes: vec![note],
            unheld,
            nic: Some(nic.clone()),
            threads: Vec::new(),
            busy_only: false,
            memory: Vec::new(),
        }
    }

    fn rail(rail: &Rail, topology: &Topology) -> Self {
        let nic = rail.planned().interface.as_deref().and_then(|name| topology.nic(name));
        // A hidden `/proc` does not show a living thread.
        let tid = rail.runtime().placement().tid;
        let (threads, notes) = match ObservedThread::read(tid) {
            Ok(_) => (vec![tid], Vec::new()),
            Err(error) => (Vec::new(), vec![format!("where its thread runs cannot be seen: {:#}", anyhow!(error))]),
        };
        Self {
            what: format!("rail {}", rail.id()),
            notes,
            unheld: rail.unheld(),
            nic: nic.cloned(),
            threads,
            busy_only: false,
            memory: rail.observed_memory(),
        }
    }
}

impl Watched {
    /// Begins to watch, without threads of a process that have ended since they were listed.
    fn begin(&self, host: &Host, began: Instant) -> Result<Observer> {
        let mut threads = self.threads.clone();
        loop {
            match Observer::begin(host, self.nic.as_ref(), &threads, began.elapsed()) {
                Err(ObserveError::Usage { tid, source: UsageError::NoSuchThread { .. } })
                    if self.busy_only && threads.contains(&tid) =>
                {
                    threads.retain(|thread| *thread != tid);
                }
                begun => return Ok(begun?),
            }
        }
    }
}

/// The properties that the system would refuse a rail of this user; empty if that cannot be tried.
fn unheld_here(topology: &Topology) -> Vec<Unheld> {
    let plan = plan_rails(topology, &RailRequest::loopback(1));
    plan.ok().and_then(|plan| Rails::try_placement(&plan).ok()).unwrap_or_default()
}

/// A process, once for each NIC that its sockets use.
fn of_process(pid: Tid, topology: &Topology) -> Result<Vec<Watched>> {
    let threads = usage::threads_of(pid).with_context(|| format!("--pid {pid}"));
    let threads = threads.map_err(|error| error.help("`ps -e` lists the processes that can be seen from here"))?;
    let (nics, mut notes) = nics_of(pid, topology)?;
    let watched = |nic: Option<Nic>, notes: &[String]| Watched {
        what: match &nic {
            Some(nic) => format!("process {pid} on {}", nic.name),
            None => format!("process {pid}"),
        },
        notes: notes.to_vec(),
        unheld: Vec::new(),
        nic,
        threads: threads.clone(),
        busy_only: true,
        memory: Vec::new(),
    };
    if nics.is_empty() {
        notes.push("no socket of it uses a NIC with a device behind it".to_owned());
        return Ok(vec![watched(None, &notes)]);
    }
    Ok(nics.into_iter().map(|nic| watched(Some(nic), &notes)).collect())
}

/// The NICs with a device behind them whose addresses its sockets have.
fn nics_of(pid: Tid, topology: &Topology) -> Result<(Vec<Nic>, Vec<String>)> {
    let process = Process::of(pid);
    let unseen = |error: ProcessError| {
        let is_refused = matches!(error, ProcessError::NotPermitted { .. });
        let error = anyhow!(error).context(format!("--pid {pid}"));
        match is_refused {
            true => error.help(
                "its sockets say which NICs it uses: run it as the process's user, or with these capabilities, which root lacks in most containers",
            ),
            false => error,
        }
    };
    let sockets = process.sockets().map_err(unseen)?;
    let mut notes = Vec::new();
    if !process.shares_network_namespace().map_err(unseen)? {
        notes.push("it is in another network namespace, whose NICs cannot be told from here".to_owned());
        return Ok((Vec::new(), notes));
    }
    let uses = |nic: &&Nic| {
        nic.kind.may_have_device()
            && nic.addresses.iter().any(|address| sockets.iter().any(|socket| socket.local.ip() == address.ip))
    };
    Ok((topology.nics().iter().filter(uses).cloned().collect(), notes))
}

fn memory_of(pid: Tid, notes: &mut Vec<String>) -> Result<Vec<ObservedMemory>> {
    match memory::process::nodes_of(pid) {
        Ok(memory) => {
            let started_ns = ObservedThread::read(pid).with_context(|| format!("--pid {pid}"))?.started_ns;
            Ok(vec![ObservedMemory { of: MemoryOwner::Process { pid, started_ns }, on: memory.own() }])
        }
        Err(error) => {
            notes.push(format!("where its memory lies cannot be seen: {:#}", anyhow!(error)));
            Ok(Vec::new())
        }
    }
}

fn watch(
    host: &Host,
    topology: &Topology,
    watched: Vec<Watched>,
    time: Duration,
    memory: impl Fn(&mut Vec<String>) -> Result<Vec<ObservedMemory>>,
) -> Result<Vec<Examined>> {
    let began = Instant::now();
    let mut observers = Vec::new();
    for one in &watched {
        observers.push(one.begin(host, began)?);
    }
    Observer::watch(&mut observers, began, time, BETWEEN_LOOKS);
    let mut examined = Vec::new();
    for (mut one, observer) in watched.into_iter().zip(observers) {
        one.memory.extend(memory(&mut one.notes)?);
        let mut seen = observer.end(one.memory, began.elapsed())?;
        if let Some(note) = balancing(host, &seen) {
            one.notes.push(note);
        }
        if one.busy_only {
            leave_out_idle(&mut seen, &mut one.notes, time);
        }
        let report = seen.report(topology);
        examined.push(Examined { what: one.what, notes: one.notes, unheld: one.unheld, seen, report });
    }
    Ok(examined)
}

/// The effect of irqbalance on the interrupts that are watched; nothing where it does not run.
fn balancing(host: &Host, seen: &Observation) -> Option<String> {
    let wanted: Vec<Change> = seen
        .interrupts
        .iter()
        .map(|interrupt| Change::interrupt(interrupt.status.number, interrupt.status.requested.clone()))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    match irqbalance::heed(host.root(), wanted) {
        Ok((BalancerPlan::None, _)) => None,
        Ok((BalancerPlan::Ban, _)) => Some(
            "irqbalance runs and may move these interrupts at any time; --fix tells it to leave them alone".to_owned(),
        ),
        Ok((plan, _)) => Some(plan.to_string()),
        Err(error) => Some(format!("{:#}", anyhow!(error))),
    }
}

/// Leaves out threads that did next to nothing, whose CPUs do not matter, unless all did.
fn leave_out_idle(seen: &mut Observation, notes: &mut Vec<String>, time: Duration) {
    let is_busy = |thread: &ObservedThread| thread.ran.is_none_or(|ran| ran >= time / ONE_IN);
    let busy = seen.threads.iter().filter(|thread| is_busy(thread)).count();
    match (busy, seen.threads.len()) {
        (0, _) => notes.push("none of its threads did much while it was watched, so all are judged".to_owned()),
        (busy, all) if busy < all => {
            seen.threads.retain(is_busy);
            notes.push(format!("{} of its {all} threads did next to nothing meanwhile and are left out", all - busy));
        }
        _ => {}
    }
}

/// The interval between two readings of the threads' CPUs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// A thread that used less than this part of the time is idle.
const ONE_IN: u32 = 100;
