//! One batch of files over the streams of a session: driven, timed, and reported with the figures
//! of its rails.
//!
//! The driver is a task of the program's own runtime, and not of the first rail's, which would then
//! serve a lane and the driver. Measured with `demo --size 1GiB` on a busy machine of two cores,
//! both ends in one process, files in memory, 12 runs of each in turn: with two rails it was the
//! faster of the two ways in 10 of 12 pairs, by 15% in the median; with one rail in 6 of 12, which
//! is no difference. Not measured on a machine with cores to spare.

use crate::{
    endpoint::Endpoint,
    exit::Signal,
    parting::{Parting, part, see_off},
    side::{Baseline, LaneReportOn, Side},
    stop::Stop,
    turn::GaveWay,
};
use anyhow::{Context, Result};
use rails_multirail::{Mode, MultiRailSession, RecvStream, SendStream};
use rails_transfer::{AcceptStreams, Observer, OpenStreams, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary};
use std::{
    error::Error,
    io,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::io::Join;

/// The end of a batch.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    /// The result, or the signal that ended the batch early.
    pub(crate) summary: Result<T, Signal>,
    /// The time from the peer's readiness to the end.
    pub(crate) time: Duration,
    /// The security of the stream.
    pub(crate) security: Mode,
    /// The work of this end's rails for the batch.
    pub(crate) side: Side,
}

/// The way of a batch: a session of its own.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) session: MultiRailSession,
    /// The stream of the transfer's messages.
    pub(crate) control: Join<RecvStream, SendStream>,
}

/// The further streams of a session, which carry the files.
struct Further(MultiRailSession);

impl OpenStreams for Further {
    type Stream = SendStream;

    async fn open(&mut self) -> io::Result<SendStream> {
        let stream = self.0.open_uni().await?;
        // The messages of the control stream go first.
        stream.set_priority(-1);
        Ok(stream)
    }
}

impl AcceptStreams for Further {
    type Stream = RecvStream;

    async fn accept(&mut self) -> io::Result<RecvStream> {
        Ok(self.0.accept_uni().await?)
    }
}

/// Sends files and folders, and ends the session.
///
/// # Errors
/// The reason why the whole batch is impossible.
pub(crate) async fn send(
    end: &Endpoint,
    way: Way,
    sources: Vec<PathBuf>,
    options: SendOptions,
    observer: Arc<dyn Observer>,
    stop: Stop,
) -> Result<Batch<SendSummary>> {
    let Way { session, control } = way;
    let further = Further(session.clone());
    let transfer = async move { options.send_over(control, further, &sources, observer).await };
    let (ended, time, side) = carry(end, &session, stop, std::future::pending(), transfer).await?;
    match &ended {
        Ok(Ok(_)) => part(session, Parting::Done).await,
        Ok(Err(_)) => part(session, Parting::Failed).await,
        Err(cut) => part(session, cut.parting()).await,
    }
    finish(end, ended, time, side).context("the batch was not sent")
}

/// Receives one batch into a folder, and ends the session. The batch gives way to another when
/// `gives_way` resolves.
///
/// # Errors
/// The reason why the whole batch is impossible, or [`GaveWay`].
pub(crate) async fn receive(
    end: &Endpoint,
    way: Way,
    into: PathBuf,
    options: ReceiveOptions,
    observer: Arc<dyn Observer>,
    stop: Stop,
    gives_way: impl Future<Output = GaveWay> + Send + 'static,
) -> Result<Batch<ReceiveSummary>> {
    let Way { session, control } = way;
    let further = Further(session.clone());
    let transfer = async move { options.receive_over(control, further, &into, observer).await };
    let (ended, time, side) = carry(end, &session, stop, gives_way, transfer).await?;
    match &ended {
        // The sender has the last word, and reads first why the batch was refused.
        Ok(Ok(_)) => see_off(session, Parting::Done).await,
        Ok(Err(_)) => see_off(session, Parting::Failed).await,
        Err(cut) => part(session, cut.parting()).await,
    }
    finish(end, ended, time, side).context("the batch was not received")
}

/// The cause that ends a batch early.
enum Cut {
    Signal(Signal),
    GaveWay(GaveWay),
}

impl Cut {
    fn parting(&self) -> Parting {
        match self {
            Self::Signal(_) => Parting::Interrupted,
            Self::GaveWay(_) => Parting::GaveWay,
        }
    }
}

/// The end of a transfer, or the cause that ended it early.
type Ended<T, E> = Result<Result<T, E>, Cut>;

/// Runs a transfer to its end, a signal, or the end of its turn. Reports the figures of this end's
/// rails.
async fn carry<T: Send + 'static, E: Send + 'static>(
    end: &Endpoint,
    session: &MultiRailSession,
    mut stop: Stop,
    gives_way: impl Future<Output = GaveWay> + Send + 'static,
    transfer: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<(Ended<T, E>, Duration, Side)> {
    let baseline = Baseline::take(&end.rails);
    let closing = session.clone();
    let driver = tokio::spawn(async move {
        let (begin, mut transfer) = (Instant::now(), pin!(transfer));
        let ended = tokio::select! {
            // Signals come first: the peer may have ended by the same signal.
            biased;
            signal = stop.requested() => Err(Cut::Signal(signal)),
            transferred = &mut transfer => Ok(transferred),
            gave_way = gives_way => Err(Cut::GaveWay(gave_way)),
        };
        if let Err(cut) = &ended {
            // The transfer drops its stream, and the peer must not take that for an end in order.
            cut.parting().close(&closing);
        }
        (ended, begin.elapsed())
    });
    let (ended, time) = driver.await.context("the transfer's task ended early")?;
    let lanes: Vec<LaneReportOn> = session.stats().lanes.iter().map(Into::into).collect();
    Ok((ended, time, Side::since(&baseline, &end.topology, &end.rails, &lanes)))
}

fn finish<T, E>(end: &Endpoint, ended: Ended<T, E>, time: Duration, side: Side) -> Result<Batch<T>>
where
    E: Error + Send + Sync + 'static,
{
    let summary = match ended {
        Ok(transferred) => Ok(transferred?),
        Err(Cut::Signal(signal)) => Err(signal),
        Err(Cut::GaveWay(gave_way)) => return Err(gave_way.into()),
    };
    Ok(Batch { summary, time, security: end.options.security().mode(), side })
}

impl<T> Batch<T> {
    /// Seconds, for rates.
    pub(crate) fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }
}
