//! Sizes as people write them.

use rails_topo::DataSize;

/// Reads `1GiB`, `64 MiB`, `1.5GB` or `4096`: binary and decimal units, a number of bytes without one.
///
/// # Errors
/// The fault of the text.
pub(crate) fn parse(text: &str) -> Result<DataSize, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("`{unit}` is no unit of size; try B, KiB, MiB, GiB, kB, MB or GB")),
    };
    let out_of_range = || format!("`{text}` is more than fits");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).map(DataSize::bytes).ok_or_else(out_of_range);
    }
    let fraction: f64 = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    let bytes = fraction * scale as f64;
    // Above 2^53 a fraction of a unit cannot be told from its neighbours.
    if bytes < (1_u64 << 53) as f64 { Ok(DataSize::bytes(bytes.round() as u64)) } else { Err(out_of_range()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let bytes = |text| parse(text).map(DataSize::as_bytes);
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("8MiB"), Ok(8 << 20));
        assert_eq!(bytes("1 GiB"), Ok(1 << 30));
        assert_eq!(bytes("1.5GB"), Ok(1_500_000_000));
        assert_eq!(bytes("2k"), Ok(2048));
    }

    #[test]
    fn wrong_sizes_with_the_reason() {
        for (text, reason) in [
            ("", "number"),
            ("GiB", "number"),
            ("1 parsec", "no unit"),
            ("1.2.3k", "number"),
            ("99999999999TiB", "more than fits"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_size_is_read_back(bytes in 0_u64..1024) {
            prop_assert_eq!(parse(&DataSize::bytes(bytes).to_string()), Ok(DataSize::bytes(bytes)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,20}") {
            let _ = parse(&text);
        }
    }
}
