//! The side that opens a lane.

use super::{
    Credentials, HandshakeError, HandshakeMessage, Hello, LONGEST_PLAIN, LONGEST_TLS, Mode, Purpose, Refusal, farewell,
    tls::Session, transcript::Transcript,
};
use crate::{
    parameters::TransportParameters,
    seal::{PacketRole, PacketSeals, Role, Seals},
};
use bytes::Bytes;

/// The initiator's side of one handshake. [`Initiator::start`] creates it, and each message of the
/// responder drives it.
#[derive(Debug)]
pub struct Initiator {
    hello: Hello,
    state: InitiatorState,
}

/// The initiator's next step.
#[derive(Debug)]
pub enum InitiatorStep {
    /// Send these messages, if any, and wait for the next message.
    Send(Vec<HandshakeMessage>),
    /// The lane has joined.
    Joined(Box<Joined>),
}

/// A lane that has joined, at its initiator.
#[derive(Debug)]
pub struct Joined {
    /// The peer's parameters.
    pub parameters: TransportParameters,
    /// The seals of this lane's frames; `None` if the frames are not encrypted.
    pub seals: Option<Seals>,
    /// The credentials with which further lanes of this stream join.
    pub joining: Credentials,
    /// If the lane opens a stream: the message that the initiator sends first if it takes the
    /// stream. Only then does the responder's application get the stream.
    pub confirmation: Option<HandshakeMessage>,
    /// The certificates that the peer has presented in a TLS handshake on this lane, as DER, its
    /// own first; empty if it has presented none.
    pub peer_certificates: Vec<Bytes>,
    pub(super) transcript: Transcript,
}

#[derive(Debug)]
enum InitiatorState {
    /// The initiator has sent the hello.
    Greeted(Credentials),
    /// The TLS handshake is under way.
    Tls(Box<Session>, Transcript),
    /// The initiator has sent the proof.
    Proved { joining: Credentials, transcript: Transcript, peer_certificates: Vec<Bytes> },
    /// The handshake has succeeded or failed.
    Over,
}

impl Joined {
    /// The seals of packets that go beside this lane, with keys of their own; `None` if the mode
    /// has no secret.
    ///
    /// # Errors
    /// [`HandshakeError::NoEncryption`] in a build without the feature `encryption`.
    pub fn packet_seals(&self, purpose: PacketRole) -> Result<Option<PacketSeals>, HandshakeError> {
        self.transcript.packet_seals(Role::Initiator, self.joining.secret(), purpose)
    }
}

impl Initiator {
    /// Starts a handshake, and returns the message to send first. The hello's mode is that of the
    /// credentials.
    pub fn start(credentials: Credentials, hello: Hello) -> (Self, HandshakeMessage) {
        let hello = Hello { mode: credentials.mode(), ..hello };
        (Self { hello, state: InitiatorState::Greeted(credentials) }, HandshakeMessage::Hello(hello))
    }

    /// Takes the responder's next message.
    ///
    /// # Errors
    /// [`HandshakeError`] ends the handshake; [`Initiator::farewell`] gives the messages for the
    /// peer.
    pub fn handle(&mut self, message: HandshakeMessage) -> Result<InitiatorStep, HandshakeError> {
        match (message, std::mem::replace(&mut self.state, InitiatorState::Over)) {
            (HandshakeMessage::Refused(Refusal::Mode), _) => Err(HandshakeError::Mode { ours: self.hello.mode }),
            (HandshakeMessage::Refused(refusal), _) => Err(HandshakeError::Refused(refusal)),
            (HandshakeMessage::Challenge(challenge), InitiatorState::Greeted(credentials)) => {
                let transcript = Transcript { hello: self.hello, challenge };
                match credentials {
                    Credentials::TlsClient(client) => {
                        let mut tls = Box::new(Session::client(client)?);
                        let flight = tls.flight();
                        self.state = InitiatorState::Tls(tls, transcript);
                        Ok(InitiatorStep::Send(flight))
                    }
                    Credentials::TlsServer(_) => Err(HandshakeError::Disorder),
                    credentials => Ok(InitiatorStep::Send(vec![self.prove(credentials, transcript, Vec::new())])),
                }
            }
            (HandshakeMessage::Tls(bytes), InitiatorState::Tls(mut tls, transcript)) => {
                if let Err(error) = tls.handle(&bytes) {
                    // TLS still has an alert to send.
                    self.state = InitiatorState::Tls(tls, transcript);
                    return Err(error);
                }
                let mut flight = tls.flight();
                if tls.is_done() {
                    let joining = Credentials::Secret { mode: Mode::Tls, secret: tls.secret(&transcript)? };
                    flight.push(self.prove(joining, transcript, tls.peer_certificates()));
                } else {
                    self.state = InitiatorState::Tls(tls, transcript);
                }
                Ok(InitiatorStep::Send(flight))
            }
            (HandshakeMessage::Accepted(tag), InitiatorState::Proved { joining, transcript, peer_certificates }) => {
                transcript.verify(Role::Responder, joining.key(), &tag)?;
                let seals = transcript.seals(Role::Initiator, joining.secret())?;
                let opens = self.hello.purpose == Purpose::Open;
                let confirmation = opens.then(|| HandshakeMessage::Confirmed(transcript.confirm(joining.key())));
                Ok(InitiatorStep::Joined(Box::new(Joined {
                    parameters: transcript.challenge.parameters,
                    seals,
                    joining,
                    confirmation,
                    peer_certificates,
                    transcript,
                })))
            }
            _ => Err(HandshakeError::Disorder),
        }
    }

    /// The greatest length of the next message's body, in bytes. It bounds the memory that a peer
    /// without a proof can take.
    pub fn longest_next(&self) -> usize {
        if matches!(self.state, InitiatorState::Tls(..)) { LONGEST_TLS } else { LONGEST_PLAIN }
    }

    /// The messages that tell the peer of an error: TLS's alert, and the refusal.
    pub fn farewell(&mut self, error: &HandshakeError) -> Vec<HandshakeMessage> {
        match &mut self.state {
            InitiatorState::Tls(tls, _) => farewell(Some(tls), error),
            _ => farewell(None, error),
        }
    }

    fn prove(
        &mut self,
        joining: Credentials,
        transcript: Transcript,
        peer_certificates: Vec<Bytes>,
    ) -> HandshakeMessage {
        let tag = transcript.prove(Role::Initiator, joining.key());
        self.state = InitiatorState::Proved { joining, transcript, peer_certificates };
        HandshakeMessage::Proof(tag)
    }
}
