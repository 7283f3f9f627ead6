//! The state machines of a stream under a simulated network and clock: no socket, no sleep, no thread, and every run is decided by
//! its scenario.
//!
//! A lane that was told to wait is asked again only when it is woken or its time has come, and an application that found no
//! bytes or no room comes back only when it is woken: a wake that is lost shows as a run that stands still.
// The clock is read once, to begin with: an `Instant` is made in no other way.
#![allow(clippy::disallowed_methods)]

mod application;
mod contrary;
mod flaps;
mod gaps;
mod hostile;
mod losses;
mod network;
mod pair;
mod properties;
mod replay;
mod scenarios;
mod standstill;
