//! An interface's byte and packet counts, as its namespace sees them.

use crate::LabError;
use serde::{Deserialize, Serialize};

/// The traffic of an interface since it was made.
///
/// # Units
///
/// Bytes are of whole Ethernet frames (without checksum) as they left the queue or arrived. With
/// segmentation offload one packet may be as large as 64 KiB.
///
/// # References
///
/// proc_pid_net(5), `/proc/pid/net/dev`; Documentation/networking/statistics.rst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets received with an error.
    pub rx_errors: u64,
    /// Packets received and dropped for lack of room.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets dropped by the device on their way out. Drops of a token bucket are not included;
    /// `tc -s` shows those.
    pub tx_dropped: u64,
}

impl InterfaceCounters {
    /// Finds the interface's line in the text of `/proc/net/dev`.
    pub(crate) fn parse(text: &str, interface: &str) -> Result<Self, LabError> {
        let fail = |reason| LabError::Counters { interface: interface.to_owned(), reason };
        let line = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(name, rest)| (name.trim() == interface).then_some(rest))
            .ok_or_else(|| fail("the interface is not listed"))?;
        let fields: Vec<u64> = line
            .split_ascii_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| fail("a field is not a number"))?;
        // Eight fields each way: bytes, packets, errs, drop, fifo, frame|colls, compressed|carrier,
        // multicast|compressed.
        let [rx_bytes, rx_packets, rx_errors, rx_dropped, _, _, _, _, tx_bytes, tx_packets, tx_errors, tx_dropped, ..] =
            fields[..]
        else {
            return Err(fail("the line is too short"));
        };
        Ok(Self { rx_bytes, rx_packets, rx_errors, rx_dropped, tx_bytes, tx_packets, tx_errors, tx_dropped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
rail0a: 1500 3 1 2 0 0 0 0 99 4 5 6 0 0 0 0
rail10a: 7
rail2a: 1 2 3 x
";

    #[test]
    fn each_count_lands_in_its_field() {
        let counters = InterfaceCounters::parse(TEXT, "rail0a").unwrap();
        let expected = InterfaceCounters {
            rx_bytes: 1500,
            rx_packets: 3,
            rx_errors: 1,
            rx_dropped: 2,
            tx_bytes: 99,
            tx_packets: 4,
            tx_errors: 5,
            tx_dropped: 6,
        };
        assert_eq!(counters, expected);
        assert_eq!(InterfaceCounters::parse(TEXT, "lo").unwrap(), InterfaceCounters::default());
    }

    #[test]
    fn unreadable_counts_are_errors_and_not_zero() {
        for interface in ["rail1a", "rail10a", "rail2a", "", "face"] {
            assert!(InterfaceCounters::parse(TEXT, interface).is_err(), "{interface}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(rail0a:)?[ 0-9a-z:\n-]{0,200}") {
            let _ = InterfaceCounters::parse(&text, "rail0a");
        }
    }
}
