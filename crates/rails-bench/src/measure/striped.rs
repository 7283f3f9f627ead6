//! One striped stream from memory to memory.

use super::{
    Amount, Count, Counter, LONGEST_RECEIPT, Received, Supply, Watch,
    report::{Measurement, Transport},
    series::Recorder,
};
use crate::{
    purpose,
    side::{Baseline, LaneReportOn, Side},
    stop::Stop,
};
use anyhow::{Context, Result};
use rails_multirail::{Driver, Mode, MultiRailStream, Policy, Rails};
use rails_topo::Topology;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The report of a sink to its source, after the last byte.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Receipt {
    count: Count,
    side: Side,
}

/// Sends on `stream`, whose turn it is, and returns the whole measurement. The application runs on
/// the first rail, so that on one rail it costs no switch between threads, as in a program that was
/// written for rails.
///
/// # Errors
/// The stream's failure.
pub(crate) async fn send(
    stream: MultiRailStream,
    amount: Amount,
    (policy, driver, security): (Policy, Driver, Mode),
    topology: &Topology,
    rails: &Rails,
    mut stop: Stop,
) -> Result<Measurement> {
    let baseline = Baseline::take(rails);
    let on_rail = rails.iter().next().context("no rails")?.runtime().spawn(async move {
        let send = async |stream: &mut MultiRailStream| {
            let mut supply = Supply::start(amount);
            while let Some(block) = supply.next() {
                stream.write_bytes(block).await?;
            }
            stream.shutdown().await?;
            let mut receipt = Vec::new();
            stream.take(LONGEST_RECEIPT).read_to_end(&mut receipt).await?;
            Ok((supply.dealt(), receipt))
        };
        let ((bytes_written, receipt), stream) = stop.unless(stream, send).await?;
        anyhow::Ok((bytes_written, receipt, stream.close().await?))
    });
    let (bytes_written, receipt, stats) = on_rail.await?.context("the stream failed")?;
    let receipt: Receipt = serde_json::from_slice(&receipt).context("the receiver's report cannot be read")?;
    let lanes: Vec<LaneReportOn> = stats.lanes.iter().map(Into::into).collect();
    Ok(Measurement {
        transport: Transport::Rails { policy, driver },
        security: Some(security.to_string()),
        bytes_written,
        bytes: receipt.count.bytes,
        seconds: receipt.count.seconds(),
        receiver_goodput_bits_per_second: receipt.count.bits_per_second(),
        sender: Side::since(&baseline, topology, rails, &lanes),
        receiver: receipt.side,
        stats: Some(stats),
    })
}

/// Gives `stream` its turn, reads it to its end, and reports to the source.
///
/// # Errors
/// The stream's failure.
pub(crate) async fn receive(
    stream: MultiRailStream,
    topology: &Topology,
    rails: &Rails,
    watch: Watch,
    stop: &Stop,
) -> Result<Received> {
    let baseline = Baseline::take(rails);
    let first = || rails.iter().next().context("no rails");
    let (mut reading, mut reporting) = (stop.clone(), stop.clone());
    let on_rail = first()?.runtime().spawn(async move {
        let read = async |stream: &mut MultiRailStream| {
            purpose::give_turn(stream).await?;
            let mut counter = Counter::start(Instant::now());
            counter = counter.recorded(watch.interval.map(Recorder::start)).checked(watch.check);
            while let Some(bytes) = stream.read_bytes().await? {
                counter.add(&bytes);
            }
            Ok((counter.count(), counter.series()))
        };
        reading.unless(stream, read).await
    });
    let ((count, series), stream) = on_rail.await?.context("the stream failed")?;
    let lanes: Vec<LaneReportOn> = stream.stats().lanes.iter().map(Into::into).collect();
    let side = Side::since(&baseline, topology, rails, &lanes);
    let receipt = serde_json::to_vec(&Receipt { count, side: side.clone() }).context("the report cannot be written")?;
    let on_rail = first()?.runtime().spawn(async move {
        let report = async |stream: &mut MultiRailStream| Ok(stream.write_all(&receipt).await?);
        let ((), stream) = reporting.unless(stream, report).await?;
        anyhow::Ok(stream.close().await?)
    });
    let stats = Some(on_rail.await?.context("the sender went away before it had the report")?);
    Ok(Received { count, goodput_bits_per_second: count.bits_per_second(), side, series, stats })
}
