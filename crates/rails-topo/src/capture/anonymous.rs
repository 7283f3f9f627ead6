//! Replacements for the names and addresses that identify a machine.

use super::Capture;
use std::{
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
};

pub(super) fn anonymous(mut capture: Capture) -> Capture {
    let key = Key(RandomState::new());
    capture.tree.edit_files(&mut |path, bytes| {
        if let Some(text) = key.edited(path, String::from_utf8_lossy(bytes).trim()) {
            *bytes = (text + "\n").into_bytes();
        }
    });
    for (_, address) in capture.extra.addresses.iter_mut().flatten() {
        address.ip = key.ip(address.ip, address.prefix_len);
    }
    capture
}

/// The standard library's keyed hash (SipHash), by a key of its own: without it, addresses of 32
/// and 48 bits could be found by trying all.
struct Key(RandomState);

impl Key {
    /// The replacement of a file's text, if the text identifies the machine.
    fn edited(&self, path: &str, text: &str) -> Option<String> {
        let name = path.rsplit('/').next()?;
        match name {
            _ if text.is_empty() => None,
            "hostname" => Some(format!("host-{:08x}", self.bits(text) as u32)),
            "if_inet6" => Some(text.lines().map(|line| self.line_of_if_inet6(line)).collect::<Vec<_>>().join("\n")),
            // Of all mounts only those of control groups concern processors.
            "mountinfo" | "mounts" => Some(
                text.lines()
                    .filter(|line| line.contains(" cgroup") || line.contains("cpuset"))
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
            "phys_port_id" | "phys_switch_id" => Some(self.digits(text)),
            _ if is_hardware_address(text) => Some(self.hardware_address(text)),
            _ => None,
        }
    }

    /// The loopback interface's, all zeros, and the broadcast address stay: no machine owns them.
    fn hardware_address(&self, text: &str) -> String {
        if text.chars().all(|digit| matches!(digit, '0' | ':')) || text.chars().all(|digit| matches!(digit, 'f' | ':'))
        {
            return text.to_owned();
        }
        let mut digits = self.digits(text);
        // Of an Ethernet address: locally administered, and of one station (IEEE 802, 8.2).
        if text.len() == ETHERNET {
            let second = digits[1..2].chars().next().and_then(|digit| digit.to_digit(16)).unwrap_or(0);
            digits.replace_range(1..2, &format!("{:x}", second & !0b11 | 0b10));
        }
        digits
    }

    /// The text with other hexadecimal digits; everything else stays.
    fn digits(&self, text: &str) -> String {
        let digit = |(index, character): (usize, char)| match character {
            character if character.is_ascii_hexdigit() => {
                char::from_digit((self.bits((text, index)) % 16) as u32, 16).unwrap_or('0')
            }
            other => other,
        };
        text.chars().enumerate().map(digit).collect()
    }

    /// The address in 32 digits, the interface's index, the prefix's length, scope, flags and name.
    fn line_of_if_inet6(&self, line: &str) -> String {
        let edited = || {
            let (ip, rest) = line.split_once(' ')?;
            let prefix_len = u8::from_str_radix(rest.split_whitespace().nth(1)?, 16).ok()?;
            let ip = Ipv6Addr::from_bits(u128::from_str_radix(ip, 16).ok()?).into();
            let IpAddr::V6(ip) = self.ip(ip, prefix_len) else { return None };
            Some(format!("{:032x} {rest}", ip.to_bits()))
        };
        // A line that cannot be read is left out.
        edited().unwrap_or_default()
    }

    /// An address of the same kind, in one network for one network: a private or a documentation
    /// address unless no machine owns it.
    fn ip(&self, ip: IpAddr, prefix_len: u8) -> IpAddr {
        match ip {
            ip if ip.is_loopback() || ip.is_unspecified() => ip,
            IpAddr::V4(ip) => {
                let kept = if ip.is_link_local() { (u32::from(ip), 16) } else { (10 << 24, 8) };
                let bits = self.placed(u32::from(ip).into(), 32, prefix_len, (kept.0.into(), kept.1));
                IpAddr::V4((bits as u32).into())
            }
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                let kept = if ip.is_unicast_link_local() { (bits, 64) } else { (0x2001_0db8 << 96, 32) };
                IpAddr::V6(self.placed(bits, 128, prefix_len, kept).into())
            }
        }
    }

    /// Replaces the bits of the network and the bits of the host apart. The leading bits of the
    /// network that state its kind stay.
    fn placed(&self, bits: u128, width: u32, prefix_len: u8, (kept, kept_len): (u128, u32)) -> u128 {
        let all = u128::MAX >> (128 - width);
        let ones = |count: u32| all & !all.checked_shr(count).unwrap_or(0);
        let network = ones(u32::from(prefix_len).min(width));
        let other = |bits: u128| u128::from(self.bits((bits, 0))) << 64 | u128::from(self.bits((bits, 1)));
        let placed = (other(bits & network) & network) | (other(bits) & all & !network);
        let fixed = ones(kept_len) & network;
        (placed & !fixed) | (kept & fixed)
    }

    fn bits(&self, what: impl std::hash::Hash) -> u64 {
        self.0.hash_one(what)
    }
}

/// Groups of two digits (Ethernet, InfiniBand) or of four (a GUID, a GID), and at least 48 bits of
/// them.
fn is_hardware_address(text: &str) -> bool {
    let groups: Vec<&str> = text.split(':').collect();
    let of_length = |length| groups.iter().all(|group| group.len() == length);
    let digits = text.bytes().all(|byte| byte == b':' || byte.is_ascii_hexdigit());
    digits && ((groups.len() >= 6 && of_length(2)) || (groups.len() >= 4 && of_length(4)))
}

/// Characters of an Ethernet address.
const ETHERNET: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddress;
    use proptest::prelude::*;

    fn key() -> Key {
        Key(RandomState::new())
    }

    #[test]
    fn stable_replacements_of_names_and_macs() {
        let key = key();
        let edited = |path, text| key.edited(path, text);
        let host = edited("proc/sys/kernel/hostname", "alpha.example.org").unwrap();
        assert!(host.starts_with("host-") && host.len() == 13, "{host}");
        let mac = edited("sys/devices/virtual/net/bond0/address", "52:54:00:12:34:56").unwrap();
        assert_eq!(edited("sys/devices/pci0/net/eth0/address", "52:54:00:12:34:56"), Some(mac.clone()));
        assert_ne!(mac, "52:54:00:12:34:56");
        assert_eq!(mac.parse::<MacAddress>().unwrap().0[0] & 3, 2, "{mac}");
        let guid = edited("sys/class/infiniband/mlx5_0/node_guid", "0c42:a103:0065:ab12").unwrap();
        assert!(guid.len() == 19 && guid != "0c42:a103:0065:ab12", "{guid}");
        assert_eq!(edited("sys/devices/virtual/net/lo/address", "00:00:00:00:00:00").unwrap(), "00:00:00:00:00:00");
        for (path, text) in
            [("a/mtu", "1500"), ("a/uevent", "INTERFACE=eth0"), ("a/class", "0x020000"), ("a/x", "0000:3b:00.1")]
        {
            assert_eq!(edited(path, text), None, "{text}");
        }
    }

    #[test]
    fn unowned_addresses_stay() {
        for text in ["127.0.0.1", "::1", "0.0.0.0"] {
            let ip = text.parse().unwrap();
            assert_eq!(key().ip(ip, 8), ip);
        }
        let line = key().line_of_if_inet6("fe800000000000005054000fffe123456 02 40 20 80     eth0");
        assert_eq!(line, "", "33 digits are no address");
        let line = key().line_of_if_inet6("fe80000000000000505400fffe123456 02 40 20 80     eth0");
        assert!(line.starts_with("fe80000000000000") && line.ends_with(" 02 40 20 80     eth0"), "{line}");
        assert!(!line.contains("505400fffe123456"), "{line}");
    }

    proptest! {
        #[test]
        fn networks_stay_apart_and_together(a: u32, host: u32, prefix_len in 8..=30u8) {
            let key = key();
            let mask = u32::MAX << (32 - prefix_len);
            let address = |bits: u32| {
                let IpAddr::V4(ip) = key.ip(IpAddr::V4(bits.into()), prefix_len) else { unreachable!() };
                u32::from(ip)
            };
            let beside = (a & mask) | (host & !mask);
            prop_assume!(!IpAddr::V4(a.into()).is_loopback() && a != 0 && beside != 0);
            prop_assert_eq!(address(a) & mask, address(beside) & mask);
            prop_assert_eq!(address(a), address(a));
        }
    }
}
