//! The transport layer inside a lab: congestion control, MPTCP, and the kernel's counters of TCP.

use crate::{
    LabError, LinkLab, Side,
    system::{SystemError, file_error},
};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, fs, io};

/// The TCP counts of one end's kernel since the lab was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportCounters {
    /// Retransmitted segments (`RetransSegs` of `Tcp` in `/proc/net/snmp`), of every connection.
    pub retransmitted_segments: u64,
    /// Subflows of MPTCP that joined a connection, besides the first one, counted at the end that
    /// requested them (`MPJoinSynAckRx` of `MPTcpExt` in `/proc/net/netstat`); `None` where the
    /// kernel has no MPTCP.
    pub mptcp_joins: Option<u64>,
}

impl LinkLab {
    /// Makes this the congestion control of every connection over the links, at both ends, also if
    /// a socket requests another: an attribute of the links' routes. (The sysctl of a namespace
    /// takes only those that the whole machine allows to everyone, and not every program has an
    /// option for it.) A link that goes down loses it with its route.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] when `ip` refuses, for example because the kernel does not have it.
    ///
    /// # References
    ///
    /// `congctl` of ip-route(8); `tcp_ca_dst_init` of net/ipv4/tcp_output.c.
    pub fn set_congestion_control(&self, name: &str) -> Result<(), LabError> {
        for (side, link) in Side::BOTH.into_iter().flat_map(|side| (0..self.link_count()).map(move |link| (side, link)))
        {
            let address = self.address(side, link).to_string();
            // The kernel refuses a route to an address with host bits.
            let (network, _) = address.rsplit_once('.').expect("links have IPv4 addresses");
            let network = format!("{network}.0/24");
            let route = ["-n", self.side(side).name(), "route", "replace", &network, "dev", self.interface(side, link)];
            let rest = ["proto", "kernel", "scope", "link", "src", &address, "congctl", name];
            self.tools.ip(route.into_iter().chain(rest))?;
        }
        Ok(())
    }

    /// Lets MPTCP use every link: on a connection from side A to side B's address on link 0, B
    /// announces its addresses on the other links, and A opens a subflow to each of them (from
    /// its own address in that subnet, as its routes lead).
    ///
    /// # Errors
    ///
    /// [`LabError::System`] where the kernel has no MPTCP, or when `ip` refuses.
    ///
    /// # References
    ///
    /// ip-mptcp(8), `Documentation/networking/mptcp-sysctl.rst`. A connection has 8 subflows at
    /// most besides its first (`MPTCP_PM_ADDR_MAX` of net/mptcp/protocol.h).
    pub fn enable_mptcp(&self) -> Result<(), LabError> {
        for side in Side::BOTH {
            self.write_setting(side, MPTCP_ENABLED, "1")?;
            let limits = ["-n", self.side(side).name(), "mptcp", "limits", "set"];
            self.tools.ip(limits.into_iter().chain(["subflow", "8", "add_addr_accepted", "8"]))?;
        }
        for link in 1..self.link_count() {
            let address = self.address(Side::B, link).to_string();
            let endpoint = ["-n", self.side(Side::B).name(), "mptcp", "endpoint", "add", &address];
            self.tools.ip(endpoint.into_iter().chain(["dev", self.interface(Side::B, link), "signal"]))?;
        }
        Ok(())
    }

    /// The TCP counts of one end.
    ///
    /// # Errors
    ///
    /// Those of [`LinkLab::enter`], and [`LabError::System`], also where the file cannot be read as
    /// one.
    pub fn transport_counters(&self, side: Side) -> Result<TransportCounters, LabError> {
        let _inside = self.enter(side)?;
        let retransmitted = counters(&read(SNMP)?, "Tcp").remove("RetransSegs");
        let missing = || file_error("read", SNMP)(io::Error::new(io::ErrorKind::InvalidData, "no RetransSegs of Tcp"));
        let retransmitted_segments = retransmitted.ok_or_else(missing)?;
        let mptcp_joins = counters(&read(NETSTAT)?, "MPTcpExt").remove("MPJoinSynAckRx");
        Ok(TransportCounters { retransmitted_segments, mptcp_joins })
    }

    /// Whether a program at one end listens on a TCP port, to wait for a program that prints
    /// nothing.
    ///
    /// # Errors
    ///
    /// Those of [`LinkLab::enter`], and [`LabError::System`].
    pub fn is_listening(&self, side: Side, port: u16) -> Result<bool, LabError> {
        let _inside = self.enter(side)?;
        Ok(has_listener(&read(TCP4)?, port) || fs::read_to_string(TCP6).is_ok_and(|text| has_listener(&text, port)))
    }

    fn write_setting(&self, side: Side, path: &str, value: &str) -> Result<(), LabError> {
        let _inside = self.enter(side)?;
        Ok(fs::write(path, value).map_err(file_error("write", path))?)
    }
}

/// The counters of one group: a line of names and a line of values, both of which begin with the
/// group's name.
fn counters(text: &str, group: &str) -> HashMap<String, u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pair = |(name, value): (&str, &str)| Some((name.to_owned(), value.parse().ok()?));
    names.split_whitespace().zip(values.split_whitespace()).filter_map(pair).collect()
}

/// Whether a table such as `/proc/net/tcp` has a socket that listens on a port (state `0A`,
/// net/tcp_states.h).
fn has_listener(table: &str, port: u16) -> bool {
    let listens = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit(':').next());
        let is_port = local.and_then(|port| u16::from_str_radix(port, 16).ok()) == Some(port);
        is_port && fields.nth(1) == Some("0A")
    };
    table.lines().any(listens)
}

fn read(path: &str) -> Result<String, SystemError> {
    fs::read_to_string(path).map_err(file_error("read", path))
}

const MPTCP_ENABLED: &str = "/proc/sys/net/mptcp/enabled";
/// The counters of the thread's own namespace, where `/proc/net` would be that of the process's
/// first thread.
const SNMP: &str = "/proc/thread-self/net/snmp";
const NETSTAT: &str = "/proc/thread-self/net/netstat";
const TCP4: &str = "/proc/thread-self/net/tcp";
const TCP6: &str = "/proc/thread-self/net/tcp6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_group_and_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: A RetransSegs\nTcp: -1 7\n";
        assert_eq!(counters(text, "Tcp"), HashMap::from([("RetransSegs".to_owned(), 7)]));
        assert_eq!(counters(text, "Ip").len(), 2);
        assert!(counters(text, "MPTcpExt").is_empty());
        assert!(counters("Tcp: A", "Tcp").is_empty(), "cut short");
    }

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:1F90 00000000:0000 0A 0:0\n   \
                     1: 0100007F:0016 0100007F:C350 01 0:0\n";
        assert!(has_listener(table, 8080));
        assert!(!has_listener(table, 22));
        assert!(!has_listener(table, 50_000));
        assert!(!has_listener("", 0));
    }
}
