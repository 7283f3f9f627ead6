//! The receiver's threads: one for the control stream, and one for each further stream.

use super::batch::{Batch, Carrier, Disk};
use crate::{
    calls::Guarantees,
    error::{ReceiveError, ThreadError, Violation, WireError},
    frame::{Frame, MAX_BLOCK, Terms},
    hash::BLOCK,
    message::{FromReceiver, FromSender},
    observe::Observer,
    store::{Store, Trial},
    thread::{self, Running, Stop, Stopped},
    wire::FrameReader,
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::{
    future::{pending, poll_fn},
    path::PathBuf,
    pin::pin,
    sync::{Arc, mpsc as sync_mpsc},
    task::Poll,
};
use tokio::{
    io::AsyncRead,
    sync::{mpsc, oneshot},
};

/// The thread of the control stream, which waits for its folder.
pub(super) struct Main {
    folder_in: oneshot::Sender<Folder>,
    opened: oneshot::Receiver<Result<Arc<Batch>, ReceiveError>>,
    running: Worker,
}

/// The thread of the control stream, which gives whether the batch came to its end.
pub(super) type Worker = Running<Result<bool, Violation>>;

/// The receiving folder, and what else a batch needs.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) guarantees: Guarantees,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) answers: mpsc::Sender<FromReceiver>,
    /// The number of further streams that the sender may open.
    pub(super) streams: usize,
    pub(super) terms: Terms,
}

impl Main {
    /// Starts the thread, which will take the frames and return the blocks whose bytes have been
    /// used.
    pub(super) fn start(
        work: mpsc::Receiver<Frame<FromSender>>,
        used: sync_mpsc::Sender<Vec<u8>>,
    ) -> Result<Self, ThreadError> {
        let (folder_in, folder) = oneshot::channel::<Folder>();
        let (opened_in, opened) = oneshot::channel();
        let running = thread::run(move || {
            let Ok(folder) = folder.blocking_recv() else { return Ok(false) };
            match folder.open() {
                Ok(batch) => {
                    let batch = Arc::new(batch);
                    let _ = opened_in.send(Ok(Arc::clone(&batch)));
                    Control { batch, work, used, gathered: Vec::new() }.run()
                }
                Err(error) => {
                    let _ = opened_in.send(Err(error));
                    Ok(false)
                }
            }
        })?;
        Ok(Self { folder_in, opened, running })
    }

    /// Opens the folder, and begins with the batch.
    pub(super) async fn begin(self, folder: Folder) -> Result<(Arc<Batch>, Worker), ReceiveError> {
        // A thread that has panicked drops its end.
        let _ = self.folder_in.send(folder);
        let batch = self.opened.await.map_err(|_| ThreadError::Panicked)??;
        Ok((batch, self.running))
    }
}

impl Folder {
    fn open(self) -> Result<Batch, ReceiveError> {
        let Self { path, guarantees, observer, answers, streams, terms } = self;
        let disk = match terms.is_dry_run {
            true => Trial::open(&path, guarantees).map(Disk::Trial),
            false => Store::open(&path, guarantees).map(Disk::Store),
        };
        match disk {
            Ok(disk) => Ok(Batch::new(disk, observer, answers, terms, streams)),
            Err(source) => Err(ReceiveError::Folder { path, source }),
        }
    }
}

/// The thread of the control stream, which handles its frames in order.
struct Control {
    batch: Arc<Batch>,
    work: mpsc::Receiver<Frame<FromSender>>,
    used: sync_mpsc::Sender<Vec<u8>>,
    /// Answers that are handed over together, at the next wait at the latest: one that is handed
    /// over alone may cost a wake-up and a packet.
    gathered: Vec<FromReceiver>,
}

impl Control {
    /// Runs to the end of the batch, or of the frames; gives whether the batch came to its end.
    fn run(mut self) -> Result<bool, Violation> {
        let mut carrier = self.batch.control();
        self.batch.works();
        let ended = loop {
            let step = match self.next() {
                Ok(Some(Frame::Message(FromSender::Done))) => {
                    break self.hand_over().and_then(|()| self.batch.on_done()).map(|()| true);
                }
                Ok(Some(Frame::Message(message))) => self.on_message(message, &mut carrier),
                Ok(Some(Frame::Block(block))) => {
                    let written = carrier.on_block(&block);
                    let _ = self.used.send(block);
                    written
                }
                Ok(None) => break Ok(false),
                Err(violation) => break Err(violation),
            };
            if let Err(violation) = step {
                break Err(violation);
            }
        };
        drop(carrier);
        let ended = self.batch.waits().and(ended);
        if let Err(violation) = &ended {
            self.batch.refuse(violation);
        }
        ended
    }

    /// The next frame, and `None` after the last.
    fn next(&mut self) -> Result<Option<Frame<FromSender>>, Violation> {
        if let Ok(frame) = self.work.try_recv() {
            return Ok(Some(frame));
        }
        self.hand_over()?;
        self.batch.waits()?;
        let frame = self.work.blocking_recv();
        self.batch.works();
        Ok(frame)
    }

    fn on_message(&mut self, mut message: FromSender, carrier: &mut Carrier) -> Result<(), Violation> {
        self.batch.restrict(&mut message);
        let answer = match message {
            FromSender::Totals(totals) => return self.batch.on_totals(&totals),
            FromSender::Unreadable { reason } => return self.batch.on_unreadable(&reason),
            FromSender::Folder { id, path } => self.batch.on_folder(id, &path)?,
            FromSender::Link { id, path, target, meta } => self.batch.on_link(id, &path, &target, &meta)?,
            FromSender::HardLink { id, path, target } => self.batch.on_twin(id, &path, &target)?,
            FromSender::Seal { id, path, meta } => self.batch.on_seal(id, &path, &meta)?,
            FromSender::Offer { id, offer } => {
                // A large file may be read for minutes.
                if offer.size > MAX_BLOCK as u64 {
                    self.hand_over()?;
                }
                self.batch.on_offer(id, offer)?
            }
            FromSender::Keep { id, meta } => self.batch.on_keep(id, &meta)?,
            FromSender::Prune { id, path } => self.batch.on_prune(id, path)?,
            FromSender::Choose { id, goes } => self.batch.on_choose(id, &goes)?,
            FromSender::Would { id, offset } => self.batch.on_would(id, offset)?,
            FromSender::Ask { id, block } => {
                self.hand_over()?;
                self.batch.on_ask(id, block)?
            }
            message => return on_message(message, carrier),
        };
        self.gathered.push(answer);
        if self.gathered.len() < MAX_GATHERED { Ok(()) } else { self.hand_over() }
    }

    fn hand_over(&mut self) -> Result<(), Violation> {
        self.gathered.drain(..).try_for_each(|answer| self.batch.answer(answer))
    }
}

/// The threads of the further streams, which wait for their streams.
pub(super) struct Carriers<S> {
    idle: Vec<(oneshot::Sender<Begin<S>>, Thread)>,
    busy: FuturesUnordered<Thread>,
}

type Thread = Running<Result<(), WireError>>;

/// What a thread begins with.
struct Begin<S> {
    stream: S,
    carrier: Carrier,
    batch: Arc<Batch>,
    stopped: Stopped,
}

impl<S: AsyncRead + Unpin + Send + 'static> Carriers<S> {
    /// Starts that many threads, or as many as can be had.
    pub(super) fn start(count: usize, observer: &dyn Observer) -> Self {
        let mut idle = Vec::new();
        while idle.len() < count {
            let (begin_in, begin) = oneshot::channel();
            match thread::run(move || begin.blocking_recv().map_or(Ok(()), read)) {
                Ok(running) => idle.push((begin_in, running)),
                Err(error) => {
                    observer.fewer_streams(idle.len(), &error.reason());
                    break;
                }
            }
        }
        Self { idle, busy: FuturesUnordered::new() }
    }

    /// The number of streams that can be read.
    pub(super) fn len(&self) -> usize {
        self.idle.len()
    }

    /// The sender opens `max` streams at most: further threads end.
    pub(super) fn limit(&mut self, max: usize) {
        self.idle.truncate(max);
    }

    /// The sender opened a stream.
    pub(super) fn begin(&mut self, stream: S, batch: &Arc<Batch>, stop: &Stop) -> Result<(), WireError> {
        let carrier = batch.on_stream().inspect_err(|violation| batch.refuse(violation))?;
        let (begin_in, running) = self.idle.pop().expect("the sender may open as many streams as there are threads");
        // A thread that has panicked says so by its result.
        let _ = begin_in.send(Begin { stream, carrier, batch: Arc::clone(batch), stopped: stop.stopped() });
        self.busy.push(running);
        Ok(())
    }

    /// Waits until a thread fails. Cancel safe.
    pub(super) async fn failure(&mut self) -> ReceiveError {
        loop {
            match self.busy.next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => return error.into(),
                Some(Err(error)) => return error.into(),
                None => return pending().await,
            }
        }
    }

    /// Waits until all threads have ended, as they do once they are stopped. Gives what one had to
    /// tell before.
    pub(super) async fn end(mut self) -> Option<WireError> {
        self.idle.clear();
        let mut failure = None;
        while let Some(ended) = self.busy.next().await {
            failure = failure.or(ended.ok().and_then(Result::err));
        }
        failure
    }
}

/// The thread of a further stream.
fn read<S: AsyncRead + Unpin>(begin: Begin<S>) -> Result<(), WireError> {
    let Begin { stream, mut carrier, batch, mut stopped } = begin;
    let (used_in, used) = sync_mpsc::channel();
    let mut reader = FrameReader::new(stream, used);
    batch.works();
    let mut behind = 0;
    let ended = loop {
        let mut bytes = BLOCK as u64;
        let step = match next(&mut reader, &batch, &mut stopped) {
            Some(Ok(Some(Frame::Block(block)))) => {
                let written = carrier.on_block(&block);
                let _ = used_in.send(block);
                written
            }
            Some(Ok(Some(Frame::Message(mut message)))) => {
                if let FromSender::Hole { len, .. } | FromSender::Same { len, .. } = message {
                    bytes = bytes.max(len);
                }
                batch.restrict(&mut message);
                on_message(message, &mut carrier)
            }
            Some(Ok(None)) => break carrier.on_end().map_err(WireError::from),
            Some(Err(error)) => break Err(error.of_carrier()),
            None => break Ok(()),
        };
        if let Err(violation) = step {
            break Err(violation.into());
        }
        // What has arrived is worth keeping, as long as it does not go on and on.
        if stopped.is_stopped() {
            behind += bytes;
            if behind > MAX_BEHIND {
                break Ok(());
            }
        }
    };
    drop(carrier);
    let ended = batch.waits().map_err(WireError::from).and(ended);
    if let Err(error) = &ended {
        batch.refuse(error);
    }
    ended
}

/// Waits for the next frame; `None` if the thread is to end.
fn next<S: AsyncRead + Unpin>(
    reader: &mut FrameReader<S>,
    batch: &Batch,
    stopped: &mut Stopped,
) -> Option<Result<Option<Frame<FromSender>>, WireError>> {
    let mut frame = pin!(reader.next());
    let mut has_waited = false;
    let next = stopped.wait(poll_fn(|context| {
        let polled = frame.as_mut().poll(context);
        if polled.is_pending() && !has_waited {
            // What arrives while this thread settles files wakes it.
            if let Err(violation) = batch.waits() {
                return Poll::Ready(Err(violation.into()));
            }
            has_waited = true;
        }
        polled
    }));
    if has_waited {
        batch.works();
    }
    next
}

/// A message that concerns the file on the stream.
fn on_message(message: FromSender, carrier: &mut Carrier) -> Result<(), Violation> {
    match message {
        FromSender::Start { id, offset, meta } => carrier.on_start(id, offset, meta),
        FromSender::Hole { id, len } => carrier.on_hole(id, len),
        FromSender::Same { id, len } => carrier.on_same(id, len),
        FromSender::Finish { id, digest } => carrier.on_finish(id, digest),
        FromSender::Abort { id, reason } => carrier.on_abort(id, &reason),
        _ => Err(Violation::Unexpected("a message of the control stream on a stream of files")),
    }
}

/// Answers that are gathered at most: a part of a window, so that the sender opens further entries
/// meanwhile.
const MAX_GATHERED: usize = 32;

/// Bytes of files that a thread takes after it was stopped, as long as it need not wait for them. A
/// frame counts for a block at least.
const MAX_BEHIND: u64 = 16 << 20;
