//! The side that takes a lane in.

use super::{
    Challenge, Credentials, HandshakeError, Hello, LONGEST_PLAIN, LONGEST_TLS, Message, Mode, Nonce, Purpose, farewell,
    tls::Session, transcript::Transcript,
};
use crate::{
    parameters::TransportParameters,
    seal::{Role, Seals},
};
use bytes::Bytes;

/// The responder's side of one handshake.
#[derive(Debug)]
pub struct Responder {
    transcript: Transcript,
    state: State,
}

/// What the responder does next.
#[derive(Debug)]
pub enum ResponderStep {
    /// Send these, if any, and wait for the next message.
    Send(Vec<Message>),
    /// The initiator has proved itself: its hello may be believed.
    Proved(Box<Proved>),
}

/// An initiator that has proved itself.
#[derive(Debug)]
pub struct Proved {
    /// What it asks for.
    pub hello: Hello,
    /// The message that lets the lane join.
    pub accept: Message,
    /// What seals and opens this lane's frames; `None` where they travel in the clear.
    pub seals: Option<Seals>,
    /// What further lanes of this stream join with.
    pub joining: Credentials,
    /// The certificates that the peer has shown in a TLS handshake on this lane, DER, its own first; none where it has shown none.
    pub peer_certificates: Vec<Bytes>,
    pub(super) transcript: Transcript,
}

impl Proved {
    /// Takes the message behind [`Proved::accept`] on a lane that opens a stream: the initiator has the stream.
    ///
    /// # Errors
    /// [`HandshakeError::Disorder`] for another message, [`HandshakeError::Secret`] where its proof is wrong,
    /// [`HandshakeError::Refused`] where the initiator gave up.
    pub fn confirm(&self, message: &Message) -> Result<(), HandshakeError> {
        match message {
            Message::Confirmed(tag) => self.transcript.verify_confirmed(self.joining.key(), tag),
            Message::Refused(refusal) => Err(HandshakeError::Refused(*refusal)),
            _ => Err(HandshakeError::Disorder),
        }
    }
}

#[derive(Debug)]
enum State {
    Tls(Box<Session>),
    /// Waiting for a proof by these credentials.
    Challenged {
        joining: Credentials,
        peer_certificates: Vec<Bytes>,
    },
    Over,
}

impl Responder {
    /// Takes the hello, and gives the challenge to send.
    ///
    /// In mode TLS the credentials are the [server's](Credentials::TlsServer) for a hello that opens a stream, and the stream's
    /// secret for one that joins it. For a stream that is not known they are a random secret, so that a stranger is told the
    /// same, and after as long, whether it is there or not.
    ///
    /// # Errors
    /// [`HandshakeError::Mode`] where the hello is of another mode; [`HandshakeError::Tls`] where TLS cannot start.
    /// [`HandshakeError::refusal`] is what to tell the peer.
    pub fn start(
        credentials: Credentials,
        hello: Hello,
        parameters: TransportParameters,
        nonce: Nonce,
    ) -> Result<(Self, Message), HandshakeError> {
        if hello.mode != credentials.mode() {
            return Err(HandshakeError::Mode { ours: credentials.mode() });
        }
        let challenge = Challenge { parameters, nonce };
        let state = match credentials {
            Credentials::TlsServer(server) => State::Tls(Box::new(Session::server(server)?)),
            Credentials::TlsClient(_) => return Err(HandshakeError::Disorder),
            joining => State::Challenged { joining, peer_certificates: Vec::new() },
        };
        Ok((Self { transcript: Transcript { hello, challenge }, state }, Message::Challenge(challenge)))
    }

    /// Takes the initiator's next message.
    ///
    /// # Errors
    /// [`HandshakeError::Secret`] where the proof is wrong, [`HandshakeError::NoSuchStream`] where it is one for a stream by
    /// TLS, [`HandshakeError::Tls`], [`HandshakeError::Refused`] where the initiator gave up. [`Responder::farewell`] is what
    /// to tell the peer.
    pub fn handle(&mut self, message: Message) -> Result<ResponderStep, HandshakeError> {
        match (message, std::mem::replace(&mut self.state, State::Over)) {
            (Message::Refused(refusal), _) => Err(HandshakeError::Refused(refusal)),
            (Message::Tls(bytes), State::Tls(mut tls)) => {
                let handled = tls.handle(&bytes);
                if handled.is_err() || !tls.is_done() {
                    // Where it has failed it still has an alert to send.
                    self.state = State::Tls(tls);
                    handled?;
                    return Ok(ResponderStep::Send(self.flight()));
                }
                let flight = tls.flight();
                let joining = Credentials::Secret { mode: Mode::Tls, secret: tls.secret(&self.transcript)? };
                self.state = State::Challenged { joining, peer_certificates: tls.peer_certificates() };
                Ok(ResponderStep::Send(flight))
            }
            (Message::Proof(tag), State::Challenged { joining, peer_certificates }) => {
                let hello = self.transcript.hello;
                self.transcript.verify(Role::Initiator, joining.key(), &tag).map_err(|error| {
                    match (hello.mode, hello.purpose) {
                        (Mode::Tls, Purpose::Join) => HandshakeError::NoSuchStream,
                        _ => error,
                    }
                })?;
                let accept = Message::Accepted(self.transcript.prove(Role::Responder, joining.key()));
                let seals = self.transcript.seals(Role::Responder, &joining)?;
                Ok(ResponderStep::Proved(Box::new(Proved {
                    hello,
                    accept,
                    seals,
                    joining,
                    peer_certificates,
                    transcript: self.transcript,
                })))
            }
            _ => Err(HandshakeError::Disorder),
        }
    }

    /// How long the body of the next message may be, in bytes: a stranger has no more memory than that.
    pub fn longest_next(&self) -> usize {
        if matches!(self.state, State::Tls(_)) { LONGEST_TLS } else { LONGEST_PLAIN }
    }

    /// What to tell the peer after an error: TLS's alert, and the refusal.
    pub fn farewell(&mut self, error: &HandshakeError) -> Vec<Message> {
        match &mut self.state {
            State::Tls(tls) => farewell(Some(tls), error),
            _ => farewell(None, error),
        }
    }

    fn flight(&mut self) -> Vec<Message> {
        match &mut self.state {
            State::Tls(tls) => tls.flight(),
            _ => Vec::new(),
        }
    }
}
