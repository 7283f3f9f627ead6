//! Sizes of flags.

use rails_topo::{DataSize, ParseQuantityError};

/// Reads a size; the fault is a text.
pub fn parse(text: &str) -> Result<DataSize, String> {
    text.parse().map_err(|error: ParseQuantityError| error.to_string())
}
