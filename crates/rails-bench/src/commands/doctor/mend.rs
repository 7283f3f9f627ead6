//! Carries out the mends, one property after the other.

use super::{
    examine::{Examined, examine},
    subject::Subject,
};
use crate::{exit::Help, print};
use anyhow::{Result, anyhow};
use rails_bind::{
    interrupt::irqbalance::{self, BalancerPlan},
    settings::{ApplyError, Change, Changed, Host, Journal, Refusals, Setting, SettingError, SettingState},
};
use rails_topo::Topology;
use std::{collections::BTreeMap, time::Duration};

/// Mends the properties that can be mended, and examines the subjects again. The changes stay, and
/// the journal keeps the earlier values. Each change is added to `mended`, also if a later one
/// fails.
pub(super) fn mend(
    host: &Host,
    journal: &Journal,
    topology: &Topology,
    subject: &Subject,
    time: Duration,
    mut examined: Vec<Examined>,
    mended: &mut Vec<Changed>,
) -> Result<Vec<Examined>> {
    let mut tried = Vec::new();
    // Interrupts that stay, because the kernel refused to move them or irqbalance would move them
    // back; threads then move to them.
    let mut staying = Vec::new();
    // One pass for each property: the place of a thread follows from the interrupt's, and that of
    // memory from the thread's.
    for _ in 0..PROPERTIES {
        // A setting that several subjects want to change is changed once, to the first value.
        let mut changes = BTreeMap::new();
        for change in examined.iter().flat_map(|one| one.next_changes(&tried)) {
            changes.entry(change.setting.clone()).or_insert(change);
        }
        // A thread may have ended since it was seen.
        changes.retain(|setting, _| !matches!(host.read(setting), Err(SettingError::NotThere { .. })));
        if changes.is_empty() {
            break;
        }
        let wanted: Vec<Change> = changes.into_values().collect();
        let (plan, changes) = irqbalance::heed(host.root(), wanted.clone())?;
        if plan != BalancerPlan::None && wanted.iter().any(|change| interrupt(&change.setting).is_some()) {
            print::note(plan);
        }
        let guard = host.apply(journal, &changes, Refusals::Report).map_err(explained)?;
        let done = guard.keep()?;
        let refused = done.iter().filter(|changed| matches!(changed.state, SettingState::Refused(_)));
        staying.extend(refused.filter_map(|changed| interrupt(&changed.setting)));
        let left = wanted.iter().filter(|change| !changes.contains(change));
        staying.extend(left.filter_map(|change| interrupt(&change.setting)));
        mended.extend(done);
        tried.extend(wanted);
        examined = examine(host, topology, subject, time)?;
        examined.iter_mut().for_each(|one| one.leave_interrupts(topology, &staying));
    }
    Ok(examined)
}

/// The interrupt of an affinity setting.
fn interrupt(setting: &Setting) -> Option<u32> {
    match setting {
        Setting::InterruptAffinity { interrupt } => Some(*interrupt),
        _ => None,
    }
}

fn explained(error: ApplyError) -> anyhow::Error {
    match error {
        ApplyError::Held { by, .. } => anyhow!(error).help(format!("wait until process {by} has ended, or end it")),
        error => error.into(),
    }
}

const PROPERTIES: usize = 3;
