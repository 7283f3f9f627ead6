//! The side that accepts a lane.

use super::{
    Challenge, Credentials, HandshakeError, HandshakeMessage, Hello, LONGEST_PLAIN, LONGEST_TLS, Mode, Nonce, Purpose,
    Tag, farewell, tls::Session, transcript::Transcript,
};
use crate::{
    parameters::TransportParameters,
    seal::{PacketRole, PacketSeals, Role, Seals},
};
use bytes::Bytes;
use std::sync::Arc;

/// The responder's side of one handshake.
#[derive(Debug)]
pub struct Responder {
    transcript: Transcript,
    state: ResponderState,
}

/// The responder's next step.
#[derive(Debug)]
pub enum ResponderStep {
    /// Send these messages, if any, and wait for the next message.
    Send(Vec<HandshakeMessage>),
    /// The initiator has proved itself: the responder may trust its hello.
    Proved(Box<Proved>),
}

/// An initiator that has proved itself.
#[derive(Debug)]
pub struct Proved {
    /// The initiator's hello.
    pub hello: Hello,
    /// The message that lets the lane join.
    pub accept: HandshakeMessage,
    /// The seals of this lane's frames; `None` if the frames are not encrypted.
    pub seals: Option<Seals>,
    /// The credentials with which further lanes of this stream join.
    pub joining: Credentials,
    /// The name of the peer among those whose secrets this end knows ([`Credentials::Secrets`]);
    /// `None` with other credentials.
    pub peer_name: Option<Arc<str>>,
    /// The certificates that the peer has presented in a TLS handshake on this lane, as DER, its
    /// own first; empty if it has presented none.
    pub peer_certificates: Vec<Bytes>,
    pub(super) transcript: Transcript,
}

impl Proved {
    /// The seals of packets that go beside this lane, with keys of their own; `None` if the mode
    /// has no secret.
    ///
    /// # Errors
    /// [`HandshakeError::NoEncryption`] in a build without the feature `encryption`.
    pub fn packet_seals(&self, purpose: PacketRole) -> Result<Option<PacketSeals>, HandshakeError> {
        self.transcript.packet_seals(Role::Responder, self.joining.secret(), purpose)
    }

    /// Checks the message that follows [`Proved::accept`] on a lane that opens a stream. It
    /// confirms that the initiator has the stream.
    ///
    /// # Errors
    /// [`HandshakeError::Disorder`] for another message, [`HandshakeError::Secret`] if its proof is
    /// wrong, [`HandshakeError::Refused`] if the initiator gave up.
    pub fn confirm(&self, message: &HandshakeMessage) -> Result<(), HandshakeError> {
        match message {
            HandshakeMessage::Confirmed(tag) => self.transcript.verify_confirmed(self.joining.key(), tag),
            HandshakeMessage::Refused(refusal) => Err(HandshakeError::Refused(*refusal)),
            _ => Err(HandshakeError::Disorder),
        }
    }
}

#[derive(Debug)]
enum ResponderState {
    Tls(Box<Session>),
    /// Waiting for a proof by these credentials, which are not of TLS.
    Challenged {
        expected: Credentials,
        peer_certificates: Vec<Bytes>,
    },
    Over,
}

impl Responder {
    /// Takes the hello, and returns the challenge to send.
    ///
    /// The credentials are [those of this end](crate::security::Security::responder) for a hello
    /// that opens a stream, and those of the [stream](Proved::joining) for one that joins it. For
    /// an unknown stream they are a random secret, unless the mode is insecure. So an initiator
    /// without the stream's secret gets the same answer, after the same time, whether the stream
    /// exists or not.
    ///
    /// # Errors
    /// [`HandshakeError::Mode`] if the hello has another mode; [`HandshakeError::Tls`] if TLS
    /// cannot start. [`HandshakeError::refusal`] gives the answer for the peer.
    pub fn start(
        credentials: Credentials,
        hello: Hello,
        parameters: TransportParameters,
        nonce: Nonce,
    ) -> Result<(Self, HandshakeMessage), HandshakeError> {
        if hello.mode != credentials.mode() {
            return Err(HandshakeError::Mode { ours: credentials.mode(), theirs: hello.mode });
        }
        let challenge = Challenge { parameters, nonce };
        let state = match credentials {
            Credentials::TlsServer(server) => ResponderState::Tls(Box::new(Session::server(server)?)),
            Credentials::TlsClient(_) => return Err(HandshakeError::Disorder),
            expected => ResponderState::Challenged { expected, peer_certificates: Vec::new() },
        };
        Ok((Self { transcript: Transcript { hello, challenge }, state }, HandshakeMessage::Challenge(challenge)))
    }

    /// Takes the initiator's next message.
    ///
    /// # Errors
    /// [`HandshakeError::Secret`] if the proof is wrong, [`HandshakeError::NoSuchStream`] if that
    /// of a lane that joins does not belong to its stream, [`HandshakeError::Tls`],
    /// [`HandshakeError::Refused`] if the initiator gave up. [`Responder::farewell`] gives the
    /// messages for the peer.
    pub fn handle(&mut self, message: HandshakeMessage) -> Result<ResponderStep, HandshakeError> {
        match (message, std::mem::replace(&mut self.state, ResponderState::Over)) {
            (HandshakeMessage::Refused(refusal), _) => Err(HandshakeError::Refused(refusal)),
            (HandshakeMessage::Tls(bytes), ResponderState::Tls(mut tls)) => {
                let handled = tls.handle(&bytes);
                if handled.is_err() || !tls.is_done() {
                    // If TLS has failed, it still has an alert to send.
                    self.state = ResponderState::Tls(tls);
                    handled?;
                    return Ok(ResponderStep::Send(self.flight()));
                }
                let flight = tls.flight();
                let expected = Credentials::Secret { mode: Mode::Tls, secret: tls.secret(&self.transcript)? };
                self.state = ResponderState::Challenged { expected, peer_certificates: tls.peer_certificates() };
                Ok(ResponderStep::Send(flight))
            }
            (HandshakeMessage::Proof(tag), ResponderState::Challenged { expected, peer_certificates }) => {
                let hello = self.transcript.hello;
                let (joining, peer_name) =
                    self.check(expected, &tag).map_err(|error| match (hello.mode, hello.purpose) {
                        (Mode::PreSharedKey | Mode::Encrypted | Mode::Tls, Purpose::Join) => {
                            HandshakeError::NoSuchStream
                        }
                        _ => error,
                    })?;
                let accept = HandshakeMessage::Accepted(self.transcript.prove(Role::Responder, joining.key()));
                let seals = self.transcript.seals(Role::Responder, joining.secret())?;
                Ok(ResponderStep::Proved(Box::new(Proved {
                    hello,
                    accept,
                    seals,
                    joining,
                    peer_name,
                    peer_certificates,
                    transcript: self.transcript,
                })))
            }
            _ => Err(HandshakeError::Disorder),
        }
    }

    /// Checks the initiator's proof. Gives the credentials by which it is right, and the name of
    /// their peer if they were one of several.
    fn check(&self, expected: Credentials, proof: &Tag) -> Result<(Credentials, Option<Arc<str>>), HandshakeError> {
        if let Credentials::Secrets { mode, secrets } = &expected {
            let peer = self.transcript.prover(secrets, proof)?;
            return Ok((Credentials::Secret { mode: *mode, secret: peer.secret.clone() }, Some(peer.name.clone())));
        }
        self.transcript.verify(Role::Initiator, expected.key(), proof)?;
        Ok((expected, None))
    }

    /// The greatest length of the next message's body, in bytes. It bounds the memory that a peer
    /// without a proof can take.
    pub fn longest_next(&self) -> usize {
        if matches!(self.state, ResponderState::Tls(_)) { LONGEST_TLS } else { LONGEST_PLAIN }
    }

    /// The messages that tell the peer of an error: TLS's alert, and the refusal.
    pub fn farewell(&mut self, error: &HandshakeError) -> Vec<HandshakeMessage> {
        match &mut self.state {
            ResponderState::Tls(tls) => farewell(Some(tls), error),
            _ => farewell(None, error),
        }
    }

    fn flight(&mut self) -> Vec<HandshakeMessage> {
        match &mut self.state {
            ResponderState::Tls(tls) => tls.flight(),
            _ => Vec::new(),
        }
    }
}
