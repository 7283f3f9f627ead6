//! Drives the receiver over its streams.

mod batch;
mod threads;

use crate::{
    calls::{Calls, Guarantees},
    error::{ReceiveError, WireError},
    frame::{Frame, Role, Terms},
    keep::Allows,
    message::{FromReceiver, FromSender},
    observe::Observer,
    proto::{MAX_ANSWERS, MAX_STREAMS},
    reason::Reason,
    streams::AcceptStreams,
    summary::ReceiveSummary,
    thread::Stop,
    wire::{FrameReader, FrameWriter, greet},
};
use futures_util::FutureExt;
use std::{
    convert::Infallible,
    future::pending,
    path::Path,
    pin::pin,
    sync::{Arc, mpsc as sync_mpsc},
};
use threads::{Carriers, Folder, Main};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// Receives one batch from `stream`, whose peer runs [`send`](crate::send), and writes it below
/// `into`.
///
/// `into` is made if it is not there; nothing outside it is touched. The stream is shut down at the
/// end. When this returns, with or without an error, no thread of it is writing any more; when the
/// future is dropped, the threads end by themselves a moment later.
///
/// No runtime is needed beyond the one that `stream` needs. There is no time limit: the stream's
/// owner decides how long to wait for a silent peer.
///
/// [`ReceiveOptions::receive_over`] receives over further streams beside this one.
///
/// # Deadlock
/// Frames go to a thread, which never waits for the answers it gives: they go into a queue with
/// room for all that a peer that keeps to the protocol can be owed. Each further stream is read by
/// a thread of its own, which waits for nothing but the stream and the disk. See
/// [`send`](crate::send).
///
/// # Errors
/// A failure of the whole batch: a folder that cannot be opened or no thread to be had (the sender
/// hears why), a stream that fails or ends early, a peer that breaks the protocol. A file that
/// fails on its own is in [`ReceiveSummary::failures`], and a guarantee that the file system
/// refuses in [`ReceiveSummary::lacking`].
pub async fn receive<S>(stream: S, into: &Path, observer: Arc<dyn Observer>) -> Result<ReceiveSummary, ReceiveError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    ReceiveOptions::new().receive(stream, into, observer).await
}

/// Options of a receiver.
///
/// # Example
/// ```no_run
/// # async fn on(stream: tokio::net::TcpStream) -> Result<(), rails_transfer::ReceiveError> {
/// use rails_transfer::ReceiveOptions;
/// use std::sync::Arc;
///
/// let received = ReceiveOptions::new().strict(true).receive(stream, "inbox".as_ref(), Arc::new(())).await?;
/// assert!(received.lacking.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ReceiveOptions {
    is_strict: bool,
    allows_delete: bool,
    allows: Allows,
    streams: usize,
    calls: Calls,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        let allows = Allows::default();
        Self { is_strict: false, allows_delete: false, allows, streams: 4, calls: Calls::KERNEL }
    }
}

impl ReceiveOptions {
    /// All at their defaults, as [`receive`] has them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a file fails for which the file system refuses a [`Guarantee`](crate::Guarantee). By
    /// default it does not: the guarantee is in [`ReceiveSummary::lacking`], and the observer
    /// hears of it.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.is_strict = strict;
        self
    }

    /// Whether a sender may [ask](crate::SendOptions::delete) that entries are removed that it does
    /// not have, in the folders that it sends. Default: no, and such a batch is refused: a receiver
    /// that accepts files has not agreed to lose others.
    ///
    /// A hostile sender may then remove all that is below the receiving folder, and learn all names
    /// there, and nothing outside of it.
    #[must_use]
    pub fn allow_delete(mut self, allow: bool) -> Self {
        self.allows_delete = allow;
        self
    }

    /// Whether a sender may set the [user](crate::SendOptions::owner) and the
    /// [group](crate::SendOptions::group) of entries, and the set-user-id and set-group-id bits of
    /// their modes. Default: no; entries are this process's, and [`ReceiveSummary::lacking`] tells.
    ///
    /// A hostile sender may then leave programs that run with the rights of any user that this
    /// process may give files to: of root, if it is root.
    #[must_use]
    pub fn allow_owners(mut self, allow: bool) -> Self {
        self.allows.owners = allow;
        self
    }

    /// Whether a sender may set [access lists](crate::SendOptions::acls), and the
    /// [attributes](crate::SendOptions::xattrs) of `security.` and `trusted.`, file capabilities
    /// among them. Default: no, and [`ReceiveSummary::lacking`] tells. Attributes of `user.` are
    /// data, as a file's bytes are, and need no permission.
    #[must_use]
    pub fn allow_xattrs(mut self, allow: bool) -> Self {
        self.allows.xattrs = allow;
        self
    }

    /// How many further streams a sender may open in a batch, from 0 to 64; more than 64 are 64.
    /// Default: 4. With 0, the files come over the control stream.
    ///
    /// Each costs a thread for the time of the batch, and up to 1.1 MiB of memory once the sender
    /// uses it. [`receive`](Self::receive) takes none.
    #[must_use]
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = streams.min(MAX_STREAMS);
        self
    }

    /// As [`receive`], with these options.
    ///
    /// # Errors
    /// As [`receive`].
    pub async fn receive<S>(
        self,
        stream: S,
        into: &Path,
        observer: Arc<dyn Observer>,
    ) -> Result<ReceiveSummary, ReceiveError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.streams(0).receive_over(stream, (), into, observer).await
    }

    /// As [`receive`], over `control` and the further streams that the sender
    /// [opens](crate::SendOptions::send_over), of which `further` accepts up to
    /// [`streams`](Self::streams). If not as many threads can be had, the sender opens fewer, and
    /// [`Observer::fewer_streams`] tells.
    ///
    /// # Errors
    /// As [`receive`]; and [`WireError::Carrier`] if a further stream fails.
    pub async fn receive_over<S, A>(
        self,
        control: S,
        further: A,
        into: &Path,
        observer: Arc<dyn Observer>,
    ) -> Result<ReceiveSummary, ReceiveError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
        A: AcceptStreams,
    {
        let (read_half, write_half) = tokio::io::split(control);
        let (used, used_out) = sync_mpsc::channel();
        let mut reader = FrameReader::new(read_half, used_out);
        let mut writer = FrameWriter::new(write_half);
        let (work_in, work) = mpsc::channel(WRITE_BEHIND);
        let (answers_in, answers) = mpsc::channel(MAX_ANSWERS);

        // The sender hears of as many streams as there are threads for.
        let main = Main::start(work, used);
        let mut carriers = Carriers::start(if main.is_ok() { self.streams } else { 0 }, &*observer);
        let (opened, terms) = greet(&mut reader, &mut writer, Role::Receiver, carriers.len(), Terms::default()).await?;
        carriers.limit(opened);

        let guarantees = Guarantees::new(self.calls, self.is_strict, Arc::clone(&observer)).allowing(self.allows);
        let folder =
            Folder { path: into.to_owned(), guarantees, observer, answers: answers_in, streams: carriers.len(), terms };
        let begin = async || match terms.deletes && !self.allows_delete {
            true => Err(ReceiveError::Delete),
            false => main?.begin(folder).await,
        };
        let (batch, mut worker) = match begin().await {
            Ok(begun) => begun,
            Err(error) => {
                refuse(&mut writer, &error).await;
                return Err(error);
            }
        };

        // Several parts run until one fails or all are done: reading frames, writing answers, accepting
        // streams, and the threads between.
        let mut reading = Box::pin(read_frames(&mut reader, work_in));
        let mut writing = Box::pin(write_answers(&mut writer, answers));
        let (accepted_in, mut accepted) = mpsc::channel(1);
        let mut accepting = pin!(accept(further, carriers.len(), accepted_in));
        let stop = Stop::new();
        let (mut has_read, mut has_written, mut said_bye, mut worked) = (false, false, false, None);
        let cut = loop {
            tokio::select! {
                biased;
                read = &mut reading, if !has_read => match read {
                    Ok(()) => has_read = true,
                    Err(error) => break Some(error.into()),
                },
                wrote = &mut writing, if !has_written => {
                    has_written = true;
                    match wrote {
                        Ok(is_bye) => said_bye = is_bye,
                        Err(error) => break Some(error.into()),
                    }
                }
                result = &mut worker, if worked.is_none() => worked = Some(result),
                error = carriers.failure() => break Some(error),
                Some(stream) = accepted.recv() => if let Err(error) = carriers.begin(stream, &batch, &stop) {
                    break Some(error.into());
                },
                never = &mut accepting => match never {},
            }
            match &worked {
                Some(Err(_) | Ok(Err(_))) => break None,
                Some(Ok(Ok(_))) if has_written => break None,
                _ => {}
            }
        };
        // The message that ends the batch may have been queued just now.
        if !has_written && let Some(Ok(is_bye)) = writing.as_mut().now_or_never() {
            said_bye = is_bye;
        }
        // Without further frames the threads end, and leave their files in order; without a reader of
        // its answers one stops digesting a file.
        drop(reading);
        drop(writing);
        drop(stop);
        let worked = match worked {
            Some(worked) => worked,
            None => worker.await,
        };
        let told = carriers.end().await;
        let is_complete = worked.map_err(ReceiveError::Thread)?.map_err(WireError::from)?;
        match (cut, is_complete) {
            (cut, true) if cut.is_none() || said_bye => {
                // The batch is complete, whether or not the streams still close in order.
                if writer.shutdown().await.is_ok() {
                    reader.drain().await;
                }
                Ok(batch.take_summary())
            }
            // A sender one of whose streams has failed ends them all.
            (Some(ReceiveError::Wire(WireError::Cut)), _) => Err(told.unwrap_or(WireError::Cut).into()),
            (Some(error), _) => Err(error),
            (None, _) => Err(WireError::Cut.into()),
        }
    }
}

/// Sends the sender the reason of the refusal, as far as the stream allows.
async fn refuse<W: AsyncWrite + Unpin>(writer: &mut FrameWriter<W>, error: &ReceiveError) {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let reason = Reason::new(format_args!("{error}{cause}"));
    if writer.message(&FromReceiver::Refuse { reason }).await.is_ok() {
        let _ = writer.shutdown().await;
    }
}

/// Hands frames to the thread of the control stream, up to the last one of the batch.
async fn read_frames<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    work: mpsc::Sender<Frame<FromSender>>,
) -> Result<(), WireError> {
    loop {
        let frame = reader.frame().await?;
        let is_last = frame == Frame::Message(FromSender::Done);
        // A thread that dropped its end has failed, and its result says why.
        if work.send(frame).await.is_err() || is_last {
            return Ok(());
        }
    }
}

/// Writes answers up to the last word, and gives whether that was [`FromReceiver::Bye`]; flushes
/// when none is waiting.
async fn write_answers<W: AsyncWrite + Unpin>(
    writer: &mut FrameWriter<W>,
    mut answers: mpsc::Receiver<FromReceiver>,
) -> Result<bool, WireError> {
    let mut is_bye = false;
    while let Some(answer) = answers.recv().await {
        is_bye = answer == FromReceiver::Bye;
        writer.message(&answer).await?;
        if is_bye || matches!(answer, FromReceiver::Refuse { .. }) {
            break;
        }
        if answers.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await?;
    Ok(is_bye)
}

/// Accepts the streams of files, if there may be any. One more than there may be is one too many:
/// it is accepted, and refused.
async fn accept<A: AcceptStreams>(mut further: A, max: usize, accepted: mpsc::Sender<A::Stream>) -> Infallible {
    // Without a further stream, the files come over those that are there.
    while max > 0
        && let Ok(stream) = further.accept().await
        && accepted.send(stream).await.is_ok()
    {}
    pending().await
}

/// Frames read ahead of the disk: with blocks of the protocol's 1 MiB limit, 8 MiB of memory.
const WRITE_BEHIND: usize = 8;

#[cfg(test)]
mod tests;
