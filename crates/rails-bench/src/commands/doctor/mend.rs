//! Carrying out what would mend it, one property after the other.

use super::{
    examine::{Examined, examine},
    subject::Subject,
};
use crate::print;
use anyhow::Result;
use rails_bind::{
    interrupt::balancer::{self, BalancerPlan},
    settings::{Changed, Host, Journal, Refusals},
};
use rails_topo::Topology;
use std::{collections::BTreeMap, time::Duration};

/// Mends what can be mended, and looks again. What is changed stays, and the journal knows what was before.
pub(super) fn mend(
    host: &Host,
    journal: &Journal,
    topology: &Topology,
    subject: &Subject,
    time: Duration,
    mut examined: Vec<Examined>,
) -> Result<(Vec<Changed>, Vec<Examined>)> {
    let mut mended = Vec::new();
    // Once for each property: where a thread belongs is known when the interrupt is in place, and memory after the thread.
    for _ in 0..PROPERTIES {
        // What several of them ask for is changed once; of two different wishes the first counts.
        let mut changes = BTreeMap::new();
        for change in examined.iter().flat_map(Examined::next_changes) {
            changes.entry(change.setting.clone()).or_insert(change);
        }
        if changes.is_empty() {
            break;
        }
        let (plan, changes) = balancer::heed(host.root(), changes.into_values().collect())?;
        if plan != BalancerPlan::None {
            print::note(plan);
        }
        mended.extend(host.apply(journal, &changes, Refusals::Report)?.keep()?);
        examined = examine(host, topology, subject, time)?;
    }
    Ok((mended, examined))
}

const PROPERTIES: usize = 3;
