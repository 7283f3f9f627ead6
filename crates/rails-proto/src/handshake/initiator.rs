//! The side that opens a lane.

use super::{
    Credentials, HandshakeError, HandshakeMessage, Hello, LONGEST_PLAIN, LONGEST_TLS, Mode, Refusal, farewell,
    tls::Session, transcript::Transcript,
};
use crate::{
    parameters::TransportParameters,
    seal::{self, PacketRole, PacketSeals, Role, Seals},
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
    /// The initiator has given out the proof.
    Proved(Box<Proving>),
    /// The handshake has succeeded or failed.
    Over,
}

/// An initiator that has given out its proof.
#[derive(Debug)]
struct Proving {
    acceptance: Acceptance,
    peer_certificates: Vec<Bytes>,
}

/// A lane that its initiator uses before the responder has accepted it
/// ([`Initiator::into_early`]).
#[derive(Debug)]
pub struct EarlyLane {
    /// The lane, as if the responder had accepted it. Its [confirmation](Joined::confirmation)
    /// follows the proof, and frames follow the confirmation.
    pub joined: Joined,
    /// The check of the responder's answer, before which no frame of the responder counts.
    pub acceptance: Acceptance,
}

/// The check of the responder's answer to a proof.
#[derive(Debug)]
pub struct Acceptance {
    joining: Credentials,
    transcript: Transcript,
    /// The TLS session of the lane, if it had one: a server that refuses the client's certificate
    /// says so by an alert, and only after the client has finished (RFC 8446, section 4.4.2.4).
    tls: Option<Box<Session>>,
}

impl Acceptance {
    /// Takes the responder's answer to the proof.
    ///
    /// # Errors
    /// [`HandshakeError`] ends the lane, as that of [`Initiator::handle`] does: the responder has
    /// refused the lane, or its proof is wrong, or its message comes out of turn.
    pub fn check(&mut self, answer: &HandshakeMessage) -> Result<(), HandshakeError> {
        match answer {
            HandshakeMessage::Tls(bytes) => {
                Err(self.tls.as_mut().map_or(HandshakeError::Disorder, |tls| tls.alert(bytes)))
            }
            HandshakeMessage::Accepted(tag) => self.transcript.verify(Role::Responder, self.joining.key(), tag),
            HandshakeMessage::Refused(refusal) => Err(refused(*refusal, self.transcript.hello.mode)),
            _ => Err(HandshakeError::Disorder),
        }
    }
}

impl Proving {
    /// The lane, and the check of the responder's answer.
    fn join(self) -> Result<(Joined, Acceptance), HandshakeError> {
        let Self { acceptance, peer_certificates } = self;
        let (joining, transcript) = (acceptance.joining.clone(), acceptance.transcript);
        let seals = transcript.seals(Role::Initiator, joining.secret())?;
        let opens = transcript.hello.purpose.opens();
        let confirmation = opens.then(|| HandshakeMessage::Confirmed(transcript.confirm(joining.key())));
        let parameters = transcript.challenge.parameters;
        Ok((Joined { parameters, seals, joining, confirmation, peer_certificates, transcript }, acceptance))
    }
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
            (answer, InitiatorState::Proved(mut proving)) => {
                proving.acceptance.check(&answer)?;
                Ok(InitiatorStep::Joined(Box::new(proving.join()?.0)))
            }
            (HandshakeMessage::Refused(refusal), _) => Err(refused(refusal, self.hello.mode)),
            (HandshakeMessage::Challenge(challenge), InitiatorState::Greeted(credentials)) => {
                self.hello.purpose.check(&challenge.parameters)?;
                let transcript = Transcript { hello: self.hello, challenge };
                match credentials {
                    Credentials::TlsClient(client) => {
                        let mut tls = Box::new(Session::client(client)?);
                        let flight = tls.flight();
                        self.state = InitiatorState::Tls(tls, transcript);
                        Ok(InitiatorStep::Send(flight))
                    }
                    Credentials::TlsServer(_) | Credentials::Secrets { .. } => Err(HandshakeError::Disorder),
                    credentials => Ok(InitiatorStep::Send(vec![self.prove(credentials, transcript, None)])),
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
                    flight.push(self.prove(joining, transcript, Some(tls)));
                } else {
                    self.state = InitiatorState::Tls(tls, transcript);
                }
                Ok(InitiatorStep::Send(flight))
            }
            _ => Err(HandshakeError::Disorder),
        }
    }

    /// Whether the messages of the last step end with the proof: the responder's next message says
    /// whether it accepts the lane.
    pub fn has_proved(&self) -> bool {
        matches!(self.state, InitiatorState::Proved(_))
    }

    /// The lane, for an initiator that [has given out its proof](Self::has_proved) and sends the
    /// first frames of a new stream right behind it, a round trip earlier than after the
    /// responder's answer.
    ///
    /// These frames are not worth more to an attacker than later ones. A *replay* of them and of
    /// the proof fits no other handshake: proof, confirmation and keys depend on the responder's
    /// nonce, which is fresh. An *impostor* who answers in the responder's place cannot read them:
    /// in mode TLS the responder has shown its certificate before, and in the encrypted mode with a
    /// pre-shared secret the frames are sealed with keys that only an owner of the secret has.
    /// Mode insecure protects no frame. In the mode with a pre-shared secret and without encryption
    /// only the responder's answer tells an impostor, so that the frames have to wait for it.
    ///
    /// # Errors
    /// The initiator as it was, if frames have to wait: no proof was given out, the lane opens no
    /// stream, the mode is [`Mode::PreSharedKey`], or this build lacks the feature `encryption`
    /// that the mode needs. [`Initiator::handle`] takes the answer then.
    pub fn into_early(self) -> Result<EarlyLane, Box<Self>> {
        let Self { hello, state } = self;
        let can_seal = hello.mode == Mode::Insecure || hello.mode.is_sealed() && seal::IS_AVAILABLE;
        match state {
            InitiatorState::Proved(proving) if hello.purpose.opens() && can_seal => {
                match proving.join() {
                    Ok((joined, acceptance)) => Ok(EarlyLane { joined, acceptance }),
                    // A build that seals has made the keys.
                    Err(_) => Err(Box::new(Self { hello, state: InitiatorState::Over })),
                }
            }
            state => Err(Box::new(Self { hello, state })),
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

    fn prove(&mut self, joining: Credentials, transcript: Transcript, tls: Option<Box<Session>>) -> HandshakeMessage {
        let tag = transcript.prove(Role::Initiator, joining.key());
        let peer_certificates = tls.as_ref().map(|tls| tls.peer_certificates()).unwrap_or_default();
        let acceptance = Acceptance { joining, transcript, tls };
        self.state = InitiatorState::Proved(Box::new(Proving { acceptance, peer_certificates }));
        HandshakeMessage::Proof(tag)
    }
}

fn refused(refusal: Refusal, ours: Mode) -> HandshakeError {
    match refusal {
        Refusal::Mode(theirs) => HandshakeError::Mode { ours, theirs },
        refusal => HandshakeError::Refused(refusal),
    }
}
