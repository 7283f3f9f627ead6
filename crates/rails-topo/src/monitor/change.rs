//! Changes, and their texts.

use crate::{
    Bandwidth, CpuId, CpuSet, DataSize, Id, IdSet, InterfaceAddress, Interrupt, Nic, NodeId, NodeSet, NumaNode,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kernel's number of a memory block, the unit in which memory goes on- and offline
/// (`/sys/devices/system/memory/memory*`, with the length in `block_size_bytes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MemoryBlockId(pub u32);

/// A set of memory blocks.
pub type MemoryBlockSet = IdSet<MemoryBlockId>;

/// A change. It holds the new state, so that it can be applied to an older model
/// ([`Snapshot::apply`](super::Snapshot::apply)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// A CPU went offline. From a uevent, else from the poll.
    CpuOffline {
        /// The CPU.
        cpu: CpuId,
    },
    /// A CPU came online. From a uevent, else from the poll.
    CpuOnline {
        /// The CPU.
        cpu: CpuId,
    },
    /// A NUMA node went offline. From a uevent, else from the poll.
    NodeOffline {
        /// The node.
        node: NodeId,
    },
    /// A NUMA node came online.
    NodeOnline {
        /// The node; at first only its memory is known, and the rest follows as
        /// [`Change::Structure`].
        node: Box<NumaNode>,
    },
    /// A node has more or less memory than before. Read after a memory block's uevent, else by the
    /// poll.
    NodeMemory {
        /// The node.
        node: NodeId,
        /// All memory of the node (`MemTotal` in its `meminfo`); `None` is unknown.
        #[serde(rename = "memory_bytes")]
        memory: Option<DataSize>,
    },
    /// A memory block went offline. By uevent.
    MemoryBlockOffline {
        /// The block.
        block: MemoryBlockId,
    },
    /// A memory block came online. By uevent.
    MemoryBlockOnline {
        /// The block.
        block: MemoryBlockId,
    },
    /// The CPUs that this process may use have changed: its cpuset shrank or grew, its main thread
    /// was bound, or a CPU went or came. At once if a file of its cgroup or of one above was
    /// written, else from the poll.
    AllowedCpus {
        /// The CPUs that are no longer allowed.
        removed: CpuSet,
        /// The CPUs that are allowed now.
        added: CpuSet,
    },
    /// The nodes that this process may take memory from have changed; noticed as
    /// [`Change::AllowedCpus`].
    AllowedNodes {
        /// The nodes that are no longer allowed.
        removed: NodeSet,
        /// The nodes that are allowed now.
        added: NodeSet,
    },
    /// A network interface was added. By rtnetlink.
    NicAdded {
        /// The interface, as it was read.
        nic: Box<Nic>,
    },
    /// A network interface was removed. By rtnetlink.
    NicRemoved {
        /// The interface.
        nic: String,
    },
    /// A network interface was renamed. By rtnetlink.
    NicRenamed {
        /// The former name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A link went up or down, or its carrier came or went. From rtnetlink; the kernel may report
    /// carriers once a second only (`linkwatch_urgent_event` in net/core/link_watch.c).
    NicLink {
        /// The interface.
        nic: String,
        /// Whether the link is up, as in [`Nic::up`].
        up: Option<bool>,
        /// Whether the link has a carrier, as in [`Nic::carrier`].
        carrier: Option<bool>,
    },
    /// A link has another speed. Read after any rtnetlink message about the interface.
    NicSpeed {
        /// The interface.
        nic: String,
        /// The interface's speed; `None` is unknown, as while the link is down.
        #[serde(rename = "speed_bits_per_second")]
        speed: Option<Bandwidth>,
    },
    /// An interface has another MTU. By rtnetlink.
    NicMtu {
        /// The interface.
        nic: String,
        /// The interface's largest packet in bytes; `None` is unknown.
        #[serde(rename = "mtu_bytes")]
        mtu: Option<u32>,
    },
    /// An interface has one more address. From rtnetlink; the kernel reports an IPv6 address after
    /// duplicate address detection, a second or two later.
    NicAddressAdded {
        /// The interface.
        nic: String,
        /// The address.
        address: InterfaceAddress,
    },
    /// An interface has lost an address. By rtnetlink.
    NicAddressRemoved {
        /// The interface.
        nic: String,
        /// The address.
        address: InterfaceAddress,
    },
    /// An interface has other interrupts, or they have other names. Found when interfaces are read
    /// again, which happens only when one comes or goes.
    NicInterrupts {
        /// The interface.
        nic: String,
        /// The interface's interrupts.
        interrupts: Vec<Interrupt>,
    },
    /// Another CPU serves a NIC's interrupt. From the poll, because the kernel has no event for it.
    InterruptMoved {
        /// The interrupt's number.
        number: u32,
        /// The CPUs that may serve the interrupt, as in [`Interrupt::affinity`].
        affinity: Option<CpuSet>,
        /// The CPUs that serve the interrupt, as in [`Interrupt::effective`].
        effective: Option<CpuSet>,
        /// Whether this process announced the move
        /// ([`Monitor::expect_interrupt`](super::Monitor::expect_interrupt)); if not, another
        /// program moved the interrupt.
        expected: bool,
    },
    /// Another part of the model has changed: packages, caches, PCI, queues. A fresh snapshot has
    /// it.
    Structure,
}

impl Id for MemoryBlockId {
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for MemoryBlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuOffline { cpu } => write!(f, "CPU {cpu} went offline"),
            Self::CpuOnline { cpu } => write!(f, "CPU {cpu} came online"),
            Self::NodeOffline { node } => write!(f, "node {node} went offline"),
            Self::NodeOnline { node } => write!(f, "node {} came online, memory {}", node.id, Known(&node.memory)),
            Self::NodeMemory { node, memory } => write!(f, "node {node}: memory {}", Known(memory)),
            Self::MemoryBlockOffline { block } => write!(f, "memory block {block} went offline"),
            Self::MemoryBlockOnline { block } => write!(f, "memory block {block} came online"),
            Self::AllowedCpus { removed, added } => allowed(f, "CPUs", removed, added),
            Self::AllowedNodes { removed, added } => allowed(f, "nodes", removed, added),
            Self::NicAdded { nic } => write!(f, "{}: was added", nic.name),
            Self::NicRemoved { nic } => write!(f, "{nic}: was removed"),
            Self::NicRenamed { from, to } => write!(f, "{from}: is {to} now"),
            Self::NicLink { nic, up, carrier } => {
                let up = up.map_or("state unknown", |up| if up { "up" } else { "down" });
                let carrier = carrier.map_or("carrier unknown", |there| if there { "carrier" } else { "no carrier" });
                write!(f, "{nic}: link {up}, {carrier}")
            }
            Self::NicSpeed { nic, speed } => write!(f, "{nic}: speed {}", Known(speed)),
            Self::NicMtu { nic, mtu } => write!(f, "{nic}: MTU {}", Known(mtu)),
            Self::NicAddressAdded { nic, address } => {
                write!(f, "{nic}: address {}/{} added", address.ip, address.prefix_len)
            }
            Self::NicAddressRemoved { nic, address } => {
                write!(f, "{nic}: address {}/{} removed", address.ip, address.prefix_len)
            }
            Self::NicInterrupts { nic, interrupts } => write!(f, "{nic}: has {} interrupts", interrupts.len()),
            Self::InterruptMoved { number, affinity, effective, expected } => {
                let by = if *expected { "as announced" } else { "by another program" };
                let (affinity, effective) = (Known(affinity), Known(effective));
                write!(f, "interrupt {number}: moved {by}, to CPUs {affinity}, served on {effective}")
            }
            Self::Structure => f.write_str("the rest of the model has changed"),
        }
    }
}

fn allowed<T: Id>(f: &mut fmt::Formatter<'_>, what: &str, removed: &IdSet<T>, added: &IdSet<T>) -> fmt::Result {
    match (removed.is_empty(), added.is_empty()) {
        (false, false) => write!(f, "allowed {what}: without {removed}, with {added}"),
        (false, true) => write!(f, "allowed {what}: without {removed}"),
        _ => write!(f, "allowed {what}: with {added}"),
    }
}

struct Known<'a, T>(&'a Option<T>);

impl<T: fmt::Display> fmt::Display for Known<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_one_line_and_survives_json() {
        let changes = [
            (Change::CpuOffline { cpu: CpuId(3) }, "CPU 3 went offline"),
            (
                Change::AllowedCpus { removed: "2-3".parse().unwrap(), added: CpuSet::new() },
                "allowed CPUs: without 2-3",
            ),
            (
                Change::NicLink { nic: "eth0".to_owned(), up: Some(false), carrier: None },
                "eth0: link down, carrier unknown",
            ),
            (
                Change::InterruptMoved { number: 24, affinity: "0-3".parse().ok(), effective: None, expected: false },
                "interrupt 24: moved by another program, to CPUs 0-3, served on unknown",
            ),
            (Change::NicAdded { nic: Box::new(Nic::named("eth1")) }, "eth1: was added"),
        ];
        for (change, text) in changes {
            assert_eq!(change.to_string(), text);
            let json = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change, "{json}");
        }
    }
}
