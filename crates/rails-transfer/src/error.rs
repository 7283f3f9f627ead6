//! The errors that end a whole transfer. One file's failure is no error here: it is a [`Reason`] in
//! the summary.

use crate::{
    frame::{MAX_BLOCK, MAX_CONTROL, VERSION},
    path::PathError,
    proto::WINDOW,
    reason::Reason,
};
use std::{ffi::OsString, io, path::PathBuf};

/// The reason why [`send`](crate::send) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A source named by the caller is not there or not readable; nothing was sent.
    #[error("cannot read the source {}", .path.display())]
    Source {
        /// The source as named.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A source named by the caller is neither a file nor a folder; nothing was sent.
    #[error("the source {} is neither a file nor a folder", .path.display())]
    Special {
        /// The source as named.
        path: PathBuf,
    },
    /// A source named by the caller has a name that cannot be sent; nothing was sent.
    #[error("the name of the source {} cannot be sent", .path.display())]
    Name {
        /// The source as named.
        path: PathBuf,
        /// The rule that the name breaks.
        source: PathError,
    },
    /// Two sources would arrive under one name; nothing was sent.
    #[error("{} and {} would both arrive as {}", .first.display(), .second.display(), .name.display())]
    Clash {
        /// The name under which both would arrive.
        name: OsString,
        /// The source named first.
        first: PathBuf,
        /// The source named second.
        second: PathBuf,
    },
    /// A list of files does not fit the rest of the batch; nothing was sent.
    #[error("a list of files {0}")]
    FileList(&'static str),
    /// Sources are to be removed in a batch that deletes what the sender does not have: the next
    /// one would delete their copies. Nothing was sent.
    #[error("a batch that deletes what the sender does not have removes no sources")]
    Delete,
    /// The receiver refuses the batch.
    #[error("the receiver refused: {0}")]
    Refused(Reason),
    /// The stream failed, or its bytes are not this protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// There is no thread to read files.
    #[error("no thread reads the files")]
    Thread(#[from] ThreadError),
}

/// The reason why [`receive`](crate::receive) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The receiving folder cannot be made or opened.
    #[error("cannot open the folder {}", .path.display())]
    Folder {
        /// The folder as named.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The sender wants to remove what it does not have, and this receiver does not allow it
    /// ([`ReceiveOptions::allow_delete`](crate::ReceiveOptions::allow_delete)). Nothing was
    /// received.
    #[error("the sender wants to delete what it does not have (--delete); `recv --allow-delete` allows it")]
    Delete,
    /// The stream failed, or its bytes are not this protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// There is no thread to write files. If the system refuses the thread, the sender receives the
    /// reason.
    #[error("no thread writes the files")]
    Thread(#[from] ThreadError),
}

/// The reason why a transfer has no thread for its files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// The process, its user or its control group is at a limit on threads, or out of memory for
    /// one.
    #[error("none can be had: `pids.max` of the control group, RLIMIT_NPROC and kernel.threads-max limit them")]
    Spawn(#[source] io::Error),
    /// The thread panicked, perhaps in the observer.
    #[error("it panicked")]
    Panicked,
}

impl ThreadError {
    /// The error with its cause, for the observer and the peer.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Spawn(source) => Reason::new(format_args!("no further thread: {self}: {source}")),
            Self::Panicked => Reason::new(self),
        }
    }
}

/// The stream failed, or carries another protocol.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The stream itself failed.
    #[error("{doing} the stream failed")]
    Io {
        /// `reading` or `writing`.
        doing: &'static str,
        /// The stream's error.
        source: io::Error,
    },
    /// A further stream failed, one that carries files.
    #[error("{doing} a stream of files failed")]
    Carrier {
        /// `reading` or `writing`.
        doing: &'static str,
        /// The stream's error.
        source: io::Error,
    },
    /// The stream ended before the batch was complete; another transfer continues from here.
    #[error("the stream ended before the transfer was complete")]
    Cut,
    /// The first bytes are not this protocol's.
    #[error("the peer does not speak the file-transfer protocol")]
    Foreign,
    /// The peer speaks another version.
    #[error("the peer speaks version {theirs} of the file-transfer protocol, and this end version {VERSION}")]
    Version {
        /// The version in the peer's greeting.
        theirs: u16,
    },
    /// The peer's greeting asks for something that this end does not know.
    #[error("the peer asks for something that this end does not know (terms {byte:#04x})")]
    Terms {
        /// The byte of the greeting.
        byte: u8,
    },
    /// Two senders, or two receivers, were connected.
    #[error("the peer has the same role: one must send and one receive")]
    SameRole,
    /// A frame exceeds the length of its kind; no memory was allocated for it.
    #[error(
        "a frame of kind {kind} claims {len} bytes; a message has 1 to {MAX_CONTROL}, a data block 1 to {MAX_BLOCK}"
    )]
    FrameLength {
        /// The frame's kind byte.
        kind: u8,
        /// The length in the frame's header, in bytes.
        len: u32,
    },
    /// A frame of a kind that does not exist.
    #[error("a frame is of the unknown kind {kind}")]
    FrameKind {
        /// The frame's kind byte.
        kind: u8,
    },
    /// A control frame that holds no message.
    #[error("a message cannot be decoded")]
    Message(#[source] postcard::Error),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(#[from] Violation),
}

impl WireError {
    /// The error of a further stream.
    pub(crate) fn of_carrier(self) -> Self {
        match self {
            Self::Io { doing, source } => Self::Carrier { doing, source },
            Self::Cut => Self::Carrier { doing: "reading", source: io::ErrorKind::UnexpectedEof.into() },
            other => other,
        }
    }
}

/// A well-formed message or block that the protocol does not allow in this state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// An entry does not have the next number.
    #[error("entry {got} was opened where {expected} comes next")]
    Sequence {
        /// The received number.
        got: u64,
        /// The expected number.
        expected: u64,
    },
    /// The message does not fit the state.
    #[error("{0} came where it does not belong")]
    Unexpected(&'static str),
    /// The message names an entry that is not open, or is open in another state.
    #[error("{what} came for entry {id}, which does not await it")]
    Entry {
        /// The message.
        what: &'static str,
        /// The entry that the message names.
        id: u64,
    },
    /// More entries are open, or more answers under way, than the window allows.
    #[error("more than {WINDOW} entries are open")]
    Window,
    /// A file starts at an offset that the receiver did not offer.
    #[error("entry {id} starts at {offset}, where the receiver holds no prefix of that length")]
    Offset {
        /// The entry.
        id: u64,
        /// The offset, in bytes.
        offset: u64,
    },
    /// A file has more or fewer bytes than were offered.
    #[error("entry {id} has not the {size} bytes that were offered")]
    Length {
        /// The entry.
        id: u64,
        /// The size offered, in bytes.
        size: u64,
    },
    /// The sender opened more streams of files than the receiver takes.
    #[error("more than {max} streams of files were opened")]
    Streams {
        /// The limit.
        max: usize,
    },
    /// More folders are looked through at a time than the protocol allows.
    #[error("more than {max} folders are to be looked through at a time")]
    Prunes {
        /// The limit.
        max: usize,
    },
    /// A stream of files ended before the file on it did.
    #[error("a stream of files ended in the middle of entry {id}")]
    StreamEnd {
        /// The entry.
        id: u64,
    },
    /// The receiver confirms another digest than the sender's.
    #[error("the receiver confirmed entry {id} with a digest that is not the file's")]
    Digest {
        /// The entry.
        id: u64,
    },
}
