//! A rate that the caller knows.

use super::RateController;
use crate::proto::{rtt::RttEstimator, sender::Feedback};
use rails_topo::Bandwidth;
use std::time::Instant;

/// One rate for ever: for a path, or a share of one, that no other sender uses.
#[derive(Debug, Clone, Copy)]
pub struct Fixed(pub Bandwidth);

impl RateController for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn rate(&self) -> Bandwidth {
        self.0
    }

    fn handle(&mut self, _: Instant, _: &Feedback, _: &RttEstimator) {}
}
