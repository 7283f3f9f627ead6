//! Changes of interrupts, adjusted to a running irqbalance.

use super::{Balancer, BalancerError};
use crate::settings::{Change, Setting};
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};

/// The way to keep interrupts in place while irqbalance runs or not. The text of the plan states
/// the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BalancerPlan {
    /// irqbalance does not run.
    None,
    /// Ban the interrupts ([`Balancer::ban`]), and move them.
    Ban,
    /// Move no interrupt: irqbalance would move it back. Threads go to the interrupts.
    Follow,
}

/// Adjusts changes to a running irqbalance: bans come before them, or, if irqbalance accepts no
/// bans, the changes of interrupts are left out.
///
/// # Errors
/// As [`Balancer::find`].
pub fn heed(root: &Path, changes: Vec<Change>) -> Result<(BalancerPlan, Vec<Change>), BalancerError> {
    let interrupt = |change: &Change| match change.setting {
        Setting::InterruptAffinity { interrupt } => Some(interrupt),
        _ => None,
    };
    Ok(match Balancer::find_under(root)? {
        None => (BalancerPlan::None, changes),
        Some(balancer) if balancer.banned().is_ok() => {
            let bans: Vec<Change> = changes.iter().filter_map(interrupt).map(Change::ban).collect();
            (BalancerPlan::Ban, bans.into_iter().chain(changes).collect())
        }
        Some(_) => {
            let others = changes.into_iter().filter(|change| interrupt(change).is_none());
            (BalancerPlan::Follow, others.collect())
        }
    })
}

impl fmt::Display for BalancerPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::None => "irqbalance does not run, so interrupts stay where they are put",
            Self::Ban => "irqbalance runs and is told to leave these interrupts alone",
            Self::Follow => "irqbalance runs and cannot be told to leave interrupts alone, so threads follow them",
        })
    }
}
