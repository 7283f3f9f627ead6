//! Uses a TCP socket in every way that programs do, and states what came of each call, so that two
//! paths between the same ends can be compared line for line.
//!
//! The program `rails-sockets` runs as `server ADDRESS` at one end and as `client ADDRESS all` at
//! the other. Each end prints a [`Row`] of JSON for each case: the outcome of every step, with its
//! `errno`, and the number and the digest of the bytes in both directions. [`compare()`] finds the
//! differences between two runs; a path is transparent where there are none.
//!
//! - `case`: the cases, and the two ends that carry one out
//! - `cases/`: what a client and a server do in each
//! - `log`, `row`: what came of it; `compare`: where two runs differ
//! - `meeting`: a point in a case that both ends reach before either goes on
//! - `crowd`: many connections on which nothing happens, for another measurement
//! - `sys/`: calls that the libraries have not

mod case;
mod cases;
mod client;
mod compare;
mod crowd;
mod greeting;
mod log;
mod meeting;
mod row;
mod server;
mod sys;
mod work;

pub use client::{adopt, client};
pub use compare::{Difference, compare};
pub use crowd::{hold, sink};
pub use row::{Carried, End, Row, Step, rows};
pub use server::serve;

/// The names of the cases, in the order in which a client goes through them.
pub fn cases() -> impl Iterator<Item = &'static str> {
    cases::ALL.iter().flat_map(|family| family.iter()).map(|case| case.name)
}
