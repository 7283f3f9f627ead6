//! `atexit(3)` and `_exit(2)`.
//!
//! # Safety
//! The blocks argue that the C library may call the function at any later time, and that the
//! process may end at any.
#![allow(unsafe_code)]

use std::io;

/// Registers `hook` with the C library, which calls it when the process ends.
pub(crate) fn register(hook: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the call keeps the function's address and touches no memory of ours; the function is safe
    // to call, has the C library's calling convention, and its code is there until the process ends
    // or the library that contains it is unloaded, before which the C library calls it.
    let result = unsafe { libc::atexit(hook) };
    if result == 0 { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

/// Ends the process.
pub(crate) fn exit_at_once(code: i32) -> ! {
    // SAFETY: the call takes a number, touches no memory of ours, and does not return.
    unsafe { libc::_exit(code) }
}
