//! The parsers, for the fuzz targets: each takes any input, and panics where a parser does or where
//! its promise does not hold.

use crate::{
    duration,
    endpoint::Address,
    lab::{self, links, rate},
    measure::latency,
    purpose, size,
};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// The values of flags.
pub fn command_line(text: &str) {
    let _ = (duration::parse(text), rate::shape(text), links::veths(text), links::emulated(text));
    // Fractions are rounded, so only whole numbers of bytes print in a form that reads back the same.
    if let Ok(size) = size::parse(text) {
        assert_eq!(size::parse(&format!("{}B", size.as_bytes())), Ok(size));
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}

/// The first bytes of a peer.
pub fn greeting(bytes: &[u8]) {
    purpose::fuzz(bytes);
}

/// The greeting of each command.
pub fn greetings() -> Vec<Vec<u8>> {
    purpose::fuzz_seeds()
}

/// The measurements that other programs print.
pub fn rivals_output(bytes: &[u8]) {
    lab::compare::fuzz(bytes);
}

/// Answers round trips of any bytes of a peer. Returns the number of messages answered.
///
/// # Errors
/// The stream failed, or the peer announced messages of no bytes or of more than [`LONGEST`].
pub async fn answer<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<u64> {
    latency::answer(stream).await
}

/// The length of the longest message that is answered.
pub const LONGEST: u32 = latency::LONGEST;
