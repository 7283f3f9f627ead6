//! Values that files hold as text: `25 Gbit/s`, `64 GiB`, `16 GT/s x8`, `0-3,8`, `10.0.0.1/24`.

use crate::{Bandwidth, CpuSet, DataSize, InterfaceAddress, MacAddress, PciAddress, PciLink};
use serde::{Deserialize, Deserializer, de};
use std::{fmt, net::IpAddr, str::FromStr};

/// A value that a file holds as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text<T>(pub(super) T);

/// A type whose values are text in a file.
pub(super) trait FromText: Sized {
    /// The description of a good text, which continues "`text` is not".
    const EXPECTED: &'static str;
    /// The form of the text, as a pattern of ECMA 262; all else (that the CPUs exist) is checked
    /// when a file is read.
    #[cfg(test)]
    const PATTERN: &'static str;

    fn from_text(text: &str) -> Option<Self>;
}

/// Whether planning leaves a lane alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hide {
    /// Planning leaves the lane alone, for this reason.
    Because(String),
    /// Planning uses the lane: this revokes the reason of an earlier file.
    No,
}

/// The statement that a device is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Added;

/// The distance of a node from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Distance(pub(super) u64);

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let error = || de::Error::custom(format_args!("`{text}` is not {}", T::EXPECTED));
        T::from_text(&text).map(Self).ok_or_else(error)
    }
}

macro_rules! from_text {
    ($($type:ty: $expected:literal, $pattern:literal, $from_text:expr;)*) => {
        $(impl FromText for $type {
            const EXPECTED: &'static str = $expected;
            #[cfg(test)]
            const PATTERN: &'static str = $pattern;

            fn from_text(text: &str) -> Option<Self> {
                $from_text(text)
            }
        })*
    };
}

from_text! {
    Bandwidth: "a speed like 25 Gbit/s", "^ *[0-9]+(\\.[0-9]+)? *[kMGT]?bit/s$", rate;
    DataSize: "a size like 64 GiB", "^ *[0-9]+(\\.[0-9]+)? *([KMGT]i)?B$", size;
    PciLink: "a PCI Express link like 16 GT/s x8", "^ *(2\\.5|5|8|16|32|64|128) *GT/s *x(1|2|4|8|12|16|32)$", link;
    CpuSet: "a list of at least one CPU like 0-3,8", "^ *[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)* *$", cpus;
    InterfaceAddress: "an address with the length of its prefix like 10.0.0.1/24", "^[0-9a-fA-F.:]+/[0-9]+$", address;
    MacAddress: "a MAC address like 52:54:00:00:00:01", "^[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}$", parsed;
    PciAddress: "a PCI address like 0000:3b:00.1", "^[0-9a-fA-F]{1,8}:[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}\\.[0-7]$", parsed;
}

fn rate(text: &str) -> Option<Bandwidth> {
    const UNITS: [(&str, u64); 5] = [
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ];
    scaled(text, &UNITS).filter(|bits| *bits > 0).map(Bandwidth::bits_per_second)
}

fn size(text: &str) -> Option<DataSize> {
    const UNITS: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    scaled(text, &UNITS).map(DataSize::bytes)
}

fn link(text: &str) -> Option<PciLink> {
    let (speed, width) = text.split_once('x')?;
    let speed = scaled(speed, &[("GT/s", 1_000)])?.try_into().ok().filter(|speed| SPEEDS.contains(speed))?;
    let width = number(width)?.try_into().ok().filter(|width| WIDTHS.contains(width))?;
    Some(PciLink { speed, width })
}

/// A link as a file holds it.
pub(super) fn text_of_link(PciLink { speed, width }: PciLink) -> String {
    match speed % 1_000 {
        0 => format!("{} GT/s x{width}", speed / 1_000),
        _ => format!("{:.1} GT/s x{width}", f64::from(speed) / 1_000.0),
    }
}

fn cpus(text: &str) -> Option<CpuSet> {
    parsed(text).filter(|cpus: &CpuSet| !cpus.is_empty())
}

fn address(text: &str) -> Option<InterfaceAddress> {
    let (ip, prefix_len) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let prefix_len = number(prefix_len)?.try_into().ok().filter(|length| *length <= longest)?;
    Some(InterfaceAddress { ip, prefix_len })
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

impl<'de> Deserialize<'de> for Hide {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Hide;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reason to leave the lane alone, or false")
            }

            fn visit_str<E: de::Error>(self, reason: &str) -> Result<Hide, E> {
                let reason = reason.trim();
                match reason.is_empty() || reason.contains(char::is_control) {
                    true => Err(E::invalid_value(de::Unexpected::Str(reason), &self)),
                    false => Ok(Hide::Because(reason.to_owned())),
                }
            }

            fn visit_bool<E: de::Error>(self, hide: bool) -> Result<Hide, E> {
                match hide {
                    true => Err(E::invalid_value(de::Unexpected::Bool(true), &self)),
                    false => Ok(Hide::No),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Added {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(Self),
            false => Err(de::Error::invalid_value(de::Unexpected::Bool(false), &"true, or no such key")),
        }
    }
}

impl<'de> Deserialize<'de> for Distance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Values below 10 are reserved, and 255 means unreachable (ACPI 6.5, 5.2.17).
        match u64::deserialize(deserializer)? {
            distance @ 10..=254 => Ok(Self(distance)),
            other => Err(de::Error::custom(format_args!("{other} is not a distance from 10 to 254"))),
        }
    }
}

/// A number with a unit, as a whole number of the smallest one; `None` where it is not one.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (amount, unit) = (&text[..digits], text[digits..].trim_start());
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
    if fraction.len() > 9 {
        return None;
    }
    let parts = u128::from(number(fraction)?) * u128::from(*scale);
    let divisor = 10u128.pow(fraction.len() as u32);
    let exact = parts.is_multiple_of(divisor);
    let total = u128::from(number(whole)?) * u128::from(*scale) + parts / divisor;
    u64::try_from(total).ok().filter(|_| exact)
}

/// Digits and nothing else (`parse` takes a sign too).
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The speeds of PCI Express, in millions of transfers per second (PCI Express Base Specification,
/// revisions 1 to 7).
const SPEEDS: [u32; 7] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000, 128_000];

/// The widths of a link (PCI Express Base Specification, "Link Width").
const WIDTHS: [u8; 7] = [1, 2, 4, 8, 12, 16, 32];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_with_units() {
        let bits = |text: &str| rate(text).map(Bandwidth::as_bits_per_second);
        assert_eq!(bits("25 Gbit/s"), Some(25_000_000_000));
        assert_eq!(bits("2.5Gbit/s"), Some(2_500_000_000));
        assert_eq!(bits("1 bit/s"), Some(1));
        for text in
            ["", "25", "Gbit/s", "0 Gbit/s", "25 GB/s", "-1 Gbit/s", "1.5 bit/s", "1..5 Gbit/s", "99999999 Tbit/s"]
        {
            assert_eq!(rate(text), None, "{text:?}");
        }
        let bytes = |text: &str| size(text).map(DataSize::as_bytes);
        assert_eq!((bytes("1.5 GiB"), bytes("0 B"), bytes("64 GB")), (Some(3 << 29), Some(0), None));
    }

    #[test]
    fn links_of_pci_express() {
        for text in ["16 GT/s x8", "2.5 GT/s x1", "128 GT/s x16"] {
            assert_eq!(link(text).map(text_of_link).as_deref(), Some(text));
        }
        assert_eq!(link("8GT/sx4"), Some(PciLink { speed: 8_000, width: 4 }));
        for text in ["", "16 GT/s", "x8", "15 GT/s x8", "16 GT/s x3", "16 GT/s x256", "16 GT/s x+8"] {
            assert_eq!(link(text), None, "{text:?}");
        }
    }

    #[test]
    fn addresses_with_a_prefix_that_fits() {
        assert!(address("10.0.0.1/32").is_some() && address("fe80::1/128").is_some());
        for text in ["10.0.0.1", "10.0.0.1/33", "::1/129", "10.0.0/8", "10.0.0.1/+8", "10.0.0.1/256"] {
            assert_eq!(address(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "[0-9.]{0,24} ?[KMGT]?(bit/s|iB|T/s)( ?x[0-9]{0,3})?|.{0,30}") {
            let _ = (rate(&text), size(&text), link(&text), cpus(&text), address(&text));
        }
    }
}
