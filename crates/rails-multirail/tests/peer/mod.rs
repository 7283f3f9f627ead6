//! A peer on a bare socket that joins in order. The test chooses its further frames.

use rails_multirail::StreamId;
use rails_proto::{
    handshake::{Credentials, HandshakeMessage, Hello, Initiator, InitiatorStep, Joined, PREFIX_LEN, Purpose},
    parameters::TransportParameters,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Opens a stream, and gives the socket of its lane and the result of the handshake.
pub(crate) async fn join(
    address: SocketAddr,
    credentials: Credentials,
    parameters: TransportParameters,
) -> (TcpStream, Joined) {
    join_lane(address, credentials, parameters, 0).await
}

/// As `join`, for that lane of the stream; lane 0 opens it.
pub(crate) async fn join_lane(
    address: SocketAddr,
    credentials: Credentials,
    parameters: TransportParameters,
    lane: u16,
) -> (TcpStream, Joined) {
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    let joined = prove(&mut socket, StreamId([7; 16]), lane, credentials, parameters).await;
    if let Some(confirmation) = &joined.confirmation {
        socket.write_all(&confirmation.encode()).await.expect("it reads");
    }
    (socket, joined)
}

/// The handshake of that lane of a stream, up to the confirmation; lane 0 opens the stream.
pub(crate) async fn prove(
    socket: &mut TcpStream,
    stream: StreamId,
    lane: u16,
    credentials: Credentials,
    parameters: TransportParameters,
) -> Joined {
    let purpose = if lane == 0 { Purpose::Open } else { Purpose::Join };
    let hello = Hello { mode: credentials.mode(), purpose, stream, lane, lanes: 1, parameters, nonce: [1; 32] };
    let (mut initiator, first) = Initiator::start(credentials, hello);
    let mut messages = vec![first];
    loop {
        for message in &messages {
            socket.write_all(&message.encode()).await.expect("it reads");
        }
        let mut prefix = [0; PREFIX_LEN];
        socket.read_exact(&mut prefix).await.expect("it answers");
        let mut body = vec![0; HandshakeMessage::body_len(&prefix).expect("the prefix is that of a message")];
        socket.read_exact(&mut body).await.expect("the message is whole");
        match initiator
            .handle(HandshakeMessage::decode(&prefix, &body).expect("the message is valid"))
            .expect("the message is in turn")
        {
            InitiatorStep::Send(next) => messages = next,
            InitiatorStep::Joined(joined) => return *joined,
        }
    }
}
