//! Settings of the machine that decide where packets are handled: changed in a transaction, read back, put back.
//!
//! Each [`Setting`] is one file of the kernel. [`apply`](KernelFiles::apply) changes several of them or none; its guard
//! puts back what was there. Before anything is changed, a record of it goes to the [`Journal`], so that what a killed process left
//! behind can be put back by the next one, or by hand ([`Journal::undo`]).
//!
//! # Privileges
//! Measured on Linux 6.18: the affinity of an interrupt takes nothing but write permission to its file (user 0, or
//! `CAP_DAC_OVERRIDE`; a capability for networking does not help). The steering of packets takes that *and* `CAP_NET_ADMIN`. Nobody
//! is asked for capabilities beforehand: the write is made, and what the kernel answers is reported.

mod apply;
mod error;
mod files;
mod journal;
mod put_back;

pub use apply::{ApplyError, Changed, Refusals, SettingState, SettingsGuard};
pub use error::SettingError;
pub use files::KernelFiles;
pub use journal::{Journal, JournalError, Owner, Record, Undo, Undone};
pub use put_back::PutBack;

use rails_topo::CpuSet;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What is set: one file of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "setting", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Setting {
    /// The CPUs that may serve an interrupt (`/proc/irq/N/smp_affinity_list`).
    InterruptAffinity {
        /// Its number in `/proc/interrupts`.
        interrupt: u32,
    },
    /// The CPUs to which packets of a receive queue are handed on: RPS (`rps_cpus`); empty is off.
    ReceiveSteering {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index.
        queue: u32,
    },
    /// The flows that a receive queue keeps track of, to hand packets to the CPU of their reader: RFS (`rps_flow_cnt`);
    /// 0 is off.
    ReceiveFlows {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index.
        queue: u32,
    },
    /// The flows that the machine keeps track of, without which no queue does (`/proc/sys/net/core/rps_sock_flow_entries`); 0
    /// is off. The kernel rounds it up to a power of two.
    FlowTable,
    /// The CPUs that send through a transmit queue: XPS (`xps_cpus`); empty is off. An interface with a single queue has
    /// the file and refuses to read it.
    TransmitSteering {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index.
        queue: u32,
    },
    /// Whether an interface's packets are handled by kernel threads of their own, which can be bound as threads are
    /// (`/sys/class/net/NAME/threaded`, Linux 5.12 and later): 0 or 1.
    ThreadedNapi {
        /// The interface.
        interface: InterfaceName,
    },
}

/// What a setting is set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// CPUs.
    Cpus(CpuSet),
    /// A number.
    Number(u32),
}

/// A setting, and what it is to be set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What is to be set.
    pub setting: Setting,
    /// What it is to be set to.
    pub value: Value,
}

/// The name of a network interface: what the kernel takes for one, and so safe as part of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InterfaceName(String);

/// A text that cannot be the name of a network interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be the name of a network interface (1 to 15 bytes, no slash, colon or blank)")]
pub struct InvalidInterfaceName(String);

impl Setting {
    /// Its file, relative to the root of the file system.
    pub fn path(&self) -> String {
        match self {
            Self::InterruptAffinity { interrupt } => format!("proc/irq/{interrupt}/smp_affinity_list"),
            Self::ReceiveSteering { interface, queue } => {
                format!("sys/class/net/{interface}/queues/rx-{queue}/rps_cpus")
            }
            Self::ReceiveFlows { interface, queue } => {
                format!("sys/class/net/{interface}/queues/rx-{queue}/rps_flow_cnt")
            }
            Self::FlowTable => "proc/sys/net/core/rps_sock_flow_entries".to_owned(),
            Self::TransmitSteering { interface, queue } => {
                format!("sys/class/net/{interface}/queues/tx-{queue}/xps_cpus")
            }
            Self::ThreadedNapi { interface } => format!("sys/class/net/{interface}/threaded"),
        }
    }

    /// Whether it is set to CPUs, and not to a number.
    fn takes_cpus(&self) -> bool {
        matches!(self, Self::InterruptAffinity { .. } | Self::ReceiveSteering { .. } | Self::TransmitSteering { .. })
    }

    /// What it takes to change it, as measured.
    fn needs(&self) -> &'static str {
        match self {
            Self::InterruptAffinity { .. } => "write permission to its file: user 0 or CAP_DAC_OVERRIDE",
            _ => "write permission to its file (user 0 or CAP_DAC_OVERRIDE) and CAP_NET_ADMIN",
        }
    }

    /// The value in the words of its file, or `None` if it is of the wrong kind.
    fn text(&self, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::InterruptAffinity { .. }, Value::Cpus(cpus)) => Some(cpus.to_string()),
            (_, Value::Cpus(cpus)) if self.takes_cpus() => Some(cpus.to_mask()),
            (_, Value::Number(number)) if !self.takes_cpus() => Some(number.to_string()),
            _ => None,
        }
    }

    /// The value that the text of its file stands for.
    fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Self::InterruptAffinity { .. } => text.parse().ok().map(Value::Cpus),
            _ if self.takes_cpus() => CpuSet::parse_mask(text).ok().map(Value::Cpus),
            _ => text.parse().ok().map(Value::Number),
        }
    }
}

impl Change {
    /// The affinity of an interrupt.
    pub fn interrupt(interrupt: u32, cpus: CpuSet) -> Self {
        Self { setting: Setting::InterruptAffinity { interrupt }, value: Value::Cpus(cpus) }
    }

    /// The shell command that does the same.
    pub fn command(&self) -> String {
        // A value of the wrong kind is refused when it is applied; here it is shown as it is.
        let text = self.setting.text(&self.value).unwrap_or_else(|| self.value.to_string());
        format!("echo {text} > /{}", self.setting.path())
    }
}

impl Value {
    /// The CPUs, if it is CPUs.
    pub fn cpus(&self) -> Option<&CpuSet> {
        match self {
            Self::Cpus(cpus) => Some(cpus),
            Self::Number(_) => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InterruptAffinity { interrupt } => write!(f, "the affinity of interrupt {interrupt}"),
            Self::ReceiveSteering { interface, queue } => {
                write!(f, "receive packet steering of {interface} rx-{queue}")
            }
            Self::ReceiveFlows { interface, queue } => write!(f, "receive flow steering of {interface} rx-{queue}"),
            Self::FlowTable => write!(f, "the machine's table of receive flows"),
            Self::TransmitSteering { interface, queue } => {
                write!(f, "transmit packet steering of {interface} tx-{queue}")
            }
            Self::ThreadedNapi { interface } => write!(f, "threaded NAPI of {interface}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(cpus) if cpus.is_empty() => write!(f, "no CPU"),
            Self::Cpus(cpus) if cpus.len() == 1 => write!(f, "CPU {cpus}"),
            Self::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

impl InterfaceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As `dev_valid_name` in net/core/dev.c has it.
impl FromStr for InterfaceName {
    type Err = InvalidInterfaceName;

    fn from_str(name: &str) -> Result<Self, InvalidInterfaceName> {
        let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let valid = (1..16).contains(&name.len()) && name != "." && name != ".." && !name.contains(forbidden);
        if valid { Ok(Self(name.to_owned())) } else { Err(InvalidInterfaceName(name.to_owned())) }
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = InvalidInterfaceName;

    fn try_from(name: String) -> Result<Self, InvalidInterfaceName> {
        name.parse()
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> Self {
        name.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
