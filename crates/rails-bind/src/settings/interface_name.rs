//! The names of network interfaces.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The name of a network interface, as the kernel accepts it, which makes it safe as part of a
/// path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct InterfaceName(String);

/// A text that cannot be the name of a network interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be the name of a network interface (1 to 15 bytes, no slash, colon or blank)")]
pub struct InvalidInterfaceName(String);

impl InterfaceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The rule is that of `dev_valid_name` in net/core/dev.c.
impl FromStr for InterfaceName {
    type Err = InvalidInterfaceName;

    fn from_str(name: &str) -> Result<Self, InvalidInterfaceName> {
        let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let valid = (1..16).contains(&name.len()) && name != "." && name != ".." && !name.contains(forbidden);
        if valid { Ok(Self(name.to_owned())) } else { Err(InvalidInterfaceName(name.to_owned())) }
    }
}

impl TryFrom<String> for InterfaceName {
    type Error = InvalidInterfaceName;

    fn try_from(name: String) -> Result<Self, InvalidInterfaceName> {
        name.parse()
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> Self {
        name.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
