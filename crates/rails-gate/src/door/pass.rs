//! Descriptors that pass from one process to another.

use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, sendmsg,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};
use tokio::{io::Interest, net::UnixStream, time::sleep};

/// Sends one byte, and the descriptor with it.
pub(super) async fn send_descriptor(over: &UnixStream, descriptor: &impl AsFd) -> io::Result<()> {
    over.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        let fits = control.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(fits, "the space is for one descriptor");
        sendmsg(over, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    })
    .await
}

/// Receives the descriptor that comes next; `None` if the sender has closed its end, or sends
/// something else. While this process has no room for a descriptor, it waits.
pub(crate) async fn receive_descriptor(over: &UnixStream) -> io::Result<Option<OwnedFd>> {
    loop {
        match over.async_io(Interest::READABLE, || look_for_descriptor(over)).await {
            Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => sleep(PAUSE).await,
            received => return received,
        }
    }
}

/// Leaves the message where it is: a descriptor for which there is no room would be lost otherwise
/// (unix(7), "SCM_RIGHTS").
fn look_for_descriptor(over: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK;
    let message = recvmsg(over, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut received = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            // Any more of them are closed here.
            received = descriptors.into_iter().next().or(received);
        }
    }
    if received.is_none() && message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    Ok(received)
}

/// The pause after a descriptor for which there was no room.
const PAUSE: Duration = Duration::from_millis(5);
