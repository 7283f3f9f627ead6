//! The handshake's messages on a lane's socket.

use super::io::{read_exact, send_all};
use crate::{
    error::JoinError,
    proto::handshake::{Hello, Initiator, InitiatorStep, LONGEST_MESSAGE, Message, Nonce, PREFIX_LEN, Secret, Terms},
};
use tokio::net::TcpStream;

/// A fresh random number.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Reads one message, never more memory than the longest takes.
pub(crate) async fn read_message(socket: &TcpStream) -> Result<Message, JoinError> {
    let mut prefix = [0; PREFIX_LEN];
    read_exact(socket, &mut prefix).await?;
    let mut body = [0; LONGEST_MESSAGE - PREFIX_LEN];
    let body = &mut body[..Message::body_len(&prefix)?];
    read_exact(socket, body).await?;
    Ok(Message::decode(&prefix, body)?)
}

pub(crate) async fn send_message(socket: &TcpStream, message: &Message) -> Result<(), JoinError> {
    Ok(send_all(socket, &message.encode(), Vec::new()).await?)
}

/// The initiator's side, to the other end's terms.
pub(crate) async fn initiate(socket: &TcpStream, secret: Secret, hello: Hello) -> Result<Terms, JoinError> {
    let (mut initiator, mut message) = Initiator::start(secret, hello);
    loop {
        send_message(socket, &message).await?;
        match initiator.handle(read_message(socket).await?) {
            Ok(InitiatorStep::Send(next)) => message = next,
            Ok(InitiatorStep::Joined(terms)) => return Ok(terms),
            Err(error) => {
                if let Some(refusal) = error.refusal() {
                    // The other end is told as a courtesy; what matters is the error here.
                    let _ = send_message(socket, &Message::Refused(refusal)).await;
                }
                return Err(error.into());
            }
        }
    }
}

/// A nonce for one handshake.
pub(crate) fn nonce() -> Result<Nonce, JoinError> {
    random().map_err(JoinError::Random)
}
