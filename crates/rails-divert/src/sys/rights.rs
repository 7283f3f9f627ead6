//! Descriptors over a Unix socket (`SCM_RIGHTS`, unix(7)).
//!
//! # Safety
//! nix receives numbers. The one block argues that the descriptors belong to nobody else.
#![allow(unsafe_code)]

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::{
    io::{self, IoSlice, IoSliceMut},
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
};

/// Sends one byte with two descriptors.
pub(crate) fn send(socket: &UnixStream, descriptors: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let numbers = descriptors.map(|descriptor| descriptor.as_raw_fd());
    let rights = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&[0])], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives two descriptors that were [sent](send), with close-on-exec set.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if anything else comes, or the end.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<[OwnedFd; 2]> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!([i32; 2]);
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut received = Vec::new();
    for part in message.cmsgs()? {
        let ControlMessageOwned::ScmRights(numbers) = part else { continue };
        // SAFETY: "the receiving process will have the file descriptors opened" by this very message, so
        // each number is a new descriptor of ours, and the message is read once.
        received.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
    }
    received.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        io::{Read, Write},
        os::fd::AsFd,
    };

    #[test]
    fn two_descriptors_arrive_and_nothing_else_is_taken() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        send(&ours, [writer.as_fd(), writer.as_fd()]).expect("it is sent");
        let [first, second] = receive(theirs.as_fd()).expect("it has arrived");
        drop((writer, second));
        File::from(first).write_all(b"x").expect("it is the pipe");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("it is readable");
        assert_eq!(text, "x");

        (&ours).write_all(b"x").expect("it is sent");
        assert_eq!(receive(theirs.as_fd()).expect_err("no descriptors").kind(), io::ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(receive(theirs.as_fd()).expect_err("the end").kind(), io::ErrorKind::InvalidData);
    }
}
