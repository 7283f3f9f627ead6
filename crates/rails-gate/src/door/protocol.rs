//! Questions to a gate and its answers: a length in four bytes, and a value in postcard's format.

use super::{DoorKind, Plain};
use crate::status::GateStatus;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{io, net::SocketAddr, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Is there a way to this destination? The program's end follows as a descriptor.
    Connect { door: DoorKind, destination: SocketAddr, source: Option<SocketAddr> },
    /// The destinations that go through peers.
    Networks,
    /// The state of the gate.
    Status,
    /// The state of the gate, as text for Prometheus.
    Metrics,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The peer was asked, and answers within this time, or the connection goes plain.
    Asked { within: Duration },
    /// The service has accepted; the gate waits for the program's end.
    Through { peer: String },
    /// The connection goes plain.
    Plain(Plain),
    /// The targets, as the policy file has them.
    Networks(Vec<String>),
    /// The gate's state.
    Status(Box<GateStatus>),
    /// Text.
    Metrics(String),
}

/// Reads a value of at most `max` bytes, and no byte behind it.
pub(crate) async fn read<T: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin), max: u32) -> io::Result<T> {
    let length = from.read_u32().await?;
    if length > max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a value longer than the protocol of doors has any"));
    }
    // Memory grows with the bytes that are there.
    let mut bytes = Vec::new();
    let read = (&mut *from).take(u64::from(length)).read_to_end(&mut bytes).await?;
    if read < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a value that the protocol of doors does not have"))
}

/// Writes a value.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), value: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(value, bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length <= MAX_ANSWER);
    let length = length.ok_or_else(|| io::Error::other("a value longer than the protocol of doors takes"))?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    to.write_all(&bytes).await
}

/// The longest question, in bytes.
pub(crate) const MAX_QUESTION: u32 = 256;
/// The longest answer, in bytes: a state with as many destinations as are counted apart.
pub(crate) const MAX_ANSWER: u32 = 4 << 20;
