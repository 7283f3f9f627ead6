//! The side that brings a lane.

use super::{
    Credentials, HandshakeError, Hello, LONGEST_PLAIN, LONGEST_TLS, Message, Mode, Purpose, Refusal, farewell,
    tls::Session, transcript::Transcript,
};
use crate::{
    parameters::TransportParameters,
    seal::{Role, Seals},
};
use bytes::Bytes;

/// The initiator's side of one handshake: made with [`Initiator::start`], then driven message by message.
#[derive(Debug)]
pub struct Initiator {
    hello: Hello,
    state: State,
}

/// What the initiator does next.
#[derive(Debug)]
pub enum InitiatorStep {
    /// Send these, if any, and wait for the next message.
    Send(Vec<Message>),
    /// The lane has joined.
    Joined(Box<Joined>),
}

/// A lane that has joined, as its initiator sees it.
#[derive(Debug)]
pub struct Joined {
    /// What the peer takes.
    pub parameters: TransportParameters,
    /// What seals and opens this lane's frames; `None` where they travel in the clear.
    pub seals: Option<Seals>,
    /// What further lanes of this stream join with.
    pub joining: Credentials,
    /// What to send first where the lane opens a stream, and the initiator takes that stream: the responder's application has it only then.
    pub confirmation: Option<Message>,
    /// The certificates that the peer has shown in a TLS handshake on this lane, DER, its own first; none where it has shown none.
    pub peer_certificates: Vec<Bytes>,
    pub(super) transcript: Transcript,
}

#[derive(Debug)]
enum State {
    /// The hello is sent.
    Greeted(Credentials),
    /// TLS is under way.
    Tls(Box<Session>, Transcript),
    /// The proof is sent.
    Proved { joining: Credentials, transcript: Transcript, peer_certificates: Vec<Bytes> },
    /// It has ended, one way or the other.
    Over,
}

impl Initiator {
    /// Starts with the message to send first. The hello's mode is that of the credentials.
    pub fn start(credentials: Credentials, hello: Hello) -> (Self, Message) {
        let hello = Hello { mode: credentials.mode(), ..hello };
        (Self { hello, state: State::Greeted(credentials) }, Message::Hello(hello))
    }

    /// Takes the responder's next message.
    ///
    /// # Errors
    /// Whatever ends the handshake; [`Initiator::farewell`] is what to tell the peer.
    pub fn handle(&mut self, message: Message) -> Result<InitiatorStep, HandshakeError> {
        match (message, std::mem::replace(&mut self.state, State::Over)) {
            (Message::Refused(Refusal::Mode), _) => Err(HandshakeError::Mode { ours: self.hello.mode }),
            (Message::Refused(refusal), _) => Err(HandshakeError::Refused(refusal)),
            (Message::Challenge(challenge), State::Greeted(credentials)) => {
                let transcript = Transcript { hello: self.hello, challenge };
                match credentials {
                    Credentials::TlsClient(client) => {
                        let mut tls = Box::new(Session::client(client)?);
                        let flight = tls.flight();
                        self.state = State::Tls(tls, transcript);
                        Ok(InitiatorStep::Send(flight))
                    }
                    Credentials::TlsServer(_) => Err(HandshakeError::Disorder),
                    credentials => Ok(InitiatorStep::Send(vec![self.prove(credentials, transcript, Vec::new())])),
                }
            }
            (Message::Tls(bytes), State::Tls(mut tls, transcript)) => {
                if let Err(error) = tls.handle(&bytes) {
                    // It still has an alert to send.
                    self.state = State::Tls(tls, transcript);
                    return Err(error);
                }
                let mut flight = tls.flight();
                if tls.is_done() {
                    let joining = Credentials::Secret { mode: Mode::Tls, secret: tls.secret(&transcript)? };
                    flight.push(self.prove(joining, transcript, tls.peer_certificates()));
                } else {
                    self.state = State::Tls(tls, transcript);
                }
                Ok(InitiatorStep::Send(flight))
            }
            (Message::Accepted(tag), State::Proved { joining, transcript, peer_certificates }) => {
                transcript.verify(Role::Responder, joining.key(), &tag)?;
                let seals = transcript.seals(Role::Initiator, &joining)?;
                let opens = self.hello.purpose == Purpose::Open;
                let confirmation = opens.then(|| Message::Confirmed(transcript.confirm(joining.key())));
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

    /// How long the body of the next message may be, in bytes: a peer that has proved nothing has no more memory than that.
    pub fn longest_next(&self) -> usize {
        if matches!(self.state, State::Tls(..)) { LONGEST_TLS } else { LONGEST_PLAIN }
    }

    /// What to tell the peer after an error: TLS's alert, and the refusal.
    pub fn farewell(&mut self, error: &HandshakeError) -> Vec<Message> {
        match &mut self.state {
            State::Tls(tls, _) => farewell(Some(tls), error),
            _ => farewell(None, error),
        }
    }

    fn prove(&mut self, joining: Credentials, transcript: Transcript, peer_certificates: Vec<Bytes>) -> Message {
        let tag = transcript.prove(Role::Initiator, joining.key());
        self.state = State::Proved { joining, transcript, peer_certificates };
        Message::Proof(tag)
    }
}
