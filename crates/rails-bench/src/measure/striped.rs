//! One striped stream from memory to memory.

use super::{
    Amount, Counter, LONGEST_RECEIPT, Receipt, Received, Supply,
    report::{Measurement, Transport},
    series::Recorder,
};
use crate::{
    conversation::{Call, Guest, Reply, Watch},
    side::{Baseline, LaneReportOn, Side},
};
use anyhow::{Context, Result};
use rails_multirail::{Driver, Mode, Policy, Rails, runtime::RailRuntime};
use rails_topo::Topology;
use std::time::Instant;

/// Sends on a stream of the session, and returns the whole measurement. The application runs on the
/// first rail, so that on one rail it costs no switch between threads, as in a program that was
/// written for rails.
///
/// # Errors
/// The session's failure.
pub(crate) async fn send(
    call: &mut Call,
    amount: Amount,
    (policy, driver, security): (Policy, Driver, Mode),
    topology: &Topology,
    rails: &Rails,
) -> Result<Measurement> {
    let (baseline, session) = (Baseline::take(rails), call.session.clone());
    let given = first(rails)?.spawn(async move {
        let mut stream = session.open_uni().await?;
        let mut supply = Supply::start(amount);
        while let Some(block) = supply.next() {
            stream.write_chunk(block).await?;
        }
        stream.finish()?;
        stream.stopped().await?;
        anyhow::Ok(supply.dealt())
    });
    let bytes_written = given.await?.context("the stream failed")?;
    let receipt: Receipt = call.control.hear(LONGEST_RECEIPT).await.context("the receiver did not report")?;
    let stats = call.session.stats();
    let lanes: Vec<LaneReportOn> = stats.lanes.iter().map(Into::into).collect();
    Ok(Measurement {
        transport: Transport::Rails { policy, driver },
        security: Some(security.to_string()),
        bytes_written,
        bytes: receipt.count.bytes,
        seconds: receipt.count.seconds(),
        receiver_goodput_bits_per_second: receipt.goodput_bits_per_second,
        sender: Side::since(&baseline, topology, rails, &lanes),
        receiver: receipt.side,
        wrong_at: receipt.count.wrong_at,
        served_beside: receipt.served_beside,
        stats: Some(stats),
    })
}

/// Reads the guest's stream to its end, and reports to the source.
///
/// # Errors
/// The session's failure.
pub(crate) async fn receive(
    guest: &mut Guest,
    security: Mode,
    watch: Watch,
    topology: &Topology,
    rails: &Rails,
) -> Result<Received> {
    let (baseline, beside, session) = (Baseline::take(rails), guest.company.observe(), guest.session.clone());
    guest.control.say(&Reply::Begin).await?;
    let waits = guest.waits.clone();
    let counted = first(rails)?.spawn(async move {
        let mut counter = Counter::start(Instant::now());
        counter = counter.recorded(watch.interval().map(Recorder::start)).checked(watch.check).telling(waits);
        let mut stream = session.accept_uni().await?;
        while let Some(bytes) = stream.read_chunk(usize::MAX).await? {
            counter.add(&bytes);
        }
        anyhow::Ok(counter)
    });
    let counter = counted.await?.context("the stream failed")?;
    let (count, stats) = (counter.count(), guest.session.stats());
    let lanes: Vec<LaneReportOn> = stats.lanes.iter().map(Into::into).collect();
    let side = Side::since(&baseline, topology, rails, &lanes);
    let (goodput_bits_per_second, served_beside) = (count.bits_per_second(), beside.count());
    let receipt = Receipt { count, goodput_bits_per_second, side: side.clone(), served_beside };
    guest.control.say(&receipt).await.context("the sender went away before it had the report")?;
    Ok(Received {
        count,
        goodput_bits_per_second,
        side,
        series: counter.series(),
        security: Some(security.to_string()),
        served_beside,
        stats: Some(stats),
    })
}

/// The first rail's runtime.
fn first(rails: &Rails) -> Result<&RailRuntime> {
    Ok(rails.iter().next().context("no rails")?.runtime())
}
