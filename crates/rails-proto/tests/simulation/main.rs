//! The state machines of a stream under a simulated network and clock: no socket, no sleep, no
//! thread, and its scenario decides every run.
//!
//! A waiting lane runs again only when it is woken or its time has come, and an application that
//! found no bytes or no room comes back only when it is woken. So a lost wake shows as a run that
//! stands still.
// Each run reads the clock once, at its start: there is no other way to make an `Instant`.
#![allow(clippy::disallowed_methods)]

mod application;
mod contrary;
mod crowd;
mod dropped_sessions;
mod flaps;
mod flooded_memory;
mod gaps;
mod hostile;
mod hostile_streams;
mod losses;
mod network;
mod pair;
mod properties;
mod replay;
mod scenarios;
mod standstill;
mod victim;
