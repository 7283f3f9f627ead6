//! TCP's socket options: set before a socket connects or listens, and read back.

use crate::{
    KeepAlive, OptionError, TcpTransport,
    socket::{get, set},
    sys::option::SocketOption,
};
use rails_topo::DataSize;
use socket2::{SockRef, Socket, TcpKeepalive};
use std::{io, time::Duration};

/// Sets the options of every lane. Accepted sockets inherit them from their listener.
///
/// Buffer sizes must be set before the connection is established, because the handshake fixes the window scale
/// (tcp(7)).
pub(crate) fn set_options(socket: &Socket, options: &TcpTransport) -> Result<(), OptionError> {
    if let Some(size) = options.send_buffer {
        set("SO_SNDBUF", size, socket.set_send_buffer_size(c_int(size)))?;
    }
    if let Some(size) = options.receive_buffer {
        set("SO_RCVBUF", size, socket.set_recv_buffer_size(c_int(size)))?;
    }
    if let Some(size) = options.not_sent_lowat {
        let bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
        set("TCP_NOTSENT_LOWAT", size, not_zero(bytes).and_then(|bytes| socket.set_tcp_notsent_lowat(bytes)))?;
    }
    set("TCP_NODELAY", options.no_delay, socket.set_tcp_nodelay(options.no_delay))?;
    if let Some(size) = options.most_segment {
        let bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
        set("TCP_MAXSEG", size, not_zero(bytes).and_then(|bytes| socket.set_tcp_mss(bytes)))?;
    }
    if let Some(name) = &options.congestion {
        set("TCP_CONGESTION", format_args!("`{name}`"), socket.set_tcp_congestion(name.as_bytes()))?;
    }
    if let Some(KeepAlive { idle, interval, probes }) = options.keepalive {
        // Each of the three switches SO_KEEPALIVE on too.
        let set_one = |one| socket.set_tcp_keepalive(&one);
        let times = TcpKeepalive::new();
        set("TCP_KEEPIDLE", format_args!("{idle:?}"), set_one(times.clone().with_time(whole_seconds(idle))))?;
        set(
            "TCP_KEEPINTVL",
            format_args!("{interval:?}"),
            set_one(times.clone().with_interval(whole_seconds(interval))),
        )?;
        set("TCP_KEEPCNT", probes, set_one(times.with_retries(probes)))?;
    }
    if let Some(timeout) = options.user_timeout {
        let milliseconds = not_zero(round_up(timeout, Duration::from_millis(1))).map(Duration::from_millis);
        let result = milliseconds.and_then(|timeout| socket.set_tcp_user_timeout(Some(timeout)));
        set("TCP_USER_TIMEOUT", format_args!("{timeout:?}"), result)?;
    }
    if let Some(time) = options.rto_max {
        let milliseconds = round_up(time, Duration::from_millis(1)).min(libc::c_int::MAX as u64) as libc::c_int;
        match SocketOption::RTO_MAX.set(socket, milliseconds) {
            // Older kernels do not have the option; the settings read back show it.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
            result => set("TCP_RTO_MAX_MS", format_args!("{time:?}"), result)?,
        }
    }
    if let Some(cpu) = options.incoming_cpu {
        set("SO_INCOMING_CPU", cpu, socket.set_cpu_affinity(cpu.0 as usize))?;
    }
    if let Some(time) = options.busy_poll {
        let micros = round_up(time, Duration::from_micros(1)).min(libc::c_int::MAX as u64) as libc::c_int;
        let result = not_zero(micros).and_then(|micros| SocketOption::BUSY_POLL.set(socket, micros));
        set("SO_BUSY_POLL", format_args!("{time:?}"), result)?;
    }
    Ok(())
}

/// For how long reads poll the NIC; `None` if they do not.
pub(crate) fn busy_poll(socket: &SockRef<'_>) -> Result<Option<Duration>, OptionError> {
    let micros = get("SO_BUSY_POLL", SocketOption::BUSY_POLL.get(&**socket))?;
    Ok(u64::try_from(micros).ok().filter(|micros| *micros > 0).map(Duration::from_micros))
}

/// The longest retransmission timeout; `None` if the kernel does not have the option.
pub(crate) fn rto_max(socket: &SockRef<'_>) -> Result<Option<Duration>, OptionError> {
    match SocketOption::RTO_MAX.get(&**socket) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        result => {
            let milliseconds = u64::try_from(get("TCP_RTO_MAX_MS", result)?).ok();
            Ok(milliseconds.map(Duration::from_millis))
        }
    }
}

/// Lets a connected socket send without copies, and reads the option back.
pub(crate) fn allow_zero_copy(socket: &SockRef<'_>) -> Result<(), OptionError> {
    set("SO_ZEROCOPY", 1, SocketOption::ZEROCOPY.set(&**socket, 1))?;
    match zero_copy(socket)? {
        true => Ok(()),
        false => set("SO_ZEROCOPY", 1, Err(io::Error::other("it does not read back as set"))),
    }
}

/// Whether the socket may send without copies.
pub(crate) fn zero_copy(socket: &SockRef<'_>) -> Result<bool, OptionError> {
    Ok(get("SO_ZEROCOPY", SocketOption::ZEROCOPY.get(&**socket))? != 0)
}

/// The options that the kernel may change: the send buffer, the receive buffer and the congestion control.
pub(crate) fn read_back(socket: &SockRef<'_>) -> Result<(DataSize, DataSize, String), OptionError> {
    let send = get("SO_SNDBUF", socket.send_buffer_size())?;
    let receive = get("SO_RCVBUF", socket.recv_buffer_size())?;
    Ok((DataSize::bytes(send as u64), DataSize::bytes(receive as u64), congestion(socket)?))
}

/// The name of the congestion control.
pub(crate) fn congestion(socket: &SockRef<'_>) -> Result<String, OptionError> {
    let padded = get("TCP_CONGESTION", socket.tcp_congestion())?;
    let name = padded.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Refuses zero, which the kernel takes for "the system's value" in these options, and a caller does not mean.
fn not_zero<N: Default + PartialEq>(value: N) -> io::Result<N> {
    if value == N::default() { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(value) }
}

/// Rounds up to whole seconds, which the kernel counts. Rounding down would shorten the time, down to zero, which the
/// kernel refuses.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(round_up(time, Duration::from_secs(1)))
}

/// The number of `unit`s that cover `time`.
fn round_up(time: Duration, unit: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(unit.as_nanos())).unwrap_or(u64::MAX)
}

/// Cuts a buffer size to an `int`, which the kernel reads. A larger size is beyond every limit of the kernel.
pub(super) fn c_int(size: DataSize) -> usize {
    size.as_bytes().min(libc::c_int::MAX as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_the_kernels_units() {
        let second = Duration::from_secs(1);
        assert_eq!(round_up(Duration::ZERO, second), 0);
        assert_eq!(round_up(Duration::from_nanos(1), second), 1);
        assert_eq!(round_up(second, second), 1);
        assert_eq!(round_up(Duration::from_millis(1001), second), 2);
        assert_eq!(round_up(Duration::MAX, Duration::from_nanos(1)), u64::MAX);
    }
}
