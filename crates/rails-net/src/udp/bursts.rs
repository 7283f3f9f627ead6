//! Bursts of equal datagrams, with or without the kernel's segmentation.

use super::slices::with_part;
use std::{
    io::{self, IoSlice},
    num::NonZeroU16,
    sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed},
};

/// A socket's knowledge of the kernel's segmentation.
#[derive(Debug)]
pub(super) struct Bursts {
    /// Whether the kernel gets bursts as a whole.
    segmentation: AtomicBool,
    max_segments: AtomicU16,
}

impl Bursts {
    /// The payload of the largest IPv4 datagram, since the kernel builds one and cuts it.
    pub(super) const MAX_BURST_BYTES: usize = 65_507;

    /// `UDP_MAX_SEGMENTS` in include/linux/udp.h, since Linux 6.9.
    pub(super) const MAX_SEGMENTS: u16 = 128;

    /// `UDP_MAX_SEGMENTS` of older kernels.
    pub(super) const FEWER_SEGMENTS: u16 = 64;

    /// `UIO_MAXIOV` in include/uapi/linux/uio.h.
    pub(super) const MAX_SLICES: usize = 1024;

    pub(super) fn new(segmentation: bool) -> Self {
        Self { segmentation: segmentation.into(), max_segments: Self::MAX_SEGMENTS.into() }
    }

    pub(super) fn segmentation(&self) -> bool {
        self.segmentation.load(Relaxed)
    }

    pub(super) fn max_segments(&self) -> u16 {
        self.max_segments.load(Relaxed)
    }

    /// Sends the slices as datagrams of `segment` bytes, the last of which may be shorter; `kernel`
    /// makes one `sendmsg` call, with the size at which the kernel cuts.
    ///
    /// Returns the bytes of the datagrams that the kernel accepted: all of them, or the first ones.
    /// After an error the kernel has accepted none.
    pub(super) fn send(
        &self,
        slices: &[IoSlice<'_>],
        segment: Option<NonZeroU16>,
        mut kernel: impl FnMut(&[IoSlice<'_>], Option<NonZeroU16>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        // The kernel's answer would be EMSGSIZE, which a caller takes for an MTU (`copy_msghdr_from_user`,
        // net/socket.c).
        if slices.len() > Self::MAX_SLICES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let Some(segment) = segment.filter(|segment| total > usize::from(segment.get())) else {
            return kernel(slices, None);
        };
        let segments = total.div_ceil(segment.get().into());
        if total > Self::MAX_BURST_BYTES || segments > usize::from(Self::MAX_SEGMENTS) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !self.segmentation() {
            return self.send_singly(slices, total, segment, kernel);
        }
        let most = usize::from(self.max_segments());
        let outcome = send_first(slices, most.min(segments), total, segment, &mut kernel);
        let Err(error) = &outcome else { return outcome };
        if !is_refusal(error) {
            return outcome;
        }
        let few = usize::from(Self::FEWER_SEGMENTS);
        if segments > few && most > few {
            let outcome = send_first(slices, few, total, segment, &mut kernel);
            if outcome.is_ok() {
                self.max_segments.store(Self::FEWER_SEGMENTS, Relaxed);
                return outcome;
            }
        }
        self.send_singly(slices, total, segment, kernel)
    }

    /// Makes a call for each datagram, up to the first error. A single datagram that the kernel
    /// accepts proves that the error was about segmentation: before Linux 6.14, a datagram above
    /// the interface's MTU is the same error in a burst.
    fn send_singly(
        &self,
        slices: &[IoSlice<'_>],
        total: usize,
        segment: NonZeroU16,
        mut kernel: impl FnMut(&[IoSlice<'_>], Option<NonZeroU16>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut sent = 0;
        while sent < total {
            let end = total.min(sent + usize::from(segment.get()));
            match with_part(slices, sent..end, |datagram| kernel(datagram, None)) {
                Ok(_) => sent = end,
                Err(error) if sent == 0 => return Err(error),
                // The next call meets the error again, if it lasts.
                Err(_) => break,
            }
            if self.segmentation.swap(false, Relaxed) {
                tracing::warn!("the kernel refuses to segment UDP datagrams: each takes a system call from now on");
            }
        }
        Ok(sent)
    }
}

/// Sends the first `count` segments in one call.
fn send_first(
    slices: &[IoSlice<'_>],
    count: usize,
    total: usize,
    segment: NonZeroU16,
    kernel: &mut impl FnMut(&[IoSlice<'_>], Option<NonZeroU16>) -> io::Result<usize>,
) -> io::Result<usize> {
    let bytes = count * usize::from(segment.get());
    if bytes >= total {
        return kernel(slices, Some(segment));
    }
    with_part(slices, 0..bytes, |part| kernel(part, Some(segment)))
}

/// Whether the error is the kernel's for a burst that it cannot segment: `EIO` for a device without
/// checksum offload (before Linux 6.11) and for IPsec, `EINVAL` for too many segments and for a
/// socket without checksums (`udp_send_skb` in net/ipv4/udp.c).
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A kernel that takes bursts of so many segments of at most so many bytes, and fails at one
    /// call.
    struct Kernel {
        max_segments: usize,
        refusal: i32,
        mtu: usize,
        fails_at: Option<usize>,
        calls: usize,
        datagrams: Vec<Vec<u8>>,
    }

    impl Kernel {
        fn new(max_segments: usize, refusal: i32) -> Self {
            Self { max_segments, refusal, mtu: usize::MAX, fails_at: None, calls: 0, datagrams: Vec::new() }
        }

        fn send(&mut self, slices: &[IoSlice<'_>], segment: Option<NonZeroU16>) -> io::Result<usize> {
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let size = segment.map_or(bytes.len().max(1), |segment| segment.get().into());
            self.calls += 1;
            if self.fails_at == Some(self.calls) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if segment.is_some() && (bytes.len().div_ceil(size) > self.max_segments || size > self.mtu) {
                return Err(io::Error::from_raw_os_error(self.refusal));
            }
            if size > self.mtu {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            self.datagrams.extend(bytes.chunks(size).map(<[u8]>::to_vec));
            Ok(bytes.len())
        }
    }

    fn segment(bytes: u16) -> Option<NonZeroU16> {
        NonZeroU16::new(bytes)
    }

    #[test]
    fn datagrams_one_by_one_where_the_kernel_cuts_none() {
        for refusal in [libc::EIO, libc::EINVAL] {
            let (bursts, mut kernel) = (Bursts::new(true), Kernel::new(0, refusal));
            let sent = bursts.send(&[IoSlice::new(&[7; 25])], segment(10), |s, n| kernel.send(s, n));
            assert_eq!(sent.expect("it takes them"), 25);
            assert_eq!(kernel.datagrams, [vec![7; 10], vec![7; 10], vec![7; 5]]);
            assert_eq!((kernel.calls, bursts.segmentation()), (4, false));
            let sent = bursts.send(&[IoSlice::new(&[7; 20])], segment(10), |s, n| kernel.send(s, n));
            assert_eq!((sent.expect("it takes them"), kernel.calls), (20, 6), "the kernel is not asked again");
        }
    }

    #[test]
    fn an_older_kernel_segments_on_with_fewer_at_a_time() {
        let (bursts, mut kernel) = (Bursts::new(true), Kernel::new(64, libc::EINVAL));
        let bytes: Vec<u8> = (0..100).collect();
        let sent = bursts.send(&[IoSlice::new(&bytes)], segment(1), |s, n| kernel.send(s, n));
        assert_eq!((sent.expect("it takes the first"), bursts.max_segments()), (64, 64));
        let sent = bursts.send(&[IoSlice::new(&bytes)], segment(1), |s, n| kernel.send(s, n));
        assert_eq!((sent.expect("it takes the first"), kernel.calls), (64, 3));
        assert!(bursts.segmentation());
    }

    #[test]
    fn a_datagram_above_the_mtu_is_no_refusal_to_segment() {
        let (bursts, mut kernel) = (Bursts::new(true), Kernel { mtu: 9, ..Kernel::new(64, libc::EINVAL) });
        let sent = bursts.send(&[IoSlice::new(&[7; 25])], segment(10), |s, n| kernel.send(s, n));
        assert_eq!(sent.expect_err("too large").raw_os_error(), Some(libc::EMSGSIZE));
        assert!(bursts.segmentation() && kernel.datagrams.is_empty());
    }

    #[test]
    fn limits_are_refused_just_above_them() {
        let bursts = Bursts::new(true);
        let send = |slices: &[IoSlice<'_>], bytes| bursts.send(slices, segment(bytes), |slices, _| Ok(slices.len()));
        let long = vec![0; Bursts::MAX_BURST_BYTES + 1];
        let refused = |outcome: io::Result<usize>| outcome.expect_err("refused").kind() == io::ErrorKind::InvalidInput;
        assert!(send(&[IoSlice::new(&long[1..])], 1000).is_ok());
        assert!(refused(send(&[IoSlice::new(&long)], 1000)));
        assert!(send(&[IoSlice::new(&long[..128])], 1).is_ok());
        assert!(refused(send(&[IoSlice::new(&long[..129])], 1)));
        assert!(send(&vec![IoSlice::new(&[]); 1024], 1).is_ok());
        assert!(refused(send(&vec![IoSlice::new(&[]); 1025], 1)));
    }

    proptest! {
        #[test]
        fn no_datagram_is_lost_or_doubled(
            lengths in prop::collection::vec(0_usize..40, 1..20),
            bytes in 1_u16..50,
            max_segments in prop::sample::select(vec![0, 64, 128]),
            refusal in prop::sample::select(vec![libc::EIO, libc::EINVAL]),
            fails_at in prop::option::of(1_usize..10),
        ) {
            let lists: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, n)| vec![i as u8; *n]).collect();
            let whole = lists.concat();
            prop_assume!(whole.len().div_ceil(bytes.into()) <= 128);
            let slices: Vec<IoSlice<'_>> = lists.iter().map(|list| IoSlice::new(list)).collect();
            let (bursts, mut kernel) = (Bursts::new(true), Kernel::new(max_segments, refusal));
            kernel.fails_at = fails_at;
            let mut sent = 0;
            // A caller that goes on after the datagrams that were taken.
            for _ in 0..1000 {
                let taken = with_part(&slices, sent..whole.len(), |rest| {
                    bursts.send(rest, segment(bytes), |slices, segment| kernel.send(slices, segment))
                });
                sent += taken.unwrap_or(0);
                if sent == whole.len() {
                    break;
                }
            }
            let expected: Vec<Vec<u8>> = whole.chunks(bytes.into()).map(<[u8]>::to_vec).collect();
            kernel.datagrams.retain(|datagram| !datagram.is_empty());
            prop_assert_eq!(&kernel.datagrams, &expected);
        }
    }
}
