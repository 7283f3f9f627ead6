//! The words of a conversation on its control stream: a greeting from each end, then values in
//! JSON, each after its length.

#[cfg(any(test, feature = "fuzzing"))]
use super::Request;
use super::Role;
use crate::exit::Help;
use rails_multirail::{RecvStream, SendStream};
use rails_transfer::Reason;
use serde::{Serialize, de::DeserializeOwned};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The control stream of a conversation.
#[derive(Debug)]
pub(crate) struct Control<R = RecvStream, W = SendStream> {
    reading: R,
    writing: W,
}

/// The reason why a conversation has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversationError {
    /// The peer does another thing than this end wants.
    #[error("the peer is `rails-bench {role}`, and this is `rails-bench {request}`")]
    Callee { request: String, role: Role },
    /// The peer wants another thing than this end does.
    #[error("the peer is `rails-bench {request}`, and this is `rails-bench {role}`")]
    Caller { request: String, role: Role },
    /// The peer refuses.
    #[error("the peer refuses: {0}")]
    Refused(Reason),
    /// The peer speaks another version of the conversation.
    #[error("the peer speaks version {0} of rails-bench's conversation, this end version {VERSION}")]
    Version(u16),
    /// The peer's first words are not those of this program.
    #[error("the peer is not rails-bench: it does not begin with a greeting")]
    Foreign,
    /// The peer has opened a stream, where a conversation takes a session.
    #[error("the peer is not rails-bench, or an older one: it opened a stream, and began no conversation")]
    NoSession,
    /// The peer sent nothing for too long.
    #[error("the peer has said nothing for {0} s")]
    Silent(u64),
    /// The peer's words are too long.
    #[error("the peer's words are {length} bytes long, and {max} bytes are allowed")]
    TooLong { length: usize, max: usize },
    /// The peer's words make no sense.
    #[error("the peer's words cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// The peer wants what no end does.
    #[error("the peer wants too much: {0}")]
    Unfit(&'static str),
    /// The peer's words come at the wrong time.
    #[error("the peer said {0} out of turn")]
    OutOfTurn(&'static str),
    /// The stream ended.
    #[error("the conversation was cut")]
    Cut(#[source] io::Error),
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Control<R, W> {
    pub(super) fn new(reading: R, writing: W) -> Self {
        Self { reading, writing }
    }

    /// Sends the greeting of this end.
    pub(super) async fn greet(&mut self) -> Result<(), ConversationError> {
        self.writing.write_all(&greeting()).await.map_err(ConversationError::Cut)
    }

    /// Receives the greeting of the peer.
    pub(super) async fn hear_greeting(&mut self) -> Result<(), ConversationError> {
        let mut heard = [0; GREETING_LEN];
        self.reading.read_exact(&mut heard).await.map_err(ConversationError::Cut)?;
        check_greeting(&heard)
    }

    /// Sends a value.
    ///
    /// # Errors
    /// [`ConversationError::Cut`].
    pub(crate) async fn say(&mut self, words: &impl Serialize) -> Result<(), ConversationError> {
        let frame = frame(words);
        let sent = async {
            self.writing.write_all(&frame).await?;
            self.writing.flush().await
        };
        sent.await.map_err(ConversationError::Cut)
    }

    /// Receives a value of at most `max` bytes.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self, max: usize) -> Result<T, ConversationError> {
        let cut = ConversationError::Cut;
        let length = self.reading.read_u32_le().await.map_err(cut)? as usize;
        if length > max {
            return Err(ConversationError::TooLong { length, max });
        }
        let mut words = Vec::new();
        // Memory grows with the bytes that come.
        (&mut self.reading).take(length as u64).read_to_end(&mut words).await.map_err(cut)?;
        if words.len() < length {
            return Err(ConversationError::Cut(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(&words).map_err(ConversationError::Unreadable)
    }

    /// Ends this end's words, and waits until the peer has them.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.writing.shutdown().await
    }

    /// The stream behind the words, for a protocol of its own.
    pub(crate) fn into_stream(self) -> tokio::io::Join<R, W> {
        tokio::io::join(self.reading, self.writing)
    }
}

impl ConversationError {
    /// The error of a command, with a remedy for the user.
    pub(crate) fn helped(self) -> anyhow::Error {
        let help = match &self {
            Self::Callee { request, role } | Self::Caller { request, role } => {
                let (caller, callee) = match request.as_str() {
                    "send" => ("send", "recv"),
                    other => (other, "serve"),
                };
                debug_assert_ne!(callee, role.to_string());
                format!("`rails-bench {caller}` and `rails-bench {callee}` belong together")
            }
            Self::Version(_) | Self::Foreign | Self::NoSession | Self::Unreadable(_) => {
                "take the same version of rails-bench at both ends".to_owned()
            }
            _ => return self.into(),
        };
        anyhow::Error::new(self).help(help)
    }
}

/// A value in JSON after its length.
fn frame(words: &impl Serialize) -> Vec<u8> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, words).expect("the words of a conversation are plain values");
    let length = u32::try_from(frame.len() - 4).expect("the words of a conversation are short");
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

fn greeting() -> [u8; GREETING_LEN] {
    let mut greeting = [0; GREETING_LEN];
    greeting[..MAGIC.len()].copy_from_slice(MAGIC);
    greeting[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    greeting
}

fn check_greeting(heard: &[u8; GREETING_LEN]) -> Result<(), ConversationError> {
    let (magic, version) = heard.split_at(MAGIC.len());
    match u16::from_le_bytes([version[0], version[1]]) {
        _ if magic != MAGIC => Err(ConversationError::Foreign),
        VERSION => Ok(()),
        theirs => Err(ConversationError::Version(theirs)),
    }
}

/// For [`crate::fuzzing`]: any bytes of a caller are its greeting and a request, or refused.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((first, words)) = bytes.split_first_chunk() else { return };
    if check_greeting(first).is_err() {
        return;
    }
    let Some((length, words)) = words.split_first_chunk::<4>() else { return };
    let length = u32::from_le_bytes(*length) as usize;
    let Some(words) = words.get(..length.min(MAX_REQUEST)) else { return };
    if let Ok(request) = serde_json::from_slice::<Request>(words) {
        let said = serde_json::to_vec(&request).expect("it was read");
        assert_eq!(serde_json::from_slice::<Request>(&said).expect("it was written"), request);
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_seeds() -> Vec<Vec<u8>> {
    use super::{Carrier, Direction, Share, Token, Watch};
    let batch = Token::from_bytes([7; Token::LEN]);
    let over = Carrier::Plain { flows: 2 };
    let watch = Watch { interval_us: Some(20_000), check: true };
    let requests = [
        Request::Files { batch },
        Request::Count { over, watch, direction: Direction::ToPeer },
        Request::Count { over: Carrier::Stream, watch, direction: Direction::Both(Share::Bytes(9)) },
        Request::Echo { over: Carrier::Mptcp },
        Request::Probe,
    ];
    requests.iter().map(|request| [&greeting()[..], &frame(request)].concat()).collect()
}

const MAGIC: &[u8; 8] = b"BENCH-TO";
const VERSION: u16 = 4;
const GREETING_LEN: usize = 10;
/// The limit on a request, in bytes.
pub(super) const MAX_REQUEST: usize = 1 << 10;
/// The limit on an answer, in bytes.
pub(super) const MAX_REPLY: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Carrier, Direction, Reply, Share, Token, Watch};
    use tokio::io::{duplex, split};

    #[tokio::test]
    async fn words_arrive_as_they_were_said() {
        let (near, far) = duplex(16);
        let [mut near, mut far] = [near, far].map(|end| {
            let (reading, writing) = split(end);
            Control::new(reading, writing)
        });
        let watch = Watch { interval_us: None, check: true };
        let direction = Direction::FromPeer(Share::Microseconds(5));
        let request = Request::Count { over: Carrier::Stream, watch, direction };
        let calling = async {
            near.greet().await.unwrap();
            near.say(&request).await.unwrap();
            near.hear_greeting().await.unwrap();
            near.hear::<Reply>(MAX_REPLY).await.unwrap()
        };
        let listening = async {
            far.hear_greeting().await.unwrap();
            let heard: Request = far.hear(MAX_REQUEST).await.unwrap();
            far.greet().await.unwrap();
            far.say(&Reply::Refused("for once".to_owned())).await.unwrap();
            heard
        };
        let (reply, heard) = tokio::join!(calling, listening);
        assert_eq!((heard, reply), (request, Reply::Refused("for once".to_owned())));
    }

    #[tokio::test]
    async fn wrong_words_by_their_fault() {
        let heard = async |bytes: &[u8]| {
            let mut control = Control::new(bytes, tokio::io::sink());
            control.hear_greeting().await?;
            control.hear::<Request>(MAX_REQUEST).await
        };
        let said = |words: &[u8]| [&greeting()[..], &(words.len() as u32).to_le_bytes(), words].concat();
        assert_eq!(heard(&said(b"\"probe\"")).await.unwrap(), Request::Probe);
        let batch = Token::from_bytes([7; Token::LEN]);
        let files = serde_json::to_vec(&Request::Files { batch }).unwrap();
        assert_eq!(heard(&said(&files)).await.unwrap(), Request::Files { batch });
        let unnamed = heard(&said(b"\"files\"")).await;
        assert!(matches!(unnamed, Err(ConversationError::Unreadable(_))), "{unnamed:?}");
        assert!(matches!(heard(b"BENCH-TO\x02\x01").await, Err(ConversationError::Version(0x102))));
        assert!(matches!(heard(b"RAILS-FT\x06\x00").await, Err(ConversationError::Foreign)));
        assert!(matches!(heard(b"GET /").await, Err(ConversationError::Cut(_))));
        assert!(matches!(heard(&said(b"\"fish\"")).await, Err(ConversationError::Unreadable(_))));
        assert!(matches!(heard(&said(&[b' '; 2000])).await, Err(ConversationError::TooLong { length: 2000, .. })));
        let cut = said(b"\"probe\"");
        assert!(matches!(heard(&cut[..cut.len() - 1]).await, Err(ConversationError::Cut(_))));
        let huge = [&greeting()[..], &u32::MAX.to_le_bytes()].concat();
        assert!(matches!(heard(&huge).await, Err(ConversationError::TooLong { .. })));
    }
}
