//! What to do about irqbalance: decided from what is known of it, without asking it.

use super::{Balancer, BalancerError, HintPolicy};
use crate::settings::{Change, Setting};
use rails_topo::CpuSet;
use serde::{Deserialize, Serialize};
use std::{fmt, fs, path::Path};

/// What to do about irqbalance where interrupts are to stay. What it prints as says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BalancerPlan {
    /// Nothing: it does not run.
    None,
    /// Tell it to leave these interrupts alone ([`Balancer::ban`]), and place them.
    Ban,
    /// Let it place them: it will where they are wanted.
    Hint,
    /// Place no interrupt, and have the threads go where the interrupts are.
    Follow,
}

/// What to do about irqbalance, if there is one: whether it can be talked to ([`Balancer::banned`] says), and whether the drivers'
/// hints (`/proc/irq/N/affinity_hint`) are where the interrupts are wanted.
pub fn plan(balancer: Option<&Balancer>, can_talk: bool, hints_are_wanted: bool) -> BalancerPlan {
    let Some(balancer) = balancer else { return BalancerPlan::None };
    // A ban is read back; that a hint was heeded shows only after a while.
    if can_talk {
        return BalancerPlan::Ban;
    }
    match balancer.options.hint_policy {
        Some(HintPolicy::Exact | HintPolicy::Subset) if hints_are_wanted => BalancerPlan::Hint,
        _ => BalancerPlan::Follow,
    }
}

/// What to do about irqbalance when these changes are to be made, and which are to be made instead: with bans before them, or,
/// where it would undo them or makes them by itself, without those of interrupts.
///
/// # Errors
/// [`BalancerError`] where it cannot be seen whether it runs.
pub fn heed(root: &Path, changes: Vec<Change>) -> Result<(BalancerPlan, Vec<Change>), BalancerError> {
    let balancer = Balancer::find_under(root)?;
    let can_talk = balancer.as_ref().is_some_and(|balancer| balancer.banned().is_ok());
    let hint = |change: &Change| match (&change.setting, change.value.cpus()) {
        (Setting::InterruptAffinity { interrupt }, Some(wanted)) => {
            let file = root.join(format!("proc/irq/{interrupt}/affinity_hint"));
            let hint = fs::read_to_string(file).ok().and_then(|mask| CpuSet::parse_mask(mask.trim()).ok());
            hint.is_some_and(|hint| !hint.is_empty() && hint.is_subset(wanted))
        }
        _ => true,
    };
    let plan = plan(balancer.as_ref(), can_talk, changes.iter().all(hint));
    let interrupt = |change: &Change| match change.setting {
        Setting::InterruptAffinity { interrupt } => Some(interrupt),
        _ => None,
    };
    let changes = match plan {
        BalancerPlan::None => changes,
        BalancerPlan::Ban => {
            let bans: Vec<Change> = changes.iter().filter_map(interrupt).map(Change::ban).collect();
            bans.into_iter().chain(changes).collect()
        }
        BalancerPlan::Hint | BalancerPlan::Follow => {
            changes.into_iter().filter(|change| interrupt(change).is_none()).collect()
        }
    };
    Ok((plan, changes))
}

impl BalancerPlan {
    /// Why, in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::None => "irqbalance does not run, so interrupts stay where they are put",
            Self::Ban => "irqbalance runs and is told to leave these interrupts alone",
            Self::Hint => "irqbalance runs and obeys the drivers' hints, which are as wanted",
            Self::Follow => "irqbalance runs and cannot be kept away, so threads follow the interrupts",
        }
    }
}

impl fmt::Display for BalancerPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::BalancerOptions, *};
    use std::time::Duration;

    #[test]
    fn each_machine_gets_its_plan() {
        let balancer = |hint_policy| Balancer {
            pid: crate::thread::current_tid(),
            options: BalancerOptions { hint_policy, ..BalancerOptions::default() },
            root: "/".into(),
            patience: Duration::ZERO,
        };
        let silent = balancer(None);
        for hints_are_wanted in [false, true] {
            assert_eq!(plan(None, false, hints_are_wanted), BalancerPlan::None);
            assert_eq!(plan(Some(&silent), true, hints_are_wanted), BalancerPlan::Ban);
            assert_eq!(plan(Some(&silent), false, hints_are_wanted), BalancerPlan::Follow);
            let ignores = balancer(Some(HintPolicy::Ignore));
            assert_eq!(plan(Some(&ignores), false, hints_are_wanted), BalancerPlan::Follow);
        }
        for policy in [HintPolicy::Exact, HintPolicy::Subset] {
            let obeys = balancer(Some(policy));
            assert_eq!(plan(Some(&obeys), true, true), BalancerPlan::Ban);
            assert_eq!(plan(Some(&obeys), false, true), BalancerPlan::Hint);
            assert_eq!(plan(Some(&obeys), false, false), BalancerPlan::Follow);
        }
    }
}
