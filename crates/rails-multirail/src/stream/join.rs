//! The handshake's messages on a lane.

use super::io::{receive_exact, send_all};
use crate::error::JoinError;
use rails_net::Lane;
use rails_proto::handshake::{
    Credentials, HandshakeError, HandshakeMessage, Hello, Initiator, InitiatorStep, Joined, Nonce, PREFIX_LEN,
};
use std::io::IoSliceMut;

/// A fresh random number.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// A random number for the length of a wait; 0, for the shortest, if the system gives none.
pub(crate) fn jitter() -> u8 {
    random().map_or(0, |[jitter]| jitter)
}

/// Reads one message, whose body has at most `longest` bytes. Checks the length before it allocates
/// memory.
pub(crate) async fn read_message(lane: &dyn Lane, longest: usize) -> Result<HandshakeMessage, JoinError> {
    let mut prefix = [0; PREFIX_LEN];
    receive_exact(lane, &mut prefix).await?;
    let length = HandshakeMessage::body_len(&prefix).map_err(|error| heard_out(lane, error))?;
    if length > longest {
        return Err(HandshakeError::Disorder.into());
    }
    let mut body = vec![0; length];
    receive_exact(lane, &mut body).await?;
    Ok(HandshakeMessage::decode(&prefix, &body)?)
}

/// The error of a peer of another protocol, with the further bytes that it has sent.
fn heard_out(lane: &dyn Lane, error: HandshakeError) -> HandshakeError {
    let HandshakeError::NotRails { mut said } = error else { return error };
    let mut more = [0; HandshakeError::MAX_SAID - PREFIX_LEN];
    // The peer may have sent no further bytes, and a failed read leaves those that are here.
    let count = lane.try_receive(&mut [IoSliceMut::new(&mut more)]).unwrap_or(0);
    said.extend_from_slice(&more[..count]);
    HandshakeError::NotRails { said }
}

/// Sends all messages together.
pub(crate) async fn send_messages(lane: &dyn Lane, messages: &[HandshakeMessage]) -> Result<(), JoinError> {
    let bytes: Vec<u8> = messages.iter().flat_map(HandshakeMessage::encode).collect();
    Ok(send_all(lane, &bytes, Vec::new()).await?)
}

/// The initiator's side.
pub(crate) async fn initiate(lane: &dyn Lane, credentials: Credentials, hello: Hello) -> Result<Joined, JoinError> {
    Initiating::start(credentials, hello).finish(lane).await
}

/// The initiator's side, with the messages that are to be sent next.
pub(crate) struct Initiating {
    pub(crate) initiator: Initiator,
    pub(crate) messages: Vec<HandshakeMessage>,
}

impl Initiating {
    pub(crate) fn start(credentials: Credentials, hello: Hello) -> Self {
        let (initiator, hello) = Initiator::start(credentials, hello);
        Self { initiator, messages: vec![hello] }
    }

    /// Goes on until the proof is the next message to be sent.
    pub(crate) async fn prove(&mut self, lane: &dyn Lane) -> Result<(), JoinError> {
        while !self.initiator.has_proved() {
            self.exchange(lane).await?;
        }
        Ok(())
    }

    /// Goes on until the lane has joined.
    pub(crate) async fn finish(mut self, lane: &dyn Lane) -> Result<Joined, JoinError> {
        loop {
            if let Some(joined) = self.exchange(lane).await? {
                return Ok(joined);
            }
        }
    }

    /// Sends the messages, and takes the answer.
    async fn exchange(&mut self, lane: &dyn Lane) -> Result<Option<Joined>, JoinError> {
        let Self { initiator, messages } = self;
        let sent = send_messages(lane, messages).await;
        let message = read_answer(lane, initiator.longest_next(), sent).await?;
        match initiator.handle(message) {
            Ok(InitiatorStep::Send(next)) => *messages = next,
            Ok(InitiatorStep::Joined(joined)) => return Ok(Some(*joined)),
            Err(error) => {
                // This end gives the error whether or not it can tell the peer.
                let _ = send_messages(lane, &initiator.farewell(&error)).await;
                return Err(error.into());
            }
        }
        Ok(None)
    }
}

/// Reads the answer to messages that were `sent`, or not: a peer that closed the connection may
/// have sent the reason before, which can still be read.
pub(crate) async fn read_answer(
    lane: &dyn Lane,
    longest: usize,
    sent: Result<(), JoinError>,
) -> Result<HandshakeMessage, JoinError> {
    read_message(lane, longest).await.map_err(|error| sent.err().unwrap_or(error))
}

/// A nonce for one handshake.
pub(crate) fn nonce() -> Result<Nonce, JoinError> {
    random().map_err(JoinError::Random)
}
