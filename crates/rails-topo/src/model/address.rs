//! Addresses of devices, as text and back.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};

/// Address of a PCI function: `domain:bus:device.function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device (5 bits).
    pub device: u8,
    /// Function (3 bits).
    pub function: u8,
}

/// A 48-bit hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct MacAddress(pub [u8; 6]);

/// A text that is not the address it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseAddressError {
    /// The text.
    pub text: String,
    /// An example of a good address.
    pub expected: &'static str,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let address = Self {
                domain: hexadecimal(domain, 8)?,
                bus: hexadecimal(bus, 2)?.try_into().ok()?,
                device: hexadecimal(device, 2)?.try_into().ok()?,
                function: hexadecimal(function, 1)?.try_into().ok()?,
            };
            (address.device < 32 && address.function < 8).then_some(address)
        };
        parse().ok_or_else(|| ParseAddressError { text: text.to_owned(), expected: "a PCI address like 0000:3b:00.1" })
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let octet = |digits| hexadecimal(digits, 2)?.try_into().ok();
        let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
        octets.and_then(|octets| octets.try_into().ok()).map(Self).ok_or_else(|| ParseAddressError {
            text: text.to_owned(),
            expected: "a MAC address like 52:54:00:00:00:01",
        })
    }
}

/// A number of at most `longest` hexadecimal digits, and nothing else (`from_str_radix` takes a
/// sign too).
fn hexadecimal(digits: &str, longest: usize) -> Option<u32> {
    let plain = digits.len() <= longest && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// Both addresses are written as their text.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(PciAddress);
serde_as_text!(MacAddress);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_whole_addresses_are_read() {
        assert_eq!("0000:3b:00.1".parse::<PciAddress>().unwrap().to_string(), "0000:3b:00.1");
        assert_eq!("10000:e1:1f.7".parse::<PciAddress>().unwrap().domain, 0x10000);
        for text in ["virtio2", "pci0000:00", "0000:00:20.0", "0000:00:00.8", "+000:00:00.0", "0000:100:00.0", ""] {
            assert!(text.parse::<PciAddress>().is_err(), "{text:?}");
        }
        assert_eq!("52:54:0:0:0:1".parse::<MacAddress>().unwrap().to_string(), "52:54:00:00:00:01");
        for text in ["", "52:54:00:00:00", "80:00:00:48:fe:80:00:00", "52:54:00:00:00:+1"] {
            assert!(text.parse::<MacAddress>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn addresses_survive_their_text(domain: u32, bus: u8, device in 0..32u8, function in 0..8u8, mac: [u8; 6]) {
            let pci = PciAddress { domain, bus, device, function };
            prop_assert_eq!(pci.to_string().parse::<PciAddress>().unwrap(), pci);
            prop_assert_eq!(MacAddress(mac).to_string().parse::<MacAddress>().unwrap(), MacAddress(mac));
        }
    }
}
