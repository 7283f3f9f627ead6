//! Reading threads: regions of datasets out of files, those that somebody waits for first.
//!
//! [`Storage::read`] returns at once, and a reading thread hands the elements over. All that is
//! waited for ([`Urgency::Demand`]) begins before what is read ahead. How far apart pieces of a
//! file may lie that are read at once is measured for each device.
//!
//! # Map
//! Each file depends only on those above it.
//! - `queue`, `gap`, `rate`: decisions and measures, without I/O and clock;
//! - `error`, `options`, `beside`: errors, settings, and the CPUs beside the disks;
//! - `open_files`, `files`: open files, as many as are allowed;
//! - `figures`, `shared`: what is measured, and what the threads share;
//! - `assembly`, `threads`: one region, and the thread that begins them.

mod assembly;
mod beside;
mod error;
mod figures;
mod files;
mod gap;
mod open_files;
mod options;
mod queue;
mod rate;
mod shared;
mod threads;

pub use error::StorageError;
pub use figures::{SourceFigures, StorageFigures};
pub use gap::GapMeter;
pub use crate::wire::Urgency;
pub use options::StorageOptions;
pub use rails_formats::reader::NoThread;
pub use shared::ReadTicket;
pub use threads::Storage;
