//! The role of a NIC's interrupt.

mod counting;
mod name;
mod queues;

use crate::Interrupt;

/// The role of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterruptRole {
    /// The interrupt serves a pair of queues, or a queue for one direction only.
    Queue {
        /// The queue's index.
        index: u32,
        /// The direction of the queues of that index.
        direction: Direction,
    },
    /// The interrupt serves unknown queues: several, or one that the name does not number.
    Queues(Direction),
    /// The interrupt serves no queue: configuration, link changes, management.
    Control,
    /// The name is unknown.
    Unknown,
}

/// The direction of the queues that an interrupt serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Receive queues.
    Receive,
    /// Transmit queues.
    Transmit,
    /// Both, or unknown.
    Both,
}

impl InterruptRole {
    /// The index of the interrupt's queue, if it is known.
    pub fn queue(self) -> Option<u32> {
        match self {
            Self::Queue { index, .. } => Some(index),
            Self::Queues(_) | Self::Control | Self::Unknown => None,
        }
    }

    /// Whether the interrupt serves queues, known or unknown.
    pub fn serves_queues(self) -> bool {
        matches!(self, Self::Queue { .. } | Self::Queues(_))
    }
}

impl Interrupt {
    /// The role by the interrupt's own name alone.
    ///
    /// Known are the names that the drivers mlx5, mlx4, ice, iavf, ixgbe, i40e, igb, igc, e1000e,
    /// idpf, bnxt, ena, gve, mana, virtio, vmxnet3, qede and cxgb4 give, and others that name
    /// vectors alike. Some of these number their vectors and not their queues, which no single
    /// name shows: [`Nic::role_of`](crate::Nic::role_of) knows them.
    pub fn role(&self) -> InterruptRole {
        self.name.as_deref().map_or(InterruptRole::Unknown, name::role)
    }
}
