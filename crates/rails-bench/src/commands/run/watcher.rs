//! Watches a program from outside: reads its threads and sockets, and puts its threads back.

use super::{
    place::{Place, Surroundings, devices},
    report::{Interrupts, MemoryShare, Watched},
    traffic::Traffic,
    watch::{Follow, Order, SeenThread, Threads},
};
use anyhow::{Error, anyhow};
use rails_bind::{
    affinity::{InterruptAffinity, InterruptOutcome, Observer},
    interrupt::DistributionError,
    memory::process::nodes_of,
    process::{Process, ProcessTree},
    settings::{Host, Journal},
    thread::{self, Tid},
    usage::{self, UsageError},
};
use rails_topo::{Nic, NodeId, NodeSet, Topology};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A program and its descendants under watch.
pub(super) struct Watcher<'t> {
    around: &'t Surroundings<'t>,
    program: Tid,
    tree: ProcessTree,
    /// The threads of each process at the former look.
    listed: BTreeMap<Tid, Vec<Tid>>,
    threads: Option<Threads>,
    follow: Follow,
    moves_along: bool,
    traffic: Option<Traffic>,
    memory: Memory,
    interrupts: BTreeMap<String, Observer>,
    mends: Mends,
    said: BTreeSet<String>,
    notes: Vec<String>,
    moves: u32,
    max_threads: usize,
    looks: u64,
}

/// The wishes for a watch.
pub(super) struct Watch<'t> {
    pub(super) around: &'t Surroundings<'t>,
    /// The place of the program; `None` if nothing was bound.
    pub(super) place: Option<Place>,
    /// The interfaces of the rails.
    pub(super) nics: BTreeSet<String>,
    /// Whether the program moves to the NICs of its traffic.
    pub(super) follows: bool,
    /// Whether and where interrupts are put in place.
    pub(super) fix: Option<Journal>,
}

/// Memory of the processes, by node, as it was seen last.
#[derive(Debug, Default)]
struct Memory {
    /// Whether the machine has several nodes with memory.
    has_nodes: bool,
    due: Duration,
    interval: Duration,
    /// The bytes of each process, and those of them on the nodes of its place.
    of: BTreeMap<Tid, (u64, u64)>,
}

/// Interrupts that were put in place, until the end.
#[derive(Debug)]
struct Mends {
    host: Host,
    journal: Option<Journal>,
    done: BTreeMap<String, InterruptAffinity>,
}

impl<'t> Watcher<'t> {
    /// Begins to watch. Interrupts are put in place at once.
    pub(super) fn new(watch: Watch<'t>, program: Tid) -> Self {
        let Watch { around, place, nics, follows, fix } = watch;
        let topology = around.topology();
        let mut notes = Vec::new();
        let traffic = Traffic::new(topology).inspect_err(|error| {
            notes.push(format!(
                "the NICs of its traffic cannot be seen: the kernel does not tell of connections: {error}"
            ));
        });
        let mut watcher = Self {
            around,
            program,
            tree: ProcessTree::of(program),
            listed: BTreeMap::new(),
            threads: place.map(|place| Threads::new(place.cpus)),
            follow: Follow::new(nics.iter().cloned()),
            moves_along: follows,
            traffic: traffic.ok(),
            memory: Memory { has_nodes: has_nodes(topology), interval: FIRST_MEMORY, ..Memory::default() },
            interrupts: BTreeMap::new(),
            mends: Mends { host: Host::this(), journal: fix, done: BTreeMap::new() },
            said: BTreeSet::new(),
            notes: Vec::new(),
            moves: 0,
            max_threads: 0,
            looks: 0,
        };
        notes.into_iter().for_each(|note| watcher.say(note));
        nics.iter().for_each(|name| watcher.begin_nic(name, Duration::ZERO));
        watcher
    }

    /// Says a thing once, at once and in the report.
    fn say(&mut self, note: String) {
        if self.said.insert(note.clone()) {
            tracing::warn!("{note}");
            self.notes.push(note);
        }
    }

    /// Watches the interrupts of an interface from now on, and puts them in place if asked to.
    fn begin_nic(&mut self, name: &str, at: Duration) {
        let topology = self.around.topology();
        let Some(nic) = topology.nic(name) else { return };
        let behind: Vec<Nic> = devices(topology, nic).into_iter().cloned().collect();
        for device in behind {
            if self.interrupts.contains_key(&device.name) {
                continue;
            }
            if let Some(note) = self.mends.mend(topology, &device) {
                self.say(note);
            }
            match Observer::begin(&self.mends.host, Some(&device), &[], at) {
                Ok(observer) => drop(self.interrupts.insert(device.name.clone(), observer)),
                Err(error) => self.say(format!("{}: {:#}", device.name, Error::from(error))),
            }
        }
    }

    /// Looks at everything, and puts threads in place. Returns whether anything was new.
    pub(super) fn look(&mut self, at: Duration) -> bool {
        self.looks += 1;
        let has_new = match self.tree.look() {
            Ok(has_new) => has_new,
            Err(error) => {
                self.say(format!("the program cannot be watched: {:#}", anyhow!(error)));
                return false;
            }
        };
        let processes: Vec<Tid> = self.tree.members().collect();
        // Until it is waited for, which comes after the last look, it is there.
        if !processes.contains(&self.program) {
            self.say("the program cannot be watched: /proc is hidden, or hides it".to_owned());
        }
        let moved = self.follow(at, &processes);
        let seen = self.threads(&processes, has_new);
        self.max_threads = self.max_threads.max(seen.len());
        let ordered = self.order(at, &seen);
        self.look_at_memory(at, &processes);
        moved || ordered || has_new
    }

    /// Reads the traffic, and moves the program to its NICs. Returns whether it moved.
    fn follow(&mut self, at: Duration, processes: &[Tid]) -> bool {
        let Some(traffic) = &mut self.traffic else { return false };
        let seen = match traffic.look(processes) {
            Ok(seen) => seen,
            Err(error) => {
                self.say(format!("the NICs of its traffic cannot be seen any more: {error}"));
                self.traffic = None;
                return false;
            }
        };
        if let Some(hidden) = seen.hidden {
            self.say(format!("not all of its sockets can be seen: {:#}", anyhow!(hidden)));
        }
        seen.by_nic.keys().for_each(|name| self.begin_nic(name, at));
        // Interfaces whose place is unknown, as those made in software on large machines, move nothing.
        let known = |(name, _): &(&String, &u64)| self.around.beside(name).is_some();
        let by_nic: BTreeMap<String, u64> =
            seen.by_nic.iter().filter(known).map(|(name, bytes)| (name.clone(), *bytes)).collect();
        if !self.follow.look(at, &by_nic) || !self.moves_along {
            return false;
        }
        let names = self.follow.on().clone();
        let Some(place) = self.around.beside_all(&names) else { return false };
        let list = names.into_iter().collect::<Vec<_>>().join(", ");
        if let Some(threads) = self.threads.as_mut().filter(|threads| *threads.cpus() != place.cpus) {
            tracing::info!("the traffic takes {list}: threads move from CPUs {} to {}", threads.cpus(), place.cpus);
            threads.move_to(place.cpus);
            self.moves += 1;
        }
        true
    }

    /// The living threads. Where the kernel has made no thread since the former look, the known
    /// ones are all.
    fn threads(&mut self, processes: &[Tid], has_new: bool) -> Vec<SeenThread> {
        let before = std::mem::take(&mut self.listed);
        let mut seen = Vec::new();
        for process in processes {
            let known = before.get(process).filter(|_| !has_new).cloned();
            let tids = match known.map_or_else(|| usage::threads_of(*process), Ok) {
                Ok(tids) => tids,
                Err(UsageError::NoSuchProcess { .. }) => continue,
                Err(error) => {
                    self.say(format!("not all of its threads can be seen: {:#}", anyhow!(error)));
                    continue;
                }
            };
            let mut living = Vec::new();
            for tid in tids {
                let read = usage::cpu_time_of(*process, tid).map_err(Error::from);
                match read.and_then(|cpu_time| Ok((cpu_time, thread::affinity_of(tid)?))) {
                    Ok((cpu_time, may_run_on)) => {
                        living.push(tid);
                        seen.push(SeenThread { process: *process, tid, may_run_on, cpu_time });
                    }
                    Err(error) if has_ended(&error) => {}
                    Err(error) => self.say(format!("not all of its threads can be seen: {error:#}")),
                }
            }
            self.listed.insert(*process, living);
        }
        seen
    }

    /// Carries out what the threads need. Returns whether there was anything.
    fn order(&mut self, at: Duration, seen: &[SeenThread]) -> bool {
        let beside = self.around.beside_all(self.follow.carrying());
        let Some(threads) = &mut self.threads else { return false };
        let cpus = threads.cpus().clone();
        let orders = threads.look(at, beside.as_ref().map_or(&cpus, |place| &place.cpus), seen);
        let any = !orders.is_empty();
        for order in orders {
            match order {
                Order::Move(tid) | Order::PutBack(tid) => {
                    match thread::bind(tid, &cpus) {
                        Ok(bound) => drop(bound.keep()),
                        Err(rails_bind::BindError::NoSuchThread { .. }) => {}
                        Err(error) => {
                            if let Some(threads) = &mut self.threads {
                                threads.refused(tid);
                            }
                            self.say(format!("not all threads can be put on CPUs {cpus}: {:#}", anyhow!(error)));
                        }
                    }
                    tracing::debug!("thread {tid} goes to CPUs {cpus}");
                }
                Order::LeaveAlone { process, tid } => {
                    let program = Process::of(process).name().unwrap_or_else(|_| "unknown".to_owned());
                    self.say(format!(
                        "thread {tid} of process {process} ({program}) binds itself elsewhere again and again, and is left alone"
                    ));
                }
            }
        }
        any
    }

    /// Reads the nodes of all memory, where there are several, now and then: the kernel walks all
    /// page tables for it.
    fn look_at_memory(&mut self, at: Duration, processes: &[Tid]) {
        let Some(threads) = self.threads.as_ref().filter(|_| self.memory.has_nodes && at >= self.memory.due) else {
            return;
        };
        let topology = self.around.topology();
        let near: NodeSet = threads.cpus().iter().filter_map(|cpu| topology.nearest_node(cpu)).collect();
        for process in processes {
            match nodes_of(*process) {
                Ok(memory) => {
                    let own = memory.own();
                    let on = |(node, _): &(&NodeId, &u64)| near.contains(**node);
                    let in_place = own.iter().filter(on).map(|(_, bytes)| bytes).sum();
                    self.memory.of.insert(*process, (own.values().sum(), in_place));
                }
                Err(rails_bind::memory::MemoryError::NoSuchProcess { .. }) => {}
                Err(error) => self.say(format!("the nodes of its memory cannot be seen: {:#}", anyhow!(error))),
            }
        }
        self.memory.interval = (self.memory.interval * 2).min(LAST_MEMORY);
        self.memory.due = at + self.memory.interval;
    }

    /// Ends the watch: the interrupts are judged, and then put back.
    pub(super) fn end(mut self, at: Duration) -> Watched {
        let topology = self.around.topology();
        let mut interrupts: BTreeMap<String, Vec<Interrupts>> = BTreeMap::new();
        for (name, observer) in std::mem::take(&mut self.interrupts) {
            match observer.end(Vec::new(), at) {
                Ok(seen) => {
                    let judged = Interrupts::of(topology, &name, &seen);
                    // An interface on top of others has the interrupts of all devices.
                    let above = topology
                        .nics()
                        .iter()
                        .filter(|nic| devices(topology, nic).iter().any(|device| device.name == name));
                    above.for_each(|nic| interrupts.entry(nic.name.clone()).or_default().push(judged.clone()));
                }
                Err(error) => self.say(format!("{name}: {:#}", anyhow!(error))),
            }
        }
        let memory = self.memory.has_nodes.then(|| {
            let (bytes, in_place) =
                self.memory.of.values().fold((0, 0), |(all, near), (bytes, here)| (all + bytes, near + here));
            MemoryShare { bytes, in_place }
        });
        Watched {
            cpus: self.threads.as_ref().map(|threads| threads.cpus().clone()),
            used: self.threads.as_ref().map(Threads::used).unwrap_or_default(),
            traffic: self.traffic.as_ref().map(|traffic| traffic.total().clone()).unwrap_or_default(),
            memory,
            interrupts,
            moves: self.moves,
            threads: self.max_threads,
            looks: self.looks,
            notes: self.notes,
        }
    }
}

impl Mends {
    /// Puts the interrupts of a device in place. Returns what there is to say.
    fn mend(&mut self, topology: &Topology, device: &Nic) -> Option<String> {
        let journal = self.journal.as_ref()?;
        let name = &device.name;
        let affinity = match InterruptAffinity::of_nic(&self.host, topology, journal, device) {
            Ok(affinity) => affinity,
            Err(rails_bind::affinity::InterruptAffinityError::Distribution(DistributionError::NoInterrupts {
                ..
            })) => return Some(format!("--fix: {name} has no interrupts to put in place")),
            Err(error) => return Some(format!("--fix: {name}: {:#}", anyhow!(error))),
        };
        let note = match affinity.outcome() {
            InterruptOutcome::Refused(error) => Some(format!("--fix: {name}: {error}")),
            InterruptOutcome::LeftToBalancer(plan) => Some(format!("--fix: {name}: {plan}")),
            _ => None,
        };
        self.done.insert(name.clone(), affinity);
        note
    }
}

/// Whether several nodes have memory, so that memory can be far from a thread.
fn has_nodes(topology: &Topology) -> bool {
    let with_memory = topology.nodes().iter().filter(|node| node.memory.is_none_or(|memory| memory.as_bytes() > 0));
    with_memory.count() > 1
}

fn has_ended(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(UsageError::NoSuchThread { .. }))
        || matches!(error.downcast_ref(), Some(rails_bind::BindError::NoSuchThread { .. }))
}

/// The time from the first reading of memory to the second; each further one takes twice as long,
/// up to the last.
const FIRST_MEMORY: Duration = Duration::from_secs(1);
const LAST_MEMORY: Duration = Duration::from_secs(60);
