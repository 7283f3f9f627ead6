//! Settings of the machine that decide which CPUs handle packets: changed in a transaction, read
//! back, put back.
//!
//! Each [`Setting`] is one file of the kernel, or the value of one system call.
//! [`apply`](Host::apply) changes several of them or none; its guard puts the former values back.
//! Before any change, a record goes to the [`Journal`], so that the next process, or a person
//! ([`Journal::undo`]), can put back the changes of a killed process.
//!
//! An interrupt or a receive queue that another process has [claimed](crate::claims) stays as it
//! is, also when a former value is put back.
//!
//! # Privileges
//! Measured on Linux 6.18: the affinity of an interrupt takes nothing but write permission to its
//! file (user 0, or `CAP_DAC_OVERRIDE`; a capability for networking does not help). The steering of
//! packets takes that *and* `CAP_NET_ADMIN`. Capabilities are not checked beforehand: the write is
//! made, and the kernel's answer is reported.

mod apply;
mod bans;
mod claimed;
mod error;
mod host;
mod interface_name;
mod journal;
mod put_back;
mod tasks;

use crate::thread::Tid;
pub use apply::{ApplyError, Changed, Refusals, SettingState, SettingsGuard};
pub use error::SettingError;
pub use host::Host;
pub use interface_name::{InterfaceName, InvalidInterfaceName};
pub use journal::{Journal, JournalError, Owner, Record, Undo, Undone};
pub use put_back::PutBack;
use rails_topo::{CpuSet, NodeSet};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A setting: one file of the kernel, or the value of one system call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "setting", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Setting {
    /// The CPUs that may serve an interrupt (`/proc/irq/N/smp_affinity_list`).
    InterruptAffinity {
        /// The interrupt's number in `/proc/interrupts`.
        interrupt: u32,
    },
    /// The CPUs to which packets of a receive queue are handed on: RPS (`rps_cpus`); empty is off.
    ReceiveSteering {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index.
        queue: u32,
    },
    /// The flows that a receive queue tracks, to hand packets to the CPU of their reader: RFS
    /// (`rps_flow_cnt`); 0 is off.
    ReceiveFlows {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index.
        queue: u32,
    },
    /// The flows that the machine tracks, without which no queue tracks any
    /// (`/proc/sys/net/core/rps_sock_flow_entries`); 0 is off. The kernel rounds the number up to a
    /// power of two.
    FlowTable,
    /// The CPUs that send through a transmit queue: XPS (`xps_cpus`); empty is off. An interface
    /// with a single queue has the file and refuses to read it.
    TransmitSteering {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index.
        queue: u32,
    },
    /// Whether an interface's packets are handled by kernel threads of their own, which can be
    /// bound as threads are (`/sys/class/net/NAME/threaded`, Linux 5.12 and later): 0 or 1.
    ThreadedNapi {
        /// The interface.
        interface: InterfaceName,
    },
    /// The CPUs that a thread of any process may run on (`sched_setaffinity`).
    ThreadAffinity {
        /// The thread.
        thread: Tid,
        /// The thread's start, in nanoseconds since the boot, which distinguishes it from a later
        /// thread of the same number.
        started_ns: u64,
    },
    /// The nodes that the anonymous memory of a process lies on (`migrate_pages`). The former node
    /// of each page is not recorded: putting back a single node moves all pages there, putting back
    /// several moves none.
    ProcessMemory {
        /// The process.
        process: Tid,
        /// The process's start, in nanoseconds since the boot.
        started_ns: u64,
    },
    /// Whether a running irqbalance leaves an interrupt alone (1) or moves it (0). irqbalance
    /// receives the ban through its socket, and forgets it when it ends.
    IrqbalanceBan {
        /// The interrupt's number.
        interrupt: u32,
    },
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// CPUs.
    Cpus(CpuSet),
    /// Memory nodes.
    Nodes(NodeSet),
    /// A number.
    Number(u32),
}

/// A setting, and its requested value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The setting.
    pub setting: Setting,
    /// The requested value.
    pub value: Value,
}

impl Setting {
    /// The setting's file, relative to the root of the file system; `None` for the value of a
    /// system call.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::InterruptAffinity { interrupt } => Some(format!("proc/irq/{interrupt}/smp_affinity_list")),
            Self::ReceiveSteering { interface, queue } => {
                Some(format!("sys/class/net/{interface}/queues/rx-{queue}/rps_cpus"))
            }
            Self::ReceiveFlows { interface, queue } => {
                Some(format!("sys/class/net/{interface}/queues/rx-{queue}/rps_flow_cnt"))
            }
            Self::FlowTable => Some("proc/sys/net/core/rps_sock_flow_entries".to_owned()),
            Self::TransmitSteering { interface, queue } => {
                Some(format!("sys/class/net/{interface}/queues/tx-{queue}/xps_cpus"))
            }
            Self::ThreadedNapi { interface } => Some(format!("sys/class/net/{interface}/threaded")),
            Self::ThreadAffinity { .. } | Self::ProcessMemory { .. } | Self::IrqbalanceBan { .. } => None,
        }
    }

    /// The interface that the setting belongs to.
    fn interface(&self) -> Option<&InterfaceName> {
        match self {
            Self::ReceiveSteering { interface, .. }
            | Self::ReceiveFlows { interface, .. }
            | Self::TransmitSteering { interface, .. }
            | Self::ThreadedNapi { interface } => Some(interface),
            _ => None,
        }
    }

    /// The kind and the notation of the setting's value.
    fn form(&self) -> Form {
        match self {
            Self::InterruptAffinity { .. } | Self::ThreadAffinity { .. } => Form::CpuList,
            Self::ReceiveSteering { .. } | Self::TransmitSteering { .. } => Form::CpuMask,
            Self::ReceiveFlows { .. } | Self::FlowTable | Self::ThreadedNapi { .. } | Self::IrqbalanceBan { .. } => {
                Form::Number
            }
            Self::ProcessMemory { .. } => Form::NodeList,
        }
    }

    /// Whether the setting cannot be switched off by the empty set.
    fn must_not_be_empty(&self) -> bool {
        matches!(self.form(), Form::CpuList | Form::NodeList)
    }

    /// The privilege to change the setting, as measured.
    fn needs(&self) -> &'static str {
        match self {
            Self::InterruptAffinity { .. } => "write permission to its file: user 0 or CAP_DAC_OVERRIDE",
            Self::ThreadAffinity { .. } | Self::ProcessMemory { .. } => {
                "CAP_SYS_NICE, or to be the process's user and to have its capabilities"
            }
            Self::IrqbalanceBan { .. } => "user 0",
            _ => "write permission to its file (user 0 or CAP_DAC_OVERRIDE) and CAP_NET_ADMIN",
        }
    }

    /// The value in the words of the setting's file, or `None` if it is of the wrong kind.
    fn text(&self, value: &Value) -> Option<String> {
        match (self.form(), value) {
            (Form::CpuList, Value::Cpus(cpus)) => Some(cpus.to_string()),
            (Form::CpuMask, Value::Cpus(cpus)) => Some(cpus.to_mask()),
            (Form::NodeList, Value::Nodes(nodes)) => Some(nodes.to_string()),
            (Form::Number, Value::Number(number)) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The value that the text of the setting's file stands for.
    fn parse(&self, text: &str) -> Option<Value> {
        match self.form() {
            Form::CpuList => text.parse().ok().map(Value::Cpus),
            Form::CpuMask => CpuSet::parse_mask(text).ok().map(Value::Cpus),
            Form::NodeList => text.parse().ok().map(Value::Nodes),
            Form::Number => text.parse().ok().map(Value::Number),
        }
    }
}

/// The kinds of values, with their notations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    CpuList,
    CpuMask,
    NodeList,
    Number,
}

impl Form {
    fn in_words(self) -> &'static str {
        match self {
            Self::CpuList | Self::CpuMask => "CPUs",
            Self::NodeList => "nodes",
            Self::Number => "a number",
        }
    }
}

impl Change {
    /// A ban of an interrupt from irqbalance.
    pub fn ban(interrupt: u32) -> Self {
        Self { setting: Setting::IrqbalanceBan { interrupt }, value: Value::Number(1) }
    }

    /// A change of an interrupt's affinity.
    pub fn interrupt(interrupt: u32, cpus: CpuSet) -> Self {
        Self { setting: Setting::InterruptAffinity { interrupt }, value: Value::Cpus(cpus) }
    }

    /// Whether the change is of this interrupt's affinity.
    pub(crate) fn is_of_interrupt(&self, number: u32) -> bool {
        matches!(self.setting, Setting::InterruptAffinity { interrupt } if interrupt == number)
    }

    /// The shell command that makes the change.
    pub fn command(&self) -> String {
        // A value of the wrong kind is refused when it is applied; here it is shown as it is.
        let text = self.setting.text(&self.value).unwrap_or_else(|| self.value.to_string());
        match (&self.setting, self.setting.path()) {
            (Setting::ThreadAffinity { thread, .. }, _) => format!("taskset -pc {text} {thread}"),
            (Setting::ProcessMemory { process, .. }, _) => format!("migratepages {process} all {text}"),
            (Setting::IrqbalanceBan { interrupt }, _) => format!("irqbalance --banirq={interrupt}"),
            (_, path) => format!("echo {text} > {}", quoted(&format!("/{}", path.unwrap_or_default()))),
        }
    }
}

/// The path as one word of a shell: the name of an interface may have any characters but blanks,
/// slashes and colons.
fn quoted(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@+".contains(&byte);
    if path.bytes().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

impl Value {
    /// The value's CPUs, if it has any.
    pub fn cpus(&self) -> Option<&CpuSet> {
        match self {
            Self::Cpus(cpus) => Some(cpus),
            Self::Nodes(_) | Self::Number(_) => None,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Cpus(cpus) => cpus.is_empty(),
            Self::Nodes(nodes) => nodes.is_empty(),
            Self::Number(_) => false,
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
            Self::ThreadAffinity { thread, .. } => write!(f, "the CPU affinity of thread {thread}"),
            Self::ProcessMemory { process, .. } => write!(f, "the memory of process {process}"),
            Self::IrqbalanceBan { interrupt } => write!(f, "irqbalance's ban of interrupt {interrupt}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(cpus) if cpus.is_empty() => write!(f, "no CPU"),
            Self::Cpus(cpus) if cpus.len() == 1 => write!(f, "CPU {cpus}"),
            Self::Cpus(cpus) => write!(f, "CPUs {cpus}"),
            Self::Nodes(nodes) if nodes.is_empty() => write!(f, "no node"),
            Self::Nodes(nodes) if nodes.len() == 1 => write!(f, "node {nodes}"),
            Self::Nodes(nodes) => write!(f, "nodes {nodes}"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    journal::fuzz(bytes);
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_seeds() -> Vec<Vec<u8>> {
    journal::fuzz_seeds()
}

#[cfg(test)]
mod tests;
