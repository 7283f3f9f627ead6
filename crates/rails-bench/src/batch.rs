//! One batch of files over one stream: driven, timed, and reported with the figures of its rails.
//!
//! The driver is a task of the program's own runtime, and not of the first rail's, which would then
//! serve a lane and the driver. Measured with `demo --size 1GiB` on a busy machine of two cores,
//! both ends in one process, files in memory, 12 runs of each in turn: with two rails it was the
//! faster of the two ways in 10 of 12 pairs, by 15% in the median; with one rail in 6 of 12, which
//! is no difference. Not measured on a machine with cores to spare.

use crate::{
    endpoint::Endpoint,
    exit::Signal,
    reset,
    side::{Baseline, LaneReportOn, Side},
    stop::Stop,
    turn::GaveWay,
};
use anyhow::{Context, Result};
use rails_multirail::{Mode, MultiRailStream};
use rails_transfer::{Observer, ReceiveOptions, ReceiveSummary, SendSummary};
use std::{
    error::Error,
    future::pending,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

/// The end of a batch.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    /// The result, or the signal that ended the batch early.
    pub(crate) summary: Result<T, Signal>,
    /// The time from the greeting to the end.
    pub(crate) time: Duration,
    /// The security of the stream.
    pub(crate) security: Mode,
    /// The work of this end's rails for the batch.
    pub(crate) side: Side,
}

/// Sends files and folders.
///
/// # Errors
/// The reason why the whole batch is impossible.
pub(crate) async fn send(
    end: &Endpoint,
    stream: MultiRailStream,
    sources: Vec<PathBuf>,
    observer: Arc<dyn Observer>,
    stop: Stop,
) -> Result<Batch<SendSummary>> {
    let batch = carry(end, stream, stop, pending(), move |stream| {
        Box::pin(async move { rails_transfer::send(stream, &sources, observer).await })
    });
    batch.await.context("the batch was not sent")
}

/// Receives one batch into a folder. The batch gives way to another when `gives_way` resolves.
///
/// # Errors
/// The reason why the whole batch is impossible, or [`GaveWay`].
pub(crate) async fn receive(
    end: &Endpoint,
    stream: MultiRailStream,
    into: PathBuf,
    options: ReceiveOptions,
    observer: Arc<dyn Observer>,
    stop: Stop,
    gives_way: impl Future<Output = GaveWay> + Send + 'static,
) -> Result<Batch<ReceiveSummary>> {
    let batch = carry(end, stream, stop, gives_way, move |stream| {
        Box::pin(async move { options.receive(stream, &into, observer).await })
    });
    batch.await.context("the batch was not received")
}

/// A transfer under way over a borrowed stream.
type Transfer<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// The cause that ends a batch early.
enum Cut {
    Signal(Signal),
    GaveWay(GaveWay),
}

/// Runs a transfer to its end, a signal, or the end of its turn, and closes the stream.
async fn carry<T, E>(
    end: &Endpoint,
    mut stream: MultiRailStream,
    mut stop: Stop,
    gives_way: impl Future<Output = GaveWay> + Send + 'static,
    transfer: impl for<'a> FnOnce(&'a mut MultiRailStream) -> Transfer<'a, T, E> + Send + 'static,
) -> Result<Batch<T>>
where
    T: Send + 'static,
    E: Error + Send + Sync + 'static,
{
    let baseline = Baseline::take(&end.rails);
    let driver = tokio::spawn(async move {
        let begin = Instant::now();
        let ended = tokio::select! {
            // Signals come first: the peer may have ended by the same signal.
            biased;
            signal = stop.requested() => Err(Cut::Signal(signal)),
            transferred = transfer(&mut stream) => Ok(transferred),
            gave_way = gives_way => Err(Cut::GaveWay(gave_way)),
        };
        (ended, begin.elapsed(), stream)
    });
    let (ended, time, stream) = driver.await.context("the transfer's task ended early")?;
    let side = end.close(stream, &baseline, matches!(ended, Ok(Ok(_)))).await;
    let summary = match ended {
        Ok(transferred) => Ok(transferred?),
        Err(Cut::Signal(signal)) => Err(signal),
        Err(Cut::GaveWay(gave_way)) => return Err(gave_way.into()),
    };
    Ok(Batch { summary, time, security: end.options.security().mode(), side })
}

impl Endpoint {
    /// Closes the stream in order if the batch is complete, and resets it otherwise. Reports the
    /// figures of this end's rails since `baseline`.
    async fn close(&self, stream: MultiRailStream, baseline: &Baseline, in_order: bool) -> Side {
        let mut stats = stream.stats();
        if in_order {
            // The batch is complete and verified, so a failed close does not matter.
            match stream.close().await {
                Ok(last) => stats = last,
                Err(error) => tracing::info!(%error, "the stream did not close in order"),
            }
        } else {
            reset::reset_stream(stream).await;
        }
        let lanes: Vec<LaneReportOn> = stats.lanes.iter().map(Into::into).collect();
        Side::since(baseline, &self.topology, &self.rails, &lanes)
    }
}

impl<T> Batch<T> {
    /// Seconds, for rates.
    pub(crate) fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }
}
