//! TCP's socket options: set before a socket connects or listens, and read back.

use crate::{
    KeepAlive, SocketOptionError, TcpTransport,
    socket::{get, known, prefer, set},
    sys::option::SocketOption,
};
use rails_topo::DataSize;
use socket2::{SockRef, Socket, TcpKeepalive};
use std::{io, time::Duration};

/// Sets the options of every lane. Accepted sockets inherit them from their listener. Those at
/// their defaults, and all with `leave_out_refused`, only improve a lane, which works without them
/// if the system refuses them.
///
/// Buffer sizes must be set before the connection is established, because the handshake fixes the
/// window scale (tcp(7)).
pub(crate) fn set_options(socket: &Socket, options: &TcpTransport) -> Result<(), SocketOptionError> {
    let defaults = TcpTransport::new();
    let required = !options.leaves_out_refused;
    if let Some(size) = options.send_buffer {
        prefer("SO_SNDBUF", size, required, socket.set_send_buffer_size(c_int(size)))?;
    }
    if let Some(size) = options.receive_buffer {
        prefer("SO_RCVBUF", size, required, socket.set_recv_buffer_size(c_int(size)))?;
    }
    if let Some(size) = options.not_sent_lowat {
        let bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
        let result = not_zero(bytes).and_then(|bytes| socket.set_tcp_notsent_lowat(bytes));
        prefer("TCP_NOTSENT_LOWAT", size, required && options.not_sent_lowat != defaults.not_sent_lowat, result)?;
    }
    let no_delay = options.no_delay;
    prefer("TCP_NODELAY", no_delay, required && no_delay != defaults.no_delay, socket.set_tcp_nodelay(no_delay))?;
    if let Some(size) = options.max_segment {
        let bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
        prefer("TCP_MAXSEG", size, required, not_zero(bytes).and_then(|bytes| socket.set_tcp_mss(bytes)))?;
    }
    if let Some(name) = &options.congestion {
        prefer("TCP_CONGESTION", format_args!("`{name}`"), required, socket.set_tcp_congestion(name.as_bytes()))?;
    }
    if let Some(KeepAlive { idle, interval, probes }) = options.keepalive {
        // Each of the three also switches SO_KEEPALIVE on.
        let set_one = |option, value: String, one| {
            prefer(option, value, required && options.keepalive != defaults.keepalive, socket.set_tcp_keepalive(&one))
        };
        let times = TcpKeepalive::new();
        set_one("TCP_KEEPIDLE", format!("{idle:?}"), times.clone().with_time(whole_seconds(idle)))?;
        set_one("TCP_KEEPINTVL", format!("{interval:?}"), times.clone().with_interval(whole_seconds(interval)))?;
        set_one("TCP_KEEPCNT", probes.to_string(), times.with_retries(probes))?;
    }
    if let Some(timeout) = options.user_timeout {
        let milliseconds = not_zero(round_up(timeout, Duration::from_millis(1))).map(Duration::from_millis);
        let result = milliseconds.and_then(|timeout| socket.set_tcp_user_timeout(Some(timeout)));
        prefer("TCP_USER_TIMEOUT", format_args!("{timeout:?}"), required, result)?;
    }
    if let Some(time) = options.rto_max {
        let milliseconds = round_up(time, Duration::from_millis(1)).min(libc::c_int::MAX as u64) as libc::c_int;
        match SocketOption::RTO_MAX.set(socket, milliseconds) {
            // Older kernels do not have the option; the settings read back show it.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
            result => {
                prefer(
                    "TCP_RTO_MAX_MS",
                    format_args!("{time:?}"),
                    required && options.rto_max != defaults.rto_max,
                    result,
                )?;
            }
        }
    }
    if let Some(cpu) = options.incoming_cpu {
        prefer("SO_INCOMING_CPU", cpu, required, socket.set_cpu_affinity(cpu.0 as usize))?;
    }
    if let Some(time) = options.busy_poll {
        let micros = round_up(time, Duration::from_micros(1)).min(libc::c_int::MAX as u64) as libc::c_int;
        let result = not_zero(micros).and_then(|micros| SocketOption::BUSY_POLL.set(socket, micros));
        prefer("SO_BUSY_POLL", format_args!("{time:?}"), required, result)?;
    }
    Ok(())
}

/// The time that reads poll the NIC; `None` if they do not.
pub(crate) fn busy_poll(socket: &SockRef<'_>) -> Result<Option<Duration>, SocketOptionError> {
    let micros = get("SO_BUSY_POLL", SocketOption::BUSY_POLL.get(&**socket))?;
    Ok(u64::try_from(micros).ok().filter(|micros| *micros > 0).map(Duration::from_micros))
}

/// The longest retransmission timeout; `None` if the kernel does not have the option.
pub(crate) fn rto_max(socket: &SockRef<'_>) -> Result<Option<Duration>, SocketOptionError> {
    let milliseconds = known("TCP_RTO_MAX_MS", SocketOption::RTO_MAX.get(&**socket))?;
    Ok(milliseconds.and_then(|milliseconds| u64::try_from(milliseconds).ok()).map(Duration::from_millis))
}

/// The unsent bytes at which the socket stops being writable; `None` is the system's.
pub(crate) fn not_sent_lowat(socket: &SockRef<'_>) -> Result<Option<DataSize>, SocketOptionError> {
    let bytes = get("TCP_NOTSENT_LOWAT", socket.tcp_notsent_lowat())?;
    Ok(Some(DataSize::bytes(bytes.into())).filter(|_| bytes != 0))
}

/// Lets a connected socket send without copies, and reads the option back.
pub(crate) fn allow_zero_copy(socket: &SockRef<'_>) -> Result<(), SocketOptionError> {
    set("SO_ZEROCOPY", 1, SocketOption::ZEROCOPY.set(&**socket, 1))?;
    match zero_copy(socket)? {
        true => Ok(()),
        false => set("SO_ZEROCOPY", 1, Err(io::Error::other("it does not read back as set"))),
    }
}

/// Whether the socket may send without copies.
pub(crate) fn zero_copy(socket: &SockRef<'_>) -> Result<bool, SocketOptionError> {
    Ok(get("SO_ZEROCOPY", SocketOption::ZEROCOPY.get(&**socket))? != 0)
}

/// The size of the send buffer, with the kernel's own bookkeeping; `None` where it may not be read.
pub(crate) fn send_buffer(socket: &SockRef<'_>) -> Result<Option<DataSize>, SocketOptionError> {
    let bytes = known("SO_SNDBUF", socket.send_buffer_size())?;
    Ok(bytes.map(|bytes| DataSize::bytes(bytes as u64)))
}

/// As [`send_buffer`], of the receive buffer.
pub(crate) fn receive_buffer(socket: &SockRef<'_>) -> Result<Option<DataSize>, SocketOptionError> {
    let bytes = known("SO_RCVBUF", socket.recv_buffer_size())?;
    Ok(bytes.map(|bytes| DataSize::bytes(bytes as u64)))
}

/// The name of the congestion control; `None` where it may not be read.
pub(crate) fn congestion(socket: &SockRef<'_>) -> Result<Option<String>, SocketOptionError> {
    let padded = known("TCP_CONGESTION", socket.tcp_congestion())?;
    let name = |padded: Vec<u8>| padded.split(|byte| *byte == 0).next().unwrap_or_default().to_owned();
    Ok(padded.map(|padded| String::from_utf8_lossy(&name(padded)).into_owned()))
}

/// Refuses zero, which the kernel takes for "the system's value" in these options, and which no
/// caller means.
fn not_zero<N: Default + PartialEq>(value: N) -> io::Result<N> {
    if value == N::default() { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok(value) }
}

/// Rounds up to whole seconds, which the kernel counts. Rounding down would shorten the time, down
/// to zero, which the kernel refuses.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(round_up(time, Duration::from_secs(1)))
}

/// The number of `unit`s that cover `time`.
fn round_up(time: Duration, unit: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(unit.as_nanos())).unwrap_or(u64::MAX)
}

/// Cuts a buffer size to an `int`, which the kernel reads. A larger size is beyond every limit of
/// the kernel.
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
