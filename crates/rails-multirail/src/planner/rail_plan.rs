//! A plan, and its text.

use super::Binding;
use crate::RailId;
use rails_bind::{
    claims::{Number, Numbers, Resource},
    settings::InterfaceName,
};
use rails_net::LocalEnd;
use rails_topo::{Bandwidth, CpuId, CpuSet, InterfaceAddress, NodeId, PciAddress};
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr};

/// The planned rails, with reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RailPlan {
    /// The rails, by number.
    pub rails: Vec<PlannedRail>,
    /// The bandwidth to expect of all of them; `None` if it is unknown.
    #[serde(default)]
    pub expected: Option<Expected>,
    /// The NICs that got no rail, where the planner chose among the NICs.
    #[serde(default)]
    pub rejected_nics: Vec<RejectedNic>,
    /// Notes on the plan as a whole.
    pub notes: Vec<String>,
}

/// One rail of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlannedRail {
    /// The number of the rail.
    pub id: RailId,
    /// The interface of the rail's lane; `None` leaves it to the routes.
    pub interface: Option<String>,
    /// The local address of the rail's lane; `None` leaves it to the kernel.
    pub address: Option<IpAddr>,
    /// The local end of the lane's socket; `None` for a rail of cores and other devices, which has
    /// no lane.
    pub end: Option<LocalEnd>,
    /// The addresses that the lane may begin at, with their prefixes, as far as they are known.
    #[serde(default)]
    pub addresses: Vec<InterfaceAddress>,
    /// The speed of the lane's link; `None` is unknown.
    #[serde(default, rename = "speed_bits_per_second")]
    pub speed: Option<Bandwidth>,
    /// The GPUs and disks of the rail.
    #[serde(default)]
    pub devices: Vec<PlannedDevice>,
    /// The binding of the rail's thread and memory.
    #[serde(default)]
    pub binding: Binding,
    /// The CPU that the rail's thread is bound to. With
    /// [`BindingKind::Default`](super::BindingKind::Default) nothing is bound, and this is the
    /// CPU that an affine rail would have: see [`bound_cpu`](Self::bound_cpu).
    pub cpu: CpuId,
    /// The CPUs beside that one for tasks of the application, one on each further core of the rail.
    /// With [`BindingKind::Default`](super::BindingKind::Default) nothing is bound to them, and
    /// their number alone counts.
    #[serde(default)]
    pub task_cpus: CpuSet,
    /// The CPUs that the rail has to itself: all hardware threads of its cores. Empty for a rail
    /// that shares them.
    #[serde(default)]
    pub exclusive_cpus: CpuSet,
    /// The interrupts of the NIC that the rail has to itself. Of exclusive rails that share an
    /// interrupt, the first has it for all of them. Empty for a rail that shares its cores, and
    /// where no interrupts are known.
    #[serde(default)]
    pub exclusive_interrupts: Numbers,
    /// The receive queues of the NIC that the rail has to itself, by index; as with the interrupts.
    #[serde(default)]
    pub exclusive_queues: Numbers,
    /// The CPUs that served the NIC's interrupts when the rail was planned, as far as they are
    /// known.
    #[serde(default)]
    pub interrupt_cpus: CpuSet,
    /// The node of the rail's memory; `None` binds no memory, as on a machine without nodes.
    pub node: Option<NodeId>,
    /// The bandwidth of the lane.
    #[serde(default)]
    pub capacity: Capacity,
    /// The reasons for these choices.
    pub reasons: Vec<String>,
    /// The CPUs that the rail did not get, by reason. Empty for a rail that is bound to none.
    #[serde(default)]
    pub rejected_cpus: Vec<RejectedCpus>,
}

/// A GPU or a disk of a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlannedDevice {
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The name of the device in the machine's model.
    pub name: String,
    /// The PCI function of the device; `None` is unknown, or none.
    pub pci: Option<PciAddress>,
    /// The node that the device is attached to; `None` is unknown.
    pub node: Option<NodeId>,
}

/// The kind of a rail's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeviceKind {
    /// A graphics or computing device.
    Gpu,
    /// A disk.
    Storage,
}

/// The bandwidth of a rail by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Capacity {
    /// The bandwidth in each direction; `None` is unknown.
    #[serde(rename = "bandwidth_bits_per_second")]
    pub bandwidth: Option<Bandwidth>,
    /// The part that bounds it.
    pub bound_by: String,
}

/// The bandwidth of a plan: N rails of T each give N x T x delta.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Expected {
    /// N: the rails that have a lane on a NIC.
    pub rails: usize,
    /// T: the mean of the capacities of these rails.
    #[serde(rename = "each_bits_per_second")]
    pub each: Bandwidth,
    /// The bandwidth of all rails at once, as the links that they share allow it.
    #[serde(rename = "together_bits_per_second")]
    pub together: Bandwidth,
    /// delta: `together` over N x T. It is 1 if the rails share nothing that is too narrow.
    pub delta: f64,
    /// The links and ports that make delta less than 1.
    pub bound_by: Vec<String>,
}

/// A NIC without a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RejectedNic {
    /// The name of the NIC.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// CPUs that a rail did not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RejectedCpus {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The reason.
    pub reason: String,
}

impl PlannedRail {
    /// The CPU that the rail's thread is bound to; `None` if it is not bound.
    pub fn bound_cpu(&self) -> Option<CpuId> {
        self.binding.is_bound().then_some(self.cpu)
    }

    /// All CPUs of the rail: that of its lanes, and those of tasks.
    pub fn cpus(&self) -> CpuSet {
        self.task_cpus.union(&CpuSet::single(self.cpu))
    }

    /// All that the rail has to itself, as [`Claims`](rails_bind::claims::Claims) have it.
    pub fn exclusive_resources(&self) -> impl Iterator<Item = Resource> {
        let interface = self.interface.as_deref();
        exclusive_resources(interface, &self.exclusive_cpus, &self.exclusive_interrupts, &self.exclusive_queues)
    }
}

/// The given CPUs and interrupts, and the given queues of the interface.
pub(super) fn exclusive_resources<'n>(
    interface: Option<&str>,
    cpus: &'n CpuSet,
    interrupts: &'n Numbers,
    queues: &'n Numbers,
) -> impl Iterator<Item = Resource> + use<'n> {
    let queues = queues_of(interface.unwrap_or_default(), queues.iter().map(|Number(index)| index));
    let interrupts = interrupts.iter().map(|Number(number)| Resource::Interrupt(number));
    cpus.iter().map(Resource::Cpu).chain(interrupts).chain(queues)
}

impl RejectedCpus {
    /// Takes `others` out of the CPUs; `None` if none is left.
    pub(super) fn without(self, others: &CpuSet) -> Option<Self> {
        let cpus = self.cpus.difference(others);
        (!cpus.is_empty()).then_some(Self { cpus, ..self })
    }
}

/// Receive queues of an interface. A name that no interface can have is no interface's, and has
/// none.
pub(super) fn queues_of<I: Iterator<Item = u32>>(
    interface: &str,
    indices: I,
) -> impl Iterator<Item = Resource> + use<I> {
    let interface: Option<InterfaceName> = interface.parse().ok();
    indices.filter_map(move |index| Some(Resource::Queue { interface: interface.clone()?, index }))
}

impl RejectedNic {
    /// The names and reasons of NICs as text: `eth2, eth3: its link is down`, an entry for each
    /// reason.
    pub fn by_reason<'n>(rejected: impl IntoIterator<Item = &'n Self>) -> Vec<String> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for Self { name, reason } in rejected {
            match groups.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => groups.push((reason, vec![name])),
            }
        }
        groups.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
    }
}

/// The text of `rails-bench plan`.
impl fmt::Display for RailPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rail in &self.rails {
            let parts = match (&rail.interface, rail.address) {
                (Some(name), Some(address)) => Some(format!("{name} {address}")),
                (Some(name), None) => Some(name.clone()),
                (None, Some(address)) => Some(address.to_string()),
                (None, None) => None,
            };
            let parts: Vec<String> =
                parts.into_iter().chain(rail.devices.iter().map(|device| device.name.clone())).collect();
            let parts = match (parts.is_empty(), &rail.end) {
                (false, _) => parts.join(" + "),
                (true, Some(_)) => "any".to_owned(),
                (true, None) => "cores".to_owned(),
            };
            let cpus = rail.bound_cpu().map_or("any".to_owned(), |_| rail.cpus().to_string());
            let node = rail.node.map_or("-".to_owned(), |node| node.to_string());
            writeln!(f, "rail {}  {parts:<24} cpu {cpus:<4} node {node}", rail.id)?;
            rail.reasons.iter().try_for_each(|reason| writeln!(f, "          {reason}"))?;
            for RejectedCpus { cpus, reason } in &rail.rejected_cpus {
                writeln!(f, "          not CPU {cpus}: {reason}")?;
            }
        }
        RejectedNic::by_reason(&self.rejected_nics).iter().try_for_each(|skipped| writeln!(f, "not {skipped}"))?;
        if let Some(expected) = &self.expected {
            writeln!(f, "expected: {expected}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

/// `2 x 100 Gbit/s x 0.63 = 126 Gbit/s`, and the cause if it is less than the sum.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {:.2} = {}", self.rails, self.each, self.delta, self.together)?;
        if self.bound_by.is_empty() { Ok(()) } else { write!(f, " ({})", self.bound_by.join("; ")) }
    }
}

/// A number of things: `1 NIC`, `2 NICs`.
pub(super) fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
