//! The running rails of a plan.

use crate::{
    RailId,
    planner::{Binding, PlannedRail, RailPlan},
    runtime::{DROP_LIMIT, RailRuntime, RailRuntimeBuilder, RailTask, RuntimeError, ShutdownError},
    stream::LinkChanges,
};
use rails_bind::{
    affinity::{AffinityReport, Evidence, MemoryOf, ObservedInterrupt, ObservedMemory, ObservedThread, assess},
    claims::{Claim, Claims, Resource},
    interrupt,
    memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy},
    thread,
};
use rails_net::LocalEnd;
use rails_proto::{LaneAddress, Scheme, pairing::LaneCandidate};
use rails_topo::{CpuId, CpuSet, NodeId, NodeSet, Topology};
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Index,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// The rails of a plan, each with its runtime. Clones share them; dropping the last one stops the runtimes, as
/// [`shutdown`](Self::shutdown) does with a limit of [`DROP_LIMIT`].
#[derive(Debug, Clone)]
pub struct Rails(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rails: Box<[Rail]>,
    /// The cores that the rails have to themselves. It ends after the runtimes.
    _claim: Claim,
    link_changes: LinkChanges,
}

/// A handle that does not keep the rails running.
#[derive(Debug, Clone)]
pub(crate) struct WeakRails(Weak<Inner>);

/// One NIC lane and the pinned runtime that owns it.
#[derive(Debug)]
pub struct Rail {
    planned: PlannedRail,
    runtime: RailRuntime,
    /// The runtimes of its other cores.
    task_runtimes: Box<[RailRuntime]>,
}

impl Rails {
    /// Builds the rails of a plan: one pinned runtime per rail, and one for each of its
    /// [CPUs for tasks](PlannedRail::task_cpus).
    ///
    /// The cores of exclusive rails are [claimed](rails_bind::claims) on the whole host for as long as the rails run.
    ///
    /// # Errors
    /// [`RuntimeError`] of the first rail that could not be built. The rails before it are stopped.
    /// [`RuntimeError::Claim`] if another owner has claimed a core.
    pub fn build(plan: &RailPlan) -> Result<Self, RuntimeError> {
        Self::build_with(plan, |_, runtime| runtime)
    }

    /// Builds the rails of a plan from runtimes that `adjust` changes, or makes anew: it gets the builder that the plan
    /// gives, with a name, a CPU and a memory policy.
    ///
    /// ```
    /// # use rails_multirail::{RailRequest, Rails, plan_rails};
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let plan = plan_rails(&rails_topo::Topology::detect()?, &RailRequest::loopback(2))?;
    /// let rails = Rails::build_with(&plan, |_, runtime| runtime.spin(Duration::from_micros(50)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As with [`build`](Self::build).
    pub fn build_with(
        plan: &RailPlan,
        adjust: impl Fn(&PlannedRail, RailRuntimeBuilder) -> RailRuntimeBuilder,
    ) -> Result<Self, RuntimeError> {
        let cpus = plan.rails.iter().flat_map(|rail| rail.exclusive_cpus.iter());
        let claim = Claims::machine().claim(cpus.map(Resource::Cpu))?;
        let rails: Result<Vec<Rail>, RuntimeError> =
            plan.rails.iter().map(|planned| Rail::build(planned, &adjust)).collect();
        Ok(Self(Arc::new(Inner { rails: rails?.into(), _claim: claim, link_changes: LinkChanges::default() })))
    }

    /// The number of rails.
    pub fn len(&self) -> usize {
        self.0.rails.len()
    }

    /// Whether there are no rails.
    pub fn is_empty(&self) -> bool {
        self.0.rails.is_empty()
    }

    /// This end's offers for a [`pair`](crate::pair)ing over that transport: every address of every rail, with port 0.
    pub fn offers(&self, scheme: Scheme) -> Vec<LaneCandidate> {
        self.iter().flat_map(|rail| rail.offers(scheme)).collect()
    }

    /// The rails, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rail> {
        self.0.rails.iter()
    }

    /// Runs a task on each rail, by number. Each rail's thread calls `make` and keeps the future, which need not be `Send`.
    /// The tasks keep no rail alive.
    ///
    /// ```
    /// # use rails_multirail::{RailRequest, Rails, plan_rails};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let plan = plan_rails(&rails_topo::Topology::detect()?, &RailRequest::loopback(2))?;
    /// let rails = Rails::build(&plan)?;
    /// for task in rails.on_each(|rail| {
    ///     let cpu = rail.planned().cpu;
    ///     async move { println!("a task on CPU {cpu}") }
    /// }) {
    ///     task.await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_each<F, Fut>(&self, make: F) -> Vec<RailTask<Fut::Output>>
    where
        F: Fn(&Rail) -> Fut + Send + Sync + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        let make = Arc::new(make);
        let start = |rail: &Rail| {
            let (rails, id, make) = (self.downgrade(), rail.id(), make.clone());
            rail.runtime.spawn_local(move || async move {
                // `rails` is borrowed for the call alone: a task that held it would keep its own rail running. `make` and what
                // it holds end with the last call.
                let task = rails.upgrade().map(|rails| make(&rails[id]));
                drop(make);
                match task {
                    Some(task) => task.await,
                    // The rails were dropped, which cancels this task.
                    None => std::future::pending().await,
                }
            })
        };
        self.iter().map(start).collect()
    }

    /// Stops the runtimes of all rails, for every clone, and blocks the calling thread until they have ended, for
    /// `limit` at most for all of them together. See [`RailRuntime::shutdown`].
    ///
    /// Streams on the rails fail with [`Failure::RuntimeStopped`], and listeners end with
    /// [`ListenerClosed::RailsStopped`]. Bytes on their way are lost as at the end of a process, so close streams first.
    ///
    /// [`Failure::RuntimeStopped`]: crate::Failure::RuntimeStopped
    /// [`ListenerClosed::RailsStopped`]: crate::ListenerClosed::RailsStopped
    ///
    /// # Errors
    /// [`ShutdownError`] of the first rail that has not ended in that time.
    pub fn shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        self.0.stop();
        // An instant beyond the clock's range is no limit.
        let deadline = Instant::now().checked_add(limit);
        // Every rail is waited for, the last one too if the first goes on.
        let ends = self.0.runtimes().map(|runtime| runtime.shutdown_until(limit, deadline));
        ends.fold(Ok(()), Result::and)
    }

    /// A handle that keeps no rail running.
    pub(crate) fn downgrade(&self) -> WeakRails {
        WeakRails(Arc::downgrade(&self.0))
    }

    /// The changes of links, for the streams on these rails.
    pub(crate) fn link_changes(&self) -> &LinkChanges {
        &self.0.link_changes
    }
}

impl WeakRails {
    /// The rails, unless they were dropped.
    pub(crate) fn upgrade(&self) -> Option<Rails> {
        self.0.upgrade().map(Rails)
    }
}

impl Inner {
    fn runtimes(&self) -> impl Iterator<Item = &RailRuntime> {
        self.rails.iter().flat_map(|rail| std::iter::once(&rail.runtime).chain(&rail.task_runtimes))
    }

    /// Stops all runtimes before the first of them is waited for.
    fn stop(&self) {
        self.runtimes().for_each(RailRuntime::stop);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop();
        let deadline = Instant::now() + DROP_LIMIT;
        self.runtimes().for_each(|runtime| runtime.end_by(deadline));
    }
}

impl Index<RailId> for Rails {
    type Output = Rail;

    fn index(&self, id: RailId) -> &Rail {
        &self.0.rails[id.0]
    }
}

impl Rail {
    fn build(
        planned: &PlannedRail,
        adjust: impl Fn(&PlannedRail, RailRuntimeBuilder) -> RailRuntimeBuilder,
    ) -> Result<Self, RuntimeError> {
        let build = |name: String, cpu: CpuId| {
            let cpus = match planned.binding {
                // The CPUs that the scheduler chooses from without a binding.
                Binding::Default => {
                    thread::current_affinity().map_err(|source| RuntimeError::Bind { name: name.clone(), source })?
                }
                Binding::Affine | Binding::Explicit { .. } => CpuSet::single(cpu),
            };
            let builder = RailRuntimeBuilder::new(name, cpus);
            let builder = match planned.node {
                // Preferred, not strict: a full node makes a rail slower, and does not kill the process.
                Some(node) => builder.memory(MemoryPolicy::Preferred(node)),
                None => builder,
            };
            adjust(planned, builder).build()
        };
        let runtime = build(format!("rail-{}", planned.id), planned.cpu)?;
        let others = (1..).zip(planned.task_cpus.iter());
        let task_runtimes = others.map(|(number, cpu)| build(format!("rail-{}.{number}", planned.id), cpu));
        let task_runtimes: Result<_, RuntimeError> = task_runtimes.collect();
        Ok(Self { planned: planned.clone(), runtime, task_runtimes: task_runtimes? })
    }

    /// The rail's number.
    pub fn id(&self) -> RailId {
        self.planned.id
    }

    /// The rail's entry in the plan, with reasons.
    pub fn planned(&self) -> &PlannedRail {
        &self.planned
    }

    /// The rail's runtime, which drives its lanes.
    pub fn runtime(&self) -> &RailRuntime {
        &self.runtime
    }

    /// The runtimes of the rail's other cores, by CPU, for tasks of the application.
    pub fn task_runtimes(&self) -> &[RailRuntime] {
        &self.task_runtimes
    }

    /// The local end of the rail's lanes: the address or the device in the plan. The kernel's routes choose it for a rail
    /// that was planned without a lane.
    pub fn local_end(&self) -> LocalEnd {
        self.planned.end.clone().unwrap_or(LocalEnd::Any)
    }

    /// Every local address for a lane of the rail, with port 0; the unspecified address if the routes choose it, and none if
    /// the rail has no lane.
    pub(crate) fn offers(&self, scheme: Scheme) -> Vec<LaneCandidate> {
        if self.planned.end.is_none() {
            return Vec::new();
        }
        let known = self.planned.addresses.iter().map(|held| (held.ip, Some(held.prefix_len)));
        let mut addresses: Vec<_> = known.collect();
        if addresses.is_empty() {
            addresses.push((self.planned.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), None));
        }
        addresses.into_iter().map(|(ip, prefix_len)| self.offer(scheme, ip, prefix_len)).collect()
    }

    fn offer(&self, scheme: Scheme, ip: IpAddr, prefix_len: Option<u8>) -> LaneCandidate {
        LaneCandidate {
            rail: self.planned.id,
            address: LaneAddress { scheme, socket: SocketAddr::new(ip, 0) },
            prefix_len,
            speed: self.planned.speed,
            node: self.planned.node,
            interface: self.planned.interface.clone(),
        }
    }

    /// A pool of `count` buffers of `buffer_bytes` each, on the rail's node: taking one and giving it back makes no system call.
    /// The rail's node replaces the policy in `options`; if the node is unknown, that policy holds. All other options
    /// apply; [`BufferOptions::lock`] locks the buffers in memory.
    ///
    /// # Errors
    /// [`MemoryError`]. In this case no buffer stays allocated.
    pub fn buffer_pool(
        &self,
        buffer_bytes: usize,
        count: usize,
        options: &BufferOptions,
    ) -> Result<BufferPool, MemoryError> {
        let options = match self.planned.node {
            Some(node) => options.clone().policy(MemoryPolicy::Bind(NodeSet::single(node))),
            None => options.clone(),
        };
        BufferPool::new(buffer_bytes, count, &options)
    }

    /// Which of the three affinities hold for the rail now (RTK paper, section II.B), each with its readings. The plan
    /// is not used: this reads the CPUs of the thread and of the interrupts anew, and the memory's node was read when
    /// the rail was built.
    ///
    /// It is a sample at one moment; an [`Observer`](rails_bind::affinity::Observer) observes for longer, and reports
    /// more.
    pub fn affinity(&self, topology: &Topology) -> AffinityReport {
        let nic = self.planned.interface.as_deref().and_then(|name| topology.nic(name));
        let numbers = nic.map(|nic| nic.interrupts.as_slice()).unwrap_or_default();
        let statuses = numbers.iter().filter_map(|irq| interrupt::read(irq.number).ok());
        let interrupts: Vec<_> = statuses.map(ObservedInterrupt::uncounted).collect();
        let threads: Vec<_> = ObservedThread::read(self.runtime.placement().tid).into_iter().collect();
        let memory = self.observed_memory();
        assess(
            topology,
            &Evidence { nic, interrupts: &interrupts, napi_threads: &[], threads: &threads, memory: &memory },
        )
    }

    /// The node of a page that the rail's thread touched first when the rail was built; empty if the node is unknown.
    pub fn observed_memory(&self) -> Vec<ObservedMemory> {
        let page = |node: &NodeId| ObservedMemory { of: MemoryOf::Buffers, on: [(*node, 1)].into() };
        self.runtime.placement().memory_node.iter().map(page).collect()
    }
}
