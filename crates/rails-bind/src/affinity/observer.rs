//! A rail under observation for an interval.

use super::{AffinityReport, Evidence, MemoryOwner, ObservedInterrupt, ObservedMemory, ObservedThread, assess};
use crate::{
    BindError,
    interrupt::{self, InterruptCounts, InterruptError},
    kernel_files,
    memory::{MemoryError, residency_of},
    settings::{Host, InterfaceName, Setting, Value},
    socket::{self, SocketError},
    thread::{self, Tid},
    usage::{CpuHistory, ThreadUsage, UsageError},
};
use rails_topo::{CpuSet, DetectError, Interrupt, Nic, RxQueue, Topology};
use std::{
    fs,
    os::fd::AsFd,
    thread::sleep,
    time::{Duration, Instant},
};

/// Watches a NIC's interrupts and some threads.
///
/// [`begin`](Self::begin) the observer, [`look`](Self::look) now and then (or let it
/// [`watch`](Self::watch)), and [`end`](Self::end) it. Each look notes the CPUs of the threads. The
/// kernel counts the interrupts, so none is missed.
#[derive(Debug)]
pub struct Observer {
    host: Host,
    nic: Option<Nic>,
    counts: Option<InterruptCounts>,
    napi_threads: Vec<Watched>,
    threads: Vec<Watched>,
}

/// The evidence of an observation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Observation {
    /// The NIC, with its present steering.
    pub nic: Option<Nic>,
    /// The NIC's interrupts, with their counts.
    pub interrupts: Vec<ObservedInterrupt>,
    /// The kernel threads that handle the NIC's packets, where it has any.
    pub napi_threads: Vec<ObservedThread>,
    /// The threads that were watched and have not ended.
    pub threads: Vec<ObservedThread>,
    /// The memory at the end.
    pub memory: Vec<ObservedMemory>,
}

/// The failure of an observation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The machine could not be read.
    #[error("the machine cannot be read")]
    Topology(#[from] DetectError),
    /// The socket's NIC is unknown.
    #[error("the socket's NIC is not known")]
    Socket(#[from] SocketError),
    /// The nodes of buffers could not be read.
    #[error("it cannot be seen where the buffers lie")]
    Memory(#[from] MemoryError),
    /// The interrupts could not be read.
    #[error("the interrupts cannot be watched")]
    Interrupts(#[from] InterruptError),
    /// A thread could not be read, mostly because it has ended.
    #[error("thread {tid} cannot be watched")]
    Usage {
        /// The thread.
        tid: Tid,
        /// The thread's error.
        source: UsageError,
    },
    /// The CPUs that a thread may run on could not be read.
    #[error("thread {tid} cannot be watched")]
    Thread {
        /// The thread.
        tid: Tid,
        /// The binding's error.
        source: BindError,
    },
}

/// A thread under observation.
#[derive(Debug)]
struct Watched {
    tid: Tid,
    history: CpuHistory,
}

impl Observer {
    /// Begins to observe the interrupts of `nic` and these threads, of any process. `at` is the
    /// time of any monotonic clock.
    ///
    /// # Privileges
    /// None, unless `/proc` is mounted with `hidepid`.
    ///
    /// # Errors
    /// [`ObserveError`].
    pub fn begin(host: &Host, nic: Option<&Nic>, threads: &[Tid], at: Duration) -> Result<Self, ObserveError> {
        // Without counts (systemd's `ProcSubset=pid` hides their file) the kernel's statement remains.
        let counts = nic.and_then(|_| InterruptCounts::read_under(host.root()).ok());
        let napi_threads = nic.map(|nic| napi_threads(host, nic)).unwrap_or_default();
        let watch = |tids: &[Tid]| tids.iter().map(|tid| Watched::begin(*tid, at)).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            host: host.clone(),
            nic: nic.cloned(),
            counts,
            napi_threads: watch(&napi_threads)?,
            threads: watch(threads)?,
        })
    }

    /// Notes the CPU that each thread is on. A thread that has ended leaves the observation.
    pub fn look(&mut self, at: Duration) {
        for watched in [&mut self.napi_threads, &mut self.threads] {
            watched.retain_mut(|watched| watched.look(at).is_ok());
        }
    }

    /// Lets all observers look at intervals of `between` until `time` has passed since `began`, the
    /// zero of their clock. The calling thread sleeps in between.
    pub fn watch(observers: &mut [Self], began: Instant, time: Duration, between: Duration) {
        while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            sleep(left.min(between));
            observers.iter_mut().for_each(|observer| observer.look(began.elapsed()));
        }
    }

    /// Looks a last time, and returns the evidence. The evidence of memory comes from elsewhere
    /// ([`NumaBuffer::residency`](crate::memory::NumaBuffer::residency),
    /// [`memory::process`](crate::memory::process)).
    ///
    /// # Errors
    /// [`ObserveError::Interrupts`]; interrupts and threads that have gone since the beginning are
    /// left out.
    pub fn end(mut self, memory: Vec<ObservedMemory>, at: Duration) -> Result<Observation, ObserveError> {
        self.look(at);
        let now = self.counts.as_ref().and_then(|_| InterruptCounts::read_under(self.host.root()).ok());
        let during = self.counts.as_ref().zip(now).map(|(before, now)| now.since(before));
        // With counts of some CPUs only, the serving CPU is unknown, and the kernel's statement remains.
        let during = during.filter(|during| during.unknown_cpus().is_empty());
        let mut interrupts = Vec::new();
        for Interrupt { number, .. } in self.nic.iter().flat_map(|nic| &nic.interrupts) {
            match interrupt::read_under(self.host.root(), *number) {
                Ok(status) => {
                    let served = during.as_ref().map(|during| during.of(status.number)).unwrap_or_default();
                    interrupts.push(ObservedInterrupt { served, ..ObservedInterrupt::uncounted(status) });
                }
                Err(InterruptError::NoSuchInterrupt { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let observed = |watched: &[Watched]| watched.iter().filter_map(|watched| watched.observed().ok()).collect();
        Ok(Observation {
            nic: self.nic.as_ref().map(|nic| with_steering(&self.host, nic)),
            interrupts,
            napi_threads: observed(&self.napi_threads),
            threads: observed(&self.threads),
            memory,
        })
    }
}

impl AffinityReport {
    /// Observes the NIC of a connected socket and these threads for `interval`, looks at the nodes
    /// of the buffers, and judges. The calling thread sleeps meanwhile; an [`Observer`] leaves
    /// the waiting to the caller.
    ///
    /// # Privileges
    /// None.
    ///
    /// # Errors
    /// [`ObserveError`].
    pub fn of(
        socket: &impl AsFd,
        threads: &[Tid],
        buffers: &[&[u8]],
        interval: Duration,
    ) -> Result<Self, ObserveError> {
        let topology = Topology::detect()?;
        let nic = socket::nic_of(socket, &topology)?;
        let began = Instant::now();
        let mut observer = Observer::begin(&Host::this(), Some(nic), threads, Duration::ZERO)?;
        Observer::watch(std::slice::from_mut(&mut observer), began, interval, BETWEEN_LOOKS);
        let memory: Result<Vec<_>, MemoryError> = buffers.iter().map(|buffer| ObservedMemory::of(buffer)).collect();
        Ok(observer.end(memory?, began.elapsed())?.report(&topology))
    }
}

impl ObservedMemory {
    /// Reads the nodes of a buffer ([`residency_of`]). Pages that were never touched are on no
    /// node.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn of(buffer: &[u8]) -> Result<Self, MemoryError> {
        let residency = residency_of(buffer)?;
        let on = residency.nodes().iter().map(|node| (node, residency.bytes_on(node))).collect();
        Ok(Self { of: MemoryOwner::Buffers, on })
    }
}

impl Observation {
    /// The evidence for the verdicts.
    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            nic: self.nic.as_ref(),
            interrupts: &self.interrupts,
            napi_threads: &self.napi_threads,
            threads: &self.threads,
            memory: &self.memory,
        }
    }

    /// The verdicts on the evidence ([`assess`]).
    pub fn report(&self, topology: &Topology) -> AffinityReport {
        assess(topology, &self.evidence())
    }
}

impl Watched {
    fn begin(tid: Tid, at: Duration) -> Result<Self, ObserveError> {
        let usage = ThreadUsage::of_process_thread(tid, tid).map_err(|source| ObserveError::Usage { tid, source })?;
        Ok(Self { tid, history: CpuHistory::begin(at, usage) })
    }

    fn look(&mut self, at: Duration) -> Result<(), UsageError> {
        self.history.observe(at, ThreadUsage::of_process_thread(self.tid, self.tid)?)
    }

    fn observed(&self) -> Result<ObservedThread, ObserveError> {
        let ran = self.history.ran();
        Ok(ObservedThread { ran, seen_on: self.history.cpus(), ..ObservedThread::read(self.tid)? })
    }
}

impl ObservedThread {
    /// Reads a thread of any process, without watching it.
    ///
    /// # Errors
    /// [`ObserveError::Usage`], [`ObserveError::Thread`].
    pub fn read(tid: Tid) -> Result<Self, ObserveError> {
        let usage = ThreadUsage::of_process_thread(tid, tid).map_err(|source| ObserveError::Usage { tid, source })?;
        let thread = |source| ObserveError::Thread { tid, source };
        Ok(Self {
            tid,
            // A machine does not run for 584 years.
            started_ns: u64::try_from(usage.started.as_nanos()).unwrap_or(u64::MAX),
            name: thread::name_of(tid).map_err(thread)?,
            may_run_on: thread::affinity_of(tid).map_err(thread)?,
            ran: None,
            seen_on: CpuSet::single(usage.last_cpu),
        })
    }
}

/// The NIC with its present steering: others may have changed it since the model was read.
fn with_steering(host: &Host, nic: &Nic) -> Nic {
    let Ok(interface) = nic.name.parse::<InterfaceName>() else { return nic.clone() };
    let queue = |queue: &RxQueue| {
        let setting = Setting::ReceiveSteering { interface: interface.clone(), queue: queue.index };
        let rps_cpus = host.read(&setting).ok().and_then(|value| value.cpus().cloned());
        RxQueue { rps_cpus, ..queue.clone() }
    };
    Nic { rx_queues: nic.rx_queues.iter().map(queue).collect(), ..nic.clone() }
}

/// With threaded NAPI each queue has a kernel thread `napi/NAME-ID` (`napi_kthread_create` in
/// net/core/dev.c).
fn napi_threads(host: &Host, nic: &Nic) -> Vec<Tid> {
    let Ok(interface) = nic.name.parse::<InterfaceName>() else { return Vec::new() };
    match host.read(&Setting::ThreadedNapi { interface }) {
        Ok(Value::Number(1..)) => {}
        _ => return Vec::new(),
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let prefix = format!("napi/{}-", nic.name);
    let is_ours = |tid: &Tid| {
        // Before Linux 5.17 the name of a kernel thread is cut as any other's.
        let named = |name: &str| name.starts_with(&prefix) || (name.len() == 15 && prefix.starts_with(name));
        thread::name_of(*tid).is_ok_and(|name| named(&name)) && is_kernel_thread(*tid)
    };
    numbers.filter_map(Tid::from_raw).filter(is_ours).collect()
}

/// Every kernel thread is a child of `kthreadd`, process 2; any program may take the name of a
/// kernel thread.
fn is_kernel_thread(tid: Tid) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    kernel_files::status_field(&status, "PPid") == Some("2")
}

/// The interval between two looks at the threads' CPUs.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
