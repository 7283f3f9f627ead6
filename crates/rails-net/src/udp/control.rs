//! Control messages of `sendmsg` and `recvmsg`, on the stack.

/// Control messages, encoded one after the other (cmsg(3), `struct cmsghdr` in
/// include/linux/socket.h).
///
/// `nix::sys::socket::sendmsg` encodes them too, and allocates memory on each call to do so.
#[derive(Debug)]
pub(super) struct Control {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Control {
    pub(super) fn new() -> Self {
        Self { bytes: [0; CAPACITY], length: 0 }
    }

    /// Adds a message.
    ///
    /// # Panics
    /// If there is no room, which is a broken invariant: callers add each of two kinds once.
    pub(super) fn push<const N: usize>(&mut self, level: libc::c_int, kind: libc::c_int, data: [u8; N]) {
        let message = &mut self.bytes[self.length..];
        message[..WORD].copy_from_slice(&(HEADER + N).to_ne_bytes());
        message[WORD..][..4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..][..N].copy_from_slice(&data);
        self.length += HEADER + N.next_multiple_of(WORD);
    }

    /// The messages so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The control messages in these bytes, as the kernel has laid them out: the level, the kind and
/// the data of each.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (libc::c_int, libc::c_int, &[u8])> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (level, rest) = rest.split_first_chunk()?;
        let (kind, _) = rest.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let data = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data))
    })
}

/// The kernel's `size_t`, which a message begins with, and at whose multiples messages begin
/// (`CMSG_ALIGN`).
const WORD: usize = size_of::<usize>();
/// The length, the level and the kind.
const HEADER: usize = (WORD + 8).next_multiple_of(WORD);
/// Room for two messages of at most eight bytes.
const CAPACITY: usize = 2 * (HEADER + 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_laid_out_as_by_the_c_library() {
        let mut control = Control::new();
        assert!(control.as_bytes().is_empty());
        control.push(libc::SOL_UDP, libc::UDP_SEGMENT, 1400_u16.to_ne_bytes());
        assert_eq!(control.as_bytes().len(), nix::sys::socket::cmsg_space::<u16>());
        control.push(libc::SOL_SOCKET, libc::SCM_TXTIME, 7_u64.to_ne_bytes());
        let space = nix::sys::socket::cmsg_space::<u16>() + nix::sys::socket::cmsg_space::<u64>();
        assert_eq!(control.as_bytes().len(), space);
        assert_eq!(HEADER, nix::sys::socket::cmsg_space::<()>());
        let read: Vec<_> = messages(control.as_bytes()).collect();
        let (size, time) = (1400_u16.to_ne_bytes(), 7_u64.to_ne_bytes());
        assert_eq!(
            read,
            [(libc::SOL_UDP, libc::UDP_SEGMENT, &size[..]), (libc::SOL_SOCKET, libc::SCM_TXTIME, &time[..])]
        );
    }

    #[test]
    fn bytes_that_are_no_control_message_end_them() {
        let mut control = Control::new();
        control.push(libc::SOL_UDP, libc::UDP_GRO, 1400_i32.to_ne_bytes());
        let bytes = control.as_bytes();
        (0..HEADER + 4).for_each(|length| assert_eq!(messages(&bytes[..length]).count(), 0, "{length}"));
        for length in [0, HEADER - 1, usize::MAX] {
            let mut other = bytes.to_vec();
            other[..WORD].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&other).count(), 0, "{length}");
        }
    }
}
