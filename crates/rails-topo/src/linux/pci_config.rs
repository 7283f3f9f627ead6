//! Facts from a PCI function's configuration space, for kernels without files for them.
//!
//! Linux gives links and bridges files of their own since 4.13. Before, there is only `config`: 64
//! bytes of it for every user, 256 for root. Offsets are those of the PCI Local Bus Specification
//! 3.0, chapter 6, and of the PCI Express Base Specification, chapter 7
//! (`include/uapi/linux/pci_regs.h` in the kernel's sources).

use crate::{PciBridge, PciLink};

/// The first bytes of a function's configuration space.
pub(super) struct PciConfig(Vec<u8>);

/// The negotiated link, and the fastest possible one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Links {
    pub(super) negotiated: Option<PciLink>,
    pub(super) possible: Option<PciLink>,
}

impl PciConfig {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The buses behind the function, where it is a bridge to PCI.
    pub(super) fn bridge(&self) -> Option<PciBridge> {
        let kind = self.byte(HEADER_TYPE)? & !MULTIFUNCTION;
        let bridge = PciBridge { secondary: self.byte(SECONDARY_BUS)?, subordinate: self.byte(SUBORDINATE_BUS)? };
        (kind == BRIDGE_HEADER).then_some(bridge)
    }

    /// The link of the function, where its PCI Express capability is among the bytes.
    pub(super) fn links(&self) -> Option<Links> {
        let capability = self.capability(PCI_EXPRESS)?;
        let kind = self.word(capability + EXPRESS_FLAGS)? >> 4 & 0xf;
        // A function in the root complex has no link, and its capability may end before the registers of
        // one.
        if kind == ROOT_COMPLEX_ENDPOINT || kind == ROOT_COMPLEX_EVENT_COLLECTOR {
            return None;
        }
        Some(Links {
            negotiated: link(self.word(capability + LINK_STATUS)?),
            possible: link(self.word(capability + LINK_CAPABILITIES)?),
        })
    }

    /// The offset of the capability of that number. The function states the length of the list, so
    /// a loop in it must end.
    fn capability(&self, wanted: u8) -> Option<usize> {
        if self.word(STATUS)? & HAS_CAPABILITIES == 0 {
            return None;
        }
        let mut offset = usize::from(self.byte(FIRST_CAPABILITY)? & !3);
        for _ in 0..MAX_CAPABILITIES {
            match self.byte(offset).filter(|_| offset >= HEADER_LEN)? {
                id if id == wanted => return Some(offset),
                _ => offset = usize::from(self.byte(offset + 1)? & !3),
            }
        }
        None
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.0.get(offset).copied()
    }

    fn word(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(offset)?, self.byte(offset + 1)?]))
    }
}

/// The lowest bits of the registers of status and of capabilities: four of speed, six of width.
fn link(register: u16) -> Option<PciLink> {
    let speed = *SPEEDS.get(usize::from(register & 0xf).checked_sub(1)?)?;
    PciLink::of(speed, u32::from(register >> 4 & 0x3f))
}

/// Millions of transfers per second by the number that stands for them, from 1.
const SPEEDS: [u32; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];

/// The bytes of the configuration space that are read: the extended one behind them states nothing
/// about the link.
pub(super) const CONFIG_LEN: u64 = 256;

const STATUS: usize = 0x06;
const HAS_CAPABILITIES: u16 = 0x10;
const HEADER_TYPE: usize = 0x0e;
const MULTIFUNCTION: u8 = 0x80;
const BRIDGE_HEADER: u8 = 1;
const SECONDARY_BUS: usize = 0x19;
const SUBORDINATE_BUS: usize = 0x1a;
const FIRST_CAPABILITY: usize = 0x34;
const HEADER_LEN: usize = 0x40;

/// The capabilities of four bytes that fit behind the header (PCI_FIND_CAP_TTL in the kernel's
/// `drivers/pci/pci.h`).
const MAX_CAPABILITIES: usize = 48;

const PCI_EXPRESS: u8 = 0x10;
const EXPRESS_FLAGS: usize = 0x02;
const LINK_CAPABILITIES: usize = 0x0c;
const LINK_STATUS: usize = 0x12;
const ROOT_COMPLEX_ENDPOINT: u16 = 9;
const ROOT_COMPLEX_EVENT_COLLECTOR: u16 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A function with a power management capability at 0x40 and a PCI Express one at 0x60.
    fn express(kind: u16, capabilities: u16, status: u16) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[STATUS] = 0x10;
        bytes[FIRST_CAPABILITY] = 0x40;
        bytes[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        bytes[0x60..0x62].copy_from_slice(&[PCI_EXPRESS, 0]);
        bytes[0x62..0x64].copy_from_slice(&(kind << 4 | 2).to_le_bytes());
        bytes[0x6c..0x6e].copy_from_slice(&capabilities.to_le_bytes());
        bytes[0x72..0x74].copy_from_slice(&status.to_le_bytes());
        bytes
    }

    #[test]
    fn link_is_read_from_the_capability() {
        let links = PciConfig::of(express(0, 16 << 4 | 4, 8 << 4 | 3)).links().unwrap();
        assert_eq!(links.negotiated, Some(PciLink { speed: 8_000, width: 8 }));
        assert_eq!(links.possible, Some(PciLink { speed: 16_000, width: 16 }));
    }

    #[test]
    fn port_without_a_device_has_no_link() {
        let links = PciConfig::of(express(4, 16 << 4 | 3, 1)).links().unwrap();
        assert_eq!(links, Links { negotiated: None, possible: Some(PciLink { speed: 8_000, width: 16 }) });
    }

    #[test]
    fn no_link_in_the_root_complex() {
        assert_eq!(PciConfig::of(express(9, 16 << 4 | 3, 16 << 4 | 3)).links(), None);
    }

    #[test]
    fn part_that_everybody_may_read_names_no_link() {
        let bytes = express(0, 16 << 4 | 4, 8 << 4 | 3);
        assert_eq!(PciConfig::of(bytes[..64].to_vec()).links(), None);
    }

    #[test]
    fn list_of_capabilities_that_runs_in_a_circle_ends() {
        let mut bytes = express(0, 1 << 4 | 1, 1 << 4 | 1);
        bytes[0x41] = 0x40;
        assert_eq!(PciConfig::of(bytes).links(), None);
    }

    #[test]
    fn only_bridges_have_buses_behind_them() {
        let mut bytes = vec![0; 64];
        bytes[SECONDARY_BUS..=SUBORDINATE_BUS].copy_from_slice(&[3, 5]);
        assert_eq!(PciConfig::of(bytes.clone()).bridge(), None);
        bytes[HEADER_TYPE] = 0x81;
        assert_eq!(PciConfig::of(bytes).bridge(), Some(PciBridge { secondary: 3, subordinate: 5 }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let config = PciConfig::of(bytes);
            if let Some(links) = config.links() {
                let widths = [links.negotiated, links.possible].into_iter().flatten().map(|link| link.width);
                prop_assert!(widths.into_iter().all(|width| (1..=32).contains(&width)));
            }
            config.bridge();
        }
    }
}
