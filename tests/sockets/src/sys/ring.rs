//! Connections, reads and writes that no system call of their own carries: io_uring.
//!
//! # Safety
//!
//! The kernel uses an operation's memory until the operation has completed. Every function here
//! waits for that before it returns.
#![allow(unsafe_code)]

use io_uring::{IoUring, opcode, squeue, types::Fd};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, BorrowedFd},
};

/// A ring for one operation at a time.
pub(crate) struct Ring(IoUring);

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        IoUring::new(2).map(Self)
    }

    pub(crate) fn connect(&mut self, socket: BorrowedFd<'_>, to: SocketAddr) -> io::Result<()> {
        let address = socket2::SockAddr::from(to);
        let operation = opcode::Connect::new(Fd(socket.as_raw_fd()), address.as_ptr().cast(), address.len()).build();
        self.complete(&operation).map(drop)
    }

    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.complete(&opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length).build())
    }

    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.complete(&opcode::Recv::new(Fd(socket.as_raw_fd()), bytes.as_mut_ptr(), length).build())
    }

    fn complete(&mut self, operation: &squeue::Entry) -> io::Result<usize> {
        // SAFETY: "Developers must ensure that parameters of the entry (such as buffer) are valid and will
        // be valid for the entire duration of the operation": they are borrowed by the caller, which
        // returns after this function, and this function returns only when the operation has completed;
        // any failure before that ends the process, since the kernel might still use them.
        unsafe { self.0.submission().push(operation) }.expect("the ring has room for one operation");
        let completion = loop {
            match self.0.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    eprintln!("io_uring_enter failed with an operation under way: {error}");
                    std::process::abort();
                }
            }
            if let Some(completion) = self.0.completion().next() {
                break completion;
            }
        };
        let result = completion.result();
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
    }
}
