//! Names of peers.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

/// The name of a peer: 1 to 64 ASCII letters, digits, `.`, `_` and `-`. A copy shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerName(Arc<str>);

/// The fault of a text that is no [`PeerName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no name; take 1 to 64 of the characters A-Z, a-z, 0-9, `.`, `_` and `-`")]
pub struct NameError {
    /// The text; of a long one the beginning.
    pub name: String,
}

impl PeerName {
    /// The largest length of a name, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=Self::MAX_BYTES).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err(NameError { name: name.chars().take(Self::MAX_BYTES + 1).collect() });
        }
        Ok(Self(name.into()))
    }
}

impl TryFrom<String> for PeerName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

impl From<PeerName> for String {
    fn from(name: PeerName) -> Self {
        name.as_str().to_owned()
    }
}

impl AsRef<str> for PeerName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for PeerName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_1_to_64_characters() {
        for good in ["a", "Beta-2.example_x", &"x".repeat(64)] {
            assert_eq!(good.parse::<PeerName>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "ä", "a/b", "a\n", &"x".repeat(65)] {
            assert_eq!(bad.parse::<PeerName>(), Err(NameError { name: bad.to_owned() }));
        }
    }
}
