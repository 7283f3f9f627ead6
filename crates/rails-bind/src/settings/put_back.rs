//! A setting put back, unless another program has changed it since.

use super::{Host, Setting, SettingError, Value};
use serde::{Deserialize, Serialize};
use std::{error::Error, fmt};

/// A change: the former value, and the value that must still be there to put it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) setting: Setting,
    /// The former value.
    pub(super) former: Value,
    /// The value that this process gave the setting, or will give it.
    pub(super) ours: Value,
    pub(super) progress: Progress,
}

/// The progress of a change, written down before each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    /// The setting was not touched yet.
    Planned,
    /// The setting was about to be changed, and the kernel's value was not recorded yet.
    Changing,
    /// The setting was changed, and `ours` was read back.
    Made,
}

impl Entry {
    /// Whether `now` is the value that this process gave the setting.
    fn is_ours(&self, now: &Value) -> bool {
        match self.progress {
            Progress::Planned => false,
            Progress::Made => *now == self.ours,
            // The kernel's value for a request: it leaves out CPUs and nodes that it does not use, and rounds sizes of
            // tables up to a power of two (`roundup_pow_of_two` in net/core/sysctl_net_core.c and net-sysfs.c).
            Progress::Changing => match (now, &self.ours) {
                (Value::Cpus(now), Value::Cpus(wanted)) => now.is_subset(wanted),
                (Value::Nodes(now), Value::Nodes(wanted)) => now.is_subset(wanted),
                (Value::Number(now), Value::Number(wanted)) => {
                    now == wanted || wanted.checked_next_power_of_two() == Some(*now)
                }
                _ => false,
            },
        }
    }
}

/// The outcome of putting a setting back.
#[derive(Debug)]
#[non_exhaustive]
pub enum PutBack {
    /// The setting has its former value.
    Restored {
        /// The former value.
        value: Value,
    },
    /// The process that was to change the setting ended before it did; the setting was left as it
    /// is.
    Untouched {
        /// The present value.
        now: Value,
    },
    /// Another program has changed the setting since; it stays.
    ChangedSince {
        /// The present value.
        now: Value,
        /// The value before the recorded change.
        former: Value,
    },
    /// The setting was put back in part: CPUs of the former value are offline or not allowed, or
    /// memory was on several nodes.
    Partial {
        /// The present value.
        now: Value,
        /// The value before the recorded change.
        former: Value,
    },
    /// The interrupt, interface, queue, thread or process has gone, and the setting with it.
    Gone,
    /// Another process holds the setting, which is put back when that process releases it.
    Held {
        /// The holder's process.
        by: u32,
    },
    /// The setting could not be put back yet.
    Failed(SettingError),
}

impl PutBack {
    /// Whether nothing is left to do.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Held { .. } | Self::Failed(_))
    }
}

impl fmt::Display for PutBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored { value } => write!(f, "put back to {value}"),
            Self::Untouched { now } => write!(f, "left at {now}, for it had not been changed yet"),
            Self::ChangedSince { now, former } => {
                write!(f, "left at {now}, which another program set; the former value was {former}")
            }
            Self::Partial { now, former } => write!(f, "put back in part: {now}; before us it was {former}"),
            Self::Gone => write!(f, "gone"),
            Self::Held { by } => write!(f, "still held by process {by}"),
            Self::Failed(error) => {
                write!(f, "not put back: {error}")?;
                let mut cause = error.source();
                while let Some(known) = cause {
                    write!(f, ": {known}")?;
                    cause = known.source();
                }
                Ok(())
            }
        }
    }
}

/// Puts a setting back. With `force`, also a setting that another program has changed since.
pub(super) fn put_back(host: &Host, entry: &Entry, force: bool) -> PutBack {
    let Entry { setting, former, progress, .. } = entry;
    let now = match host.read(setting) {
        Ok(now) => now,
        Err(SettingError::NotThere { .. }) => return PutBack::Gone,
        Err(error) => return PutBack::Failed(error),
    };
    if *progress == Progress::Planned {
        return PutBack::Untouched { now };
    }
    if now == *former {
        return PutBack::Restored { value: now };
    }
    if !entry.is_ours(&now) && !force {
        return PutBack::ChangedSince { now, former: former.clone() };
    }
    match host.write(setting, former) {
        Ok(now) if now == *former => PutBack::Restored { value: now },
        Ok(now) => PutBack::Partial { now, former: former.clone() },
        Err(SettingError::NotThere { .. }) => PutBack::Gone,
        Err(error) => PutBack::Failed(error),
    }
}
