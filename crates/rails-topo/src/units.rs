//! Quantities with units.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A data rate, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bandwidth(u64);

/// An amount of data, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DataSize(u64);

impl Bandwidth {
    /// A rate of `bits` per second.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `megabits` (10^6 bits) per second, the unit of `/sys/class/net/*/speed`.
    pub const fn mbps(megabits: u64) -> Self {
        Self(megabits * 1_000_000)
    }

    /// The number of bits per second.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }
}

impl DataSize {
    /// A size of `bytes`.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

/// Writes decimal units: `400 Mbit/s`, `2.5 Gbit/s`.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
    }
}

/// Writes binary units: `256 KiB`, `1.5 GiB`.
impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])
    }
}

/// The fault of a text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseQuantityError {
    /// The text has no number in front.
    #[error("`{text}` does not begin with a number")]
    NoNumber {
        /// The whole text.
        text: String,
    },
    /// The text behind the number is no unit of size.
    #[error("`{unit}` is no unit of size; try B, KiB, MiB, GiB, kB, MB or GB")]
    NoUnitOfSize {
        /// The text behind the number.
        unit: String,
    },
    /// The text has no unit of rate, or an unknown one.
    #[error("`{text}` has no unit of rate; try kbit, Mbit or Gbit (a second)")]
    NoUnitOfRate {
        /// The whole text.
        text: String,
    },
    /// The quantity is larger than its type holds.
    #[error("`{text}` is more than fits")]
    OutOfRange {
        /// The whole text.
        text: String,
    },
}

/// Reads `500mbit`, `1.5 Gbit/s` or `10G`: decimal units of bits a second, in either case; a unit
/// must be there.
impl FromStr for Bandwidth {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let (text, number, unit) = parts(text);
        let unit = unit.to_ascii_lowercase();
        let scale = match unit.trim_end_matches("/s").trim_end_matches("bit") {
            "" if !unit.is_empty() => 1,
            "k" => 1_000,
            "m" => 1_000_000,
            "g" => 1_000_000_000,
            "t" => 1_000_000_000_000,
            _ => return Err(ParseQuantityError::NoUnitOfRate { text: text.to_owned() }),
        };
        scale_up(text, number, scale).map(Self)
    }
}

/// Reads `1GiB`, `64 MiB`, `1.5GB` or `4096`: binary and decimal units in either case (`k`, `M` and
/// `G` are binary), a number of bytes without one.
impl FromStr for DataSize {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let (text, number, unit) = parts(text);
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
            _ => return Err(ParseQuantityError::NoUnitOfSize { unit: unit.to_owned() }),
        };
        scale_up(text, number, scale).map(Self)
    }
}

/// The text without spaces around, its number and its unit.
fn parts(text: &str) -> (&str, &str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (text, number, unit.trim())
}

fn scale_up(text: &str, number: &str, scale: u64) -> Result<u64, ParseQuantityError> {
    let out_of_range = || ParseQuantityError::OutOfRange { text: text.to_owned() };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(out_of_range);
    }
    let fraction: f64 = number.parse().map_err(|_| ParseQuantityError::NoNumber { text: text.to_owned() })?;
    let value = fraction * scale as f64;
    // Above 2^53, `f64` does not represent every whole number.
    if value < (1_u64 << 53) as f64 { Ok(value.round() as u64) } else { Err(out_of_range()) }
}

/// Writes `value` in the largest unit that leaves at least 1, with one decimal where it is not
/// whole.
fn scaled(f: &mut fmt::Formatter<'_>, value: u64, base: u64, units: [&str; 5]) -> fmt::Result {
    let mut scale = 1;
    let mut unit = 0;
    while unit + 1 < units.len() && value / scale >= base {
        scale *= base;
        unit += 1;
    }
    if value.is_multiple_of(scale) {
        write!(f, "{} {}", value / scale, units[unit])
    } else {
        write!(f, "{:.1} {}", value as f64 / scale as f64, units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_in_every_unit() {
        for (text, bits) in [
            ("500mbit", 500_000_000),
            ("1.5 Gbit/s", 1_500_000_000),
            ("10G", 10_000_000_000),
            ("800 bit/s", 800),
            ("64kbit", 64_000),
        ] {
            assert_eq!(text.parse(), Ok(Bandwidth::bits_per_second(bits)), "{text}");
        }
        for wrong in ["", "500", "fast", "1e9", "5MB", "99999999tbit", "-1mbit"] {
            wrong.parse::<Bandwidth>().unwrap_err();
        }
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let bytes = |text: &str| text.parse().map(DataSize::as_bytes);
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
            let error = text.parse::<DataSize>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn printed_quantities_are_read_back(number in 0_u64..1000) {
            let (size, rate) = (DataSize::bytes(number), Bandwidth::mbps(number));
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,20}") {
            let _ = (text.parse::<DataSize>(), text.parse::<Bandwidth>());
        }
    }

    #[test]
    fn quantities_are_printed_in_the_largest_fitting_unit() {
        assert_eq!(Bandwidth::mbps(400).to_string(), "400 Mbit/s");
        assert_eq!(Bandwidth::mbps(2500).to_string(), "2.5 Gbit/s");
        assert_eq!(Bandwidth::bits_per_second(999).to_string(), "999 bit/s");
        assert_eq!(DataSize::bytes(0).to_string(), "0 B");
        assert_eq!(DataSize::bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(DataSize::bytes(1 << 30).to_string(), "1 GiB");
    }
}
