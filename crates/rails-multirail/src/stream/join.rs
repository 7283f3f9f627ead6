//! The handshake's messages on a lane's socket.

use super::io::{read_exact, send_all};
use crate::{
    error::JoinError,
    proto::handshake::{Credentials, Hello, Initiator, InitiatorStep, Joined, Message, Nonce, PREFIX_LEN},
};
use tokio::net::TcpStream;

/// A fresh random number.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Reads one message. Its length is looked at before memory is taken for it.
pub(crate) async fn read_message(socket: &TcpStream) -> Result<Message, JoinError> {
    let mut prefix = [0; PREFIX_LEN];
    read_exact(socket, &mut prefix).await?;
    let mut body = vec![0; Message::body_len(&prefix)?];
    read_exact(socket, &mut body).await?;
    Ok(Message::decode(&prefix, &body)?)
}

/// Sends them in one go.
pub(crate) async fn send_messages(socket: &TcpStream, messages: &[Message]) -> Result<(), JoinError> {
    let bytes: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
    Ok(send_all(socket, &bytes, Vec::new()).await?)
}

/// The initiator's side.
pub(crate) async fn initiate(socket: &TcpStream, credentials: Credentials, hello: Hello) -> Result<Joined, JoinError> {
    let (mut initiator, hello) = Initiator::start(credentials, hello);
    let mut messages = vec![hello];
    loop {
        send_messages(socket, &messages).await?;
        match initiator.handle(read_message(socket).await?) {
            Ok(InitiatorStep::Send(next)) => messages = next,
            Ok(InitiatorStep::Joined(joined)) => return Ok(*joined),
            Err(error) => {
                // The other end is told as a courtesy; what matters is the error here.
                let _ = send_messages(socket, &initiator.farewell(&error)).await;
                return Err(error.into());
            }
        }
    }
}

/// A nonce for one handshake.
pub(crate) fn nonce() -> Result<Nonce, JoinError> {
    random().map_err(JoinError::Random)
}
