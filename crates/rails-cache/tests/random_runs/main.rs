//! Nodes under random readers, upstreams and failures.
//!
//! `RAILS_SEEDS=FIRST..END` chooses the runs.
#![allow(clippy::disallowed_methods)]

mod one_node;
mod two_nodes;

use std::ops::Range;

/// The seeds that `RAILS_SEEDS` names, or else the first ones.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("RAILS_SEEDS") else { return 0..DEFAULT_SEEDS };
    let range = text.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    range.unwrap_or_else(|| panic!("RAILS_SEEDS is FIRST..END, not `{text}`"))
}

const DEFAULT_SEEDS: u64 = 300;
const AGAIN: &str = "cargo test -p rails-cache --test random_runs";
