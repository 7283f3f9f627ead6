//! A node between the server and the readers, whose memory two applications share.

use super::{
    plan::{Shared, SharedFigures},
    process::Process,
};
use anyhow::{Context, Result};
use rails_lab::{LinkLab, Side};
use rails_lambdaram::{Site, wire::BudgetStatus};
use std::path::Path;

/// How the memory of a node in the middle is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The worker reads alone, by weights of 75 and 25.
    Alone,
    /// Another application scans meanwhile, by the same weights.
    Weights,
    /// Another one scans, and has all but a `min` that is less than the working set.
    Min,
    /// Another one scans, and there are no rules.
    NoRules,
}

/// The steps of the working set, which is read from its begin to its end again and again: 36 MiB of
/// slots, more than a half of the memory.
pub(crate) const WORKING_SET: usize = 24;
/// The passes over the working set. The first one brings it.
pub(crate) const PASSES: usize = 6;
/// The levels that the scan reads: others than those of the working set.
pub(crate) const SCANNED_LEVELS: [usize; 2] = [5, 20];
/// The steps of the scan: many more than are read before the reader of the working set ends.
pub(crate) const SCANNED_STEPS: usize = 2_000;
/// The address of the node in the middle, beside its readers.
pub(crate) const ADDRESS: &str = "lram://127.0.0.1:5727";

/// The application that reads a working set.
pub(crate) fn worker() -> Shared {
    Shared { application: "worker".into(), working_set: WORKING_SET }
}

/// The application that reads other data all the time.
pub(crate) fn scanner() -> Shared {
    Shared { application: "scanner".into(), working_set: 0 }
}

/// Starts the node in the middle.
pub(crate) fn serve(lab: &LinkLab, program: &Path, origin: &str, sharing: Sharing) -> Result<Process> {
    let mut command = lab.side(Side::A).command(program);
    command.args(["serve", origin, "--insecure", "--listen", "127.0.0.1:5727", "--memory", "64MiB"]);
    let rules: &[&str] = match sharing {
        Sharing::Alone | Sharing::Weights => &["worker,weight=75", "scanner,weight=25"],
        Sharing::Min => &["worker,min=32MiB", "scanner,weight=1000"],
        Sharing::NoRules => &[],
    };
    for rule in rules {
        command.args(["--budget", rule]);
    }
    let mut server = Process::start(command)?;
    server.wait_for("serving ")?;
    Ok(server)
}

/// The node's counters of an application, beginning with the second pass.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The blocks that were asked for, and those that were there, before the second pass.
    before: [u64; 2],
    now: [u64; 2],
    /// The slots that the application had, at the least, and its `min`.
    least: Option<(u32, u32)>,
}

impl Watch {
    /// Looks at the node after a step.
    pub(crate) async fn look(&mut self, site: &Site, shared: &Shared, step: usize) -> Result<()> {
        let (_, status) = site.upstream_status().await.pop().context("a node serves")?;
        let budgets: Vec<BudgetStatus> = status?.budgets;
        let of = || budgets.iter().filter(|budget| budget.application == shared.application);
        let hits = of().map(|budget| budget.hits + budget.ahead_hits).sum();
        let others = of().map(|budget| budget.late_ahead + budget.misses).sum::<u64>();
        self.now = [hits + others, hits];
        if step < shared.working_set {
            self.before = self.now;
        } else {
            let slots = of().map(|budget| budget.slots).sum();
            let min = of().map(|budget| budget.min_slots).max().unwrap_or_default();
            let least = self.least.map_or(slots, |(least, _)| least.min(slots));
            self.least = Some((least, min));
        }
        Ok(())
    }

    /// The figures so far.
    pub(crate) fn figures(&self) -> Option<SharedFigures> {
        let (least, min) = self.least?;
        let [asked, hits] = [0, 1].map(|at| self.now[at] - self.before[at]);
        let min_share = (min > 0).then(|| f64::from(least) / f64::from(min));
        let hit_ratio = if asked == 0 { 0.0 } else { hits as f64 / asked as f64 };
        Some(SharedFigures { hit_ratio, min_share })
    }
}
