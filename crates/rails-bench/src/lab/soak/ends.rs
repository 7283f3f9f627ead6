//! The two ends, each a thread in its namespace, both in this process.

use crate::measure::{
    pattern::{Checker, Pattern},
    series::Pause,
};
use anyhow::{Context, Result, anyhow};
use rails_lab::{LinkLab, Side};
use rails_multirail::{
    LaneAddress, MultiRailListener, MultiRailStream, RailRequest, Rails, StreamOptions, StreamStats, plan_rails,
};
use rails_topo::{InterfaceAddress, Nic, NicKind, Topology};
use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::Poll,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::io::AsyncWrite;

/// One end while it runs.
pub(super) struct End {
    shared: Arc<SharedEnds>,
    thread: JoinHandle<Result<Ended>>,
}

/// The result of an end.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) stats: StreamStats,
    /// The longest times between two reads, the longest first.
    pub(super) pauses: Vec<Pause>,
}

#[derive(Default)]
struct SharedEnds {
    enough: AtomicBool,
    received: AtomicU64,
}

/// Opens a stream from side A to side B, with a lane over each link, and starts both ends.
pub(super) fn start(
    lab: &Arc<LinkLab>,
    machine: &Topology,
    options: &StreamOptions,
    seed: u64,
    zero: Instant,
) -> Result<(End, End)> {
    let (listening, found) = mpsc::channel();
    let (opened, both) = mpsc::channel();
    let other = opened.clone();
    let a = spawn(lab, machine, (Side::A, seed, zero), options, async move |rails, options| {
        let addresses: Vec<LaneAddress> = found.recv().context("the peer does not listen")?;
        let stream = MultiRailStream::connect(&rails, &addresses, &options).await?;
        let _ = opened.send(());
        Ok((rails, stream))
    })?;
    let b = spawn(lab, machine, (Side::B, seed, zero), options, async move |rails, options| {
        let ends = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
        let addresses: Vec<SocketAddr> = ends.collect::<Option<_>>().context("a rail has no address")?;
        let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
        let _ = listening.send(listener.local_addrs().to_vec());
        let stream = listener.accept().await?;
        // The listener goes on for as long as the stream lives: a lane that was lost may come back.
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        let _ = other.send(());
        Ok((rails, stream))
    })?;
    // Faults begin when the stream is open; if it never opens, the ends report the reason.
    let _ = both.recv_timeout(PATIENCE).and_then(|()| both.recv_timeout(PATIENCE));
    Ok((a, b))
}

fn spawn(
    lab: &Arc<LinkLab>,
    machine: &Topology,
    (side, seed, zero): (Side, u64, Instant),
    options: &StreamOptions,
    open: impl AsyncFnOnce(Rails, StreamOptions) -> Result<(Rails, MultiRailStream)> + Send + 'static,
) -> Result<End> {
    let shared = Arc::new(SharedEnds::default());
    let (lab, machine, options, ours) = (lab.clone(), machine.clone(), options.clone(), shared.clone());
    let run = move || {
        // The threads of the rails are started here, and so are in the namespace.
        let _inside = lab.enter(side)?;
        let rails = rails(&lab, &machine, side)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (rails, stream) = open(rails, options).await?;
            let ended = exchange(stream, &ours, (side, seed, zero)).await;
            drop(rails);
            ended
        })
    };
    let thread = thread::Builder::new().name(format!("soak-{side:?}")).spawn(run).context("no thread")?;
    Ok(End { shared, thread })
}

impl End {
    /// The number of bytes that the end has received and compared.
    pub(super) fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Whether this end is over: a failure before [`stop_sending`](Self::stop_sending).
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the sending; the end reads on to the end of the peer's bytes.
    pub(super) fn stop_sending(&self) {
        self.shared.enough.store(true, Ordering::Relaxed);
    }

    /// Waits for this end to finish, once both ends send no more.
    pub(super) fn finish(self) -> Result<Ended> {
        let until = Instant::now() + PATIENCE;
        while !self.thread.is_finished() {
            if Instant::now() >= until {
                return Err(anyhow!("it has not come to its end {} s after it was told to", PATIENCE.as_secs()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.thread.join().map_err(|_| anyhow!("it panicked"))?
    }
}

/// Sends until the soak asks it to stop, and reads to the stream's end, both at once.
async fn exchange(
    mut stream: MultiRailStream,
    shared: &SharedEnds,
    (side, seed, zero): (Side, u64, Instant),
) -> Result<Ended> {
    let key = |side: Side| [&seed.to_le_bytes()[..], side.to_string().as_bytes()].concat();
    let mut blocks = {
        let ours = Pattern::new(&key(side));
        (0..).map(move |number| ours.block(number))
    };
    let mut checker = Checker::new(&key(side.other()));
    let (mut last, mut pauses) = (Instant::now(), Vec::new());
    let mut block = blocks.next().unwrap_or_default();
    let (mut all_sent, mut all_read) = (false, false);
    poll_fn(|context| {
        for _ in 0..TURNS {
            let mut progress = false;
            if !all_read && let Poll::Ready(read) = stream.poll_read_bytes(context) {
                progress = true;
                match read.context("the stream failed while it was read")? {
                    Some(bytes) => {
                        checker.add(&bytes);
                        if let Some(at) = checker.wrong_at() {
                            return Poll::Ready(Err(anyhow!("byte {at} of the stream is not the one that was sent")));
                        }
                        shared.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        note(&mut pauses, Pause::since(last, zero));
                        last = Instant::now();
                    }
                    None => all_read = true,
                }
            }
            if !all_sent && block.is_empty() && shared.enough.load(Ordering::Relaxed) {
                if let Poll::Ready(done) = std::pin::Pin::new(&mut stream).poll_shutdown(context) {
                    progress = true;
                    done.context("the stream failed while it was shut down")?;
                    all_sent = true;
                }
            } else if !all_sent && let Poll::Ready(written) = stream.poll_write_bytes(context, &mut block) {
                progress = true;
                written.context("the stream failed while it was written")?;
                if block.is_empty() && !shared.enough.load(Ordering::Relaxed) {
                    block = blocks.next().unwrap_or_default();
                }
            }
            if all_sent && all_read {
                return Poll::Ready(anyhow::Ok(()));
            }
            if !progress {
                return Poll::Pending;
            }
        }
        // Lets other tasks of this thread run.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await?;
    Ok(Ended { stats: stream.close().await.context("the stream was not closed")?, pauses })
}

/// Keeps the longest pauses.
fn note(pauses: &mut Vec<Pause>, pause: Pause) {
    let place = pauses.partition_point(|other| other.seconds >= pause.seconds);
    if place < MAX_PAUSES {
        pauses.insert(place, pause);
        pauses.truncate(MAX_PAUSES);
    }
}

/// The machine's CPUs with the interfaces of one end: `/sys` shows those of the namespace that it
/// was mounted in.
fn rails(lab: &LinkLab, machine: &Topology, side: Side) -> Result<Rails> {
    let nic = |link| Nic {
        kind: NicKind::Virtual,
        up: Some(true),
        addresses: vec![InterfaceAddress { ip: lab.address(side, link), prefix_len: 24 }],
        ..Nic::named(lab.interface(side, link))
    };
    let count = machine.online_cpus().last().context("no CPU is online")?.0 + 1;
    let described = Topology::synthetic(&format!("core:{count} pu:1"), (0..lab.link_count()).map(nic).collect())?
        .with_allowed(machine.allowed_cpus().clone());
    let names: Vec<&str> = (0..lab.link_count()).map(|link| lab.interface(side, link)).collect();
    let wish: RailRequest = names.join(",").parse()?;
    Ok(Rails::build(&plan_rails(&described, &wish)?)?)
}

/// The number of pauses that are kept.
const MAX_PAUSES: usize = 5;
/// Reads and writes before other tasks run.
const TURNS: usize = 16;
/// The time that an end has to open its stream, and to finish once all links are whole.
const PATIENCE: Duration = Duration::from_secs(60);
