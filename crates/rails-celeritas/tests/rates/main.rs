//! Flows that look for their rates, on one simulated bottleneck and under a virtual clock.

// Time begins at one reading of the clock, and passes by itself.
#![allow(clippy::disallowed_methods)]

mod bottleneck;
mod changes;
mod flows;
mod grid;
mod optimist;
mod rivals;
mod scenarios;
