//! Independent tokio TCP flows from memory to memory: the rate of the links without striping, and
//! so its ceiling. The flows run on the same pinned runtimes, with the same buffers and socket
//! options, as the lanes of a stream would.
//!
//! The goodput of several flows covers the time while all of them ran: a slow one may still drain
//! its socket's buffer long after the others have ended.

use super::{
    Amount, BLOCK, Count, Counter, LONGEST_RECEIPT, Received, Supply, Watch,
    report::{Measurement, Transport},
    series::{Recorder, Series},
};
use crate::{
    admission::Admission,
    purpose::{self, Purpose},
    side::{Baseline, LaneReport, LaneReportOn, Side},
};
use anyhow::{Context, Result};
use rails_multirail::{RailId, Rails};
use rails_net::{Lane, TcpLane, TcpTransport};
use rails_topo::Topology;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

/// The report of a flow's sink to its source; the last flow's has the figures of the whole end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) count: Count,
    pub(super) side: Option<Side>,
    /// The rate of all flows while all of them ran.
    pub(super) goodput_bits_per_second: f64,
}

/// Opens one flow from each rail to the address of the same number, sends on all of them, and
/// returns the measurement.
///
/// # Errors
/// A flow's failure.
pub(crate) async fn send(
    rails: &Rails,
    remotes: &[SocketAddr],
    tcp: &TcpTransport,
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
        let (remote, from) = (remotes[index % remotes.len()], tcp.clone().local(rails[rail].local_end()));
        flows.push((rail, rails[rail].runtime().spawn(source(remote, from, share))));
    }
    let (mut counts, mut lanes, mut last) = (Vec::new(), Vec::new(), None);
    for (rail, flow) in flows {
        let (report, receipt) = flow.await?.context("a flow failed")?;
        let receipt: Receipt = serde_json::from_slice(&receipt).context("the receiver's report cannot be read")?;
        counts.push(receipt.count);
        last = receipt.side.map(|side| (side, receipt.goodput_bits_per_second)).or(last);
        lanes.push(LaneReportOn { rail, report });
    }
    let together = Count::together(&counts);
    let (receiver, receiver_goodput_bits_per_second) = last.context("the receiver did not report its side")?;
    Ok(Measurement {
        transport: Transport::PlainTcp,
        security: None,
        bytes_written: lanes.iter().map(|lane| lane.report.bytes_sent).sum(),
        bytes: together.bytes,
        seconds: together.seconds(),
        receiver_goodput_bits_per_second,
        sender: Side::since(&baseline, topology, rails, &lanes),
        receiver,
        stats: None,
    })
}

/// Sockets that wait for plain flows, one on each address.
pub(crate) struct Listeners {
    places: Vec<Place>,
    zero: Instant,
}

/// One of the addresses.
struct Place {
    rail: RailId,
    local: SocketAddr,
    guests: Admission<TcpLane>,
    /// The flow of the next measurement, if it has come before those of other addresses.
    flow: Option<TcpLane>,
}

impl Listeners {
    /// Listens on each address, on the rail of the same number.
    ///
    /// # Errors
    /// The reason why an address cannot be listened on.
    pub(crate) async fn bind(rails: &Rails, addresses: &[SocketAddr], tcp: &TcpTransport) -> Result<Self> {
        let mut places = Vec::new();
        for (index, address) in addresses.iter().copied().enumerate() {
            let rail = RailId(index % rails.len());
            let tcp = tcp.clone();
            let listening = rails[rail].runtime().spawn(async move {
                let listener = tcp.listen(address)?;
                anyhow::Ok((listener.local_addr(), Admission::of(listener, Purpose::Serve)))
            });
            let (local, guests) = listening.await??;
            places.push(Place { rail, local, guests, flow: None });
        }
        Ok(Self { places, zero: Instant::now() })
    }

    /// The listening addresses.
    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        self.places.iter().map(|place| place.local).collect()
    }

    /// Takes one flow on each address, counts, and reports on each when all have ended.
    ///
    /// # Errors
    /// A flow's failure.
    pub(crate) async fn receive(&mut self, rails: &Rails, topology: &Topology, watch: Watch) -> Result<Received> {
        for place in &mut self.places {
            // A flow that has come stays if another connection fails.
            if place.flow.is_none() {
                place.flow = Some(place.guests.next().await?);
            }
        }
        // All flows count from the arrival of the first.
        let begun: Arc<OnceLock<Recorder>> = Arc::default();
        // If one flow fails, the others end too.
        let (_others, is_over) = watch::channel(());
        let sinks = self.places.iter_mut().filter_map(|place| Some((place.rail, place.flow.take()?)));
        let sinks = sinks.map(|(rail, mut lane)| {
            let (zero, begun, over) = (self.zero, begun.clone(), is_over.clone());
            let sink = async move {
                unless_over(over, async {
                    purpose::give_turn(lane.get_mut()).await?;
                    let recorder = begun.get_or_init(|| Recorder::start(watch.interval.unwrap_or(FINE)));
                    let counter = Counter::start(zero).checked(watch.check).recorded(Some(recorder.clone()));
                    let counter = take(lane.get_mut(), counter).await?;
                    Ok((lane, counter))
                })
                .await
            };
            (rail, rails[rail].runtime().spawn(sink))
        });
        let sinks: Vec<_> = sinks.collect();
        let baseline = Baseline::take(rails);
        let (mut counts, mut lanes, mut open, mut series) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (rail, sink) in sinks {
            let (lane, counter) = sink.await?.context("a flow failed")?;
            let count = counter.count();
            series.extend(counter.series());
            lanes.push(LaneReportOn { rail, report: lane_report(&lane, 0, count.bytes) });
            counts.push(count);
            open.push((rail, lane, count));
        }
        let side = Side::since(&baseline, topology, rails, &lanes);
        let count = Count::together(&counts);
        let at_once = Series::bits_per_second_together(&series);
        let goodput_bits_per_second = at_once.unwrap_or_else(|| count.bits_per_second());
        // Each flow's receipt has its bytes, and the last one also the side's figures.
        let last = open.len() - 1;
        for (index, (rail, mut lane, count)) in open.into_iter().enumerate() {
            let receipt = Receipt { count, side: (index == last).then(|| side.clone()), goodput_bits_per_second };
            let receipt = serde_json::to_vec(&receipt)?;
            let told = rails[rail].runtime().spawn(async move {
                lane.get_mut().write_all(&receipt).await?;
                lane.get_mut().shutdown().await
            });
            told.await?.context("a sender went away before it had the report")?;
        }
        let series = watch.interval.and_then(|_| Series::together(series));
        Ok(Received { count, goodput_bits_per_second, side, series, stats: None })
    }
}

/// Sends one flow, and returns the sink's report.
async fn source(remote: SocketAddr, from: TcpTransport, amount: Amount) -> Result<(LaneReport, Vec<u8>)> {
    let mut lane = from.connect(remote).await?;
    approach(lane.get_mut()).await?;
    let (sent, receipt) = give(lane.get_mut(), amount).await?;
    Ok((lane_report(&lane, sent, 0), receipt))
}

/// Sends the amount on a socket. Returns the number of bytes, and the sink's report.
pub(super) async fn give(stream: &mut TcpStream, amount: Amount) -> io::Result<(u64, Vec<u8>)> {
    // Until all bytes are sent, closing the socket is a reset: the sink must not take a killed
    // sender for a finished one.
    SockRef::from(&*stream).set_linger(Some(Duration::ZERO))?;
    let mut supply = Supply::start(amount);
    let mut sent = 0;
    while let Some(block) = supply.next() {
        stream.write_all(&block).await?;
        sent += block.len() as u64;
    }
    SockRef::from(&*stream).set_linger(None)?;
    stream.shutdown().await?;
    let mut receipt = Vec::new();
    stream.take(LONGEST_RECEIPT).read_to_end(&mut receipt).await?;
    Ok((sent, receipt))
}

/// Greets the sink of a flow, and waits until it is ready.
pub(super) async fn approach(stream: &mut TcpStream) -> Result<()> {
    purpose::greet(stream, Purpose::Stream).await.map_err(|misfit| misfit.helped(Purpose::Stream))?;
    purpose::await_turn(stream).await.context("the peer did not come to this flow")
}

/// Runs the work, unless another flow fails.
async fn unless_over<T>(mut over: watch::Receiver<()>, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        _ = over.changed() => anyhow::bail!("another flow failed"),
        done = work => done,
    }
}

/// Reads a socket to its end, and counts.
pub(super) async fn take(stream: &mut TcpStream, mut counter: Counter) -> io::Result<Counter> {
    let mut buffer = vec![0; BLOCK];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(counter),
            count => counter.add(&buffer[..count]),
        }
    }
}

fn lane_report(lane: &TcpLane, bytes_sent: u64, bytes_received: u64) -> LaneReport {
    let carried = (bytes_sent, bytes_received);
    LaneReport::new((lane.local_addr(), lane.peer_addr()), carried, Lane::stats(lane).ok().as_ref())
}

/// The interval of the record: short for a measurement, long for a read.
const FINE: Duration = Duration::from_millis(10);
