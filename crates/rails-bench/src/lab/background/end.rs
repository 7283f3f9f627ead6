//! One end of a measurement: a process on one CPU.

use super::{
    carrier::{Carrier, Engine, Wire},
    case::{Computes, Message},
};
use crate::{duration::microseconds, measure::work::Work};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rails_bind::thread::current_affinity;
use rails_topo::CpuSet;
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{sync::Barrier, task::JoinSet};

/// The orders of one end's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(super) carrier: Carrier,
    /// This end's address.
    pub(super) local: IpAddr,
    /// The address of the end that listens; `None` for that end, which receives.
    pub(super) remote: Option<SocketAddr>,
    pub(super) job: Job,
}

/// The measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Job {
    /// Each message, `count` times in each case.
    Overlap { messages: Vec<Message>, count: u32 },
    /// `count` exchanges over each number of streams, in this order.
    PingPong { streams: Vec<u16>, count: u32 },
}

/// The findings of an end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndReport {
    /// CPUs of the thread that computes, or that waits for exchanges, as read back.
    pub(crate) program_cpus: CpuSet,
    /// CPUs of the thread on which transfers make progress, as read back.
    pub(crate) carrier_cpus: CpuSet,
    /// Congestion control, as read from the sockets.
    pub(crate) congestion_control: Vec<String>,
    /// The times of messages beside work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) overlap: Vec<OverlapTimes>,
    /// The times of exchanges; the end that asks has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ping_pong: Vec<ExchangeTimes>,
}

/// The times of one end in one case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OverlapTimes {
    /// The message, and its work.
    pub(crate) message: Message,
    /// The ends that compute.
    pub(crate) computes: Computes,
    /// The times of the work alone, before each message; empty at an end that does not compute.
    pub(crate) alone_us: Vec<f64>,
    /// The times from the start of each transfer, over the work, to its end.
    pub(crate) total_us: Vec<f64>,
}

/// The times of exchanges over some number of streams.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ExchangeTimes {
    /// The number of streams.
    pub(crate) streams: u16,
    /// The times of exchanges that are made one at a time, on one stream after the other.
    pub(crate) one_at_a_time_ns: Vec<u64>,
    /// The times of exchanges while all streams have one under way.
    pub(crate) all_at_once_ns: Vec<u64>,
    /// The time from the first of these exchanges to the last.
    pub(crate) all_at_once_seconds: f64,
}

/// Carries the orders out.
///
/// # Errors
/// The carrier fails, the peer does not come, a thread of the carrier runs on another CPU than the
/// program, or the orders want exchanges over no stream.
pub(crate) fn run(orders: &Orders) -> Result<EndReport> {
    let no_stream = matches!(&orders.job, Job::PingPong { streams, .. } if streams.contains(&0));
    ensure!(!no_stream, "--orders: exchanges need a stream at least");
    let program_cpus = current_affinity()?;
    let engine = Engine::start(orders.carrier, orders.local)?;
    let carrier_cpus = engine.cpus.clone();
    ensure!(
        program_cpus.len() == 1 && carrier_cpus == program_cpus,
        "the program is on CPUs {program_cpus}, and the thread that makes progress on CPUs {carrier_cpus}: that is not one CPU"
    );
    let (mut overlap, mut ping_pong) = (Vec::new(), Vec::new());
    let congestion_control = match (&orders.job, orders.remote) {
        (Job::Overlap { messages, count }, remote) => {
            let mut wire = open(&engine, orders.local, remote)?;
            for (message, computes) in messages.iter().flat_map(|message| Computes::ALL.map(|case| (message, case))) {
                let side = if remote.is_some() { Side::Sender } else { Side::Receiver };
                let (back, times) = side.times(&engine, wire, *message, computes, *count)?;
                wire = back;
                overlap.push(times);
            }
            let congestion_control = wire.congestion_control()?;
            engine.run(wire.close()).context("the connection was not closed")?;
            congestion_control
        }
        (Job::PingPong { streams, count }, Some(remote)) => {
            let mut congestion_control = Vec::new();
            for streams in streams.iter().copied() {
                let (times, congestion) = exchanges(&engine, remote, streams, *count)?;
                ping_pong.push(times);
                congestion_control = congestion;
            }
            congestion_control
        }
        (Job::PingPong { streams, .. }, None) => {
            let (opener, local) = (engine.opener(), orders.local);
            let streams = streams.clone();
            let answered = engine.run(async move {
                let acceptor = opener.listen(local).await?;
                let (mut tasks, mut congestion_control) = (JoinSet::new(), Vec::new());
                for streams in streams {
                    for _ in 0..streams {
                        let wire = acceptor.accept().await?;
                        congestion_control = wire.congestion_control()?;
                        tasks.spawn(echo(wire));
                    }
                    while let Some(ended) = tasks.join_next().await {
                        ended.map_err(io::Error::other)??;
                    }
                }
                Ok(congestion_control)
            });
            answered.context("exchanges were not answered")?
        }
    };
    Ok(EndReport { program_cpus, carrier_cpus, congestion_control, overlap, ping_pong })
}

/// The only connection.
fn open(engine: &Engine, local: IpAddr, remote: Option<SocketAddr>) -> Result<Wire> {
    let opener = engine.opener();
    let opened = match remote {
        Some(remote) => engine.run(opener.connect(remote)),
        None => engine.run(async move { opener.listen(local).await?.accept().await }),
    };
    opened.context("no connection")
}

/// The role of an end in a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Sender,
    Receiver,
}

impl Side {
    /// Transfers the message `count` times, each time after the work alone. One transfer before
    /// does not count.
    fn times(
        self,
        engine: &Engine,
        mut wire: Wire,
        message: Message,
        computes: Computes,
        count: u32,
    ) -> Result<(Wire, OverlapTimes)> {
        let computes_here = match self {
            Self::Sender => computes.sender(),
            Self::Receiver => computes.receiver(),
        };
        let work = computes_here.then(|| Work::lasting(Duration::from_micros(message.work_us)));
        // Two contents take turns, so that no byte of a message equals that of the last one in the
        // receiver's buffer.
        let [even, odd] =
            [0, u8::MAX].map(|mask| (0..message.bytes).map(|place| place as u8 ^ mask).collect::<Bytes>());
        let mut buffer = odd.to_vec();
        let (mut alone_us, mut total_us) = (Vec::new(), Vec::new());
        for index in 0..=count {
            // Waits for the rest of the last message, such as its acknowledgements.
            thread::sleep(REST);
            let payload = if index % 2 == 0 { &even } else { &odd };
            let alone = work.map(Work::run);
            wire = engine.run(self.meet(wire)).context("the other end is gone")?;
            let start = Instant::now();
            let transfer = match self {
                Self::Sender => engine.begin(send(wire, payload.clone())),
                Self::Receiver => engine.begin(receive(wire, buffer)),
            };
            work.map(Work::run);
            (wire, buffer) = transfer.wait().context("the message was lost")?;
            let total = start.elapsed();
            ensure!(self == Self::Sender || buffer == *payload, "another message arrived");
            if index > 0 {
                alone_us.extend(alone.map(microseconds));
                total_us.push(microseconds(total));
            }
        }
        Ok((wire, OverlapTimes { message, computes, alone_us, total_us }))
    }

    /// The receiver reports that it waits for the message, and the sender waits for that report.
    async fn meet(self, mut wire: Wire) -> io::Result<Wire> {
        match self {
            Self::Sender => wire.receive(&mut [0]).await?,
            Self::Receiver => wire.send(Bytes::from_static(b"r")).await?,
        }
        Ok(wire)
    }
}

/// Sends the message, and waits for the report of its arrival.
async fn send(mut wire: Wire, message: Bytes) -> io::Result<(Wire, Vec<u8>)> {
    wire.send(message).await?;
    wire.receive(&mut [0]).await?;
    Ok((wire, Vec::new()))
}

/// Receives the message, and reports that.
async fn receive(mut wire: Wire, mut buffer: Vec<u8>) -> io::Result<(Wire, Vec<u8>)> {
    wire.receive(&mut buffer).await?;
    wire.send(Bytes::from_static(b"a")).await?;
    Ok((wire, buffer))
}

/// Opens the streams, makes the exchanges over them, and closes them.
fn exchanges(engine: &Engine, remote: SocketAddr, streams: u16, count: u32) -> Result<(ExchangeTimes, Vec<String>)> {
    let opener = engine.opener();
    let measured = engine.run(async move {
        let mut wires = Vec::new();
        for _ in 0..streams {
            wires.push(opener.clone().connect(remote).await?);
        }
        let congestion_control = wires[0].congestion_control()?;
        let mut one_at_a_time_ns = Vec::new();
        for index in 0..count / 10 + count {
            let time = exchange(&mut wires[index as usize % usize::from(streams)]).await?;
            one_at_a_time_ns.extend((index >= count / 10).then_some(time));
        }
        let each = count.div_ceil(streams.into());
        let barrier = Arc::new(Barrier::new(streams.into()));
        let mut tasks = JoinSet::new();
        for mut wire in wires {
            let barrier = Arc::clone(&barrier);
            tasks.spawn(async move {
                for _ in 0..each / 10 {
                    exchange(&mut wire).await?;
                }
                barrier.wait().await;
                let (start, mut times) = (Instant::now(), Vec::new());
                for _ in 0..each {
                    times.push(exchange(&mut wire).await?);
                }
                io::Result::Ok((wire, start, Instant::now(), times))
            });
        }
        let (mut wires, mut starts, mut ends, mut all_at_once_ns) = (vec![], vec![], vec![], vec![]);
        while let Some(ended) = tasks.join_next().await {
            let (wire, start, end, times) = ended.map_err(io::Error::other)??;
            wires.push(wire);
            starts.push(start);
            ends.push(end);
            all_at_once_ns.extend(times);
        }
        let all = starts.into_iter().min().zip(ends.into_iter().max());
        let all_at_once_seconds = all.map_or(Duration::ZERO, |(first, last)| last - first).as_secs_f64();
        for wire in wires {
            wire.close().await?;
        }
        Ok((ExchangeTimes { streams, one_at_a_time_ns, all_at_once_ns, all_at_once_seconds }, congestion_control))
    });
    measured.with_context(|| format!("exchanges over {streams} streams"))
}

/// Sends four bytes and waits for them to come back. Returns the time in nanoseconds.
async fn exchange(wire: &mut Wire) -> io::Result<u64> {
    let (start, mut back) = (Instant::now(), [0; PING.len()]);
    wire.send(Bytes::from_static(&PING)).await?;
    wire.receive(&mut back).await?;
    match back == PING {
        true => Ok(start.elapsed().as_nanos() as u64),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "another message came back")),
    }
}

/// Sends every message of four bytes back, to the stream's end.
async fn echo(mut wire: Wire) -> io::Result<()> {
    let mut message = [0; PING.len()];
    loop {
        match wire.receive(&mut message).await {
            Ok(()) => wire.send(Bytes::copy_from_slice(&message)).await?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return wire.close().await,
            Err(error) => return Err(error),
        }
    }
}

/// A pause before each message.
const REST: Duration = Duration::from_millis(2);
/// The message of the paper's figure 4.
const PING: [u8; 4] = *b"ping";
