//! The kernel's uevents (lib/kobject_uevent.c). No I/O.

use super::{Event, MemoryBlockId};
use crate::CpuId;

/// A message of the kernel: `ACTION@PATH`, then `KEY=VALUE` strings, each ended by a zero byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uevent<'a> {
    /// The action: `add`, `remove`, `online`, `offline`, `change`, `move`, `bind`, `unbind`.
    pub(crate) action: &'a str,
    /// The device, below `/sys`: `/devices/system/cpu/cpu3`.
    pub(crate) path: &'a str,
    /// The subsystem of the device.
    pub(crate) subsystem: Option<&'a str>,
    /// Whether a program requested the message by writing to a device's `uevent` file, as `udevadm
    /// trigger` does: then nothing has happened (Documentation/ABI/testing/sysfs-uevent in the
    /// kernel's sources).
    pub(crate) is_synthetic: bool,
}

impl<'a> Uevent<'a> {
    /// Reads a datagram; `None` if it is not one of the kernel's, such as udev's own, which begin
    /// with `libudev`.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        if datagram.len() > LONGEST {
            return None;
        }
        let mut texts = datagram.split(|byte| *byte == 0).map_while(|text| std::str::from_utf8(text).ok());
        let (action, path) = texts.next()?.split_once('@')?;
        let is_plausible =
            !action.is_empty() && action.bytes().all(|byte| byte.is_ascii_lowercase()) && path.starts_with('/');
        let mut uevent = Self { action, path, subsystem: None, is_synthetic: false };
        for text in texts {
            match text.split_once('=') {
                Some(("SUBSYSTEM", subsystem)) => uevent.subsystem = Some(subsystem),
                Some(("SYNTH_UUID", _)) => uevent.is_synthetic = true,
                _ => {}
            }
        }
        is_plausible.then_some(uevent)
    }

    /// The uevent's event for the model; `None` for devices that the model does not follow by
    /// uevents.
    pub(crate) fn event(&self) -> Option<Event> {
        if self.is_synthetic {
            return None;
        }
        let number = |folder: &str| -> Option<u32> {
            let digits =
                self.path.strip_prefix(folder).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok().filter(|number| *number <= LARGEST)
        };
        match (self.subsystem?, self.action) {
            ("cpu", "online" | "offline") => {
                let cpu = CpuId(number("/devices/system/cpu/cpu")?);
                Some(Event::Cpu { cpu, online: self.action == "online" })
            }
            ("memory", "online" | "offline" | "remove") => {
                let block = MemoryBlockId(number("/devices/system/memory/memory")?);
                Some(Event::MemoryBlock { block, online: self.action == "online" })
            }
            ("node", _) => Some(Event::Nodes),
            _ => None,
        }
    }
}

/// The kernel's messages are shorter: `UEVENT_BUFFER_SIZE` is 2,048, with the header on top.
const LONGEST: usize = 8192;

/// The largest accepted number of a CPU or a block; a set's memory grows with its largest number.
const LARGEST: u32 = (1 << 20) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(header: &str, subsystem: &str) -> Option<Event> {
        let (action, path) = header.split_once('@').unwrap();
        let text = format!("{header}\0ACTION={action}\0DEVPATH={path}\0SUBSYSTEM={subsystem}\0SEQNUM=7\0");
        Uevent::parse(text.as_bytes()).unwrap().event()
    }

    #[test]
    fn uevents_of_cpus_memory_and_nodes() {
        let cpu = |online| Some(Event::Cpu { cpu: CpuId(3), online });
        assert_eq!(event("offline@/devices/system/cpu/cpu3", "cpu"), cpu(false));
        assert_eq!(event("online@/devices/system/cpu/cpu3", "cpu"), cpu(true));
        let block = Some(Event::MemoryBlock { block: MemoryBlockId(33), online: false });
        assert_eq!(event("offline@/devices/system/memory/memory33", "memory"), block);
        assert_eq!(event("add@/devices/system/node/node1", "node"), Some(Event::Nodes));
    }

    #[test]
    fn other_devices_and_odd_numbers_mean_nothing() {
        for (header, subsystem) in [
            ("add@/devices/system/cpu/cpu3", "cpu"),
            ("offline@/devices/system/cpu/cpu", "cpu"),
            ("offline@/devices/system/cpu/cpu+3", "cpu"),
            ("offline@/devices/system/cpu/cpu4294967295", "cpu"),
            ("offline@/devices/system/cpu/cpu99999999999999999999", "cpu"),
            ("offline@/devices/system/cpu/cpu3", "memory"),
            ("add@/devices/virtual/net/lo", "net"),
        ] {
            assert_eq!(event(header, subsystem), None, "{header}");
        }
    }

    #[test]
    fn synthetic_uevents_mean_nothing() {
        let text = b"offline@/devices/system/cpu/cpu3\0SUBSYSTEM=cpu\0SYNTH_UUID=0\0";
        assert_eq!(Uevent::parse(text).unwrap().event(), None);
    }

    #[test]
    fn datagrams_that_are_no_kernel_uevents() {
        let datagrams: [&[u8]; 7] = [
            b"",
            b"\0",
            b"libudev\0\xfe\xed\xca\xfe",
            b"offline",
            b"@/x",
            b"offline@x\0",
            b"\xff@/devices\0SUBSYSTEM=cpu\0",
        ];
        for datagram in datagrams {
            assert_eq!(Uevent::parse(datagram), None, "{datagram:?}");
        }
        let mut long = b"offline@/devices/system/cpu/cpu3\0SUBSYSTEM=cpu\0".to_vec();
        long.resize(LONGEST, b'x');
        assert!(Uevent::parse(&long).is_some());
        long.push(b'x');
        assert_eq!(Uevent::parse(&long), None);
    }

    proptest! {
        #[test]
        fn no_datagram_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Uevent::parse(&bytes).and_then(|uevent| uevent.event());
        }
    }
}
