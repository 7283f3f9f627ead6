//! Messages of a node that serves, cut to the limits of the peer.

use super::{
    check::is_application,
    codec::check_description,
    frame::{BudgetStatus, Denial, DenialReason, ServerFrame},
    limits::{MAX_APPLICATION_BYTES, MAX_BUDGETS, MAX_DATASETS, MAX_LISTING_BYTES, MAX_NAME_BYTES, MAX_TEXT_BYTES},
};
use crate::description::DatasetEntry;
use std::error::Error;

impl ServerFrame {
    /// The message as a peer takes it, whatever the node's datasets, files and applications are
    /// called, and however many there are.
    ///
    /// A text is cut, and a list ends at its limit: datasets and budgets with a longer name than a
    /// peer takes are left out. In place of a description that a peer does not take, the answer is
    /// a denial that says why. Lists of blocks are not changed: see
    /// [`split_runs`](super::split_runs).
    #[must_use]
    pub fn cut_to_limits(mut self) -> Self {
        match &mut self {
            Self::Refused { text, .. } | Self::Fault { text, .. } => cut(text),
            Self::Described { description, .. } => {
                if let Ok(described) = description
                    && let Err(error) = check_description(described)
                {
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    *description = Err(Denial { reason: DenialReason::Source, text: format!("{error}{cause}") });
                }
                if let Err(denial) = description {
                    cut(&mut denial.text);
                }
            }
            Self::Opened { outcome: Err(denial), .. } => cut(&mut denial.text),
            Self::Listed { datasets, .. } => cut_datasets(datasets),
            Self::Status { status, .. } => {
                let fits = |budget: &BudgetStatus| {
                    budget.application.len() <= MAX_APPLICATION_BYTES
                        && is_application(&budget.application)
                        && budget.dataset.len().max(budget.array.len()) <= MAX_NAME_BYTES
                };
                status.budgets.retain(fits);
                status.budgets.truncate(MAX_BUDGETS);
            }
            Self::Welcome(_) | Self::Opened { outcome: Ok(()), .. } | Self::Stale { .. } | Self::Returned { .. } => {}
        }
        self
    }
}

fn cut_datasets(datasets: &mut Vec<DatasetEntry>) {
    datasets.retain(|entry| entry.name.len() <= MAX_NAME_BYTES);
    datasets.truncate(MAX_DATASETS);
    let mut room = MAX_LISTING_BYTES - LISTED_BYTES;
    let fit = datasets.iter().take_while(|entry| {
        let bytes = entry.name.len() + ENTRY_BYTES;
        let fits = bytes <= room;
        room = room.saturating_sub(bytes);
        fits
    });
    let fit = fit.count();
    datasets.truncate(fit);
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
}

/// Room for the bytes before the datasets in a `Listed`: its kind, its number, the question and the
/// number of datasets.
const LISTED_BYTES: usize = 16;

/// The largest number of bytes of an entry beside its name: the length of the name, the number of
/// arrays, and the size.
const ENTRY_BYTES: usize = 2 + 5 + 10;
