//! Flows with nothing of this project between the application and the socket: independent tokio TCP
//! flows, one per lane, or one socket of the kernel's MPTCP. The rate of the links without
//! striping, and so its ceiling. They run on the same pinned runtimes, with the same buffers and
//! socket options, as the lanes of a stream would.
//!
//! The goodput of several flows covers the time while all of them ran: a slow one may still drain
//! its socket's buffer long after the others have ended.

mod listening;
pub(crate) mod mptcp;
mod socket;

use super::{
    Amount, BLOCK, Count, Counter, LONGEST_RECEIPT, Receipt, Received, Supply,
    report::{Measurement, Transport},
    series::{Recorder, Series},
};
use crate::{
    conversation::{Call, Door, Guest, Reply, Request, Watch},
    side::{Baseline, LaneReportOn, Side},
};
use anyhow::{Context, Result, bail, ensure};
pub(crate) use listening::Listeners;
use rails_multirail::{RailId, Rails};
use rails_net::TcpTransport;
use rails_topo::Topology;
pub(crate) use socket::Flow;
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
};

/// The sort of the flows.
#[derive(Debug, Clone)]
pub(crate) enum FlowKind {
    /// Plain TCP with these options.
    Plain(Box<TcpTransport>),
    /// The kernel's MPTCP with this congestion control.
    Mptcp(Option<String>),
}

impl FlowKind {
    /// The carrier, as the reports name it.
    fn transport(&self) -> Transport {
        match self {
            Self::Plain(_) => Transport::PlainTcp,
            Self::Mptcp(_) => Transport::Mptcp,
        }
    }
}

/// Opens `count` flows, each from the rail of its number to the address of its number, at the place
/// that the peer has named, and waits until the peer has all of them.
///
/// # Errors
/// A flow's failure.
pub(crate) async fn open(
    call: &mut Call,
    request: &Request,
    kind: &FlowKind,
    rails: &Rails,
    remotes: &[SocketAddr],
    count: usize,
) -> Result<Vec<(RailId, Flow)>> {
    let Door { port: Some(port), token } = call.door()? else { bail!("the peer has named no port for the flows") };
    ensure!(!rails.is_empty() && !remotes.is_empty(), "no rails");
    let mut connecting = Vec::new();
    for index in 0..count {
        let rail = RailId(index % rails.len());
        let mut remote = remotes[index % remotes.len()];
        remote.set_port(port);
        let opening = Flow::open(kind, &rails[rail], remote, token, index as u16);
        connecting.push((rail, rails[rail].runtime().spawn(opening)));
    }
    let mut flows = Vec::new();
    for (rail, opening) in connecting {
        flows.push((rail, opening.await?.context("a flow failed")?));
    }
    call.all_open(request).await?;
    Ok(flows)
}

/// Sends on all flows, and returns the measurement.
///
/// # Errors
/// A flow's failure.
pub(crate) async fn send(
    call: &mut Call,
    flows: Vec<(RailId, Flow)>,
    kind: &FlowKind,
    amount: Amount,
    topology: &Topology,
    rails: &Rails,
) -> Result<Measurement> {
    let baseline = Baseline::take(rails);
    let share = match amount {
        Amount::Time(time) => Amount::Time(time),
        Amount::Bytes(bytes) => Amount::Bytes(bytes.div_ceil(flows.len() as u64)),
    };
    let giving = flows.into_iter().map(|(rail, mut flow)| {
        let given = rails[rail].runtime().spawn(async move {
            let sent = give(flow.get_mut(), share).await?;
            io::Result::Ok((flow.report(sent, 0), flow))
        });
        (rail, given)
    });
    let giving: Vec<_> = giving.collect();
    let (mut lanes, mut open) = (Vec::new(), Vec::new());
    for (rail, given) in giving {
        let (report, flow) = given.await?.context("a flow failed")?;
        lanes.push(LaneReportOn { rail, report });
        open.push(flow);
    }
    let receipt: Receipt = call.control.hear(LONGEST_RECEIPT).await.context("the receiver did not report")?;
    drop(open);
    Ok(Measurement {
        transport: kind.transport(),
        security: None,
        bytes_written: lanes.iter().map(|lane| lane.report.bytes_sent).sum(),
        bytes: receipt.count.bytes,
        seconds: receipt.count.seconds(),
        receiver_goodput_bits_per_second: receipt.goodput_bits_per_second,
        sender: Side::since(&baseline, topology, rails, &lanes),
        receiver: receipt.side,
        wrong_at: receipt.count.wrong_at,
        served_beside: receipt.served_beside,
        from_peer: false,
        interrupted: false,
    })
}

/// Takes the guest's flows, counts, and reports when all have ended.
///
/// # Errors
/// A flow's failure.
pub(crate) async fn receive(
    guest: &mut Guest,
    listeners: Listeners,
    count: usize,
    watch: Watch,
    topology: &Topology,
    rails: &Rails,
) -> Result<Received> {
    let beside = guest.company.observe();
    let flows = listeners.gather(guest, count).await?;
    guest.control.say(&Reply::Begin).await?;
    let (zero, baseline) = (Instant::now(), Baseline::take(rails));
    // All flows count from the arrival of the first.
    let begun: Arc<OnceLock<Recorder>> = Arc::default();
    let sinks = flows.into_iter().map(|(rail, mut flow)| {
        let (begun, session, waits) = (begun.clone(), guest.session.clone(), guest.waits.clone());
        let sink = async move {
            let recorder = begun.get_or_init(|| Recorder::start(watch.interval().unwrap_or(FINE)));
            let counter = Counter::start(zero).checked(watch.check).recorded(Some(recorder.clone()));
            let counter = tokio::select! {
                taken = take(flow.get_mut(), counter.telling(waits)) => taken.context("a flow failed")?,
                left = session.closed() => return Err(left).context("the sender went away"),
            };
            Ok((flow, counter))
        };
        (rail, rails[rail].runtime().spawn(sink))
    });
    let sinks: Vec<_> = sinks.collect();
    let (mut counts, mut lanes, mut open, mut series) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (rail, sink) in sinks {
        // If one flow fails, the session ends, and the others with it.
        let (flow, counter) = sink.await??;
        let count = counter.count();
        series.extend(counter.series());
        lanes.push(LaneReportOn { rail, report: flow.report(0, count.bytes) });
        counts.push(count);
        open.push(flow);
    }
    let side = Side::since(&baseline, topology, rails, &lanes);
    let (count, series) = (Count::together(&counts), Series::aligned(series));
    // One flow ran alone all the time.
    let at_once = (series.len() > 1).then(|| Series::bits_per_second_together(&series)).flatten();
    let goodput_bits_per_second = at_once.unwrap_or_else(|| count.bits_per_second());
    let series = watch.interval().and_then(|_| Series::together(series));
    let served_beside = beside.count();
    let receipt = Receipt { count, goodput_bits_per_second, side: side.clone(), served_beside };
    guest.control.say(&receipt).await.context("the sender went away before it had the report")?;
    Ok(Received { count, goodput_bits_per_second, side, series, security: None, served_beside, interrupted: false })
}

/// Sends the amount on a socket, and ends its sending side. Returns the number of bytes.
async fn give(stream: &mut TcpStream, amount: Amount) -> io::Result<u64> {
    // Until all bytes are sent, closing the socket is a reset: the sink must not take a killed
    // sender for a finished one. Where that is refused, the session says which it is.
    let is_reset = SockRef::from(&*stream).set_linger(Some(Duration::ZERO)).is_ok();
    let mut supply = Supply::start(amount);
    let mut sent = 0;
    while let Some(block) = supply.next() {
        stream.write_all(&block).await?;
        sent += block.len() as u64;
    }
    if is_reset {
        SockRef::from(&*stream).set_linger(None)?;
    }
    stream.shutdown().await?;
    Ok(sent)
}

/// Reads a socket to its end, and counts.
async fn take(stream: &mut TcpStream, mut counter: Counter) -> io::Result<Counter> {
    let mut buffer = vec![0; BLOCK];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(counter),
            count => counter.add(&buffer[..count]),
        }
    }
}

/// The interval of the record: short for a measurement, long for a read.
const FINE: Duration = Duration::from_millis(10);
