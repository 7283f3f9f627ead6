//! Drives the sender over a stream.

use crate::{
    error::{SendError, Violation, WireError},
    frame::{Frame, Role},
    guarantee::LackingGuarantee,
    message::{Digest, FromReceiver, FromSender, HEARS_LACKING, Held, Settled},
    observe::{Observer, Outcome},
    plan::{Entry, EntryKind, Plan, plan},
    proto::{Kind, MAX_ANSWERS, Outbound},
    reason::Reason,
    source::{self, Event, Handles, Job},
    summary::{Failure, How, SendSummary, SentFile},
    thread,
    wire::{FrameReader, FrameWriter, greet},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// Sends files and folders over `stream`, whose peer runs [`receive`](crate::receive).
///
/// A file arrives under its name, a folder under its name with its contents; a source that ends in
/// `.` or `..` stands for its contents. A link named as a source is followed; links and special
/// files below a source are left out and reported. The stream is shut down at the end.
///
/// No runtime is needed beyond the one that `stream` needs. When the future is dropped, the
/// transfer is cut, and a later one continues from there. There is no time limit: the stream's
/// owner decides how long to wait for a silent peer.
///
/// # Deadlock
/// Each end reads in every state of its writing: here, answers go into a queue that has room for as
/// many as a peer that keeps to the protocol can ever have under way. So the receiver's writing
/// always gets on, and with it its reading waits for nothing but its disk, and with that our
/// writing gets on, however few bytes the stream holds.
///
/// # Errors
/// A failure of the whole batch: a source that is missing or special, two sources of one name, no
/// thread to be had (all before anything is sent), a stream that fails, a peer that breaks the
/// protocol. A file that fails on its own is in [`SendSummary::failures`].
pub async fn send<S>(stream: S, sources: &[PathBuf], observer: Arc<dyn Observer>) -> Result<SendSummary, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let sources = sources.to_vec();
    let plan = thread::run(move || plan(&sources))?.result().await??;
    let (reader, disk) = source::channels();
    // The thread ends when `disk` is dropped, at the latest after one more read.
    let mut reading = thread::run(move || reader.run())?;
    observer.totals(&plan.totals);
    plan.skipped.iter().for_each(|skip| observer.skipped(&skip.source, &skip.reason));
    plan.unreadable.iter().for_each(|reason| observer.unreadable(reason));

    let (read_half, write_half) = tokio::io::split(stream);
    let (_, no_blocks) = std::sync::mpsc::channel();
    let mut reader = FrameReader::new(read_half, no_blocks);
    let mut writer = FrameWriter::new(write_half);
    greet(&mut reader, &mut writer, Role::Sender).await?;

    let (answers_in, answers) = mpsc::channel(MAX_ANSWERS);
    let sending = Sending::new(writer, disk, answers, plan, observer);
    tokio::select! {
        // Reading comes first: when a peer refuses and closes, its reason is worth more than our
        // broken pipe.
        biased;
        Err(error) = read_answers(reader, answers_in) => Err(error),
        Err(error) = reading.result() => Err(error.into()),
        done = sending.run() => done,
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

/// The sender's task, without the reading of answers.
struct Sending<W> {
    writer: FrameWriter<W>,
    disk: Handles,
    answers: mpsc::Receiver<FromReceiver>,
    observer: Arc<dyn Observer>,

    /// The batch.
    plan: Plan,
    /// The number of the plan's entries that have been opened.
    opened: usize,
    /// The number of the plan's entries, from the end, that the search for folders to seal has
    /// passed.
    sealed: usize,

    /// The open entries.
    outbound: Outbound,
    /// The files that the disk thread is working on.
    files: BTreeMap<u64, Running>,
    /// The plan's files that changed while they were read, and will be offered once more.
    again: VecDeque<usize>,
    /// The plan's files that were offered twice.
    offered_again: BTreeSet<usize>,
    /// The plan's folders that could not be made, and so cannot be sealed.
    lost_folders: BTreeSet<usize>,
    summary: SendSummary,
}

/// A file whose offer was answered.
#[derive(Debug)]
struct Running {
    stop: Arc<AtomicBool>,
    resumed_at: u64,
    /// The file's digest, once it has been read.
    digest: Option<Digest>,
}

enum Step {
    Answer(FromReceiver),
    Disk(Event),
}

impl<W: AsyncWrite + Unpin> Sending<W> {
    fn new(
        writer: FrameWriter<W>,
        disk: Handles,
        answers: mpsc::Receiver<FromReceiver>,
        mut plan: Plan,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let failures = plan.unreadable.iter().map(|reason| Failure { path: None, reason: reason.clone() }).collect();
        let summary = SendSummary { skipped: std::mem::take(&mut plan.skipped), failures, ..SendSummary::default() };
        Self {
            writer,
            disk,
            answers,
            observer,
            plan,
            opened: 0,
            sealed: 0,
            outbound: Outbound::default(),
            files: BTreeMap::new(),
            again: VecDeque::new(),
            offered_again: BTreeSet::new(),
            lost_folders: BTreeSet::new(),
            summary,
        }
    }

    async fn run(mut self) -> Result<SendSummary, SendError> {
        self.writer.message(&FromSender::Totals(self.plan.totals)).await?;
        for reason in std::mem::take(&mut self.plan.unreadable) {
            self.writer.message(&FromSender::Unreadable { reason }).await?;
        }
        loop {
            self.open_entries().await?;
            if self.outbound.is_empty() {
                break;
            }
            match self.next_step().await? {
                Step::Answer(answer) => self.on_answer(answer)?,
                Step::Disk(event) => self.on_disk(event).await?,
            }
        }
        self.writer.message(&FromSender::Done).await?;
        self.writer.flush().await?;
        loop {
            match self.answers.recv().await {
                Some(FromReceiver::Bye) => break,
                Some(FromReceiver::Lacking { lacking }) => self.on_lacking(lacking),
                Some(_) => return Err(WireError::from(Violation::Unexpected("an answer after the last entry")).into()),
                None => return Err(WireError::Cut.into()),
            }
        }
        // The batch is complete, whether or not the stream still closes in order.
        let _ = self.writer.shutdown().await;
        Ok(self.summary)
    }

    /// Opens as many entries as the window allows: folders and files in the plan's order, and when
    /// all of those are settled, the folders' seals, innermost first, because a sealed folder
    /// may be read-only.
    async fn open_entries(&mut self) -> Result<(), WireError> {
        let all = self.plan.entries.len();
        while self.outbound.has_room()
            && let Some(index) = self.next_entry()
        {
            let Entry { path, mode, kind } = &self.plan.entries[index];
            let (path, mode) = (path.clone(), *mode);
            let message = match kind {
                EntryKind::Folder => FromSender::Folder { id: self.outbound.open(index, Kind::Simple), path },
                EntryKind::File { size, .. } => {
                    let id = self.outbound.open(index, Kind::File);
                    FromSender::Offer { id, path, size: *size, mode: mode | HEARS_LACKING }
                }
            };
            self.writer.message(&message).await?;
        }
        if self.opened < all || !self.again.is_empty() || (self.sealed == 0 && !self.outbound.is_empty()) {
            return Ok(());
        }
        while self.outbound.has_room() && self.sealed < all {
            let entry = all - 1 - self.sealed;
            self.sealed += 1;
            if let Entry { path, mode, kind: EntryKind::Folder } = &self.plan.entries[entry]
                && !self.lost_folders.contains(&entry)
            {
                let id = self.outbound.open(entry, Kind::Simple);
                self.writer.message(&FromSender::Seal { id, path: path.clone(), mode: *mode | HEARS_LACKING }).await?;
            }
        }
        Ok(())
    }

    /// The entry to open next.
    fn next_entry(&mut self) -> Option<usize> {
        self.again.pop_front().or_else(|| {
            let next = (self.opened < self.plan.entries.len()).then_some(self.opened)?;
            self.opened += 1;
            Some(next)
        })
    }

    /// Waits for the next step. Flushes only if none is ready.
    async fn next_step(&mut self) -> Result<Step, SendError> {
        if let Ok(answer) = self.answers.try_recv() {
            return Ok(Step::Answer(answer));
        }
        if let Ok(event) = self.disk.events.try_recv() {
            return Ok(Step::Disk(event));
        }
        self.writer.flush().await?;
        // The reading half ends only after the last answer, and the disk thread only after this
        // task: if a channel is closed, `send` is about to report the failure behind it.
        tokio::select! {
            Some(answer) = self.answers.recv() => Ok(Step::Answer(answer)),
            Some(event) = self.disk.events.recv() => Ok(Step::Disk(event)),
            else => std::future::pending().await,
        }
    }

    fn on_answer(&mut self, answer: FromReceiver) -> Result<(), WireError> {
        match answer {
            FromReceiver::Held { id, held } => self.on_held(id, held),
            FromReceiver::Settled { id, outcome } => self.on_settled(id, outcome),
            FromReceiver::Bye => Err(Violation::Unexpected("the last word, with entries open,").into()),
            FromReceiver::Refuse { .. } => Err(Violation::Unexpected("a refusal").into()),
            FromReceiver::Lacking { .. } => {
                Err(Violation::Unexpected("a lacking guarantee, with entries open,").into())
            }
        }
    }

    fn on_lacking(&mut self, lacking: LackingGuarantee) {
        // Each is kept once: the peer decides how many it sends, and must not fill this end's
        // memory.
        if self.summary.lacking.iter().all(|known| known.guarantee != lacking.guarantee) {
            self.summary.lacking.push(lacking);
        }
    }

    fn on_held(&mut self, id: u64, held: Held) -> Result<(), WireError> {
        let entry = self.outbound.on_held(id)?;
        let EntryKind::File { source, size } = &self.plan.entries[entry].kind else {
            unreachable!("only files are opened as files");
        };
        let stop = Arc::new(AtomicBool::new(false));
        let job = Job { id, source: source.clone(), size: *size, held, stop: Arc::clone(&stop) };
        self.files.insert(id, Running { stop, resumed_at: 0, digest: None });
        // A thread that has ended is noticed by its closed channel of events.
        let _ = self.disk.jobs.send(job);
        Ok(())
    }

    fn on_settled(&mut self, id: u64, outcome: Settled) -> Result<(), WireError> {
        let index = self.outbound.on_settled(id, &outcome)?;
        let entry = &self.plan.entries[index];
        // A file that failed at the receiver while it is being read here stays until it is taken
        // back.
        if self.outbound.is_lost(id) {
            self.files[&id].stop.store(true, Ordering::Relaxed);
        }
        let file = if self.outbound.is_lost(id) { None } else { self.files.remove(&id) };
        let (size, path) = (entry.size(), &entry.path);
        match outcome {
            Settled::Stored { digest } => {
                let how = How::Sent { resumed_at: file.map_or(0, |file| file.resumed_at) };
                self.observer.finished(path, size, Outcome::Stored(digest));
                self.summary.files.push(SentFile { path: path.clone(), size, digest, how });
            }
            Settled::Kept => {
                let digest = file.and_then(|file| file.digest).expect("a file is kept for its digest");
                self.observer.finished(path, size, Outcome::AlreadyThere);
                self.summary.files.push(SentFile { path: path.clone(), size, digest, how: How::AlreadyThere });
            }
            // The seal of a folder, which was counted when the folder was made.
            Settled::Made if self.sealed > 0 => {}
            Settled::Made => {
                self.summary.folders += 1;
                self.observer.finished(path, 0, Outcome::Made);
            }
            // The failure was noted when this end gave the file up.
            Settled::Aborted => {}
            Settled::Failed { reason } => self.fail(index, &reason),
        }
        Ok(())
    }

    async fn on_disk(&mut self, event: Event) -> Result<(), WireError> {
        let (Event::Start { id, .. }
        | Event::Block { id, .. }
        | Event::Finish { id, .. }
        | Event::Keep { id, .. }
        | Event::Changed { id, .. }
        | Event::Failed { id, .. }) = event;
        let index = self.outbound.entry(id).expect("a file stays open until the sender has ended it");
        let entry = &self.plan.entries[index];
        let lost = self.outbound.is_lost(id);
        match event {
            Event::Start { offset, .. } => {
                self.observer.started(&entry.path, entry.size(), offset);
                self.files.entry(id).and_modify(|file| file.resumed_at = offset);
                self.outbound.start(id);
                self.writer.message(&FromSender::Start { id, offset }).await
            }
            Event::Block { block, .. } => {
                if !lost {
                    self.writer.block(&block).await?;
                    self.summary.bytes_sent += block.len() as u64;
                    self.observer.moved(&entry.path, block.len() as u64);
                }
                let _ = self.disk.used.send(block);
                Ok(())
            }
            Event::Finish { .. } if lost => self.abort(id, Reason::new("sender: the receiver gave up")).await,
            Event::Finish { digest, .. } => {
                self.outbound.finish(id, digest);
                self.writer.message(&FromSender::Finish { id, digest }).await
            }
            Event::Keep { digest, .. } => {
                self.files.entry(id).and_modify(|file| file.digest = Some(digest));
                self.outbound.keep(id);
                self.writer.message(&FromSender::Keep { id }).await
            }
            Event::Changed { reason, listed, .. } => {
                if let Some((now, mode)) = listed
                    && !lost
                    && self.offered_again.insert(index)
                {
                    let entry = &mut self.plan.entries[index];
                    entry.mode = mode;
                    if let EntryKind::File { size, .. } = &mut entry.kind {
                        *size = now;
                    }
                    self.again.push_back(index);
                    let reason = Reason::new(format_args!("{reason}; it is sent again"));
                    return self.abort(id, reason).await;
                }
                self.take_back(id, index, reason).await
            }
            Event::Failed { reason, .. } => self.take_back(id, index, reason).await,
        }
    }

    /// Aborts a file that failed here, unless it has failed at the receiver.
    async fn take_back(&mut self, id: u64, index: usize, reason: Reason) -> Result<(), WireError> {
        if !self.outbound.is_lost(id) {
            self.fail(index, &reason);
        }
        self.abort(id, reason).await
    }

    async fn abort(&mut self, id: u64, reason: Reason) -> Result<(), WireError> {
        self.files.remove(&id);
        self.outbound.abort(id);
        self.writer.message(&FromSender::Abort { id, reason }).await
    }

    fn fail(&mut self, index: usize, reason: &Reason) {
        let entry = &self.plan.entries[index];
        if matches!(entry.kind, EntryKind::Folder) {
            self.lost_folders.insert(index);
        }
        let path = Some(entry.path.as_path().to_owned());
        self.summary.failures.push(Failure { path, reason: reason.clone() });
        self.observer.finished(&entry.path, entry.size(), Outcome::Failed(reason));
    }
}
