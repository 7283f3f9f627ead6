//! The running rails of a plan.

mod event;
mod following;
mod links;
mod registry;

use crate::{
    RailId,
    error::Undelivered,
    planner::{PlannedRail, RailPlan},
    runtime::{
        MoveError, Placement, RailRuntime, RailRuntimeBuilder, RailTask, RuntimeError, ShutdownError, end_dropped,
    },
};
pub(crate) use event::ShownPlace;
pub use event::{RailEvent, RailEventKind};
pub(crate) use following::Following;
use futures_util::future::join_all;
use links::LinkChanges;
pub(crate) use links::LinkReports;
use rails_bind::{
    Unheld,
    affinity::{AffinityReport, Evidence, MemoryOwner, ObservedInterrupt, ObservedMemory, ObservedThread, assess},
    claims::{Claim, ClaimError, Claims, Resources},
    interrupt,
    memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy},
};
use rails_net::LocalEnd;
use rails_proto::{LaneAddress, Scheme, pairing::LaneCandidate};
use rails_topo::{Bandwidth, CpuId, CpuSet, NodeId, NodeSet, Topology};
pub(crate) use registry::{MoveListener, Registry, StreamOnRails};
use std::{
    collections::HashSet,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    ops::Index,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// The rails of a plan, each with its runtime. Clones share them; dropping the last one stops the
/// runtimes, as [`blocking_shutdown`](Self::blocking_shutdown) does with a limit of
/// [`DROP_LIMIT`](crate::runtime::DROP_LIMIT). In async code, dropping it does not wait: a thread
/// of its own does, and the process does not end before that thread has waited. Streams keep the
/// rails that they need, also while they deliver bytes after they were dropped;
/// [`drain`](Self::drain) waits for them.
#[derive(Debug, Clone)]
pub struct Rails(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rails: Box<[Rail]>,
    link_changes: LinkChanges,
    /// The streams that these rails have opened.
    move_listeners: Registry<dyn MoveListener>,
    /// The streams on these rails, those that were dropped and still deliver included.
    streams: Registry<dyn StreamOnRails>,
    following: Following,
}

/// A handle that does not keep the rails running.
#[derive(Debug, Clone)]
pub(crate) struct WeakRails(Weak<Inner>);

/// One NIC lane and the pinned runtime that owns it.
#[derive(Debug)]
pub struct Rail {
    id: RailId,
    runtime: RailRuntime,
    /// The runtimes of the rail's other cores.
    task_runtimes: Box<[RailRuntime]>,
    moves: AtomicU64,
    place: Mutex<RailPlace>,
    /// The claims of each rail of the set, by number. The threads hold them, so that they end with
    /// the last thread.
    claims: Weak<[Mutex<Vec<Claim>>]>,
    /// Held by a move from its beginning to its end.
    moving: tokio::sync::Mutex<()>,
}

/// Where a rail is.
#[derive(Debug)]
struct RailPlace {
    planned: Arc<PlannedRail>,
    /// The CPU of each task runtime.
    task_cpus: Vec<CpuId>,
}

impl Rails {
    /// Builds the rails of a plan: one pinned runtime per rail, and one for each of its
    /// [CPUs for tasks](PlannedRail::task_cpus).
    ///
    /// The cores of exclusive rails, and the interrupts and receive queues of their NICs, are
    /// [claimed](rails_bind::claims) on the whole host for as long as one of the rails runs.
    ///
    /// A system that refuses to bind a thread, or to set its memory policy, is no error: the rail
    /// runs without that property, [`unheld`](Self::unheld) says so, and the log warns of it
    /// once.
    ///
    /// # Errors
    /// [`RuntimeError`] of the first rail that could not be built. The rails before it are stopped.
    /// [`RuntimeError::Bind`] if its CPUs cannot be used, or the system refuses a binding that is
    /// [required](crate::planner::Binding::required). [`RuntimeError::Claim`] if another owner has
    /// claimed any of these.
    pub fn build(plan: &RailPlan) -> Result<Self, RuntimeError> {
        Self::build_with(plan, |_, runtime| runtime)
    }

    /// Builds the rails of a plan from runtimes that `adjust` changes, or makes anew: it gets the
    /// builder that the plan gives, with a name, a CPU and a memory policy. A rail that is
    /// [moved](Self::move_rail) has the CPU and the memory policy of its plan from then on.
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
        if let Some((index, rail)) = plan.rails.iter().enumerate().find(|(index, rail)| rail.id.0 != *index) {
            return Err(RuntimeError::Number { rail: rail.id, index });
        }
        let mut exclusive = HashSet::new();
        let own = plan.rails.iter().flat_map(|rail| rail.exclusive_resources().map(|resource| (rail.id, resource)));
        for (rail, resource) in own {
            if !exclusive.insert(resource.clone()) {
                return Err(RuntimeError::NotExclusive { rail, resource });
            }
        }
        let mut claim = Claims::machine().claim(exclusive)?;
        let own = |planned: &PlannedRail| Mutex::new(vec![claim.split_off(&planned.exclusive_resources().collect())]);
        let claims: Arc<[_]> = plan.rails.iter().map(own).collect();
        let lanes: CpuSet = plan.rails.iter().filter_map(PlannedRail::bound_cpu).collect();
        let rails: Result<Vec<Rail>, RuntimeError> =
            plan.rails.iter().map(|planned| Rail::build(planned, &lanes, &claims, &adjust)).collect();
        let rails = rails?;
        for rail in &rails {
            let (planned, placement) = (rail.planned(), rail.runtime.placement());
            let node = planned.node.map(tracing::field::display);
            let cpus = placement.cpus.as_ref().ok().map(|cpus| tracing::field::display(cpus.got()));
            tracing::info!(rail = %rail.id, interface = planned.interface, address = ?planned.address, cpus, node, "a rail runs");
        }
        let rails = Self(Arc::new(Inner {
            rails: rails.into(),
            link_changes: LinkChanges::default(),
            move_listeners: Registry::default(),
            streams: Registry::default(),
            following: Following::default(),
        }));
        for unheld in rails.unheld() {
            let remedies: Vec<String> = unheld.remedies().iter().map(ToString::to_string).collect();
            let remedies = if remedies.is_empty() { String::new() } else { format!(" ({})", remedies.join("; ")) };
            tracing::warn!("{unheld}; rails run without that{remedies}");
        }
        Ok(rails)
    }

    /// The properties of these rails' placements that the system refused, or that hold in part;
    /// each once.
    pub fn unheld(&self) -> Vec<Unheld> {
        distinct(self.iter().flat_map(Rail::unheld))
    }

    /// The properties that rails of this plan would not have on this machine, as a thread that is
    /// placed like the first of them and ends has found out. Claims nothing.
    ///
    /// # Errors
    /// [`RuntimeError`], as with [`build`](Self::build).
    pub fn try_placement(plan: &RailPlan) -> Result<Vec<Unheld>, RuntimeError> {
        let bound = plan.rails.iter().find(|rail| rail.binding.is_bound());
        bound.map_or(Ok(Vec::new()), |rail| {
            Ok(runtime_on(rail, format!("rail-{}", rail.id), rail.cpu).build()?.placement().unheld())
        })
    }

    /// The number of rails.
    pub fn len(&self) -> usize {
        self.0.rails.len()
    }

    /// Whether there are no rails.
    pub fn is_empty(&self) -> bool {
        self.0.rails.is_empty()
    }

    /// The candidates of this end for a [`pair`](crate::pair)ing over that transport: every address
    /// of every rail, with port 0.
    pub fn offers(&self, scheme: Scheme) -> Vec<LaneCandidate> {
        self.iter().flat_map(|rail| rail.offers(scheme)).collect()
    }

    /// The rails, by number.
    pub fn iter(&self) -> std::slice::Iter<'_, Rail> {
        self.0.rails.iter()
    }

    /// The rail with this number; `None` if there is none. `rails[id]` panics then.
    pub fn get(&self, id: RailId) -> Option<&Rail> {
        self.0.rails.get(id.0)
    }

    /// Runs a task on each rail, by number. Each rail's thread calls `make` and keeps the future,
    /// which need not be `Send`. The tasks keep no rail alive.
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
                // `rails` is borrowed for the call alone: a task that held it would keep its own rail running.
                // `make` and the values that it holds end with the last call.
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

    /// Stops the runtimes of all rails, for every clone, and waits until they have ended, for
    /// `limit` at most for all of them together. See [`RailRuntime::shutdown`].
    ///
    /// Streams on the rails fail with [`Failure::RuntimeStopped`], and listeners end with
    /// [`ListenerClosed::RailsStopped`]. Bytes on their way are lost, so close streams first, or
    /// [`drain`](Self::drain) the rails.
    ///
    /// [`Failure::RuntimeStopped`]: crate::Failure::RuntimeStopped
    /// [`ListenerClosed::RailsStopped`]: crate::ListenerClosed::RailsStopped
    ///
    /// # Errors
    /// [`ShutdownError`] of the first rail that has not ended within `limit`.
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        let deadline = self.stop(limit);
        let mut ended = Ok(());
        // Every rail is waited for, the last one too if the first goes on.
        for runtime in self.0.runtimes() {
            ended = ended.and(runtime.shutdown_by(limit, deadline).await);
        }
        ended
    }

    /// As [`shutdown`](Self::shutdown), and blocks the calling thread, which should run no tasks.
    ///
    /// # Errors
    /// As there.
    pub fn blocking_shutdown(&self, limit: Duration) -> Result<(), ShutdownError> {
        let deadline = self.stop(limit);
        let ends = self.0.runtimes().map(|runtime| runtime.blocking_shutdown_by(limit, deadline));
        ends.fold(Ok(()), Result::and)
    }

    /// Stops all runtimes, and gives the end of the time to wait for them; `None` if that is beyond
    /// the clock's range, which is no limit.
    fn stop(&self, limit: Duration) -> Option<Instant> {
        self.0.following.stop();
        self.0.stop();
        Instant::now().checked_add(limit)
    }

    /// Waits until the streams on these rails that were dropped or shut down have delivered their
    /// bytes, for `limit` at most. Streams that are still open are not waited for, nor those
    /// that are dropped during the call.
    ///
    /// The end of the process waits for dropped streams too
    /// ([`MultiRailStream`](crate::MultiRailStream)); only this tells the program whether their
    /// bytes have arrived.
    ///
    /// Cancel safe: it only waits.
    ///
    /// # Errors
    /// [`Undelivered`] names the streams that have bytes left, or that have failed during the call
    /// with bytes left.
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn drain(&self, limit: Duration) -> Result<(), Undelivered> {
        let mut streams = self.0.streams.living();
        streams.retain(|stream| stream.is_delivering());
        let waits = streams.iter().map(|stream| timeout(limit, stream.delivered()));
        let waits = join_all(waits).await;
        let left = streams.iter().zip(waits).filter_map(|(stream, wait)| {
            // A stream that had delivered everything may owe its peer an answer to the peer's end by now.
            stream.undelivered().filter(|left| wait.is_err() || left.bytes > 0)
        });
        let left: Vec<_> = left.collect();
        if left.is_empty() { Ok(()) } else { Err(Undelivered { limit, streams: left }) }
    }

    /// Moves a rail while it runs, to the place that a plan has for the rail of that number: binds
    /// its threads to the CPUs, sets the memory policy, and reads both back. If its lane then
    /// begins elsewhere, the streams that these rails have opened connect the rail's lanes
    /// anew, from there and to the address of the peer that pairs best with it, and close the
    /// old connections after that. No byte is lost. Memory that was allocated before stays where it
    /// is.
    ///
    /// A rail moves once at a time: a second move waits for the first. [`follow`](Self::follow)
    /// moves rails by itself.
    ///
    /// # Errors
    /// [`MoveError`]. The rail is where it was; so it is if the future is dropped before it is
    /// ready. A thread that is occupied takes its former memory policy once it is free.
    ///
    /// # Panics
    /// If there is no rail of that number, it has another number of CPUs for tasks than `to`, or it
    /// is bound and `to` is not. Also outside a tokio runtime with time enabled.
    pub async fn move_rail(&self, to: PlannedRail) -> Result<Arc<Placement>, MoveError> {
        let rail = &self[to.id];
        let begins_elsewhere = rail.move_to(to).await?;
        let planned: Vec<_> = self.iter().map(Rail::planned).collect();
        let lanes = planned.iter().filter_map(|rail| rail.bound_cpu()).collect();
        for (rail, planned) in self.iter().zip(planned) {
            rail.runtime.set_helpers(helper_cpus(&planned, &lanes));
        }
        if begins_elsewhere {
            self.0.move_listeners.living().into_iter().for_each(|listener| listener.rail_moved(rail.id));
        }
        Ok(rail.runtime.placement())
    }

    /// The streams that these rails have opened.
    pub(crate) fn move_listeners(&self) -> &Registry<dyn MoveListener> {
        &self.0.move_listeners
    }

    /// The streams on these rails.
    pub(crate) fn streams(&self) -> &Registry<dyn StreamOnRails> {
        &self.0.streams
    }

    pub(crate) fn following(&self) -> &Following {
        &self.0.following
    }

    /// A handle that keeps no rail running.
    pub(crate) fn downgrade(&self) -> WeakRails {
        WeakRails(Arc::downgrade(&self.0))
    }

    /// The changes of links from now on, for a stream on these rails.
    pub(crate) fn link_reports(&self) -> LinkReports {
        self.0.link_changes.subscribe(&self[RailId(0)].runtime)
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
        self.rails.iter().flat_map(Rail::runtimes)
    }

    /// Stops all runtimes before the first of them is waited for.
    fn stop(&self) {
        self.runtimes().for_each(RailRuntime::stop);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // All rails stop before the first of them is waited for.
        end_dropped(self.runtimes().filter_map(RailRuntime::stop_dropped).collect());
    }
}

impl<'a> IntoIterator for &'a Rails {
    type Item = &'a Rail;
    type IntoIter = std::slice::Iter<'a, Rail>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Index<RailId> for Rails {
    type Output = Rail;

    fn index(&self, id: RailId) -> &Rail {
        &self.0.rails[id.0]
    }
}

impl RailPlace {
    /// The CPU of each runtime.
    fn cpus(&self) -> Vec<CpuId> {
        cpus(&self.planned, &self.task_cpus)
    }
}

impl Rail {
    fn build(
        planned: &PlannedRail,
        lanes: &CpuSet,
        claims: &Arc<[Mutex<Vec<Claim>>]>,
        adjust: impl Fn(&PlannedRail, RailRuntimeBuilder) -> RailRuntimeBuilder,
    ) -> Result<Self, RuntimeError> {
        let builder = |name, cpu| adjust(planned, runtime_on(planned, name, cpu)).claims(claims.clone());
        let runtime =
            builder(format!("rail-{}", planned.id), planned.cpu).helpers(&helper_cpus(planned, lanes)).build()?;
        let others = (1..).zip(planned.task_cpus.iter());
        let task_runtimes = others.map(|(number, cpu)| builder(format!("rail-{}.{number}", planned.id), cpu).build());
        let task_runtimes: Result<_, RuntimeError> = task_runtimes.collect();
        let task_cpus = planned.task_cpus.iter().collect();
        let place = RailPlace { planned: Arc::new(planned.clone()), task_cpus };
        Ok(Self {
            id: planned.id,
            runtime,
            task_runtimes: task_runtimes?,
            moves: AtomicU64::new(0),
            place: Mutex::new(place),
            claims: Arc::downgrade(claims),
            moving: tokio::sync::Mutex::default(),
        })
    }

    /// Moves the rail. Returns whether its lane then begins elsewhere.
    async fn move_to(&self, to: PlannedRail) -> Result<bool, MoveError> {
        assert_eq!(to.task_cpus.len(), self.task_runtimes.len(), "a rail has as many runtimes as when it was built");
        let _moving = self.moving.lock().await;
        let (from, old, old_cpus) = {
            let place = self.place();
            (place.planned.clone(), place.cpus(), place.task_cpus.clone())
        };
        let (was_bound, is_bound) = (from.bound_cpu().is_some(), to.bound_cpu().is_some());
        assert!(is_bound || !was_bound, "a rail that is bound stays bound");
        let claim = self.claim_more(&to)?;
        let new_cpus = move_task_cpus(&old_cpus, &to.task_cpus);
        let new = cpus(&to, &new_cpus);
        // A rail without a node gives up the policy that it had.
        let memory = memory_policy(&to).or(from.node.map(|_| MemoryPolicy::Default));
        let is_moved = |runtime: &RailRuntime, old: CpuId, new: CpuId| {
            is_bound && (!was_bound || old != new || to.node != from.node || !is_bound_to(runtime, new))
        };
        let mut way_back = MoveRollback { places: Vec::new() };
        for ((runtime, old), new) in self.runtimes().zip(old).zip(new) {
            if !is_moved(runtime, old, new) {
                continue;
            }
            let before = runtime.placement();
            let policy = match &before.memory {
                Some(Ok(policy)) => Some(policy.got().clone()),
                Some(Err(_)) => memory_policy(&from).or(memory.as_ref().map(|_| MemoryPolicy::Default)),
                None => memory.as_ref().map(|_| MemoryPolicy::Default),
            };
            // A thread that the system did not let bind goes back to the CPUs that it has.
            let cpus = match &before.cpus {
                Ok(cpus) => Some(cpus.got().clone()),
                Err(_) => runtime.cpus_now().ok(),
            };
            way_back.places.extend(cpus.map(|cpus| (runtime, cpus, policy)));
            runtime.move_to(&CpuSet::single(new), memory.clone(), MOVE_LIMIT).await?;
        }
        way_back.places.clear();
        let begins_elsewhere = to.end != from.end;
        let kept: Resources = to.exclusive_resources().collect();
        let mut place = self.place();
        (place.planned, place.task_cpus) = (Arc::new(to), new_cpus);
        self.hold(claim, &kept);
        drop(place);
        self.moves.fetch_add(1, Relaxed);
        Ok(begins_elsewhere)
    }

    /// Claims the resources of a place that the rail does not have yet; none if all threads have
    /// ended.
    fn claim_more(&self, to: &PlannedRail) -> Result<Option<Claim>, ClaimError> {
        let Some(all) = self.claims.upgrade() else { return Ok(None) };
        let held: Resources = claims_of(&all, self.id).iter().flat_map(|claim| claim.resources().iter()).collect();
        let wanted: Resources = to.exclusive_resources().collect();
        let let_go = held.cpus().difference(wanted.cpus());
        Claims::machine().claim_instead(wanted.iter().filter(|resource| !held.contains(resource)), &let_go).map(Some)
    }

    /// Holds that claim too, and lets go of all that is not to be kept.
    fn hold(&self, claim: Option<Claim>, kept: &Resources) {
        let Some(all) = self.claims.upgrade() else { return };
        let mut claims = claims_of(&all, self.id);
        claims.extend(claim);
        for claim in claims.iter_mut() {
            let kept = claim.split_off(kept);
            // The rest is let go of.
            drop(std::mem::replace(claim, kept));
        }
        claims.retain(|claim| !claim.resources().is_empty());
    }

    /// Whether the threads may run where they were planned and nowhere else, read anew, as far as
    /// the system lets them be bound. The kernel lets a thread run anywhere whose CPU goes
    /// offline, also after that is back.
    pub(crate) fn is_bound_as_planned(&self) -> bool {
        let (is_bound, cpus) = {
            let place = self.place();
            (place.planned.bound_cpu().is_some(), place.cpus())
        };
        !is_bound || self.runtimes().zip(cpus).all(|(runtime, cpu)| is_bound_to(runtime, cpu))
    }

    /// The rail's runtimes: that of its lanes, and those of tasks.
    fn runtimes(&self) -> impl Iterator<Item = &RailRuntime> {
        std::iter::once(&self.runtime).chain(&self.task_runtimes)
    }

    fn place(&self) -> MutexGuard<'_, RailPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the rail was moved.
    pub fn moves(&self) -> u64 {
        self.moves.load(Relaxed)
    }

    /// The rail's number.
    pub fn id(&self) -> RailId {
        self.id
    }

    /// The rail's entry in the plan, with reasons; after a move, that of its new place.
    pub fn planned(&self) -> Arc<PlannedRail> {
        self.place().planned.clone()
    }

    /// The properties of the threads' placements that the system refused, or that hold in part;
    /// each once. A move reads them anew.
    pub fn unheld(&self) -> Vec<Unheld> {
        distinct(self.runtimes().flat_map(|runtime| runtime.placement().unheld()))
    }

    /// The rail's runtime, which drives its lanes.
    pub fn runtime(&self) -> &RailRuntime {
        &self.runtime
    }

    /// The runtimes of the rail's other cores, for tasks of the application; by CPU, as long as the
    /// rail has not moved.
    pub fn task_runtimes(&self) -> &[RailRuntime] {
        &self.task_runtimes
    }

    /// The local end of the rail's lanes: the address or the device in the plan. The kernel's
    /// routes choose it for a rail that was planned without a lane.
    pub fn local_end(&self) -> LocalEnd {
        self.planned().end.clone().unwrap_or(LocalEnd::Any)
    }

    /// Every local address for a lane of the rail, with port 0; the unspecified address if the
    /// routes choose it, and none if the rail has no lane.
    pub(crate) fn offers(&self, scheme: Scheme) -> Vec<LaneCandidate> {
        let planned = self.planned();
        if planned.end.is_none() {
            return Vec::new();
        }
        let known = planned.addresses.iter().map(|held| (held.ip, Some(held.prefix_len)));
        let mut addresses: Vec<_> = known.collect();
        if addresses.is_empty() {
            addresses.push((planned.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), None));
        }
        let offer = |(ip, prefix_len)| LaneCandidate {
            rail: self.id,
            address: LaneAddress { scheme, socket: SocketAddr::new(ip, 0) },
            prefix_len,
            speed_bits_per_second: planned.speed.map(Bandwidth::as_bits_per_second),
            node: planned.node.map(|node| node.0),
            interface: planned.interface.clone(),
        };
        addresses.into_iter().map(offer).collect()
    }

    /// A pool of `count` buffers of `buffer_bytes` each, on the rail's node: taking one and giving
    /// it back makes no system call. The rail's node replaces the policy in `options`; if the
    /// node is unknown, that policy holds. All other options apply; [`BufferOptions::lock`]
    /// locks the buffers in memory.
    ///
    /// # Errors
    /// [`MemoryError`]. In this case no buffer stays allocated.
    pub fn buffer_pool(
        &self,
        buffer_bytes: usize,
        count: usize,
        options: &BufferOptions,
    ) -> Result<BufferPool, MemoryError> {
        let options = match self.planned().node {
            Some(node) => options.clone().policy(MemoryPolicy::Bind(NodeSet::single(node))),
            None => options.clone(),
        };
        BufferPool::new(buffer_bytes, count, &options)
    }

    /// Which of the three affinities hold for the rail now (RTK paper, section II.B), each with its
    /// readings. The plan is not used: this reads the CPUs of the thread and of the interrupts
    /// anew, and the memory's node was read when the rail was built, or moved last.
    ///
    /// The report is a sample at one moment; an [`Observer`](rails_bind::affinity::Observer)
    /// observes for longer, and reports more.
    pub fn affinity(&self, topology: &Topology) -> AffinityReport {
        let planned = self.planned();
        let nic = planned.interface.as_deref().and_then(|name| topology.nic(name));
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

    /// The node of a page that the rail's thread touched first when it was built, or moved last;
    /// empty if unknown.
    pub fn observed_memory(&self) -> Vec<ObservedMemory> {
        let page = |node: &NodeId| ObservedMemory { of: MemoryOwner::Buffers, on: [(*node, 1)].into() };
        self.runtime.placement().memory_node.iter().map(page).collect()
    }
}

/// The claims of one rail of a set.
fn claims_of(all: &[Mutex<Vec<Claim>>], id: RailId) -> MutexGuard<'_, Vec<Claim>> {
    all[id.0].lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPUs whose runtimes help the rail's lanes: those on which no rail has its own lanes, which
/// are on the CPUs `lanes`; none if the scheduler places the runtimes.
fn helper_cpus(planned: &PlannedRail, lanes: &CpuSet) -> CpuSet {
    planned.bound_cpu().map(|_| planned.task_cpus.difference(lanes)).unwrap_or_default()
}

/// The CPUs of the runtimes of a rail: that of its lanes, and those of tasks.
fn cpus(planned: &PlannedRail, task_cpus: &[CpuId]) -> Vec<CpuId> {
    std::iter::once(planned.cpu).chain(task_cpus.iter().copied()).collect()
}

/// Whether the thread of a runtime still has the CPUs that it was bound to, with `cpu` among them.
/// A thread that has ended counts as bound, and so does one that the system refuses to bind.
fn is_bound_to(runtime: &RailRuntime, cpu: CpuId) -> bool {
    match (&runtime.placement().cpus, runtime.cpus_now()) {
        (Err(_), _) | (_, Err(_)) => true,
        // A system that takes a binding to the CPU and lets the thread run elsewhere too would do so again.
        (Ok(bound), Ok(now)) => now.contains(cpu) && now == *bound.got(),
    }
}

/// The runtime of a rail on one of its CPUs.
fn runtime_on(planned: &PlannedRail, name: String, cpu: CpuId) -> RailRuntimeBuilder {
    let builder = match planned.bound_cpu() {
        Some(_) => RailRuntimeBuilder::new(name, CpuSet::single(cpu)),
        None => RailRuntimeBuilder::unbound(name),
    };
    let builder = if planned.binding.required { builder.required() } else { builder };
    match memory_policy(planned) {
        Some(policy) => builder.memory(policy),
        None => builder,
    }
}

/// Each property once, in the order in which they came.
fn distinct(all: impl Iterator<Item = Unheld>) -> Vec<Unheld> {
    let mut distinct = Vec::new();
    all.for_each(|unheld| {
        if !distinct.contains(&unheld) {
            distinct.push(unheld);
        }
    });
    distinct
}

/// The former places of the threads of a move. Dropping it moves the threads back: the move has
/// failed, or its future was dropped.
struct MoveRollback<'a> {
    places: Vec<(&'a RailRuntime, CpuSet, Option<MemoryPolicy>)>,
}

impl Drop for MoveRollback<'_> {
    fn drop(&mut self) {
        for (runtime, cpus, policy) in self.places.drain(..) {
            if let Err(error) = runtime.begin_move(&cpus, policy) {
                tracing::warn!(%error, "a thread that was to be moved is not where it was");
            }
        }
    }
}

/// The policy of a rail's threads; `None` leaves the inherited one.
fn memory_policy(planned: &PlannedRail) -> Option<MemoryPolicy> {
    // Preferred, not strict: a full node makes a rail slower, and does not kill the process.
    planned.node.map(MemoryPolicy::Preferred)
}

/// The CPU of each task runtime after a move: a runtime stays where it is if that CPU is still one
/// of them.
fn move_task_cpus(old: &[CpuId], new: &CpuSet) -> Vec<CpuId> {
    let mut free = new.iter().filter(|cpu| !old.contains(cpu));
    let cpu = |old: &CpuId| if new.contains(*old) { *old } else { free.next().expect("there are as many as before") };
    old.iter().map(cpu).collect()
}

/// How long a move waits for a thread that is occupied.
const MOVE_LIMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RailRequest, StreamId, error::UndeliveredStream, plan_rails};
    use futures_util::future::BoxFuture;
    use nix::errno::Errno;
    use rails_lab::Sandbox;
    use std::future::{pending, ready};

    /// An unheld binding counts as held: otherwise the follower would move such rails at each
    /// change of the machine.
    #[test]
    fn unheld_binding_is_as_good_as_one() {
        let sandbox = Sandbox::new().deny(Errno::EPERM, &["sched_setaffinity"]);
        sandbox.rerun("rails::tests::unheld_binding_is_as_good_as_one", || {
            let topology = Topology::detect().expect("this machine can be read");
            let plan = plan_rails(&topology, &RailRequest::loopback(1)).expect("a loopback rail can be planned");
            let rails = Rails::build(&plan).expect("it runs unbound");
            assert!(rails.iter().all(Rail::is_bound_as_planned));
        });
    }

    /// A stream that has delivered everything, if it ever does, and then has to hear the peer's
    /// end.
    struct Answering {
        delivers: bool,
    }

    impl StreamOnRails for Answering {
        fn is_delivering(&self) -> bool {
            true
        }

        fn delivered(&self) -> BoxFuture<'_, ()> {
            if self.delivers { Box::pin(ready(())) } else { Box::pin(pending()) }
        }

        fn undelivered(&self) -> Option<UndeliveredStream> {
            Some(UndeliveredStream { stream: StreamId([7; 16]), bytes: 0, failure: None })
        }
    }

    #[tokio::test]
    async fn a_stream_that_had_delivered_everything_is_not_left() {
        let topology = Topology::detect().expect("this machine can be read");
        let plan = plan_rails(&topology, &RailRequest::loopback(1)).expect("a loopback rail can be planned");
        let rails = Rails::build(&plan).expect("loopback rails need no privilege");
        let users: [Arc<dyn StreamOnRails>; 2] = [true, false].map(|delivers| Arc::new(Answering { delivers }) as _);
        rails.streams().add(Arc::downgrade(&users[0]));
        rails.drain(Duration::from_secs(60)).await.expect("it has delivered everything");
        rails.streams().add(Arc::downgrade(&users[1]));
        let left = rails.drain(Duration::from_millis(1)).await.expect_err("the other has not");
        assert_eq!(left.streams.len(), 1);
    }
}
