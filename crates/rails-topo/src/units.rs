//! Quantities with units.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A data rate, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(u64);

/// An amount of data, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DataSize(u64);

impl Bandwidth {
    /// That many bits per second.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// That many megabits (10^6 bits) per second, the unit of `/sys/class/net/*/speed`.
    pub const fn mbps(megabits: u64) -> Self {
        Self(megabits * 1_000_000)
    }

    /// In bits per second.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }
}

impl DataSize {
    /// That many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

/// In decimal units: `400 Mbit/s`, `2.5 Gbit/s`.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
    }
}

/// In binary units: `256 KiB`, `1.5 GiB`.
impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])
    }
}

/// Writes `value` in the largest unit that leaves at least 1, with one decimal where it is not whole.
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
