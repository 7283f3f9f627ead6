//! Drives the sender over its streams.

mod batch;
mod readers;

use crate::{
    error::{SendError, Violation, WireError},
    filter::Filter,
    frame::{Block, Frame, Role, Terms},
    keep::Keeps,
    list::FileList,
    message::{Compare, FromReceiver, FromSender},
    observe::Observer,
    plan::plan,
    proto::{MAX_ANSWERS, MAX_STREAMS},
    source::{Job, Jobs, Pacer},
    streams::OpenStreams,
    summary::SendSummary,
    thread::{self, Stop},
    wire::{FrameReader, FrameWriter, greet},
};
use batch::Batch;
use futures_util::{FutureExt, future::FusedFuture};
use readers::{Read, Readers, ToControl};
use std::{
    future::pending,
    num::NonZeroU64,
    path::PathBuf,
    pin::pin,
    sync::{Arc, atomic::Ordering, mpsc as sync_mpsc},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// Sends files and folders over `stream`, whose peer runs [`receive`](crate::receive).
///
/// A file arrives under its name, a folder under its name with its contents; a source that ends in
/// `.` or `..` stands for its contents. A link named as a source is followed; one below a
/// source arrives as a link, and special files are left out and reported. The stream is shut down
/// at the end.
///
/// No runtime is needed beyond the one that `stream` needs. When the future is dropped, the
/// transfer is cut, and a later one continues from there. There is no time limit: the stream's
/// owner decides how long to wait for a silent peer.
///
/// [`SendOptions::send_over`] sends over further streams beside this one.
///
/// # Deadlock
/// Each end reads in every state of its writing: here, answers go into a queue that has room for as
/// many as a peer that keeps to the protocol can ever have under way. So the receiver's writing
/// always gets on, and with it its reading waits for nothing but its disk, and with that our
/// writing gets on, however few bytes the stream holds. Further streams have threads of their own
/// at either end, which wait for nothing but their stream and the disk; here for the digests of the
/// receiver's blocks too, which are such answers.
///
/// # Errors
/// A failure of the whole batch: a source that is missing or special, two sources of one name, no
/// thread to be had (all before anything is sent), a stream that fails, a peer that breaks the
/// protocol. A file that fails on its own is in [`SendSummary::failures`].
pub async fn send<S>(stream: S, sources: &[PathBuf], observer: Arc<dyn Observer>) -> Result<SendSummary, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    SendOptions::new().send(stream, sources, observer).await
}

/// Options of a sender.
#[derive(Debug, Clone)]
pub struct SendOptions {
    streams: usize,
    compare: Compare,
    filter: Filter,
    list: Option<FileList>,
    keeps: Keeps,
    removes_sources: bool,
    max_bits_per_second: Option<NonZeroU64>,
    terms: Terms,
}

impl Default for SendOptions {
    fn default() -> Self {
        let (compare, filter, keeps, terms) = (Compare::default(), Filter::new(), Keeps::default(), Terms::default());
        let (list, max_bits_per_second) = (None, None);
        Self { streams: 4, compare, filter, list, keeps, removes_sources: false, max_bits_per_second, terms }
    }
}

impl SendOptions {
    /// All at their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many further streams carry files at a time, from 0 to 64; more than 64 are 64. Default:
    /// 4. The receiver may take fewer. With 0, the files go over the control stream.
    ///
    /// Each costs a thread that reads and hashes files, and about 0.6 MiB of memory at this end
    /// and 1.1 MiB at the receiver. No more are opened than there are files.
    #[must_use]
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = streams.min(MAX_STREAMS);
        self
    }

    /// The property by which a file that the receiver has counts as the same. Default:
    /// [`Compare::Times`].
    #[must_use]
    pub fn compare(mut self, compare: Compare) -> Self {
        self.compare = compare;
        self
    }

    /// The entries that are left out. Default: none.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// The entries of the one source, a folder, that are sent. Default: all of them.
    ///
    /// One that is missing, or below no folder, is a failure. A list excludes
    /// [`delete`](Self::delete), as the sender looks at no whole folder then.
    #[must_use]
    pub fn files(mut self, list: FileList) -> Self {
        self.list = Some(list);
        self
    }

    /// The rate of the files' bytes, of all streams together, in bits a second. Default: none.
    ///
    /// In any span of time no more bytes are sent than at that rate, and in 100 ms. What is sent
    /// beside them is not counted: messages, and the headers of the layers below.
    #[must_use]
    pub fn max_rate(mut self, bits_per_second: NonZeroU64) -> Self {
        self.max_bits_per_second = Some(bits_per_second);
        self
    }

    /// Whether the files and links that the receiver has are removed here when the batch is
    /// complete; folders stay. Default: no.
    ///
    /// One that has changed since it was listed stays, and so does a link that was named and
    /// followed; these are failures. A batch that is cut removes nothing, and the next one removes
    /// the sources that the receiver has by then.
    #[must_use]
    pub fn remove_sources(mut self, remove: bool) -> Self {
        self.removes_sources = remove;
        self
    }

    /// Whether the batch is a trial: both ends compare, and nothing changes at either. Default: no.
    ///
    /// [`SendSummary::files`] has the files that would be sent ([`How::WouldSend`](crate::How)),
    /// and the observer hears of all changes ([`Outcome::Would`](crate::Outcome)). The modes and
    /// times of folders are not compared.
    #[must_use]
    pub fn dry_run(mut self, dry: bool) -> Self {
        self.terms.is_dry_run = dry;
        self
    }

    /// Whether the receiver removes, in the folders that are sent, what this end does not have.
    /// Default: no. The receiver must [allow](crate::ReceiveOptions::allow_delete) it, for a dry
    /// run too, which tells this end the names that are there.
    ///
    /// That comes when all else has arrived, and only if nothing failed
    /// ([`SendSummary::is_removal_off`]): what could not be read here might have to stay. What the
    /// filter leaves out stays there too, with the folders that hold it. Not together with
    /// [`remove_sources`](Self::remove_sources): the next batch would remove the copies.
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.terms.deletes = delete;
        self
    }

    /// Whether files that have several names in the batch have them at the receiver too, where that
    /// can link. Default: no; each name becomes a file of its own ([`NotKept`](crate::NotKept)).
    ///
    /// The links come when all files have arrived. A name that cannot be linked becomes a file of
    /// its own. So do the names of all but the first 1 048 576 such files.
    #[must_use]
    pub fn hard_links(mut self, keep: bool) -> Self {
        self.keeps.hard_links = keep;
        self
    }

    /// Whether entries keep the number of their user, and programs the set-user-id bit. Default:
    /// no. The receiver must [allow](crate::ReceiveOptions::allow_owners) it, and be privileged
    /// (`CAP_CHOWN`); otherwise [`SendSummary::lacking`] tells.
    #[must_use]
    pub fn owner(mut self, keep: bool) -> Self {
        self.keeps.user = keep;
        self
    }

    /// Whether entries keep the number of their group, and programs and folders the set-group-id
    /// bit. Default: no. As [`owner`](Self::owner), but a receiver may also set the groups that
    /// it is in.
    #[must_use]
    pub fn group(mut self, keep: bool) -> Self {
        self.keeps.group = keep;
        self
    }

    /// Whether files and folders keep their extended attributes: those of `user.`, and if this
    /// process is root those of `security.` and `trusted.` too, which the receiver must
    /// [allow](crate::ReceiveOptions::allow_xattrs). Default: no.
    ///
    /// The receiver's attributes of `user.` that a file does not have here are removed. A file's
    /// attributes and access lists have 8000 bytes at most, names included: one that exceeds this
    /// or cannot be read is in [`SendSummary::skipped`]. The labels of SELinux stay out, and the
    /// attributes of links.
    #[must_use]
    pub fn xattrs(mut self, keep: bool) -> Self {
        self.keeps.xattrs = keep;
        self
    }

    /// Whether files and folders keep their POSIX access lists, in the room that
    /// [`xattrs`](Self::xattrs) names. Default: no. The receiver must
    /// [allow](crate::ReceiveOptions::allow_xattrs) it.
    #[must_use]
    pub fn acls(mut self, keep: bool) -> Self {
        self.keeps.acls = keep;
        self
    }

    /// As [`send`], with these options.
    ///
    /// # Errors
    /// As [`send`].
    pub async fn send<S>(
        self,
        stream: S,
        sources: &[PathBuf],
        observer: Arc<dyn Observer>,
    ) -> Result<SendSummary, SendError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.streams(0).send_over(stream, (), sources, observer).await
    }

    /// As [`send`], over `control` and further streams: the files go over streams that `further`
    /// opens, several at a time, and all else over `control`. The peer runs
    /// [`ReceiveOptions::receive_over`](crate::ReceiveOptions::receive_over).
    ///
    /// If no further stream or thread can be had, fewer streams carry the files, `control` at last.
    /// [`Observer::fewer_streams`] tells.
    ///
    /// # Errors
    /// As [`send`]; and [`WireError::Carrier`] if a further stream fails.
    pub async fn send_over<S, O>(
        self,
        control: S,
        further: O,
        sources: &[PathBuf],
        observer: Arc<dyn Observer>,
    ) -> Result<SendSummary, SendError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
        O: OpenStreams,
    {
        if self.terms.deletes && self.list.is_some() {
            return Err(SendError::FileList("leaves no whole folder to delete in"));
        }
        if self.terms.deletes && self.removes_sources {
            return Err(SendError::Delete);
        }
        let (sources, filter, list, keeps) = (sources.to_vec(), self.filter, self.list, self.keeps);
        let plan = thread::run(move || plan(&sources, filter, list.as_ref(), keeps))?.await??;
        let files = usize::try_from(plan.totals.files).unwrap_or(usize::MAX);
        let (jobs_in, jobs) = Jobs::new();
        let pacer = self.max_bits_per_second.map(Pacer::new);
        // The threads end when `jobs_in` or `stop` is dropped, at the latest after one more read.
        let readers = Readers::start(self.streams.max(1).min(files), &jobs, pacer.as_ref(), &*observer)?;
        observer.totals(&plan.totals);
        plan.skipped.iter().for_each(|skip| observer.skipped(&skip.source, &skip.reason));
        plan.unreadable.iter().for_each(|reason| observer.unreadable(reason));

        let (read_half, write_half) = tokio::io::split(control);
        let (_, no_blocks) = sync_mpsc::channel();
        let mut reader = FrameReader::new(read_half, no_blocks);
        let mut writer = FrameWriter::new(write_half);
        let ours = self.streams.min(readers.len());
        let (theirs, _) = greet(&mut reader, &mut writer, Role::Sender, ours, self.terms).await?;
        let streams = ours.min(theirs);

        let batch = Arc::new(Batch::new(plan, self.compare, self.terms, Arc::clone(&observer)));
        let stop = Stop::new();
        let (answers_in, answers) = mpsc::channel(MAX_ANSWERS);
        let (events_in, events) = mpsc::channel(READ_AHEAD);
        let (used_in, used) = sync_mpsc::channel();
        let to_control = ToControl { events: events_in, used };
        let mut hearing = pin!(read_answers(reader, answers_in).fuse());
        let failure = {
            let mut carrying = pin!(readers.carry(streams, further, &batch, &stop, to_control, &*observer));
            let control = Control { writer: &mut writer, batch: &batch, jobs: jobs_in, events, used: used_in, answers };
            tokio::select! {
                // Reading comes first: when a peer refuses and closes, its reason is worth more than our
                // broken pipe.
                biased;
                Err(error) = &mut hearing => return Err(error),
                done = control.run() => {
                    done?;
                    if self.removes_sources && !self.terms.is_dry_run {
                        let batch = Arc::clone(&batch);
                        thread::run(move || batch.remove_sources())?.await?;
                    }
                    return Ok(batch.take_summary());
                }
                error = &mut carrying => error,
            }
        };
        // A receiver that gives the batch up stops reading the files, and its reason is under way. Any
        // other learns by the ends of all streams that there is nothing to wait for.
        drop(stop);
        if hearing.is_terminated() {
            return Err(failure);
        }
        let hanging_up = async {
            let _ = writer.shutdown().await;
            pending().await
        };
        tokio::select! {
            heard = &mut hearing => match heard {
                Err(refused @ SendError::Refused(_)) => Err(refused),
                _ => Err(failure),
            },
            never = hanging_up => never,
        }
    }
}

/// Reads answers up to the last one.
async fn read_answers<R>(mut reader: FrameReader<R>, answers: mpsc::Sender<FromReceiver>) -> Result<(), SendError>
where
    R: AsyncRead + Unpin,
{
    loop {
        let answer = match reader.frame().await? {
            Frame::Message(FromReceiver::Refuse { reason }) => return Err(SendError::Refused(reason)),
            Frame::Message(answer) => answer,
            Frame::Block(_) => return Err(WireError::from(Violation::Unexpected("a data block")).into()),
        };
        let is_last = answer == FromReceiver::Bye;
        // Never waits: see "Deadlock" above. A full queue means that the peer sent more answers
        // than requests.
        if let Err(mpsc::error::TrySendError::Full(_)) = answers.try_send(answer) {
            return Err(WireError::from(Violation::Window).into());
        }
        if is_last {
            return Ok(());
        }
    }
}

/// The task of the control stream, without the reading of answers.
struct Control<'a, W> {
    writer: &'a mut FrameWriter<W>,
    batch: &'a Batch,
    /// Files to read. Dropping it ends the readers.
    jobs: sync_mpsc::Sender<Arc<Job>>,
    events: mpsc::Receiver<Read>,
    /// Returns sent blocks, which are filled again.
    used: sync_mpsc::Sender<Block>,
    answers: mpsc::Receiver<FromReceiver>,
}

enum Step {
    Answer(FromReceiver),
    Read(Read),
}

impl<W: AsyncWrite + Unpin> Control<'_, W> {
    async fn run(mut self) -> Result<(), SendError> {
        self.writer.message(&FromSender::Totals(self.batch.totals())).await?;
        for reason in self.batch.take_unreadable() {
            self.writer.message(&FromSender::Unreadable { reason }).await?;
        }
        loop {
            // Asked before there is a look for more to open: a reader may close the last entry in between.
            let is_idle = self.batch.is_idle();
            match self.batch.open() {
                Some(opening) => self.writer.message(&opening).await?,
                None if is_idle => break,
                None => match self.next_step().await? {
                    Step::Answer(answer) => {
                        if let Some(choice) = self.on_answer(answer)? {
                            self.writer.message(&choice).await?;
                        }
                    }
                    Step::Read(read) => self.on_read(read).await?,
                },
            }
        }
        self.writer.message(&FromSender::Done).await?;
        self.writer.flush().await?;
        loop {
            match self.answers.recv().await {
                Some(FromReceiver::Bye) => break,
                Some(FromReceiver::Lacking { lacking }) => self.batch.on_lacking(lacking),
                Some(FromReceiver::Here { mark }) => self.batch.on_here(mark),
                Some(_) => return Err(WireError::from(Violation::Unexpected("an answer after the last entry")).into()),
                None => return Err(WireError::Cut.into()),
            }
        }
        // The batch is complete, whether or not the stream still closes in order.
        let _ = self.writer.shutdown().await;
        Ok(())
    }

    /// Waits for the next step. Flushes only if none is ready.
    async fn next_step(&mut self) -> Result<Step, SendError> {
        if let Ok(answer) = self.answers.try_recv() {
            return Ok(Step::Answer(answer));
        }
        if let Ok(read) = self.events.try_recv() {
            return Ok(Step::Read(read));
        }
        self.writer.flush().await?;
        // The reading half ends only after the last answer, and the readers only after this task: if
        // a channel is closed, the transfer is about to report the failure behind it.
        tokio::select! {
            Some(answer) = self.answers.recv() => Ok(Step::Answer(answer)),
            Some(read) = self.events.recv() => Ok(Step::Read(read)),
            else => pending().await,
        }
    }

    /// Takes an answer; gives the message that replies to it, if one does.
    fn on_answer(&mut self, answer: FromReceiver) -> Result<Option<FromSender>, WireError> {
        match answer {
            FromReceiver::Held { id, held } => {
                // A reader that has ended is noticed by its result.
                let _ = self.jobs.send(Arc::new(self.batch.on_held(id, held)?));
                Ok(None)
            }
            FromReceiver::Settled { id, outcome } => Ok(self.batch.on_settled(id, outcome).map(|()| None)?),
            FromReceiver::Found { id, folder, entries } => {
                Ok(Some(self.batch.on_found(id, folder.as_ref(), &entries)?))
            }
            FromReceiver::Blocks { id, digests } => Ok(self.batch.on_blocks(id, digests).map(|()| None)?),
            FromReceiver::Bye => Err(Violation::Unexpected("the last word, with entries open,").into()),
            FromReceiver::Refuse { .. } => Err(Violation::Unexpected("a refusal").into()),
            FromReceiver::Lacking { .. } => {
                Err(Violation::Unexpected("a lacking guarantee, with entries open,").into())
            }
            FromReceiver::Here { .. } => Err(Violation::Unexpected("a mark, with entries open,").into()),
        }
    }

    async fn on_read(&mut self, read: Read) -> Result<(), WireError> {
        match read {
            Read::Event(job, event) => self.writer.message(&self.batch.say(&job, event)).await,
            Read::Block(job, block) => {
                if !job.stop.load(Ordering::Relaxed) {
                    self.writer.block(&block).await?;
                    self.batch.moved(&job, block.len());
                }
                let _ = self.used.send(block);
                Ok(())
            }
            // The next look at the batch sees it.
            Read::Closed => Ok(()),
        }
    }
}

/// Blocks that are read ahead of the control stream: 2 MiB of memory.
const READ_AHEAD: usize = 8;
