//! Random numbers of the system.

use super::OpenError;
use std::io;

/// Bytes that no attacker can guess.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], OpenError> {
    let mut bytes = [0; LENGTH];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(OpenError::System { what: "a random number", source: io::Error::other(error.to_string()) }),
    }
}
