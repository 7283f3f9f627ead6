//! Independent tokio TCP flows from memory to memory: what the links give without any of this project's work, and so the
//! ceiling that striping is measured against. The flows run on the same pinned runtimes, with the same buffers and socket
//! options, as the lanes of a stream would.

use super::{
    Amount, BLOCK, Count, Counter, Supply,
    report::{Baseline, LaneReport, LaneReportOn, Measurement, Side, Transport},
};
use anyhow::{Context, Result};
use rails_multirail::{RailId, Rails};
use rails_net::{LaneOptions, TcpLane};
use rails_topo::Topology;
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, time::Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the sink of one flow tells its source.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Receipt {
    count: Count,
}

/// What the last flow's sink adds: its whole side.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Closing {
    side: Side,
}

/// Opens one flow from each rail to the address of the same number, sends on all of them, and gives the measurement.
pub async fn send(
    rails: &Rails,
    remotes: &[SocketAddr],
    options: impl Fn(RailId) -> LaneOptions,
    amount: Amount,
    topology: &Topology,
) -> Result<Measurement> {
    let baseline = Baseline::take(rails);
    let count = rails.len().max(remotes.len());
    let share = match amount {
        Amount::Time(time) => Amount::Time(time),
        Amount::Bytes(bytes) => Amount::Bytes(bytes.div_ceil(count as u64)),
    };
    let mut flows = Vec::new();
    for index in 0..count {
        let rail = RailId(index % rails.len());
        let (remote, options) = (remotes[index % remotes.len()], options(rail));
        flows.push((rail, rails[rail].runtime().spawn(move || source(remote, options, share))));
    }
    let (mut counts, mut lanes, mut sides) = (Vec::new(), Vec::new(), Vec::new());
    for (rail, flow) in flows {
        let (report, receipt) = flow.await?.context("a flow failed")?;
        let mut receipt = serde_json::Deserializer::from_slice(&receipt).into_iter::<serde_json::Value>();
        let mut next = || receipt.next().transpose().context("the receiver's report cannot be read");
        let first = next()?.context("the receiver sent no report")?;
        counts.push(serde_json::from_value::<Receipt>(first)?.count);
        if let Some(closing) = next()? {
            sides.push(serde_json::from_value::<Closing>(closing)?.side);
        }
        lanes.push(LaneReportOn { rail, report });
    }
    let together = Count::together(&counts);
    Ok(Measurement {
        transport: Transport::PlainTcp,
        bytes: together.bytes,
        seconds: together.seconds(),
        receiver_goodput_bits_per_second: together.bits_per_second(),
        sender: Side::since(&baseline, topology, rails, &lanes),
        receiver: sides.pop().context("the receiver did not report its side")?,
    })
}

/// Takes one flow on each listening address, counts, and reports on each when all have ended.
pub async fn receive(
    rails: &Rails,
    listen: &[SocketAddr],
    flows: usize,
    options: &LaneOptions,
    topology: &Topology,
    listening: impl FnOnce(&[SocketAddr]),
) -> Result<(Count, Side)> {
    let zero = Instant::now();
    let mut listeners = Vec::new();
    for (index, address) in listen.iter().copied().enumerate() {
        let rail = RailId(index % rails.len());
        let options = options.clone();
        let listener = rails[rail].runtime().spawn(move || async move { options.listen(address) });
        listeners.push((rail, std::sync::Arc::new(listener.await??)));
    }
    let bound: Vec<SocketAddr> = listeners.iter().map(|(_, listener)| listener.local_addr()).collect();
    listening(&bound);
    let mut sinks = Vec::new();
    for index in 0..flows.max(listen.len()) {
        let (rail, listener) = listeners[index % listeners.len()].clone();
        sinks.push((
            rail,
            rails[rail].runtime().spawn(move || async move { sink(listener.accept().await?, zero).await }),
        ));
    }
    let baseline = Baseline::take(rails);
    let (mut counts, mut lanes, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for (rail, sink) in sinks {
        let (lane, count) = sink.await?.context("a flow failed")?;
        lanes.push(LaneReportOn { rail, report: lane_report(&lane, 0, count.bytes) });
        counts.push(count);
        open.push((rail, lane, count));
    }
    let side = Side::since(&baseline, topology, rails, &lanes);
    // Each flow is told what it carried, and the last one what the side did.
    let last = open.len() - 1;
    for (index, (rail, mut lane, count)) in open.into_iter().enumerate() {
        let mut receipt = serde_json::to_vec(&Receipt { count })?;
        if index == last {
            receipt.extend(serde_json::to_vec(&Closing { side: side.clone() })?);
        }
        let told = rails[rail].runtime().spawn(move || async move {
            lane.get_mut().write_all(&receipt).await?;
            lane.get_mut().shutdown().await
        });
        told.await?.context("a sender went away before it had the report")?;
    }
    Ok((Count::together(&counts), side))
}

/// Sends one flow, and gives what its sink said.
async fn source(remote: SocketAddr, options: LaneOptions, amount: Amount) -> Result<(LaneReport, Vec<u8>)> {
    let mut lane = options.connect(remote).await?;
    let mut supply = Supply::start(amount);
    let mut sent = 0;
    while let Some(block) = supply.next() {
        lane.get_mut().write_all(&block).await?;
        sent += block.len() as u64;
    }
    lane.get_mut().shutdown().await?;
    let mut receipt = Vec::new();
    lane.get_mut().take(1 << 20).read_to_end(&mut receipt).await?;
    Ok((lane_report(&lane, sent, 0), receipt))
}

/// Reads one flow to its end.
async fn sink(mut lane: TcpLane, zero: Instant) -> Result<(TcpLane, Count)> {
    let mut counter = Counter::new(zero);
    let mut buffer = vec![0; BLOCK];
    loop {
        match lane.get_mut().read(&mut buffer).await? {
            0 => return Ok((lane, counter.count())),
            count => counter.add(count),
        }
    }
}

fn lane_report(lane: &TcpLane, bytes_sent: u64, bytes_received: u64) -> LaneReport {
    let tcp = lane.stats().ok();
    LaneReport {
        local: lane.local_addr(),
        remote: lane.peer_addr(),
        bytes_sent,
        bytes_received,
        retransmitted_segments: tcp.as_ref().map(|tcp| tcp.retransmitted_segments.into()),
        rtt_us: tcp.as_ref().and_then(|tcp| tcp.rtt).map(|rtt| rtt.as_micros() as u64),
        congestion_control: tcp.map(|tcp| tcp.congestion),
        lost: None,
    }
}
