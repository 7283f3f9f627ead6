//! Replays of [traces](crate::trace): the reads of a run with other blocks, policies, memory sizes
//! and paths, in virtual time.
//!
//! A replay drives the objects that run in a site: the protocol of the cache and its readers, and
//! the choice of views. The path is a model, [`FarSource`](rails_cache::rehearsal::FarSource), and
//! so is the program: a read begins as long after the end of the read before it as it did in the
//! recording. *Before it* is the read that ended last until it began, so reads that overlapped
//! overlap again.
//!
//! A replay has the same result each time. It counts what the recording counted as far as the
//! recorded run did not depend on chance: blocks that come while a program computes are hits or
//! late by the time of their arrival, which the model has from the path alone. It knows of encoded
//! blocks, of the time for copies and of other readers only what [`fitted_path`] finds in the
//! waits, and nothing of blocks that a node sends unasked
//! ([presending](crate::SiteOptions::presend) is replayed as prefetching).
//!
//! [`advise`] tries settings, and says which is best.
//!
//! - `setting`: the choices; `outcome`: the result; `program`: when which read begins;
//! - `divisions`: the blocks and readers of handles; `engine`: all of these in virtual time;
//! - `fit`: the rate of the path, as the waits of the recording say it.
//!
//! ```no_run
//! use rails_lambdaram::{replay::{Setting, fitted_path, replay}, trace::Trace};
//! use std::{fs::File, io::BufReader, time::Instant};
//!
//! let trace = Trace::read(BufReader::new(File::open("run.trace")?))?;
//! let (mut setting, origin) = (Setting::recorded(&trace), Instant::now());
//! setting.path = fitted_path(&trace, origin)?;
//! setting.prefetch = false;
//! let outcome = replay(&trace, &setting, origin)?;
//! println!("{:?} of waiting without prefetching", outcome.waited());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod advise;
mod divisions;
mod engine;
mod fit;
mod outcome;
mod program;
mod setting;
#[cfg(test)]
mod tests;

pub use engine::replay;
pub use fit::fitted_path;
pub use outcome::{Outcome, mean, p99, sum};
pub use setting::{ReplayError, Setting};
