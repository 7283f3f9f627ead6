//! The kernel's notices that it is done with sends without a copy.

use nix::{
    cmsg_space,
    errno::Errno,
    sys::socket::{ControlMessageOwned, MsgFlags, recvmsg},
};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A range of sends that the kernel is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) low: u32,
    pub(super) high: u32,
    /// The kernel made a copy after all.
    pub(super) copied: bool,
}

/// Reads the next notice from the socket's error queue, without waiting; `None` if there is none.
///
/// # References
/// Documentation/networking/msg_zerocopy.rst; `struct sock_extended_err` in
/// include/uapi/linux/errqueue.h
pub(super) fn next(socket: BorrowedFd<'_>) -> Option<Notice> {
    let mut space = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    loop {
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(socket.as_raw_fd(), &mut [], Some(&mut space), flags) {
            Ok(message) => message,
            Err(Errno::EINTR) => continue,
            // Mostly EAGAIN; the next write returns any other error.
            Err(_) => return None,
        };
        let notice = message.cmsgs().ok()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => of(&error),
            _ => None,
        });
        // Other messages in the queue, which this crate does not request, are skipped.
        if notice.is_some() {
            return notice;
        }
    }
}

fn of(error: &libc::sock_extended_err) -> Option<Notice> {
    let is_ours = error.ee_errno == 0 && error.ee_origin == SO_EE_ORIGIN_ZEROCOPY;
    let copied = error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0;
    is_ours.then_some(Notice { low: error.ee_info, high: error.ee_data, copied })
}

/// include/uapi/linux/errqueue.h, which libc does not have.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
