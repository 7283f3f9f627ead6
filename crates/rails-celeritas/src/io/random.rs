//! Random numbers of the system.

use super::OpenConnectionError;
use std::io;

/// Bytes that no attacker can guess.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], OpenConnectionError> {
    let mut bytes = [0; LENGTH];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            Err(OpenConnectionError::System { what: "a random number", source: io::Error::other(error.to_string()) })
        }
    }
}
