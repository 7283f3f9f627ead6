//! `getxattr(2)`.
//!
//! # Safety
//! nix does not have this call. The one block argues that the kernel writes nothing.
#![allow(unsafe_code)]

use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

/// Whether the file, or the one that the link stands for, has capabilities (capabilities(7), "File
/// capabilities").
pub(crate) fn has_capabilities(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let name = c"security.capability";
    // SAFETY: "If size is specified as zero, these calls return the current size of the named extended
    // attribute (and leave value unchanged)": both strings end with a null byte and outlive the
    // call, and no buffer is given.
    let size = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    if size != -1 {
        return Ok(size > 0);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::ENOTSUP) => Ok(false),
        _ => Err(error),
    }
}
