//! The reason of a failure.

use crate::path::steers;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The reason of a failure in words for people, of this end or of the peer.
///
/// At most 1024 bytes, without characters that steer a terminal, so that it is safe to print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct Reason(String);

impl Reason {
    /// Makes a reason out of any text: characters that steer a terminal become spaces, and the text
    /// ends after 1024 bytes.
    pub fn new(text: impl fmt::Display) -> Self {
        let mut text = text.to_string().replace(steers, " ");
        text.truncate(text.floor_char_boundary(MAX_REASON));
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

const MAX_REASON: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};

    #[test]
    fn a_reason_from_the_wire_is_cut_and_cleaned() {
        for steering in ["\u{1b}\u{e9}", "\u{202e}\u{e9}"] {
            let long = encode(&steering.repeat(2000), Vec::new());
            let reason: Reason = decode(&long).unwrap();
            assert!(reason.as_str().len() <= MAX_REASON && reason.as_str().starts_with(" \u{e9} \u{e9}"));
        }
    }
}
