//! `getsockopt(TCP_INFO)`, into bytes that are read by the offsets of the kernel's `struct
//! tcp_info`.
//!
//! The struct grows at its end from kernel to kernel, and a kernel returns as much of it as it has.
//! A Rust struct after one kernel's header would show zeros for fields that another kernel does not
//! know. Reading by offset leaves them unknown.
//!
//! # Safety
//! socket2 does not wrap this option. The one block argues that the kernel writes no more than the
//! buffer holds.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The bytes that the kernel returned.
#[derive(Debug, Clone)]
pub(crate) struct TcpInfo {
    bytes: [u8; CAPACITY],
    length: usize,
}

/// A field of `struct tcp_info`, by its offset (include/uapi/linux/tcp.h; the offsets never
/// change).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field(pub(crate) usize);

/// Room for the struct of kernels to come: Linux 6.18 has 256 bytes or less of it.
const CAPACITY: usize = 512;

impl Field {
    pub(crate) const STATE: Self = Self(0);
    pub(crate) const PROBES: Self = Self(3);
    /// `tcpi_delivery_rate_app_limited` and `tcpi_fastopen_client_fail`: bit fields in one byte.
    pub(crate) const FLAGS: Self = Self(7);
    pub(crate) const SND_MSS: Self = Self(16);
    pub(crate) const UNACKED: Self = Self(24);
    pub(crate) const LOST: Self = Self(32);
    pub(crate) const LAST_ACK_RECV: Self = Self(56);
    pub(crate) const RTT: Self = Self(68);
    pub(crate) const RTTVAR: Self = Self(72);
    pub(crate) const SND_CWND: Self = Self(80);
    pub(crate) const TOTAL_RETRANS: Self = Self(100);
    pub(crate) const PACING_RATE: Self = Self(104);
    pub(crate) const BYTES_ACKED: Self = Self(120);
    pub(crate) const BYTES_RECEIVED: Self = Self(128);
    pub(crate) const NOTSENT_BYTES: Self = Self(144);
    pub(crate) const MIN_RTT: Self = Self(148);
    pub(crate) const DELIVERY_RATE: Self = Self(160);
    pub(crate) const BUSY_TIME: Self = Self(168);
    pub(crate) const RWND_LIMITED: Self = Self(176);
    pub(crate) const SNDBUF_LIMITED: Self = Self(184);
    pub(crate) const BYTES_SENT: Self = Self(200);
    pub(crate) const BYTES_RETRANS: Self = Self(208);
    /// Since Linux 5.17.
    pub(crate) const SND_WND: Self = Self(228);
}

impl TcpInfo {
    /// Asks the kernel about a TCP socket.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut bytes = [0; CAPACITY];
        let mut length = CAPACITY as libc::socklen_t;
        // SAFETY: "optlen is a value-result argument, initially containing the size of the buffer pointed
        // to by optval, and modified on return to indicate the actual size of the value returned":
        // both point to exclusively borrowed memory that outlives the call, and the size is that of
        // the array, whose bytes may hold any value.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { bytes, length: (length as usize).min(CAPACITY) })
    }

    /// The answer of a kernel with a struct of these bytes.
    #[cfg(test)]
    pub(crate) fn from_bytes(known: &[u8]) -> Self {
        let mut bytes = [0; CAPACITY];
        bytes[..known.len()].copy_from_slice(known);
        Self { bytes, length: known.len() }
    }

    /// The number of bytes that the kernel returned.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// A field of one byte; `None` if this kernel's struct ends before it.
    pub(crate) fn u8(&self, field: Field) -> Option<u8> {
        self.at(field).map(|[byte]| byte)
    }

    /// A field of four bytes.
    pub(crate) fn u32(&self, field: Field) -> Option<u32> {
        self.at(field).map(u32::from_ne_bytes)
    }

    /// A field of eight bytes.
    pub(crate) fn u64(&self, field: Field) -> Option<u64> {
        self.at(field).map(u64::from_ne_bytes)
    }

    fn at<const N: usize>(&self, Field(offset): Field) -> Option<[u8; N]> {
        self.bytes[..self.length].get(offset..)?.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn tcp_info_offsets_equal_the_c_librarys() {
        assert_eq!(Field::STATE, Field(offset_of!(libc::tcp_info, tcpi_state)));
        assert_eq!(Field::PROBES, Field(offset_of!(libc::tcp_info, tcpi_probes)));
        assert_eq!(Field::SND_MSS, Field(offset_of!(libc::tcp_info, tcpi_snd_mss)));
        assert_eq!(Field::UNACKED, Field(offset_of!(libc::tcp_info, tcpi_unacked)));
        assert_eq!(Field::LOST, Field(offset_of!(libc::tcp_info, tcpi_lost)));
        assert_eq!(Field::RTT, Field(offset_of!(libc::tcp_info, tcpi_rtt)));
        assert_eq!(Field::RTTVAR, Field(offset_of!(libc::tcp_info, tcpi_rttvar)));
        assert_eq!(Field::SND_CWND, Field(offset_of!(libc::tcp_info, tcpi_snd_cwnd)));
        assert_eq!(Field::TOTAL_RETRANS, Field(offset_of!(libc::tcp_info, tcpi_total_retrans)));
    }

    #[test]
    fn a_field_beyond_the_end_is_unknown_and_not_zero() {
        let info = TcpInfo::from_bytes(&[1; 123]);
        assert_eq!(info.u32(Field::TOTAL_RETRANS), Some(0x0101_0101));
        assert_eq!(info.u64(Field::BYTES_ACKED), None, "three of its eight bytes are there");
        assert_eq!(info.u64(Field::BYTES_RECEIVED), None);
        assert_eq!(TcpInfo::from_bytes(&[]).u8(Field::STATE), None);
    }
}
