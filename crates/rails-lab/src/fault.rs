//! Faults of a link that its ends cannot see.

use crate::{LabError, LinkLab, Side, system::output};

impl LinkLab {
    /// Drops every packet that arrives on a link at one end, or lets them through again. Neither
    /// end notices: the sender's interface accepts packets, the carrier stays on, and only the
    /// acknowledgements are missing. One end alone makes a one-way black hole, both a full one.
    /// Works for veth pairs and emulated links, on top of any shape.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] when `tc` refuses, as where the kernel lacks `clsact` or `cls_bpf`, or
    /// the fault already exists.
    ///
    /// # References
    ///
    /// tc-bpf(8), direct action; `TC_ACT_SHOT` of include/uapi/linux/pkt_cls.h. `act_gact`, the
    /// usual way to drop, is not in every kernel.
    pub fn set_black_hole(&self, side: Side, link: usize, on: bool) -> Result<(), LabError> {
        self.set_filter(side, link, on, RETURN_SHOT)
    }

    /// Drops the packets of UDP over IPv4 that arrive on a link at one end, as some firewalls do,
    /// or lets them through again.
    ///
    /// # Errors
    ///
    /// As [`set_black_hole`](Self::set_black_hole).
    pub fn set_udp_blocked(&self, side: Side, link: usize, on: bool) -> Result<(), LabError> {
        self.set_filter(side, link, on, SHOOT_UDP)
    }

    /// Drops the packets above that many bytes, Ethernet headers included, that arrive on a link at
    /// one end, as does a path with a wrong MTU whose ICMP is filtered; `None` lets them through
    /// again. Over a veth pair the kernel hands packets that it has not cut into segments yet: take
    /// an emulated link where segments count.
    ///
    /// # Errors
    ///
    /// As [`set_black_hole`](Self::set_black_hole).
    pub fn set_large_packets_lost(&self, side: Side, link: usize, above: Option<u32>) -> Result<(), LabError> {
        // Load the length; if it is greater, return 2, else 0.
        let program = format!("4,128 0 0 0,37 0 1 {},6 0 0 2,6 0 0 0,", above.unwrap_or_default());
        self.set_filter(side, link, above.is_some(), &program)
    }

    /// Attaches a classic BPF program that filters the arriving packets, or removes it.
    fn set_filter(&self, side: Side, link: usize, on: bool, program: &str) -> Result<(), LabError> {
        let (namespace, interface) = (self.side(side).name(), self.interface(side, link));
        if !on {
            return self.tools.tc(["-n", namespace, "qdisc", "del", "dev", interface, "clsact"]);
        }
        self.tools.tc(["-n", namespace, "qdisc", "add", "dev", interface, "clsact"])?;
        let filter = ["-n", namespace, "filter", "add", "dev", interface, "ingress"];
        self.tools.tc(filter.into_iter().chain(["bpf", "direct-action", "bytecode", program]))
    }

    /// Makes the kernel reset every TCP connection from side A to side B over a link. The link
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] when `ss` fails, as where the kernel lacks `CONFIG_INET_DIAG_DESTROY`.
    /// A link without connections is no error.
    ///
    /// # References
    ///
    /// ss(8), `-K`; sock_diag(7), `SOCK_DESTROY`
    pub fn reset_connections(&self, link: usize) -> Result<(), LabError> {
        let peer = self.address(Side::B, link).to_string();
        output(self.side(Side::A).command("ss").args(["-K", "dst", &peer]))?;
        Ok(())
    }
}

/// A program of one instruction: return 2, which is `TC_ACT_SHOT`.
const RETURN_SHOT: &str = "1,6 0 0 2,";
/// Load byte 23 of the frame, which is the protocol of an IPv4 packet; if it is 17 (UDP), return 2,
/// else 0 (`TC_ACT_OK`).
const SHOOT_UDP: &str = "4,48 0 0 23,21 0 1 17,6 0 0 2,6 0 0 0,";
