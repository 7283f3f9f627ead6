//! Datasets out of files, and the threads that read them.

mod catalogue;
mod changes;
mod order;
mod proposals;
mod reads;
mod written;
