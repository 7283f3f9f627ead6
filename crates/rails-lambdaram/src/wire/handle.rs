//! The names of arrays on a link.

use serde::{Deserialize, Serialize};

/// The number of an array and its grid, chosen by the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle(pub u32);
