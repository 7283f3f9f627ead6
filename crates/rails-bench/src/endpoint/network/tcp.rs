//! Options of TCP on the command line.

use crate::{duration, exit::Help, size};
use anyhow::{Context, Result};
use rails_net::{TcpTransport, ZeroCopy};
use rails_topo::DataSize;
use std::{net::Ipv4Addr, time::Duration};

/// Options of TCP lanes. `docs/lanes.md` gives the measured worth of each.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TcpArgs {
    /// Congestion control of the lanes' sockets, by the kernel's name (cubic, bbr, ...) [default:
    /// the system's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Send large payload without a copy (MSG_ZEROCOPY), where the stream is not encrypted
    #[arg(long)]
    zerocopy: bool,
    /// How long a lane that was just used is asked for more before its thread sleeps
    /// (SO_BUSY_POLL), such as 50us; it takes CAP_NET_ADMIN
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    busy_poll: Option<Duration>,
    /// The most that the kernel holds for sending on each lane, such as 4MiB [default: tuned by
    /// itself]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    send_buffer: Option<DataSize>,
    /// The most that the kernel holds for reading on each lane [default: tuned by itself]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    receive_buffer: Option<DataSize>,
    /// The most payload of a TCP segment, such as 1200, where the path swallows larger packets
    /// without a word [default: as the interfaces and ICMP allow]
    #[arg(long, value_name = "SIZE", value_parser = segment)]
    mss: Option<DataSize>,
}

impl TcpArgs {
    /// The requested congestion control.
    pub(super) fn congestion(&self) -> Option<&str> {
        self.congestion.as_deref()
    }

    /// TCP with these options. Must be called inside a runtime, because it tries them on a socket.
    pub(super) fn transport(&self) -> Result<TcpTransport> {
        let lane = TcpTransport::new().congestion(self.congestion());
        let lane = lane.zero_copy(self.zerocopy.then(ZeroCopy::new)).busy_poll(self.busy_poll);
        let lane = lane.send_buffer(self.send_buffer).receive_buffer(self.receive_buffer).max_segment(self.mss);
        if let Some(name) = &self.congestion {
            let alone = TcpTransport::new().congestion(name.as_str());
            try_on_a_socket(&alone).with_context(|| format!("--congestion {name}")).map_err(|error| {
                match std::fs::read_to_string(CONGESTION_CONTROLS) {
                    Ok(known) => error.help(format!("this kernel has {} ({CONGESTION_CONTROLS})", known.trim())),
                    Err(_) => error,
                }
            })?;
        }
        if let Some(time) = self.busy_poll {
            let alone = TcpTransport::new().busy_poll(time);
            try_on_a_socket(&alone).with_context(|| format!("--busy-poll {time:?}")).map_err(|error| {
                error.help("run it as root, or let everyone poll that long: `sysctl net.core.busy_read=MICROSECONDS`")
            })?;
        }
        Ok(lane)
    }
}

/// A segment size that Linux accepts (`TCP_MIN_MSS` and `MAX_TCP_WINDOW`).
fn segment(text: &str) -> Result<DataSize, String> {
    let size = size::parse(text)?;
    let fits = (88..=32_767).contains(&size.as_bytes());
    fits.then_some(size).ok_or_else(|| "a segment has 88 to 32767 bytes".to_owned())
}

fn try_on_a_socket(options: &TcpTransport) -> Result<()> {
    options.listen((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(())
}

/// Congestion controls that the kernel has.
const CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
