//! The parsers, for the fuzz targets: each takes any text, and panics if a parser panics or breaks
//! its promise.

use crate::{interrupt, memory, settings, socket, usage};

/// The files of `/proc` and of `/sys`: one text is read as each of them.
pub fn proc_files(text: &str) {
    usage::fuzz(text);
    memory::fuzz(text);
    interrupt::fuzz(text);
}

/// The kernel's answer about connections.
pub fn connections(datagram: &[u8]) {
    socket::fuzz(datagram);
}

/// irqbalance's answer.
pub fn irqbalance(answer: &str) {
    interrupt::irqbalance::fuzz(answer);
}

/// A record of the journal. Nothing is carried out.
pub fn journal(bytes: &[u8]) {
    settings::fuzz(bytes);
}

/// Records to start from.
pub fn records() -> Vec<Vec<u8>> {
    settings::fuzz_seeds()
}
