//! A verdict on a property, with its evidence and its fix.

use crate::settings::Change;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a property holds, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
#[must_use]
pub enum Verdict {
    /// The property holds.
    Holds {
        /// The evidence.
        evidence: String,
    },
    /// The property does not hold.
    Broken {
        /// The evidence.
        evidence: String,
        /// The fix.
        fix: Fix,
    },
    /// The evidence does not suffice.
    Unknown {
        /// The missing evidence.
        reason: String,
    },
}

/// The fix of a broken property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fix {
    /// The fix in words.
    pub advice: String,
    /// The changes that do the fix ([`Host::apply`](crate::settings::Host::apply)); empty where
    /// only the application itself can mend the property.
    pub changes: Vec<Change>,
}

impl Verdict {
    /// Whether the property is known to hold.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds { .. })
    }

    /// Whether the property is known not to hold.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    /// The fix, if the property is broken.
    pub fn fix(&self) -> Option<&Fix> {
        match self {
            Self::Broken { fix, .. } => Some(fix),
            Self::Holds { .. } | Self::Unknown { .. } => None,
        }
    }

    pub(super) fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into() }
    }

    /// The verdict on several parts that must all be in place: broken if one is, else unknown if
    /// one is.
    pub(super) fn all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let (mut good, mut bad, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut mend = Fix { advice: String::new(), changes: Vec::new() };
        for verdict in verdicts {
            match verdict {
                Self::Holds { evidence } => good.push(evidence),
                Self::Unknown { reason } => unknown.push(reason),
                Self::Broken { evidence, fix } => {
                    bad.push(evidence);
                    let separator = if mend.advice.is_empty() { "" } else { "; " };
                    mend.advice = format!("{}{separator}{}", mend.advice, fix.advice);
                    mend.changes.extend(fix.changes);
                }
            }
        }
        if !bad.is_empty() {
            return Self::Broken { evidence: bad.join("; "), fix: mend };
        }
        if !unknown.is_empty() {
            return Self::Unknown { reason: unknown.join("; ") };
        }
        Self::Holds { evidence: good.join("; ") }
    }
}

impl Fix {
    /// Advice that only the application can follow.
    pub(super) fn advice(advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), changes: Vec::new() }
    }

    /// Changes, with their commands as advice.
    pub(super) fn changes(changes: Vec<Change>, privilege: &str) -> Self {
        let commands: Vec<String> = changes.iter().map(Change::command).collect();
        Self { advice: format!("{} ({privilege})", commands.join("; ")), changes }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds { evidence } => write!(f, "holds: {evidence}"),
            Self::Broken { evidence, fix } => write!(f, "broken: {evidence} (fix: {})", fix.advice),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}
