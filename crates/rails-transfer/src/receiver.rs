//! Drives the receiver over a stream.

use crate::{
    calls::{Calls, Guarantees},
    error::{ReceiveError, Violation, WireError},
    frame::{Frame, Role},
    message::{FromReceiver, FromSender, HEARS_LACKING, Settled},
    observe::{Observer, Outcome},
    path::RelPath,
    proto::{Fate, Inbound, MAX_ANSWERS},
    reason::Reason,
    store::{Incoming, Store},
    summary::ReceiveSummary,
    thread::{self, Running},
    wire::{FrameReader, FrameWriter, greet},
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, mpsc as sync_mpsc},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// Receives one batch from `stream`, whose peer runs [`send`](crate::send), and writes it below
/// `into`.
///
/// `into` is made if it is not there; nothing outside it is touched. The stream is shut down at the
/// end. When this returns, with or without an error, no thread of it is writing any more; when the
/// future is dropped, the thread ends by itself a moment later.
///
/// No runtime is needed beyond the one that `stream` needs. There is no time limit: the stream's
/// owner decides how long to wait for a silent peer.
///
/// # Deadlock
/// Frames go to the disk thread, which never waits for the answers it gives: they go into a queue
/// with room for all that a peer that keeps to the protocol can be owed. See [`send`](crate::send).
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
    calls: Calls,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self { is_strict: false, calls: Calls::KERNEL }
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
    pub fn strict(mut self, strict: bool) -> Self {
        self.is_strict = strict;
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
        let (read_half, write_half) = tokio::io::split(stream);
        let (used_in, used) = sync_mpsc::channel();
        let mut reader = FrameReader::new(read_half, used);
        let mut writer = FrameWriter::new(write_half);
        greet(&mut reader, &mut writer, Role::Receiver).await?;

        let guarantees = Guarantees::new(self.calls, self.is_strict, Arc::clone(&observer));
        let (work, work_out) = mpsc::channel(WRITE_BEHIND);
        let (answers_in, answers) = mpsc::channel(MAX_ANSWERS);
        let begin = async || -> Result<Running<_>, ReceiveError> {
            let folder = into.to_owned();
            let opened = thread::run(move || Store::open(&folder, guarantees))?.result().await?;
            let store = opened.map_err(|source| ReceiveError::Folder { path: into.to_owned(), source })?;
            let worker = Worker::new(store, answers_in, used_in, observer);
            Ok(thread::run(move || worker.run(work_out))?)
        };
        let mut worker = match begin().await {
            Ok(worker) => worker,
            Err(error) => {
                refuse(&mut writer, &error).await;
                return Err(error);
            }
        };

        // Three parts run until one fails or all are done: reading frames, writing answers, and the
        // thread between.
        let mut reading = Box::pin(read_frames(&mut reader, work));
        let mut writing = Box::pin(write_answers(&mut writer, answers));
        let (mut has_read, mut has_written, mut worked) = (false, false, None);
        let cut = loop {
            tokio::select! {
                biased;
                read = &mut reading, if !has_read => match read {
                    Ok(()) => has_read = true,
                    Err(error) => break Some(error),
                },
                wrote = &mut writing, if !has_written => match wrote {
                    Ok(()) => has_written = true,
                    Err(error) => break Some(error),
                },
                result = worker.result(), if worked.is_none() => worked = Some(result),
            }
            match &worked {
                // The message that ends the batch was queued for the peer and, as far as the stream took it, written
                // just now.
                Some(Err(_) | Ok(Err(_))) => break None,
                Some(Ok(Ok(_))) if has_written => break None,
                _ => {}
            }
        };
        // Without further frames the thread ends, and leaves its files in order; without a reader
        // of its answers it stops digesting a file.
        drop(reading);
        drop(writing);
        let worked = match worked {
            Some(worked) => worked,
            None => worker.result().await,
        };
        let summary = worked.map_err(ReceiveError::Thread)?.map_err(WireError::from)?;
        match (cut, summary) {
            (None, Some(summary)) => {
                // The batch is complete, whether or not the stream still closes in order.
                if writer.shutdown().await.is_ok() {
                    reader.drain().await;
                }
                Ok(summary)
            }
            (Some(error), _) => Err(error.into()),
            (None, None) => Err(WireError::Cut.into()),
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

/// Hands frames to the disk thread, up to the last one of the batch.
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

/// Writes answers until the disk thread has ended; flushes when none is waiting.
async fn write_answers<W: AsyncWrite + Unpin>(
    writer: &mut FrameWriter<W>,
    mut answers: mpsc::Receiver<FromReceiver>,
) -> Result<(), WireError> {
    while let Some(answer) = answers.recv().await {
        writer.message(&answer).await?;
        if answers.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await
}

/// The disk thread, which handles the frames in order.
struct Worker {
    store: Store,
    inbound: Inbound,
    /// The files behind the entries that `inbound` has open.
    files: BTreeMap<u64, Receiving>,
    answers: mpsc::Sender<FromReceiver>,
    used: sync_mpsc::Sender<Vec<u8>>,
    observer: Arc<dyn Observer>,
    /// Whether the sender accepts `Lacking`.
    hears_lacking: bool,
    summary: ReceiveSummary,
}

struct Receiving {
    path: RelPath,
    size: u64,
    file: Incoming,
}

impl Worker {
    fn new(
        store: Store,
        answers: mpsc::Sender<FromReceiver>,
        used: sync_mpsc::Sender<Vec<u8>>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let (inbound, files, summary) = (Inbound::default(), BTreeMap::new(), ReceiveSummary::default());
        Self { store, inbound, files, answers, used, observer, hears_lacking: false, summary }
    }

    /// Runs to the end of the batch; `None` if the frames end before it does.
    fn run(mut self, mut work: mpsc::Receiver<Frame<FromSender>>) -> Result<Option<ReceiveSummary>, Violation> {
        let outcome = loop {
            let step = match self.next(&mut work) {
                Some(Frame::Message(FromSender::Done)) => break self.on_done().map(|()| true),
                Some(Frame::Message(message)) => self.on_message(message),
                Some(Frame::Block(block)) => self.on_block(block),
                None => break Ok(false),
            };
            if let Err(violation) = step {
                break Err(violation);
            }
        };
        // Unfinished files stay as parts.
        std::mem::take(&mut self.files).into_values().for_each(|file| file.file.park());
        self.observer.waits(true);
        match outcome {
            Ok(complete) => {
                self.summary.lacking = self.store.guarantees.lacking().to_vec();
                Ok(complete.then_some(self.summary))
            }
            Err(violation) => {
                let _ = self.answers.try_send(FromReceiver::Refuse { reason: Reason::new(&violation) });
                Err(violation)
            }
        }
    }

    /// The next frame, and `None` after the last.
    fn next(&self, work: &mut mpsc::Receiver<Frame<FromSender>>) -> Option<Frame<FromSender>> {
        if let Ok(frame) = work.try_recv() {
            return Some(frame);
        }
        self.observer.waits(true);
        let frame = work.blocking_recv();
        self.observer.waits(false);
        frame
    }

    fn on_message(&mut self, message: FromSender) -> Result<(), Violation> {
        match message {
            FromSender::Totals(totals) => {
                self.inbound.on_totals()?;
                self.observer.totals(&totals);
                Ok(())
            }
            FromSender::Unreadable { reason } => {
                self.inbound.on_unreadable()?;
                self.summary.fail(None, &reason);
                self.observer.unreadable(&reason);
                Ok(())
            }
            FromSender::Folder { id, path } => {
                self.inbound.on_simple(id)?;
                match self.store.make_folder(&path) {
                    Ok(()) => {
                        self.summary.folders += 1;
                        self.observer.finished(&path, 0, Outcome::Made);
                        self.settle(id, Settled::Made)
                    }
                    Err(reason) => self.fail(id, &path, 0, reason),
                }
            }
            FromSender::Seal { id, path, mode } => {
                self.inbound.on_simple(id)?;
                self.hears_lacking |= mode & HEARS_LACKING != 0;
                match self.store.seal_folder(&path, mode) {
                    Ok(()) => self.settle(id, Settled::Made),
                    Err(reason) => self.fail(id, &path, 0, reason),
                }
            }
            FromSender::Offer { id, path, size, mode } => self.on_offer(id, path, size, mode),
            FromSender::Start { id, offset } => self.on_start(id, offset),
            FromSender::Finish { id, digest } => {
                if self.inbound.on_finish(id)? == Fate::Discard {
                    return Ok(());
                }
                let Receiving { path, size, file } = self.take(id);
                match file.finish(digest, &mut self.store.guarantees) {
                    Ok(()) => {
                        self.summary.stored += 1;
                        self.summary.arrived(&path);
                        self.observer.finished(&path, size, Outcome::Stored(digest));
                        self.settle(id, Settled::Stored { digest })
                    }
                    Err(reason) => self.fail(id, &path, size, reason),
                }
            }
            FromSender::Keep { id } => {
                self.inbound.on_keep(id)?;
                let Receiving { path, size, file } = self.take(id);
                match file.keep(&mut self.store.guarantees) {
                    Ok(()) => {
                        self.summary.already_there += 1;
                        self.summary.arrived(&path);
                        self.observer.finished(&path, size, Outcome::AlreadyThere);
                        self.settle(id, Settled::Kept)
                    }
                    Err(reason) => self.fail(id, &path, size, reason),
                }
            }
            FromSender::Abort { id, reason } => {
                if self.inbound.on_abort(id)? == Fate::Discard {
                    return Ok(());
                }
                let Receiving { path, size, file } = self.take(id);
                file.park();
                self.summary.fail(Some(&path), &reason);
                self.observer.finished(&path, size, Outcome::Failed(&reason));
                self.settle(id, Settled::Aborted)
            }
            FromSender::Done => unreachable!("the end of the batch is the loop's"),
        }
    }

    fn on_offer(&mut self, id: u64, path: RelPath, size: u64, mode: u32) -> Result<(), Violation> {
        self.inbound.on_offer(id)?;
        self.hears_lacking |= mode & HEARS_LACKING != 0;
        match self.store.look(&path, size, mode, &|| !self.answers.is_closed()) {
            Ok((file, held)) => {
                self.inbound.answer(id, size, &held);
                self.files.insert(id, Receiving { path, size, file });
                self.answer(FromReceiver::Held { id, held })
            }
            Err(reason) => self.fail(id, &path, size, reason),
        }
    }

    fn on_start(&mut self, id: u64, offset: u64) -> Result<(), Violation> {
        self.inbound.on_start(id, offset)?;
        let file = self.files.get_mut(&id).expect("an offered file is kept");
        match file.file.start(offset, &mut self.store.guarantees) {
            Ok(()) => {
                self.observer.started(&file.path, file.size, offset);
                Ok(())
            }
            Err(reason) => self.give_up(id, reason),
        }
    }

    fn on_block(&mut self, block: Vec<u8>) -> Result<(), Violation> {
        let (id, fate) = self.inbound.on_block(block.len())?;
        let written = match fate {
            Fate::Discard => Ok(()),
            Fate::Write => {
                let file = self.files.get_mut(&id).expect("a started file is kept");
                file.file.write(&block).map(|()| {
                    self.summary.bytes_received += block.len() as u64;
                    self.observer.moved(&file.path, block.len() as u64);
                })
            }
        };
        let _ = self.used.send(block);
        written.or_else(|reason| self.give_up(id, reason))
    }

    fn on_done(&mut self) -> Result<(), Violation> {
        self.inbound.on_done()?;
        let Err(reason) = self.store.sync() else {
            // A peer that keeps to the protocol has read all other answers, so there is room for
            // these.
            for lacking in self.store.guarantees.lacking().iter().filter(|_| self.hears_lacking) {
                self.answer(FromReceiver::Lacking { lacking: lacking.clone() })?;
            }
            return self.answer(FromReceiver::Bye);
        };
        self.summary.fail(None, &reason);
        self.observer.unreadable(&reason);
        self.answer(FromReceiver::Refuse { reason })
    }

    /// Settles the current file as failed; the bytes that the sender has under way for it are
    /// dropped.
    ///
    /// The file's part stays for a later run, after a full disk as well: its bytes are good, and
    /// the next run may find room for the rest.
    fn give_up(&mut self, id: u64, reason: Reason) -> Result<(), Violation> {
        self.inbound.discard();
        let Receiving { path, size, file } = self.take(id);
        file.park();
        self.fail(id, &path, size, reason)
    }

    fn fail(&mut self, id: u64, path: &RelPath, size: u64, reason: Reason) -> Result<(), Violation> {
        self.summary.fail(Some(path), &reason);
        self.observer.finished(path, size, Outcome::Failed(&reason));
        self.settle(id, Settled::Failed { reason })
    }

    fn settle(&self, id: u64, outcome: Settled) -> Result<(), Violation> {
        self.answer(FromReceiver::Settled { id, outcome })
    }

    /// Queues an answer without waiting; a full queue means that the peer opened more than the
    /// window allows.
    fn answer(&self, answer: FromReceiver) -> Result<(), Violation> {
        match self.answers.try_send(answer) {
            Err(mpsc::error::TrySendError::Full(_)) => Err(Violation::Window),
            // The task that writes answers has ended; the reading half is about to end too.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    fn take(&mut self, id: u64) -> Receiving {
        self.files.remove(&id).expect("an open entry has its file")
    }
}

/// Frames read ahead of the disk: with blocks of the protocol's 1 MiB limit, 8 MiB of memory.
const WRITE_BEHIND: usize = 8;

#[cfg(test)]
mod tests;
