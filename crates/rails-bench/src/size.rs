//! Sizes of flags.

use rails_topo::{DataSize, ParseQuantityError};

/// A size as people write it, with the fault as text.
pub(crate) fn parse(text: &str) -> Result<DataSize, String> {
    text.parse().map_err(|error: ParseQuantityError| error.to_string())
}
