//! The sender's readers: each a thread that reads and hashes files, and hands them to a stream of
//! its own or to the control stream.

use super::batch::Batch;
use crate::{
    error::{SendError, ThreadError, WireError},
    frame::Block,
    observe::Observer,
    reason::Reason,
    source::{Event, Job, Jobs, Output, Pacer, read_all},
    streams::OpenStreams,
    thread::{self, Stop, Stopped},
    wire::FrameWriter,
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::{
    future::pending,
    sync::{Arc, atomic::Ordering, mpsc as sync_mpsc},
};
use tokio::{
    io::AsyncWrite,
    sync::{mpsc, oneshot},
};

/// What a reader has for the task of the control stream.
#[derive(Debug)]
pub(super) enum Read {
    Event(Arc<Job>, Event),
    Block(Arc<Job>, Block),
    /// A reader has closed an entry without the receiver's word.
    Closed,
}

/// The threads of the readers, which wait for their streams.
pub(super) struct Readers<S> {
    threads: Vec<(oneshot::Sender<Way<S>>, Thread)>,
    /// Whether the observer knows that they are fewer than were asked for.
    has_told: bool,
}

/// The way of a reader's files to the receiver.
pub(super) enum Way<S> {
    Control(ToControl),
    Stream(Carrier<S>),
}

/// The reader's end of the queue to the control stream.
pub(super) struct ToControl {
    pub(super) events: mpsc::Sender<Read>,
    /// Sent blocks, which are filled again.
    pub(super) used: sync_mpsc::Receiver<Block>,
}

/// A stream of files of the reader's own.
pub(super) struct Carrier<S> {
    writer: FrameWriter<S>,
    batch: Arc<Batch>,
    to_control: mpsc::Sender<Read>,
    stopped: Stopped,
    /// Whether a file is under way on the stream.
    is_started: bool,
    spare: Block,
}

/// The reason why a carrier ends early.
pub(super) enum Gone {
    Stopped,
    Failed(WireError),
}

impl<S: AsyncWrite + Unpin + Send + 'static> Readers<S> {
    /// Starts that many threads, or as many as can be had. The first is needed.
    pub(super) fn start(
        count: usize,
        jobs: &Jobs,
        pacer: Option<&Pacer>,
        observer: &dyn Observer,
    ) -> Result<Self, ThreadError> {
        let (mut threads, mut has_told) = (Vec::new(), false);
        while threads.len() < count {
            let (way_in, way) = oneshot::channel();
            let (jobs, pacer) = (jobs.clone(), pacer.cloned());
            match thread::run(move || read(&jobs, pacer.as_ref(), way.blocking_recv().ok())) {
                Ok(running) => threads.push((way_in, running)),
                Err(error) if threads.is_empty() => return Err(error),
                Err(error) => {
                    observer.fewer_streams(threads.len(), &error.reason());
                    has_told = true;
                    break;
                }
            }
        }
        Ok(Self { threads, has_told })
    }

    /// The number of threads.
    pub(super) fn len(&self) -> usize {
        self.threads.len()
    }

    /// Opens that many streams, each for a reader; without any, one reader hands its files to the
    /// control stream. Ends only when a reader fails.
    pub(super) async fn carry(
        self,
        streams: usize,
        mut further: impl OpenStreams<Stream = S>,
        batch: &Arc<Batch>,
        stop: &Stop,
        to_control: ToControl,
        observer: &dyn Observer,
    ) -> SendError {
        let (mut threads, mut running) = (self.threads.into_iter(), FuturesUnordered::new());
        while running.len() < streams {
            let opened = tokio::select! {
                biased;
                error = failure(&mut running) => return error,
                opened = further.open() => opened,
            };
            match opened {
                Ok(stream) => {
                    let Some(reader) = threads.next() else { break };
                    let to_control = to_control.events.clone();
                    running.push(begin(reader, Way::Stream(Carrier::new(stream, batch.clone(), to_control, stop))));
                }
                Err(_) if self.has_told => break,
                Err(error) => {
                    observer.fewer_streams(running.len(), &Reason::new(format_args!("cannot open another: {error}")));
                    break;
                }
            }
        }
        if running.is_empty()
            && let Some(reader) = threads.next()
        {
            running.push(begin(reader, Way::Control(to_control)));
        }
        // The others end.
        drop(threads);
        failure(&mut running).await
    }
}

type Thread = thread::Running<Result<(), WireError>>;

/// Gives a reader its way.
fn begin<S>((way_in, thread): (oneshot::Sender<Way<S>>, Thread), way: Way<S>) -> Thread {
    // A thread that has panicked says so by its result.
    let _ = way_in.send(way);
    thread
}

/// Waits until a reader fails.
async fn failure(running: &mut FuturesUnordered<Thread>) -> SendError {
    loop {
        match running.next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => return error.into(),
            Some(Err(error)) => return error.into(),
            None => return pending().await,
        }
    }
}

/// A reader's thread.
fn read<S: AsyncWrite + Unpin>(jobs: &Jobs, pacer: Option<&Pacer>, way: Option<Way<S>>) -> Result<(), WireError> {
    match way {
        Some(Way::Stream(carrier)) => match read_all(jobs, pacer, carrier) {
            Err(Gone::Failed(error)) => Err(error),
            Ok(()) | Err(Gone::Stopped) => Ok(()),
        },
        Some(Way::Control(to_control)) => {
            // The control stream's task has ended, and knows why.
            let _ = read_all(jobs, pacer, to_control);
            Ok(())
        }
        None => Ok(()),
    }
}

impl Output for ToControl {
    type Gone = ();

    fn emit(&mut self, job: &Arc<Job>, event: Event) -> Result<(), ()> {
        self.events.blocking_send(Read::Event(Arc::clone(job), event)).map_err(drop)
    }

    fn block(&mut self, job: &Arc<Job>, block: Block) -> Result<(), ()> {
        self.events.blocking_send(Read::Block(Arc::clone(job), block)).map_err(drop)
    }

    fn spare(&mut self) -> Block {
        self.used.try_recv().unwrap_or_default()
    }

    fn check(&mut self) -> Result<(), ()> {
        if self.events.is_closed() { Err(()) } else { Ok(()) }
    }
}

impl<S: AsyncWrite + Unpin> Carrier<S> {
    fn new(stream: S, batch: Arc<Batch>, to_control: mpsc::Sender<Read>, stop: &Stop) -> Self {
        let (writer, stopped) = (FrameWriter::new(stream), stop.stopped());
        Self { writer, batch, to_control, stopped, is_started: false, spare: Block::default() }
    }

    fn tell_control(&self, read: Read) -> Result<(), Gone> {
        self.to_control.blocking_send(read).map_err(|_| Gone::Stopped)
    }
}

impl<S: AsyncWrite + Unpin> Output for Carrier<S> {
    type Gone = Gone;

    fn emit(&mut self, job: &Arc<Job>, event: Event) -> Result<(), Gone> {
        let waits = match event {
            Event::Start { .. } => true,
            Event::Hole { len } | Event::Same { len } => len < MIN_RUN_TOLD,
            _ => false,
        };
        let goes_on = matches!(event, Event::Start { .. } | Event::Hole { .. } | Event::Same { .. });
        if matches!(event, Event::Ask { .. }) || !goes_on && !self.is_started {
            return self.tell_control(Read::Event(Arc::clone(job), event));
        }
        self.is_started = goes_on;
        let message = self.batch.say(job, event);
        let writer = &mut self.writer;
        wrote(self.stopped.wait(async {
            writer.message(&message).await?;
            // The bytes behind a start or a short run go with it; a long run takes long to hash.
            if waits { Ok(()) } else { writer.flush().await }
        }))?;
        if !goes_on && self.batch.is_closed(job) {
            self.tell_control(Read::Closed)?;
        }
        Ok(())
    }

    fn block(&mut self, job: &Arc<Job>, block: Block) -> Result<(), Gone> {
        if !job.stop.load(Ordering::Relaxed) {
            // A stream that takes all at once never lets `wait` see the end.
            self.check()?;
            wrote(self.stopped.wait(self.writer.block(&block)))?;
            self.batch.moved(job, block.len());
        }
        self.spare = block;
        Ok(())
    }

    fn spare(&mut self) -> Block {
        std::mem::take(&mut self.spare)
    }

    fn check(&mut self) -> Result<(), Gone> {
        if self.stopped.is_stopped() { Err(Gone::Stopped) } else { Ok(()) }
    }
}

/// The receiver hears of a hole or run of so many bytes at once.
const MIN_RUN_TOLD: u64 = 1 << 20;

fn wrote(written: Option<Result<(), WireError>>) -> Result<(), Gone> {
    match written {
        Some(written) => written.map_err(|error| Gone::Failed(error.of_carrier())),
        None => Err(Gone::Stopped),
    }
}
