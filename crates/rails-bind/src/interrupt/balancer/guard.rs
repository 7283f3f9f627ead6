//! Interrupts that irqbalance leaves alone for as long as the guard lives.

use super::{Balancer, BalancerError, talk};
use std::collections::BTreeSet;

/// Has irqbalance leave interrupts alone until it is dropped. Those that it left alone before are not touched.
#[derive(Debug)]
#[must_use = "dropped at once, it takes the ban back"]
pub struct BanGuard {
    balancer: Balancer,
    /// Those that it did not leave alone before.
    ours: BTreeSet<u32>,
}

impl BanGuard {
    pub(super) fn new(balancer: Balancer, interrupts: &[u32]) -> Result<Self, BalancerError> {
        let before = talk::banned(&balancer)?;
        let ours: BTreeSet<u32> = interrupts.iter().copied().filter(|number| !before.contains(number)).collect();
        if !ours.is_empty() {
            talk::replace(&balancer, &(&before | &ours))?;
        }
        Ok(Self { balancer, ours })
    }

    /// The interrupts that are left alone because of this guard.
    pub fn interrupts(&self) -> &BTreeSet<u32> {
        &self.ours
    }

    /// Leaves the ban as it is until irqbalance ends.
    pub fn keep(mut self) {
        self.ours.clear();
    }

    /// Takes the ban back now, and says whether it worked; dropping the guard can only log that it did not.
    ///
    /// # Errors
    /// As [`Balancer::ban`]. It is no error that irqbalance has ended: it has forgotten what it was told.
    pub fn undo(mut self) -> Result<(), BalancerError> {
        self.take_back()
    }

    fn take_back(&mut self) -> Result<(), BalancerError> {
        let ours = std::mem::take(&mut self.ours);
        if ours.is_empty() {
            return Ok(());
        }
        let now = match talk::banned(&self.balancer) {
            Err(BalancerError::Ended { .. }) => return Ok(()),
            now => now?,
        };
        if now.is_disjoint(&ours) {
            return Ok(());
        }
        talk::replace(&self.balancer, &(&now - &ours))
    }
}

impl Drop for BanGuard {
    fn drop(&mut self) {
        let ours = self.ours.clone();
        if let Err(error) = self.take_back() {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, ?ours, "irqbalance goes on leaving interrupts alone");
        }
    }
}
