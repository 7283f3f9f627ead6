//! The handshake of a connection with a secret or TLS: that of lanes (rails-proto), on the control
//! channel, before the greeting.

use super::{OpenConnectionError, greeting::MAGIC, places::GreetingPlace, random::random};
use crate::proto::wire::{FrameReader, FrameWriter};
use rails_proto::{
    admission::Standing,
    handshake::{
        Credentials, HandshakeError, HandshakeMessage, Hello, Initiator, InitiatorStep, Mode, PREFIX_LEN, Purpose,
        Refusal, Responder, ResponderStep, StreamId,
    },
    parameters::TransportParameters,
    seal::{PacketRole, PacketSeals},
    security::Security,
};
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The seals of a connection; none without a secret.
#[derive(Debug, Default)]
pub(super) struct Seals {
    pub(super) reader: FrameReader,
    pub(super) writer: FrameWriter,
    pub(super) segments: Option<PacketSeals>,
}

/// Checks whether an end that `begins` connections, or answers, can use this security, in a build
/// that `can_seal` or not.
pub(super) fn check(security: &Security, begins: bool, can_seal: bool) -> Result<(), OpenConnectionError> {
    let mode = security.mode();
    let credentials = if begins { security.initiator() } else { security.responder() };
    match mode {
        Mode::Insecure => Ok(()),
        _ if credentials.is_none() => Err(OpenConnectionError::Role { mode }),
        _ if !can_seal => Err(OpenConnectionError::NoEncryption { mode }),
        _ => Ok(()),
    }
}

/// Runs the handshake, if the security asks for one. `place` is the listener's, at the end that
/// answers.
pub(super) async fn handshake(
    control: &mut TcpStream,
    remote: SocketAddr,
    security: &Security,
    place: Option<&GreetingPlace>,
) -> Result<Seals, OpenConnectionError> {
    let mode = security.mode();
    if mode == Mode::Insecure {
        return Ok(Seals::default());
    }
    let credentials = if place.is_none() { security.initiator() } else { security.responder() };
    let credentials = credentials.ok_or(OpenConnectionError::Role { mode })?;
    let mut channel = Channel { control, remote };
    match place {
        Some(place) => channel.respond(credentials, place).await,
        None => channel.initiate(credentials).await,
    }
}

/// The control channel during the handshake.
struct Channel<'a> {
    control: &'a mut TcpStream,
    remote: SocketAddr,
}

impl Channel<'_> {
    async fn initiate(&mut self, credentials: Credentials) -> Result<Seals, OpenConnectionError> {
        let hello = Hello {
            mode: credentials.mode(),
            purpose: Purpose::Open,
            stream: StreamId(random()?),
            lane: 0,
            lanes: 1,
            parameters: PARAMETERS,
            nonce: random()?,
        };
        let (mut initiator, first) = Initiator::start(credentials, hello);
        self.send(&[first]).await?;
        loop {
            let message = self.receive(initiator.longest_next()).await?;
            match initiator.handle(message) {
                Ok(InitiatorStep::Send(messages)) => self.send(&messages).await?,
                Ok(InitiatorStep::Joined(joined)) => {
                    let seals = |purpose| joined.packet_seals(purpose).map_err(|error| self.failed(error));
                    let seals = Seals::of(seals(PacketRole::Control)?, seals(PacketRole::Segments)?);
                    self.send(joined.confirmation.as_slice()).await?;
                    return Ok(seals);
                }
                Err(error) => return Err(self.refuse(&initiator.farewell(&error), error).await),
            }
        }
    }

    async fn respond(&mut self, credentials: Credentials, place: &GreetingPlace) -> Result<Seals, OpenConnectionError> {
        let HandshakeMessage::Hello(hello) = self.receive(rails_proto::handshake::LONGEST_PLAIN).await? else {
            return Err(self.failed(HandshakeError::Disorder));
        };
        place.heard(Standing::Greeted);
        // Each peer that begins TLS makes this end sign.
        if (credentials.mode(), hello.mode) == (Mode::Tls, Mode::Tls)
            && let Err(limit) = place.begin_tls(self.remote.ip())
        {
            let _ = self.send(&[HandshakeMessage::Refused(Refusal::Busy(limit))]).await;
            return Err(OpenConnectionError::Busy { remote: self.remote, limit });
        }
        let started = Responder::start(credentials, hello, PARAMETERS, random()?);
        let (mut responder, challenge) = match started {
            Ok(started) => started,
            Err(error) => {
                let refusal: Vec<HandshakeMessage> =
                    error.refusal().map(HandshakeMessage::Refused).into_iter().collect();
                return Err(self.refuse(&refusal, error).await);
            }
        };
        self.send(&[challenge]).await?;
        loop {
            let message = self.receive(responder.longest_next()).await?;
            place.heard(Standing::Greeted);
            match responder.handle(message) {
                Ok(ResponderStep::Send(messages)) => self.send(&messages).await?,
                Ok(ResponderStep::Proved(proved)) => {
                    place.heard(Standing::Proved);
                    self.send(std::slice::from_ref(&proved.accept)).await?;
                    let confirmation = self.receive(rails_proto::handshake::LONGEST_PLAIN).await?;
                    proved.confirm(&confirmation).map_err(|error| self.failed(error))?;
                    let seals = |purpose| proved.packet_seals(purpose).map_err(|error| self.failed(error));
                    return Ok(Seals::of(seals(PacketRole::Control)?, seals(PacketRole::Segments)?));
                }
                Err(error) => return Err(self.refuse(&responder.farewell(&error), error).await),
            }
        }
    }

    async fn send(&mut self, messages: &[HandshakeMessage]) -> Result<(), OpenConnectionError> {
        let bytes: Vec<u8> = messages.iter().flat_map(HandshakeMessage::encode).collect();
        self.control.write_all(&bytes).await.map_err(|source| self.broken(source))
    }

    /// The peer's next message, of at most `longest` bytes behind its prefix.
    async fn receive(&mut self, longest: usize) -> Result<HandshakeMessage, OpenConnectionError> {
        let mut prefix = [0; PREFIX_LEN];
        self.control.read_exact(&mut prefix).await.map_err(|source| self.broken(source))?;
        if prefix == *MAGIC {
            return Err(OpenConnectionError::Unsecured { remote: self.remote });
        }
        let length = HandshakeMessage::body_len(&prefix).map_err(|error| self.failed(error))?;
        if length > longest {
            return Err(self.failed(HandshakeError::Disorder));
        }
        let mut body = vec![0; length];
        self.control.read_exact(&mut body).await.map_err(|source| self.broken(source))?;
        HandshakeMessage::decode(&prefix, &body).map_err(|error| self.failed(error))
    }

    /// Tells the peer why, as far as it still listens.
    async fn refuse(&mut self, messages: &[HandshakeMessage], error: HandshakeError) -> OpenConnectionError {
        let _ = self.send(messages).await;
        self.failed(error)
    }

    fn failed(&self, source: HandshakeError) -> OpenConnectionError {
        OpenConnectionError::Handshake { remote: self.remote, source }
    }

    fn broken(&self, source: io::Error) -> OpenConnectionError {
        OpenConnectionError::Greeting { remote: self.remote, source }
    }
}

impl Seals {
    fn of(control: Option<PacketSeals>, segments: Option<PacketSeals>) -> Self {
        let Some(PacketSeals { sealer, opener }) = control else { return Self { segments, ..Self::default() } };
        Self { reader: FrameReader::sealed(opener), writer: FrameWriter::sealed(sealer), segments }
    }
}

/// The handshake carries the parameters of a stream; a connection does not use them.
const PARAMETERS: TransportParameters = TransportParameters::one_stream(1, 1);

#[cfg(test)]
mod tests {
    use super::*;
    use rails_proto::{secret::Secret, security::TlsClient};

    #[test]
    fn security_that_no_connection_has_is_refused() {
        let psk = Security::psk(Secret::pre_shared(b"0123456789abcdef").unwrap());
        for begins in [true, false] {
            assert!(check(&Security::insecure(), begins, false).is_ok());
            assert!(check(&psk, begins, true).is_ok());
            let refused = check(&psk, begins, false);
            assert!(
                matches!(refused, Err(OpenConnectionError::NoEncryption { mode: Mode::PreSharedKey })),
                "{refused:?}"
            );
        }
        let made = rcgen::generate_simple_self_signed(vec!["storage".to_owned()]).unwrap();
        let client = TlsClient::trusting(made.cert.pem().as_bytes(), "storage").unwrap();
        let client = Security::tls_client(client);
        assert!(check(&client, true, true).is_ok());
        assert!(matches!(check(&client, false, true), Err(OpenConnectionError::Role { .. })));
    }
}
