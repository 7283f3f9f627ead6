//! The file transfer as its callers see it: two ends of a pipe in memory, real folders on disk.

mod changed;
mod delete;
mod failures;
mod hostile;
mod keep;
mod resume;
mod round_trip;
mod streams;
mod support;
mod trial;
