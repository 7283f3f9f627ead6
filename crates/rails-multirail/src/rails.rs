//! Rails that run: a plan carried out.

use crate::{
    RailId,
    planner::{PlannedRail, RailPlan},
    runtime::{RailRuntime, RailRuntimeBuilder, RuntimeError},
};
use rails_bind::{
    affinity::{AffinityReport, Evidence, MemoryOf, ObservedInterrupt, ObservedMemory, ObservedThread, assess},
    interrupt,
    memory::{BufferOptions, BufferPool, MemoryError, MemoryPolicy},
};
use rails_net::LocalEnd;
use rails_proto::{LaneAddress, Scheme, pairing::LaneCandidate};
use rails_topo::{CpuSet, NodeId, NodeSet, Topology};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Index,
    sync::Arc,
};

/// The rails of a plan, each with its runtime. Clones share them; the last one to be dropped stops the runtimes.
#[derive(Debug, Clone)]
pub struct Rails(Arc<[Rail]>);

/// One NIC lane and the pinned runtime that owns it.
#[derive(Debug)]
pub struct Rail {
    planned: PlannedRail,
    runtime: RailRuntime,
}

impl Rails {
    /// Carries a plan out: one pinned runtime per rail.
    ///
    /// # Errors
    /// [`RuntimeError`] of the first rail that could not be built; those before it are stopped again.
    pub fn build(plan: &RailPlan) -> Result<Self, RuntimeError> {
        let rails: Result<Vec<Rail>, RuntimeError> = plan.rails.iter().map(Rail::build).collect();
        Ok(Self(rails?.into()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What this end can bring to a [`pair`](crate::pair)ing over that transport: every address of every rail, with port 0.
    pub fn offers(&self, scheme: Scheme) -> Vec<LaneCandidate> {
        self.iter().flat_map(|rail| rail.offers(scheme)).collect()
    }

    /// Each of them, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rail> {
        self.0.iter()
    }
}

impl Index<RailId> for Rails {
    type Output = Rail;

    fn index(&self, id: RailId) -> &Rail {
        &self.0[id.0]
    }
}

impl Rail {
    fn build(planned: &PlannedRail) -> Result<Self, RuntimeError> {
        let builder = RailRuntimeBuilder::new(format!("rail-{}", planned.id), CpuSet::single(planned.cpu));
        let builder = match planned.node {
            // Preferred, not strict: a full node makes a rail slower, not the process dead.
            Some(node) => builder.memory(MemoryPolicy::Preferred(node)),
            None => builder,
        };
        Ok(Self { planned: planned.clone(), runtime: builder.build()? })
    }

    /// Its number.
    pub fn id(&self) -> RailId {
        self.planned.id
    }

    /// What was planned for it, and why.
    pub fn planned(&self) -> &PlannedRail {
        &self.planned
    }

    /// Its runtime.
    pub fn runtime(&self) -> &RailRuntime {
        &self.runtime
    }

    /// Where its lanes begin: at the address or the device that the plan says.
    pub fn local_end(&self) -> LocalEnd {
        self.planned.end.clone()
    }

    /// Every address that a lane of it may begin at, with port 0; the unspecified one where that is for the routes to say.
    pub(crate) fn offers(&self, scheme: Scheme) -> Vec<LaneCandidate> {
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
    /// What `options` says of the policy is overruled, the rest is taken as it is; [`BufferOptions::lock`] keeps them in memory
    /// for good. Where the rail's node is not known, the policy of `options` stays.
    ///
    /// # Errors
    /// [`MemoryError`], and then nothing is left behind.
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

    /// Which of the three affinities hold for it now (RTK paper, section II.B), each with what was read. Nothing is taken
    /// from the plan: the thread's CPUs and the interrupts' CPUs are read anew, the memory's node was read when the rail was built.
    ///
    /// It is a look at one moment; an [`Observer`](rails_bind::affinity::Observer) sees more, in more time.
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

    /// Where memory was found to lie that the rail's thread touched first, when it was built; nothing where that cannot be known.
    pub fn observed_memory(&self) -> Vec<ObservedMemory> {
        let page = |node: &NodeId| ObservedMemory { of: MemoryOf::Buffers, on: [(*node, 1)].into() };
        self.runtime.placement().memory_node.iter().map(page).collect()
    }
}
