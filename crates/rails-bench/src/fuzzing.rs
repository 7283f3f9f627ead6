//! The parsers, for the fuzz targets: each takes any input, and panics where a parser does or where
//! its promise does not hold.

use crate::{
    commands, conversation, duration,
    endpoint::Address,
    lab::{self, links, rate},
    measure::latency,
    size,
    turn::Waits,
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

/// The file of `run --profile`.
pub fn profile(text: &str) {
    commands::run::fuzz_profile(text);
}

/// The first bytes of a caller.
pub fn conversation(bytes: &[u8]) {
    conversation::fuzz(bytes);
}

/// The first bytes of callers.
pub fn conversations() -> Vec<Vec<u8>> {
    conversation::fuzz_seeds()
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
    latency::answer(stream, &Waits::new()).await
}

/// The length of the longest message that is answered.
pub const LONGEST: u32 = latency::LONGEST;
