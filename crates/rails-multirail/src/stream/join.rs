//! The handshake's messages on a lane.

use super::io::{receive_exact, send_all};
use crate::{
    error::JoinError,
    proto::handshake::{Credentials, Hello, Initiator, InitiatorStep, Joined, Message, Nonce, PREFIX_LEN},
};
use rails_net::Lane;

/// A fresh random number.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Reads one message. Its length is looked at before memory is taken for it.
pub(crate) async fn read_message(lane: &dyn Lane) -> Result<Message, JoinError> {
    let mut prefix = [0; PREFIX_LEN];
    receive_exact(lane, &mut prefix).await?;
    let mut body = vec![0; Message::body_len(&prefix)?];
    receive_exact(lane, &mut body).await?;
    Ok(Message::decode(&prefix, &body)?)
}

/// Sends them in one go.
pub(crate) async fn send_messages(lane: &dyn Lane, messages: &[Message]) -> Result<(), JoinError> {
    let bytes: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
    Ok(send_all(lane, &bytes, Vec::new()).await?)
}

/// The initiator's side.
pub(crate) async fn initiate(lane: &dyn Lane, credentials: Credentials, hello: Hello) -> Result<Joined, JoinError> {
    let (mut initiator, hello) = Initiator::start(credentials, hello);
    let mut messages = vec![hello];
    loop {
        send_messages(lane, &messages).await?;
        match initiator.handle(read_message(lane).await?) {
            Ok(InitiatorStep::Send(next)) => messages = next,
            Ok(InitiatorStep::Joined(joined)) => return Ok(*joined),
            Err(error) => {
                // The other end is told as a courtesy; what matters is the error here.
                let _ = send_messages(lane, &initiator.farewell(&error)).await;
                return Err(error.into());
            }
        }
    }
}

/// A nonce for one handshake.
pub(crate) fn nonce() -> Result<Nonce, JoinError> {
    random().map_err(JoinError::Random)
}
