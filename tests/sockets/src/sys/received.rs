//! Descriptors that the kernel has made for this process.
//!
//! # Safety
//!
//! A descriptor may have one owner. The one block argues that this one has none.
#![allow(unsafe_code)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Takes a descriptor out of a message that has just been received (`SCM_RIGHTS`). It must have
/// been taken by nobody else.
pub(crate) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel made the descriptor for this process when it received the message (unix(7)),
    // nix hands out its number alone, and the one caller passes each number once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
