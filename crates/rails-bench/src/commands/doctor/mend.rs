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

/// Mends each property that it can, and looks again. The changes stay, and the journal knows the
/// earlier values; it is added to `mended`, also if something goes wrong later.
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
    // Interrupts that stay where they are, refused by the kernel or left to irqbalance: threads go to
    // them, then.
    let mut staying = Vec::new();
    // Once for each property: where a thread belongs is known when the interrupt is in place, and
    // memory after the thread.
    for _ in 0..PROPERTIES {
        // A change that several subjects ask for is made once; of two different values the first counts.
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

/// The interrupt whose affinity it is.
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
