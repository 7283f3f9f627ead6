//! Two ends of a connection under a simulated network and clock, and an oracle beside them.
//!
//! `RAILS_SEEDS=0..500 cargo test -p rails-celeritas --test lossy_paths properties` draws other
//! seeds.

// Time begins at one reading of the clock, and passes by itself.
#![allow(clippy::disallowed_methods)]

mod callers;
mod network;
mod oracle;
mod properties;
mod scenarios;
