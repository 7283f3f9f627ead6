//! Moves files and folders over one ordered byte stream, verified end to end and resumable.
//!
//! One stream carries one batch: [`send`] walks its sources, offers every entry and streams what the other side
//! lacks; [`receive`] writes below one folder. The stream is anything that is `AsyncRead + AsyncWrite`. Both run
//! inside a tokio runtime, whose blocking pool runs one thread each for the disk and the hash.
//!
//! # Contract
//! - A file appears under its final name only whole: its BLAKE3 was computed while the sender read and while the
//!   receiver wrote, the two are equal, and the bytes are on disk.
//! - No path from the network leaves the receiving folder: names are parsed into [`RelPath`], and every access
//!   goes through a `cap_std` folder handle, so that links inside the folder that lead out of it are refused.
//! - A transfer that is cut leaves `.NAME.rails-part` beside the final name; the next run goes on from there if
//!   the sender's file still begins with those bytes.
//! - One file's failure is told to both sides and does not stop the others. `Ok` therefore means only that the
//!   protocol came to its end; ask [`SendSummary::is_complete`] and [`ReceiveSummary::is_complete`].
//! - Memory is bounded whatever the peer does: a frame's length is checked before memory is taken for it, and no
//!   more than 64 entries are open at a time. The sender's own list of files is the one thing that grows.
//!
//! # What it does not do
//! Times, owners, extended attributes, access lists, hard links (each name becomes a file of its own) and holes
//! (they are sent as zeros) are not kept. Set-user-id, set-group-id and sticky bits are dropped: a mode is nine
//! bits. The stream is not encrypted or authenticated here; that is the stream's task.
//!
//! The protocol is drawn byte by byte in `docs/transfer.md`.
//!
//! # Map
//! `path` and `message` are the vocabulary and its codec, `wire` the framing, `proto` the two state machines
//! (no I/O), `plan` and `source` the sender's files, `store` the receiver's, `sender` and `receiver` the drivers.

mod error;
mod message;
mod observe;
mod path;
mod plan;
mod proto;
mod receiver;
mod sender;
mod source;
mod store;
mod summary;
mod wire;

pub use error::{ReceiveError, SendError, Violation, WireError};
pub use message::{Digest, Reason, Totals};
pub use observe::{Observer, Outcome};
pub use path::{PathError, RelPath};
pub use receiver::receive;
pub use sender::send;
pub use store::make_folder;
pub use summary::{Failure, How, ReceiveSummary, SendSummary, SentFile, Skipped};

/// For [`crate::fuzzing`]: what decodes encodes to what decodes the same, and fits a frame.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    fn one<M: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        if let Ok(message) = message::decode::<M>(bytes) {
            let encoded = message::encode(&message, Vec::new());
            assert!(bytes.len() > wire::MAX_CONTROL || encoded.len() <= wire::MAX_CONTROL, "{message:?}");
            assert_eq!(message::decode::<M>(&encoded), Ok(message));
        }
    }
    one::<message::FromSender>(bytes);
    one::<message::FromReceiver>(bytes);
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_seeds() -> (Vec<u8>, Vec<u8>) {
    use message::{FromReceiver, FromSender, Held, Settled};
    let path = |name: &str| RelPath::parse(name).expect("it is a path");
    let digest = Digest::from(blake3::hash(b"abc"));
    let from_sender = [
        FromSender::Totals(Totals { files: 1, folders: 1, bytes: 3 }),
        FromSender::Folder { id: 0, path: path("d") },
        FromSender::Offer { id: 1, path: path("d/f"), size: 3, mode: 0o644 },
        FromSender::Start { id: 1, offset: 0 },
    ];
    let and_last = [
        FromSender::Finish { id: 1, digest },
        FromSender::Seal { id: 2, path: path("d"), mode: 0o755 },
        FromSender::Done,
    ];
    let from_receiver = [
        FromReceiver::Held { id: 0, held: Held::default() },
        FromReceiver::Settled { id: 0, outcome: Settled::Stored { digest } },
        FromReceiver::Bye,
    ];
    let said = |messages: &[FromSender]| messages.iter().flat_map(wire::framed).collect::<Vec<u8>>();
    let block = [&[1, 3, 0, 0, 0][..], b"abc"].concat();
    let sender = [wire::greeting(wire::Role::Sender), said(&from_sender), block, said(&and_last)].concat();
    let receiver = from_receiver.iter().flat_map(wire::framed);
    (sender, wire::greeting(wire::Role::Receiver).into_iter().chain(receiver).collect())
}
