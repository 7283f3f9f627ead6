//! One striped stream from memory to memory, to the peer, from it, or one each way at a time.

use super::{
    Amount, Counter, Enough, LONGEST_RECEIPT, Receipt, Received, Supply,
    intervals::{Intervals, Shown},
    report::{Measurement, Transport},
    series::Recorder,
};
use crate::{
    conversation::{Call, Direction, Guest, Reply, Watch},
    exit::Signal,
    side::{Baseline, LaneReportOn, Side},
    stop::{Stop, Stopped},
    turn::Waits,
};
use anyhow::{Context, Result};
use rails_multirail::{
    Driver, Mode, MultiRailSession, Policy, Rails, StreamStats,
    runtime::{RailRuntime, RailTask},
};
use rails_topo::Topology;
use serde::{Deserialize, Serialize};
use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{time::timeout, try_join};

/// A measurement as the caller wants it.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) amount: Amount,
    pub(crate) direction: Direction,
    /// The work of this end where it receives.
    pub(crate) watch: Watch,
    pub(crate) policy: Policy,
    pub(crate) driver: Driver,
    pub(crate) security: Mode,
    pub(crate) intervals: Intervals,
}

/// The measurements of a caller.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) to_peer: Option<Measurement>,
    pub(crate) from_peer: Option<Measurement>,
    /// The signal that ended the sending early.
    pub(crate) interrupted: Option<Signal>,
    /// The statistics of this end.
    pub(crate) stats: StreamStats,
}

/// The work for a caller.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) received: Option<Received>,
    pub(crate) sent: Option<Sent>,
    /// The signal that ended the work early.
    pub(crate) interrupted: Option<Signal>,
    /// The statistics of this end.
    pub(crate) stats: StreamStats,
}

/// A sender's report.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Sent {
    /// Bytes that the application wrote.
    pub(crate) bytes_written: u64,
    /// The time to the peer's confirmation of the last byte; that of the signal if one came before.
    pub(crate) seconds: f64,
    /// The sending process.
    pub(crate) side: Side,
    /// The number of other callers that this end served meanwhile.
    pub(crate) served_beside: u64,
}

/// The report of the end that serves, after the last byte.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    received: Option<Receipt>,
    sent: Option<Sent>,
}

/// The caller wants no more bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Enough,
}

/// Measures as the caller wishes. A signal ends the sending, at both ends, and not the measurement.
/// The application runs on the first rail, so that on one rail it costs no switch between threads,
/// as in a program that was written for rails.
///
/// # Errors
/// The session's failure; [`Stopped`] if the peer does not end a moment after a signal.
pub(crate) async fn measure(
    call: &mut Call,
    wish: Wish,
    topology: &Topology,
    rails: &Rails,
    stop: &mut Stop,
) -> Result<Measured> {
    let (baseline, session, runtime) = (Baseline::take(rails), call.session.clone(), first(rails)?);
    let Wish { amount, direction, watch, policy, driver, security, intervals } = wish;
    let shown = Shown { sent: direction.goes_to_peer(), received: direction.comes_from_peer(), peer: false };
    let mut intervals = intervals.showing(shown);
    let enough = Enough::default();
    let giving = direction.goes_to_peer().then(|| {
        let supply = Supply::start(amount).until(enough.clone());
        runtime.spawn(give(session.clone(), supply, None))
    });
    let taking = direction.comes_from_peer().then(|| runtime.spawn(take(session.clone(), counter(watch))));
    let mut working = pin!(async { try_join!(settled(giving), settled(taking)) });
    let (done, interrupted) = tokio::select! {
        // Signals come first: the peer may have ended by the same signal.
        biased;
        signal = stop.requested() => {
            enough.say();
            let ended = async {
                if direction.comes_from_peer() {
                    call.control.say(&Word::Enough).await?;
                }
                working.await
            };
            (timeout(PARTING, ended).await.map_err(|_| Stopped(signal))??, Some(signal))
        }
        done = &mut working => (done?, None),
        never = intervals.tell(&session) => match never {},
    };
    let hearing = async { call.control.hear::<Report>(LONGEST_RECEIPT).await.context("the peer did not report") };
    let report = match interrupted {
        Some(signal) => timeout(PARTING, hearing).await.map_err(|_| Stopped(signal))??,
        None => stop.or(hearing).await?,
    };
    let stats = session.stats();
    let side = side(&baseline, &stats, topology, rails);
    let measurement =
        |bytes_written, Receipt { count, goodput_bits_per_second, side: receiver, served_beside }, sender| {
            Measurement {
                transport: Transport::Rails { policy, driver },
                security: Some(security.to_string()),
                bytes_written,
                bytes: count.bytes,
                seconds: count.seconds(),
                receiver_goodput_bits_per_second: goodput_bits_per_second,
                sender,
                receiver,
                wrong_at: count.wrong_at,
                served_beside,
                from_peer: false,
                interrupted: interrupted.is_some(),
            }
        };
    let (given, taken) = done;
    let to_peer = match given {
        Some(bytes_written) => {
            let receipt = report.received.context("the peer sent no report of its receiving")?;
            Some(measurement(bytes_written, receipt, side.clone()))
        }
        None => None,
    };
    let from_peer = match taken {
        Some(counter) => {
            let sent = report.sent.context("the peer sent no report of its sending")?;
            let receipt = Receipt::of(&counter, side, sent.served_beside);
            Some(Measurement { from_peer: true, ..measurement(sent.bytes_written, receipt, sent.side) })
        }
        None => None,
    };
    Ok(Measured { to_peer, from_peer, interrupted, stats })
}

/// Does what the guest wants of a measurement, and reports to it. A signal ends the work early.
///
/// # Errors
/// The session's failure.
pub(crate) async fn serve(
    guest: &mut Guest,
    (direction, watch): (Direction, Watch),
    security: Mode,
    (topology, rails): (&Topology, &Rails),
    intervals: Intervals,
    stop: &mut Stop,
) -> Result<Served> {
    let (baseline, beside, session) = (Baseline::take(rails), guest.company.observe(), guest.session.clone());
    let (runtime, begun, enough) = (first(rails)?, Instant::now(), Enough::default());
    guest.control.say(&Reply::Begin).await?;
    let counter = counter(watch).telling(guest.waits.clone());
    let meter = counter.meter();
    let taking = direction.goes_to_peer().then(|| runtime.spawn(take(session.clone(), counter)));
    let giving = direction.share_of_peer().map(|amount| {
        let supply = Supply::start(amount).until(enough.clone());
        runtime.spawn(give(session.clone(), supply, Some(guest.waits.clone())))
    });
    let (is_taking, is_giving) = (taking.is_some(), giving.is_some());
    let mut intervals = intervals.showing(Shown { sent: is_giving, received: is_taking, peer: true });
    let mut working = pin!(async { try_join!(settled(taking), settled(giving)) });
    let mut listens = is_giving;
    let done = loop {
        tokio::select! {
            biased;
            signal = stop.requested() => break Err(signal),
            done = &mut working => break Ok(done?),
            // The end of the stream is the session's affair.
            heard = guest.control.hear::<Word>(LONGEST_WORD), if listens => {
                listens = false;
                if let Ok(Word::Enough) = heard {
                    enough.say();
                }
            }
            never = intervals.tell(&session) => match never {},
        }
    };
    let (seconds, stats, served_beside) = (begun.elapsed().as_secs_f64(), session.stats(), beside.count());
    let side = side(&baseline, &stats, topology, rails);
    let sent = |bytes_written| Sent { bytes_written, seconds, side: side.clone(), served_beside };
    let received = |receipt: Receipt, series| Received {
        count: receipt.count,
        goodput_bits_per_second: receipt.goodput_bits_per_second,
        side: receipt.side,
        series,
        security: Some(security.to_string()),
        served_beside,
        interrupted: false,
    };
    let (taken, given) = match done {
        Ok(done) => done,
        Err(signal) => {
            let count = meter.count();
            let receipt =
                Receipt { count, goodput_bits_per_second: count.bits_per_second(), side: side.clone(), served_beside };
            let received = is_taking.then(|| Received { interrupted: true, ..received(receipt, None) });
            let sent = is_giving.then(|| sent(stats.bytes_written));
            return Ok(Served { received, sent, interrupted: Some(signal), stats });
        }
    };
    let receipt = taken.as_ref().map(|counter| Receipt::of(counter, side.clone(), served_beside));
    let report = Report { received: receipt.clone(), sent: given.map(sent) };
    guest.control.say(&report).await.context("the caller went away before it had the report")?;
    let series = taken.and_then(Counter::series);
    Ok(Served {
        received: receipt.map(|receipt| received(receipt, series)),
        sent: report.sent,
        interrupted: None,
        stats,
    })
}

/// Sends what the supply has on a stream of its own; gives the number of bytes.
async fn give(session: MultiRailSession, mut supply: Supply, waits: Option<Arc<Waits>>) -> Result<u64> {
    let mut stream = session.open_uni().await?;
    while let Some(block) = supply.next() {
        stream.write_chunk(block).await?;
        if let Some(waits) = &waits {
            waits.tell(true);
        }
    }
    stream.finish()?;
    stream.stopped().await?;
    Ok(supply.dealt())
}

/// Reads the peer's stream to its end.
async fn take(session: MultiRailSession, mut counter: Counter) -> Result<Counter> {
    let mut stream = session.accept_uni().await?;
    while let Some(bytes) = stream.read_chunk(usize::MAX).await? {
        counter.add(&bytes);
    }
    Ok(counter)
}

/// A counter of a stream, which does that work besides.
fn counter(watch: Watch) -> Counter {
    Counter::start(Instant::now()).recorded(watch.interval().map(Recorder::start)).checked(watch.check)
}

/// The result of a task, if there is one.
async fn settled<T>(task: Option<RailTask<Result<T>>>) -> Result<Option<T>> {
    match task {
        Some(task) => Ok(Some(task.await?.context("the stream failed")?)),
        None => Ok(None),
    }
}

fn side(baseline: &Baseline, stats: &StreamStats, topology: &Topology, rails: &Rails) -> Side {
    let lanes: Vec<LaneReportOn> = stats.lanes.iter().map(Into::into).collect();
    Side::since(baseline, topology, rails, &lanes)
}

/// The first rail's runtime.
fn first(rails: &Rails) -> Result<&RailRuntime> {
    Ok(rails.iter().next().context("no rails")?.runtime())
}

/// The time after a signal in which the peer ends the measurement.
const PARTING: Duration = Duration::from_secs(5);
/// The limit on a caller's word.
const LONGEST_WORD: usize = 64;
