//! Moves files and folders over one ordered byte stream, or several at a time: verified end to end,
//! and resumed after a cut.
//!
//! One stream carries one batch. [`send`] walks its sources, offers every entry, and streams the
//! bytes that the peer lacks; [`receive`] writes below one folder. Any `AsyncRead + AsyncWrite` is
//! a stream: a striped stream between rails, a TCP connection, a pipe. Each of the two runs a
//! thread for the disk and the hash.
//!
//! With [`SendOptions::send_over`] and [`ReceiveOptions::receive_over`] several files are under way
//! at a time, each on a further stream with a thread of its own at either end: the streams of a
//! session, for which [`OpenStreams`] and [`AcceptStreams`] stand.
//!
//! # Example
//! Two ends of a TCP connection, one after the other: the second batch finds the file there
//! already.
//!
//! ```
//! use rails_transfer::{How, ReceiveSummary, receive, send};
//! use std::{error::Error, fs, sync::Arc};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn Error>> {
//! let (outbox, inbox) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! let report = outbox.path().join("report");
//! fs::write(&report, "all is well\n")?;
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?;
//! let into = inbox.path().to_owned();
//! let receiver = tokio::spawn(async move {
//!     let mut batches: Vec<ReceiveSummary> = Vec::new();
//!     while batches.len() < 2 {
//!         let (stream, _) = listener.accept().await.expect("the listener accepts");
//!         // `()` observes nothing; an `Observer` hears of every file, and of the bytes as they move.
//!         batches.push(receive(stream, &into, Arc::new(())).await.expect("the batch comes to its end"));
//!     }
//!     batches
//! });
//!
//! let mut how = Vec::new();
//! for _ in 0..2 {
//!     let stream = TcpStream::connect(address).await?;
//!     let sent = send(stream, &[report.clone()], Arc::new(())).await?;
//!     // `Ok` says that the protocol came to its end; a single file may have failed all the same.
//!     assert!(sent.is_complete(), "{:?}", sent.failures);
//!     how.push(sent.files[0].how);
//! }
//! assert_eq!(how, [How::Sent { resumed_at: 0 }, How::AlreadyThere]);
//!
//! let batches = receiver.await?;
//! assert!(batches.iter().all(ReceiveSummary::is_complete));
//! assert_eq!(fs::read_to_string(inbox.path().join("report"))?, "all is well\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Contract
//! - A file appears under its final name only whole: the sender computed its BLAKE3 as it read, the
//!   receiver as it wrote, the two are equal, and the bytes are on disk.
//! - A file that the receiver has already is not sent: one of the same size and time, which nobody
//!   reads, or with [`Compare::Digests`] one of the same digest. Of one that has changed, the
//!   blocks of 256 KiB are sent that differ at their place from those of the receiver's file.
//! - Nothing at the receiver is removed, but a file or link in whose place another comes, unless
//!   both ends want that: [`SendOptions::delete`] and [`ReceiveOptions::allow_delete`].
//! - With [`SendOptions::dry_run`] both ends compare as ever, and nothing changes at either.
//! - A file that changes while it is read, or is replaced, is sent once more, and fails if it
//!   changes again. Its times tell a change: stores through a shared mapping of pages that wait to
//!   be written to disk alter no time, and remain unseen.
//! - No path from the network leaves the receiving folder: names are parsed into [`RelPath`], and
//!   every access goes through a `cap_std` folder handle, which refuses links inside the folder
//!   that lead out of it.
//! - A transfer that is cut leaves `.NAME.rails-part` beside the final name. The next run goes on
//!   from there if the sender's file still begins with those bytes.
//! - Both peers hear of a file's failure, and it does not stop the others. `Ok` therefore means
//!   only that the protocol came to its end; ask [`SendSummary::is_complete`] and
//!   [`ReceiveSummary::is_complete`].
//! - A sender sets no owner, set-id bit, access list or privileged attribute unless the receiver's
//!   operator allows it, and links to nothing but files of its batch.
//! - A file system or a sandbox may refuse to lock, to set modes, times or owners, or to write to
//!   disk on demand. The copy then goes on, and names each missing [`Guarantee`] once
//!   ([`ReceiveSummary::lacking`]); [`ReceiveOptions::strict`] fails the file instead.
//! - Memory is bounded against any peer: a frame's length is checked before memory is taken for it,
//!   at most 128 entries are open at a time, and no more streams than the receiver has threads for.
//!   Only the sender's own list of files grows.
//!
//! # Limits
//! [`SendOptions::delete`] removes no file in whose place the sender has a folder, nor a folder in
//! whose place it has a file: such an entry fails, and with it the deletion. Unfinished files in
//! folders that stay are not removed.
//!
//! A copy keeps symbolic links as they are, holes, the time of the last change, and the mode: nine
//! bits, and a folder's sticky bit. On demand it keeps hard links ([`SendOptions::hard_links`]),
//! users and groups with their set-id bits ([`SendOptions::owner`], [`SendOptions::group`]),
//! extended attributes ([`SendOptions::xattrs`]) and access lists ([`SendOptions::acls`]), as far
//! as the receiver's operator allows it ([`ReceiveOptions::allow_owners`],
//! [`ReceiveOptions::allow_xattrs`]). Special files are left out. Times of access, and attributes
//! of links and of SELinux, are not kept. The streams, not this crate, encrypt and authenticate.
//! A file that grows past RLIMIT_FSIZE fails by its name in a process that handles or ignores
//! SIGXFSZ; the kernel ends any other. Linux only.
//!
//! [`protocol`] draws the protocol byte by byte.
//!
//! # Map
//! `path`, `meta`, `reason` and `message` are the vocabulary, `codec` its bytes, `frame` and `wire`
//! the framing, `proto` the two state machines (no I/O), `plan`, `filter`, `list` and `source` the
//! sender's files, `store` the receiver's, `hash` the digests of both, `holes` their holes, `keep`
//! the properties that are kept on demand, `stamp` the sign of a change, `calls` the system calls
//! that may be refused, `streams` the further streams, `sender` and `receiver` the drivers,
//! `thread` their threads.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod calls;
mod codec;
mod error;
mod filter;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guarantee;
mod hash;
mod holes;
mod keep;
mod list;
mod message;
mod meta;
mod observe;
mod path;
mod plan;
mod proto;
mod reason;
mod receiver;
mod sender;
mod source;
mod stamp;
mod store;
mod streams;
mod summary;
mod thread;
mod wire;

pub use error::{ReceiveError, SendError, ThreadError, Violation, WireError};
pub use filter::Filter;
#[cfg(feature = "patterns")]
pub use filter::FilterError;
pub use guarantee::{Guarantee, LackingGuarantee};
pub use list::{FileList, FileListError};
pub use message::{Compare, Digest, Totals};
pub use observe::{Change, Observer, Outcome};
pub use path::{PathError, Printable, RelPath};
pub use plan::check;
pub use reason::Reason;
pub use receiver::{ReceiveOptions, receive};
pub use sender::{SendOptions, send};
pub use store::make_folder;
pub use streams::{AcceptStreams, OpenStreams};
pub use summary::{Failure, How, NotKept, ReceiveSummary, SendSummary, SentFile, Skipped};

#[doc = include_str!("../PROTOCOL.md")]
pub mod protocol {}
