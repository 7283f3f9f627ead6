//! Rates as people write them.

use rails_topo::Bandwidth;

/// Reads `500mbit`, `1.5 Gbit/s` or `10G`: decimal units of bits a second. It is not zero.
///
/// # Errors
/// The fault of the text.
pub(crate) fn parse(text: &str) -> Result<Bandwidth, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let scale = match unit.trim_end_matches("/s").trim_end_matches("bit") {
        "" if !unit.is_empty() => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        _ => return Err(format!("`{text}` has no unit of rate; try kbit, Mbit or Gbit (a second)")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    match (number * scale).round() {
        bits if bits < 1.0 => Err("a rate of 0 sends nothing".to_owned()),
        bits if bits > 1e15 => Err(format!("`{text}` is more than any line carries")),
        bits => Ok(Bandwidth::bits_per_second(bits as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_every_unit() {
        for (text, bits) in [
            ("500mbit", 500_000_000),
            ("1.5 Gbit/s", 1_500_000_000),
            ("10G", 10_000_000_000),
            ("800 bit/s", 800),
            ("64kbit", 64_000),
        ] {
            assert_eq!(parse(text), Ok(Bandwidth::bits_per_second(bits)), "{text}");
        }
        for wrong in ["", "500", "fast", "0mbit", "0.0000001kbit", "1e9", "5MB", "9999999tbit", "-1mbit"] {
            parse(wrong).unwrap_err();
        }
    }
}
