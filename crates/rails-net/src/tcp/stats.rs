//! The kernel's figures of a connection.

use super::socket_options;
use crate::{
    StatsError,
    sys::tcp_info::{Field, TcpInfo},
};
use rails_topo::Bandwidth;
use serde::Serialize;
use serde_with::{As, DurationMicroSeconds};
use socket2::SockRef;
use std::{io, net::SocketAddr, os::fd::AsFd, time::Duration};

/// A connection's figures, from `TCP_INFO` and `TCP_CONGESTION`.
///
/// A figure is `None` if the kernel is too old to have it, or has not measured it yet.
/// Serialized names carry their units.
///
/// # References
/// `struct tcp_info` in include/uapi/linux/tcp.h; [tcp(7)](https://man7.org/linux/man-pages/man7/tcp.7.html);
/// [RFC 4898](https://www.rfc-editor.org/rfc/rfc4898) for the counters
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[doc(alias = "tcp_info")]
pub struct TcpStats {
    /// State of the connection.
    pub state: TcpState,
    /// Congestion control; `None` where a filter keeps it from being read.
    pub congestion: Option<String>,

    // Time.
    /// Smoothed round-trip time.
    #[serde(rename = "rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt: Option<Duration>,
    /// Mean deviation of the round-trip time.
    #[serde(rename = "rtt_variation_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub rtt_variation: Option<Duration>,
    /// Minimum round-trip time seen lately (`net.ipv4.tcp_min_rtt_wlen`, 5 minutes).
    #[serde(rename = "min_rtt_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub min_rtt: Option<Duration>,
    /// Time since the last acknowledgement of the peer, duplicates included. The kernel counts in
    /// its own ticks, of 1 to 10 ms.
    #[serde(rename = "since_acknowledgement_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub since_acknowledgement: Option<Duration>,

    // Bytes since the connection was established.
    /// Bytes sent, including retransmitted ones.
    pub bytes_sent: Option<u64>,
    /// Bytes retransmitted.
    pub bytes_retransmitted: Option<u64>,
    /// Bytes that the peer has acknowledged. The connection's own start and end count as a byte
    /// each, once acknowledged: the side that connected begins with 1.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order; the peer's FIN counts as one.
    pub bytes_received: Option<u64>,

    // Segments.
    /// Segments retransmitted since the connection was established.
    pub retransmitted_segments: u32,
    /// Segments sent and not acknowledged.
    pub unacked_segments: u32,
    /// Probes of a zero window, or of a silent peer, since the peer's host last answered a packet.
    /// A living host answers, also if its processes do not run.
    pub unanswered_probes: u8,
    /// Segments that the kernel takes for lost.
    pub lost_segments: u32,
    /// Congestion window.
    pub congestion_window_segments: u32,
    /// The peer's receive window, as last advertised. Zero while the peer's application reads
    /// nothing.
    pub peer_window_bytes: Option<u32>,
    /// Payload of the largest segment to send.
    pub segment_size_bytes: u32,

    // The sender's rate and its limits.
    /// Bytes written and not sent yet.
    pub not_sent_bytes: Option<u32>,
    /// Rate of the latest delivery, of payload that the receiver acknowledged.
    #[serde(rename = "delivery_rate_bits_per_second")]
    pub delivery_rate: Option<Bandwidth>,
    /// Whether the application bounded that rate, because it had no more to send: the network could
    /// have carried more.
    pub delivery_rate_app_limited: Option<bool>,
    /// Rate at which the kernel paces sending; `None` also if it does not pace.
    #[serde(rename = "pacing_rate_bits_per_second")]
    pub pacing_rate: Option<Bandwidth>,
    /// Time with unsent or unacknowledged data.
    #[serde(rename = "busy_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub busy: Option<Duration>,
    /// The part of that time in which the peer's window held sending back: the receiver was too
    /// slow.
    #[serde(rename = "receive_window_limited_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub receive_window_limited: Option<Duration>,
    /// The part of that time in which the send buffer was too small.
    #[serde(rename = "send_buffer_limited_us", serialize_with = "As::<Option<DurationMicroSeconds>>::serialize")]
    pub send_buffer_limited: Option<Duration>,
}

/// State of a TCP connection ([RFC 9293](https://www.rfc-editor.org/rfc/rfc9293#section-3.3.2),
/// include/net/tcp_states.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the states are the standard's, by its names")]
#[non_exhaustive]
pub enum TcpState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    /// A state without a name in this crate.
    Other(u8),
}

impl TcpStats {
    pub(crate) fn read(socket: &impl AsFd, local: SocketAddr, peer: SocketAddr) -> Result<Self, StatsError> {
        let info = TcpInfo::of(socket.as_fd()).map_err(|source| StatsError::Call {
            call: "getsockopt(TCP_INFO)",
            local,
            peer,
            source,
        })?;
        let congestion = socket_options::congestion(&SockRef::from(socket));
        let congestion = congestion.map_err(|source| StatsError::Option { local, peer, source: Box::new(source) })?;
        Self::parse(&info, congestion).ok_or_else(|| {
            let source = format!("TCP_INFO has {} bytes, too few", info.length()).into();
            StatsError::Other { local, peer, source }
        })
    }

    /// `None` if a field is missing that Linux has had since 2.6.
    fn parse(info: &TcpInfo, congestion: Option<String>) -> Option<Self> {
        let micros = |field| info.u64(field).map(Duration::from_micros);
        // Zero stands for "not measured yet", and all ones for "no minimum yet" and "not paced".
        let measured = |field| info.u32(field).filter(|us| *us != 0 && *us != u32::MAX);
        let rtt = |field| measured(field).map(|us| Duration::from_micros(us.into()));
        let rate = |field| {
            let bytes_per_second = info.u64(field).filter(|bytes| *bytes != 0 && *bytes != u64::MAX)?;
            Some(Bandwidth::bits_per_second(bytes_per_second.saturating_mul(8)))
        };
        let delivery_rate = rate(Field::DELIVERY_RATE);
        Some(Self {
            state: TcpState::from_kernel(info.u8(Field::STATE)?),
            congestion,
            rtt: rtt(Field::RTT),
            rtt_variation: rtt(Field::RTT).and(rtt(Field::RTTVAR)),
            min_rtt: rtt(Field::MIN_RTT),
            since_acknowledgement: info.u32(Field::LAST_ACK_RECV).map(|ms| Duration::from_millis(ms.into())),
            bytes_sent: info.u64(Field::BYTES_SENT),
            bytes_retransmitted: info.u64(Field::BYTES_RETRANS),
            bytes_acked: info.u64(Field::BYTES_ACKED),
            bytes_received: info.u64(Field::BYTES_RECEIVED),
            retransmitted_segments: info.u32(Field::TOTAL_RETRANS)?,
            unacked_segments: info.u32(Field::UNACKED)?,
            unanswered_probes: info.u8(Field::PROBES)?,
            lost_segments: info.u32(Field::LOST)?,
            congestion_window_segments: info.u32(Field::SND_CWND)?,
            peer_window_bytes: info.u32(Field::SND_WND),
            segment_size_bytes: info.u32(Field::SND_MSS)?,
            not_sent_bytes: info.u32(Field::NOTSENT_BYTES),
            delivery_rate_app_limited: delivery_rate.and(info.u8(Field::FLAGS)).map(|flags| flags & APP_LIMITED != 0),
            delivery_rate,
            pacing_rate: rate(Field::PACING_RATE),
            busy: micros(Field::BUSY_TIME),
            receive_window_limited: micros(Field::RWND_LIMITED),
            send_buffer_limited: micros(Field::SNDBUF_LIMITED),
        })
    }
}

/// Whether the peer's host has answered all packets of a TCP socket, or one of them within that
/// time (in steps of the kernel's timer, up to 10 ms): those with bytes, and the probes of a closed
/// window or of an idle connection. Such a host is alive, also while its process is stopped.
///
/// # Errors
/// The kernel's.
pub fn is_answered(socket: &impl AsFd, within: Duration) -> io::Result<bool> {
    Ok(is_alive(&TcpInfo::of(socket.as_fd())?, within))
}

fn is_alive(info: &TcpInfo, within: Duration) -> bool {
    let is_all_answered = info.u32(Field::UNACKED) == Some(0) && info.u8(Field::PROBES) == Some(0);
    // On a busy connection the latest packets are always unanswered.
    is_all_answered || info.u32(Field::LAST_ACK_RECV).is_some_and(|ms| Duration::from_millis(ms.into()) < within)
}

impl TcpState {
    /// include/net/tcp_states.h.
    fn from_kernel(number: u8) -> Self {
        match number {
            1 => Self::Established,
            2 => Self::SynSent,
            // 12 is TCP_NEW_SYN_RECV, the same state before the kernel has created the socket.
            3 | 12 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            other => Self::Other(other),
        }
    }
}

/// `tcpi_delivery_rate_app_limited` is the first bit field of its byte: C compilers use the least
/// significant bit on little-endian machines and the most significant one on big-endian machines.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") { 1 } else { 0x80 };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The answer of a kernel of `length` bytes that has these fields.
    fn info(length: usize, fields: &[(Field, &[u8])]) -> TcpInfo {
        let mut bytes = vec![0; length];
        for (Field(offset), value) in fields {
            bytes[*offset..offset + value.len()].copy_from_slice(value);
        }
        TcpInfo::from_bytes(&bytes)
    }

    #[test]
    fn unmeasured_figures_are_unknown_and_not_zero() {
        let all_ones = u32::MAX.to_ne_bytes();
        let info = info(256, &[(Field::STATE, &[1]), (Field::MIN_RTT, &all_ones), (Field::PACING_RATE, &[0xff; 8])]);
        let stats = TcpStats::parse(&info, Some("cubic".to_owned())).expect("it has all fields");
        assert_eq!(stats.state, TcpState::Established);
        assert_eq!((stats.rtt, stats.rtt_variation, stats.min_rtt), (None, None, None));
        assert_eq!((stats.delivery_rate, stats.delivery_rate_app_limited, stats.pacing_rate), (None, None, None));
        assert_eq!(stats.bytes_received, Some(0), "zero received bytes is a figure");
    }

    #[test]
    fn figures_have_their_units() {
        let fields: &[(Field, &[u8])] = &[
            (Field::STATE, &[1]),
            (Field::FLAGS, &[APP_LIMITED]),
            (Field::RTT, &1500_u32.to_ne_bytes()),
            (Field::DELIVERY_RATE, &1000_u64.to_ne_bytes()),
        ];
        let stats = TcpStats::parse(&info(256, fields), Some("reno".to_owned())).expect("it has all fields");
        let json = serde_json::to_value(&stats).expect("it serializes");
        assert_eq!(json["rtt_us"], 1500);
        assert_eq!(json["min_rtt_us"], serde_json::Value::Null);
        assert_eq!(json["delivery_rate_bits_per_second"], 8000);
        assert_eq!(json["delivery_rate_app_limited"], true);
        assert_eq!(json["state"], "established");
    }

    /// Bytes that a closed window holds back are the process's affair.
    #[test]
    fn unanswered_packets_are_data_and_probes() {
        let number = u32::to_ne_bytes;
        let within = Duration::from_millis(300);
        let answered = |fields: &[(Field, &[u8])]| is_alive(&info(256, fields), within);
        let silent = |field, value: &[u8]| !answered(&[(field, value), (Field::LAST_ACK_RECV, &number(300))]);
        assert!(!silent(Field::NOTSENT_BYTES, &number(1_000)));
        assert!(silent(Field::UNACKED, &number(1)) && silent(Field::PROBES, &[1]));
        assert!(answered(&[(Field::UNACKED, &number(1)), (Field::LAST_ACK_RECV, &number(299))]));
    }

    #[test]
    fn tcp_info_of_an_old_kernel() {
        let old =
            TcpStats::parse(&info(104, &[(Field::STATE, &[8])]), Some("reno".to_owned())).expect("Linux 2.6 had these");
        assert_eq!((old.state, old.bytes_acked, old.not_sent_bytes), (TcpState::CloseWait, None, None));
        assert_eq!(TcpStats::parse(&info(103, &[]), None), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let stats = TcpStats::parse(&TcpInfo::from_bytes(&bytes), None);
            prop_assert_eq!(stats.is_some(), bytes.len() >= 104);
        }
    }
}
