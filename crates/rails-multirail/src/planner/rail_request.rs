//! Requests for rails.

use rails_bind::claims::Resources;
use rails_net::LocalEnd;
use rails_proto::Scheme;
use rails_topo::{CpuSet, NodeId};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request for rails. [`new`](Self::new) asks for one core per rail that other processes may use
/// as well.
///
/// A request can be parsed from text, which names the rails ([`which`](Self::which)); all else has
/// its default:
///
/// | text | meaning |
/// |---|---|
/// | `auto` | one rail on each [NIC that is up](Which::Auto) |
/// | `4` | four rails on the fastest NICs, different cards and nodes first among equals |
/// | `loopback` | one rail per core that may be used, on 127.0.0.1, 127.0.0.2, ..., at least two |
/// | `loopback:3` | three of them |
/// | `eth0,10.0.1.2` | one rail on each of these interfaces and local addresses |
/// | `fe80::1%eth0`, `[fe80::1%2]` | a rail on that link-local address of that interface |
/// | `eth0,eth0` | two rails on one interface, on two of its addresses where it has two |
/// | `peer:10.0.1.9` | a rail on a NIC whose network has that address |
/// | `eth0+gpu0`, `nvme0+eth1` | a NIC's rail beside a GPU, and one beside a disk; `gpu0` is the first GPU |
/// | `cores:2`, `gpu0+cores:2` | a rail of two cores without a NIC, and one beside a GPU |
/// | `eth0@4,eth1@8-11` | one rail on each interface, on these CPUs |
/// | `eth0@4/1` | on CPU 4, with memory from node 1 |
/// | `eth0@default` | a rail that nothing is bound for: the scheduler places its thread and its memory |
///
/// An interface whose name has a `+` or an `@` in it is named by its address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RailRequest {
    /// The requested rails.
    pub which: Which,
    /// CPUs of each rail, on as many cores, at least 1. The first one drives the lanes, the others
    /// run tasks of the application. `cores:N` of a wish overrules it.
    pub cores: usize,
    /// Whether each rail has its cores to itself: no other rail is planned on them, nor on their
    /// other hardware threads, and [`Rails::build`](crate::Rails::build) claims them on the
    /// host, with the interrupts and the receive queues of the rail's NIC. Rails of one plan
    /// that are on one NIC share these. Exclusive cores do not go together
    /// with [`BindingKind::Default`].
    pub exclusive: bool,
    /// Where the thread is, seen from the CPU that serves the NIC's interrupt.
    pub nearness: Nearness,
    /// The affinities that the rails must have.
    pub affinities: Affinities,
    /// Whether each rail's binding is [required](Binding::required).
    pub requires_placement: bool,
    /// Whether [`Which::Count`] puts several rails on one NIC if there are fewer NICs than rails.
    pub share_nics: bool,
    /// All that is claimed by others, as [`Claims::taken`](rails_bind::claims::Claims::taken) reads
    /// it. No rail is planned on cores of these CPUs, unless the request is not exclusive and
    /// cannot be met without them, and no exclusive one is put on a NIC with these interrupts
    /// or queues.
    pub claimed: Resources,
}

/// The rails that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// One rail on each NIC that is up, and at most 64: no hidden or loopback interface, and none
    /// that has link-local addresses alone. A NIC of which it is not known whether it is up
    /// counts.
    ///
    /// Interfaces made in software (veth, bridge, bond, VLAN) get rails only where no device has
    /// an address of its own: in containers, whose interfaces are all made in software, and
    /// where the interfaces over all devices have the addresses. Then those over devices alone
    /// get rails.
    Auto,
    /// A number of rails, on the best NICs.
    Count(usize),
    /// Rails on the loopback interface: this number, or with `None` one per core that may be used
    /// and at least two.
    Loopback(Option<usize>),
    /// The listed rails.
    Listed(Vec<RailWish>),
}

/// A wish for one rail: the parts that belong together, and where its thread and memory are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailWish {
    /// The parts of the rail.
    pub parts: Vec<Part>,
    /// The place of the rail's thread and memory.
    pub binding: Binding,
}

/// A part of a wished rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The local end of the rail's lane.
    End(LocalEnd),
    /// An interface, a GPU or a disk, by its name; `gpu0` is the first GPU, and `nvme0` the disk
    /// `nvme0n1`.
    Named(String),
    /// A lane on a NIC whose network has that address.
    Peer(IpAddr),
    /// A lane that begins where the kernel's routes have it begin, which the kernel decides anew
    /// each time that the lane is dialled: so it outlives a change of the address. The routes
    /// begin it at this address now, and the rail is planned for the NIC that has the address.
    Routed(IpAddr),
    /// A number of cores.
    Cores(usize),
}

/// The binding of a rail's thread and memory.
///
/// A system that refuses to bind, as the filters of containers do, leaves the rail unbound, which
/// [`Rail::unheld`](crate::Rail::unheld) reports. A [`required`](Self::required) binding is not
/// built then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Written", into = "Written")]
#[non_exhaustive]
pub struct Binding {
    /// The place to bind to.
    pub kind: BindingKind,
    /// Whether a rail that the system does not let bind is an error. Default: `false`.
    pub required: bool,
}

/// Where a rail's thread and memory are bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BindingKind {
    /// Not at all: the scheduler and the kernel's memory policy decide.
    Default,
    /// Beside the rail's devices.
    #[default]
    Affine,
    /// To a deliberate choice, which may be far from the devices.
    Explicit {
        /// The CPUs of which one is taken, and further ones for tasks as far as these have free
        /// cores; `None` leaves the choice to the planner.
        cpus: Option<CpuSet>,
        /// The node of the memory; `None` is the nearest to the CPU.
        node: Option<NodeId>,
    },
}

/// A binding in a file: `"affine"`, or `{"required": "affine"}`.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Written {
    Required { required: BindingKind },
    Plain(BindingKind),
}

/// Where a rail's thread is, seen from the CPU that serves its NIC's interrupt. Each is a
/// preference: where there is no such CPU, the next best one is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nearness {
    /// On the same CPU.
    SameCpu,
    /// On another core with which it shares a cache.
    SharedCache,
    /// Anywhere in the same package.
    Package,
}

/// The affinities that rails must have (RTK paper, section II.B). The CPUs for tasks have the same
/// thread and memory affinity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Affinities {
    /// The NIC's interrupts are served on CPUs beside it.
    pub interrupt: Need,
    /// The thread shares at least a cache with a CPU that serves these interrupts.
    pub thread: Need,
    /// The memory comes from the node nearest to the CPU.
    pub memory: Need,
}

/// The weight of an affinity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Need {
    /// A rail without it is not planned, and a CPU without it is not chosen, if another has it.
    Required,
    /// The planner provides it where it can. No interrupt is moved for it.
    #[default]
    Preferred,
    /// The planner ignores it; without memory affinity, it binds no memory.
    Unwanted,
}

/// The largest number of rails that a request may ask for: a stream has no more lanes.
pub(super) const MAX_RAILS: usize = rails_proto::parameters::MAX_LANES;
/// The largest number of cores that a request may ask for, for each rail.
pub(super) const MAX_CORES: usize = 1024;

impl RailRequest {
    /// A request for these rails: of one core each, which others may use, beside their devices.
    pub fn new(which: Which) -> Self {
        Self {
            which,
            cores: 1,
            exclusive: false,
            nearness: Nearness::of_transport(Scheme::TCP),
            affinities: Affinities::default(),
            requires_placement: false,
            share_nics: false,
            claimed: Resources::default(),
        }
    }

    /// One rail on each NIC that is up.
    pub fn auto() -> Self {
        Self::new(Which::Auto)
    }

    /// A number of rails, on the best NICs.
    pub fn count(rails: usize) -> Self {
        Self::new(Which::Count(rails))
    }

    /// Rails on the loopback interface: this number, or with `None` one per core that may be used
    /// and at least two.
    pub fn loopback(rails: impl Into<Option<usize>>) -> Self {
        Self::new(Which::Loopback(rails.into()))
    }

    /// A rail with each of these local ends.
    pub fn on(ends: impl IntoIterator<Item = LocalEnd>) -> Self {
        Self::new(Which::Listed(ends.into_iter().map(RailWish::from).collect()))
    }

    /// A rail with a [routed](Part::Routed) lane for each of these addresses.
    pub fn routed(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let wish = |address| RailWish { parts: vec![Part::Routed(address)], binding: Binding::AFFINE };
        Self::new(Which::Listed(addresses.into_iter().map(wish).collect()))
    }

    /// The number of cores of a wished rail.
    pub(super) fn cores_of(&self, wish: &RailWish) -> usize {
        let stated = wish.parts.iter().rev().find_map(|part| match part {
            Part::Cores(cores) => Some(*cores),
            _ => None,
        });
        stated.unwrap_or(self.cores).max(1)
    }

    /// The number of requested rails, if the request states it.
    pub(crate) fn rails(&self) -> Option<usize> {
        match &self.which {
            Which::Auto | Which::Loopback(None) => None,
            Which::Count(count) | Which::Loopback(Some(count)) => Some(*count),
            Which::Listed(wishes) => Some(wishes.len()),
        }
    }
}

impl Nearness {
    /// The better choice for a transport: another core for TCP, which works in the interrupt as
    /// well as in the thread, and the same CPU for the others ("Towards Terabit/s Systems", the
    /// toolkit's poster).
    pub fn of_transport(scheme: Scheme) -> Self {
        if scheme == Scheme::TCP { Self::SharedCache } else { Self::SameCpu }
    }
}

impl Binding {
    /// Beside the rail's devices, if the system lets it.
    pub const AFFINE: Self = Self { kind: BindingKind::Affine, required: false };

    /// Has a rail that the system does not let bind be an error:
    /// [`RuntimeError::Bind`](crate::runtime::RuntimeError)
    /// of [`Rails::build`](crate::Rails::build), and [`MoveError::Bind`](crate::runtime::MoveError)
    /// of a move.
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Whether anything is bound.
    pub fn is_bound(&self) -> bool {
        self.kind != BindingKind::Default
    }

    /// The CPUs that were asked for.
    pub(super) fn cpus(&self) -> Option<&CpuSet> {
        match &self.kind {
            BindingKind::Explicit { cpus, .. } => cpus.as_ref(),
            BindingKind::Default | BindingKind::Affine => None,
        }
    }
}

impl From<BindingKind> for Binding {
    fn from(kind: BindingKind) -> Self {
        Self { kind, required: false }
    }
}

impl From<Written> for Binding {
    fn from(written: Written) -> Self {
        match written {
            Written::Required { required } => Self::from(required).required(),
            Written::Plain(kind) => kind.into(),
        }
    }
}

impl From<Binding> for Written {
    fn from(Binding { kind, required }: Binding) -> Self {
        if required { Self::Required { required: kind } } else { Self::Plain(kind) }
    }
}

impl From<LocalEnd> for RailWish {
    fn from(end: LocalEnd) -> Self {
        Self { parts: vec![Part::End(end)], binding: Binding::AFFINE }
    }
}
