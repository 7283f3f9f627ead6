//! Rates of links on the command line.

use crate::size;
use rails_lab::Shape;

/// Reads a number of Mbit/s, with or without the burst of its token bucket as in `400/128KiB`, or
/// `unshaped`.
///
/// # Errors
/// The fault of the text.
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    if text == "unshaped" {
        return Ok(Shape::Unshaped);
    }
    let (rate, burst) = text.split_once('/').map_or((text, None), |(rate, burst)| (rate, Some(burst)));
    let mbit = rate.parse().ok().filter(|mbit| *mbit > 0);
    let mut shape = Shape::mbit(mbit.ok_or(format!("`{rate}` is neither a rate in Mbit/s nor `unshaped`"))?);
    if let (Shape::Rate { burst_bytes, .. }, Some(burst)) = (&mut shape, burst) {
        let size = size::parse(burst)?.as_bytes();
        *burst_bytes = u32::try_from(size).map_err(|_| format!("a burst of `{burst}` is more than fits"))?;
    }
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_mbit_or_none() {
        assert_eq!(shape("400"), Ok(Shape::mbit(400)));
        assert_eq!(shape("unshaped"), Ok(Shape::Unshaped));
        for text in ["", "0", "-1", "1.5", "fast", "/64KiB"] {
            assert!(shape(text).unwrap_err().contains("neither a rate in Mbit/s"), "{text}");
        }
    }

    #[test]
    fn a_rate_may_have_a_burst() {
        let Shape::Rate { mbit, burst_bytes, .. } = shape("400/128KiB").unwrap() else { panic!("it has a rate") };
        assert_eq!((mbit, burst_bytes), (400, 128 << 10));
        for text in ["400/", "400/much", "400/4GiB", "400/1/2"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
