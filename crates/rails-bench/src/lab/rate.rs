//! Rates of links as people write them.

use rails_lab::Shape;

/// Reads a number of Mbit/s, or `unshaped`.
///
/// # Errors
/// The fault of the text.
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    match text {
        "unshaped" => Ok(Shape::Unshaped),
        rate => match rate.parse() {
            Ok(mbit) if mbit > 0 => Ok(Shape::mbit(mbit)),
            _ => Err(format!("`{rate}` is neither a rate in Mbit/s nor `unshaped`")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_mbit_or_none() {
        assert_eq!(shape("400"), Ok(Shape::mbit(400)));
        assert_eq!(shape("unshaped"), Ok(Shape::Unshaped));
        for text in ["", "0", "-1", "1.5", "fast"] {
            assert!(shape(text).unwrap_err().contains("neither a rate in Mbit/s"), "{text}");
        }
    }
}
