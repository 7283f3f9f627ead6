//! Rates of flags.

use rails_topo::{Bandwidth, ParseQuantityError};

/// Reads a rate: not zero, and no higher than any line's.
///
/// # Errors
/// The fault of the text.
pub fn parse(text: &str) -> Result<Bandwidth, String> {
    let rate: Bandwidth = text.parse().map_err(|error: ParseQuantityError| error.to_string())?;
    match rate.as_bits_per_second() {
        0 => Err("a rate of 0 sends nothing".to_owned()),
        1..=MAX => Ok(rate),
        _ => Err(format!("`{text}` is more than any line carries")),
    }
}

/// The limit in bits a second.
const MAX: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_no_line_has() {
        assert_eq!(parse("1000tbit"), Ok(Bandwidth::bits_per_second(MAX)));
        for wrong in ["0mbit", "0.0000001kbit", "1001tbit"] {
            parse(wrong).unwrap_err();
        }
    }
}
