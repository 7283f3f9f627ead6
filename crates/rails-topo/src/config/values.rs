//! Values that are written as text: `25 Gbit/s`, `64 GiB`, `16 GT/s x8`, `0-3,8`, `10.0.0.1/24`.

use crate::{Bandwidth, CpuSet, DataSize, InterfaceAddress, MacAddress, PciAddress, PciLink};
use serde::{Deserialize, Deserializer, de};
use std::{fmt, net::IpAddr, str::FromStr};

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate(pub(super) Bandwidth);

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) DataSize);

/// A PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link(pub(super) PciLink);

/// CPUs, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cpus(pub(super) CpuSet);

/// An IP address with the length of its prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address(pub(super) InterfaceAddress);

/// A hardware address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mac(pub(super) MacAddress);

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function(pub(super) PciAddress);

/// Whether planning leaves a lane alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hide {
    /// It does, for this reason.
    Because(String),
    /// It does not, whatever earlier files say.
    No,
}

/// That a device is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Added;

/// How far a node is from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Distance(pub(super) u64);

/// A text that is not the value it should be; it reads on after "`text` is not".
type Expected = &'static str;

impl FromStr for Rate {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let units = [
            ("bit/s", 1),
            ("kbit/s", 1_000),
            ("Mbit/s", 1_000_000),
            ("Gbit/s", 1_000_000_000),
            ("Tbit/s", 1_000_000_000_000),
        ];
        let bits = scaled(text, &units).filter(|bits| *bits > 0);
        bits.map(|bits| Self(Bandwidth::bits_per_second(bits))).ok_or("a speed like 25 Gbit/s")
    }
}

impl FromStr for Size {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let units = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
        scaled(text, &units).map(|bytes| Self(DataSize::bytes(bytes))).ok_or("a size like 64 GiB")
    }
}

impl FromStr for Link {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let read = || {
            let (speed, width) = text.split_once('x')?;
            let speed = scaled(speed, &[("GT/s", 1_000)])?.try_into().ok().filter(|speed| SPEEDS.contains(speed))?;
            let width = number(width)?.try_into().ok().filter(|width| WIDTHS.contains(width))?;
            Some(Self(PciLink { speed, width }))
        };
        read().ok_or("a PCI Express link like 16 GT/s x8")
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(PciLink { speed, width }) = self;
        match speed % 1_000 {
            0 => write!(f, "{} GT/s x{width}", speed / 1_000),
            _ => write!(f, "{:.1} GT/s x{width}", f64::from(*speed) / 1_000.0),
        }
    }
}

impl FromStr for Cpus {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let cpus = text.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty());
        cpus.map(Self).ok_or("a list of at least one CPU like 0-3,8")
    }
}

impl FromStr for Address {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let read = || {
            let (ip, prefix_len) = text.split_once('/')?;
            let ip: IpAddr = ip.parse().ok()?;
            let longest = if ip.is_ipv4() { 32 } else { 128 };
            let prefix_len = number(prefix_len)?.try_into().ok().filter(|length| *length <= longest)?;
            Some(Self(InterfaceAddress { ip, prefix_len }))
        };
        read().ok_or("an address with the length of its prefix like 10.0.0.1/24")
    }
}

impl FromStr for Mac {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        text.parse().map(Self).map_err(|_| "a MAC address like 52:54:00:00:00:01")
    }
}

impl FromStr for Function {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        text.parse().map(Self).map_err(|_| "a PCI address like 0000:3b:00.1")
    }
}

impl<'de> Deserialize<'de> for Hide {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Hide;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the reason why the lane is to be left alone, or false")
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
        // Below 10 is reserved, and 255 is out of reach (ACPI 6.5, 5.2.17).
        match u64::deserialize(deserializer)? {
            distance @ 10..=254 => Ok(Self(distance)),
            other => Err(de::Error::custom(format_args!("{other} is not a distance from 10 to 254"))),
        }
    }
}

/// Values that stand in quotation marks.
macro_rules! from_text {
    ($($type:ty),*) => {
        $(impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(|expected| de::Error::custom(format_args!("`{text}` is not {expected}")))
            }
        })*
    };
}

from_text!(Rate, Size, Link, Cpus, Address, Mac, Function);

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

/// What there is of PCI Express, in millions of transfers per second (PCI Express Base Specification, revisions 1 to 7).
const SPEEDS: [u32; 7] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000, 128_000];

/// The widths of a link (PCI Express Base Specification, "Link Width").
const WIDTHS: [u8; 7] = [1, 2, 4, 8, 12, 16, 32];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_carry_their_unit() {
        let rate = |text: &str| text.parse().ok().map(|Rate(rate)| rate.as_bits_per_second());
        assert_eq!(rate("25 Gbit/s"), Some(25_000_000_000));
        assert_eq!(rate("2.5Gbit/s"), Some(2_500_000_000));
        assert_eq!(rate("1 bit/s"), Some(1));
        for text in
            ["", "25", "Gbit/s", "0 Gbit/s", "25 GB/s", "-1 Gbit/s", "1.5 bit/s", "1..5 Gbit/s", "99999999 Tbit/s"]
        {
            assert_eq!(rate(text), None, "{text:?}");
        }
        let size = |text: &str| text.parse().ok().map(|Size(size)| size.as_bytes());
        assert_eq!(size("1.5 GiB"), Some(3 << 29));
        assert_eq!(size("0 B"), Some(0));
        assert_eq!(size("64 GB"), None);
    }

    #[test]
    fn links_are_those_that_there_are() {
        for text in ["16 GT/s x8", "2.5 GT/s x1", "128 GT/s x16"] {
            assert_eq!(text.parse::<Link>().unwrap().to_string(), text);
        }
        assert_eq!("8GT/sx4".parse(), Ok(Link(PciLink { speed: 8_000, width: 4 })));
        for text in ["", "16 GT/s", "x8", "15 GT/s x8", "16 GT/s x3", "16 GT/s x256", "16 GT/s x+8"] {
            assert!(text.parse::<Link>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_have_a_prefix_that_fits() {
        assert!("10.0.0.1/32".parse::<Address>().is_ok() && "fe80::1/128".parse::<Address>().is_ok());
        for text in ["10.0.0.1", "10.0.0.1/33", "::1/129", "10.0.0/8", "10.0.0.1/+8", "10.0.0.1/256"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.]{0,24} ?[KMGT]?(bit/s|iB|T/s)( ?x[0-9]{0,3})?|.{0,30}") {
            let _ = (text.parse::<Rate>(), text.parse::<Size>(), text.parse::<Link>());
            let _ = (text.parse::<Cpus>(), text.parse::<Address>());
        }
    }
}
