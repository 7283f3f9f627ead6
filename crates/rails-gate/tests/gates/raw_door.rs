//! The protocol of doors, written by hand.

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::Serialize;
use std::{
    io::IoSlice,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// A question, as `rails_gate` writes it.
#[derive(Serialize)]
enum Question {
    Connect { door: rails_gate::DoorKind, destination: SocketAddr, source: Option<SocketAddr> },
}

pub(crate) fn question(destination: SocketAddr) -> Vec<u8> {
    let question = Question::Connect { door: rails_gate::DoorKind::Stripe, destination, source: None };
    let value = postcard::to_stdvec(&question).unwrap();
    [&(value.len() as u32).to_be_bytes()[..], &value].concat()
}

/// A door to which the gate has said that the way is through; `None` if it goes plain.
pub(crate) async fn through(gate: &Path, destination: SocketAddr) -> Option<UnixStream> {
    let mut door = UnixStream::connect(gate).await.ok()?;
    door.write_all(&question(destination)).await.ok()?;
    for number in [0_u8, 1] {
        let length = door.read_u32().await.ok()?;
        let mut value = vec![0; length as usize];
        door.read_exact(&mut value).await.ok()?;
        // The gate asks, and says that the way is through.
        if value[0] != number {
            return None;
        }
    }
    Some(door)
}

/// Hands descriptors over, without an end of the conversation.
pub(crate) fn hand_over(door: &UnixStream, descriptors: &[OwnedFd]) {
    let descriptors: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let control = if descriptors.is_empty() { &[][..] } else { &rights };
    sendmsg::<()>(door.as_raw_fd(), &[IoSlice::new(b"x")], control, MsgFlags::empty(), None).unwrap();
}
