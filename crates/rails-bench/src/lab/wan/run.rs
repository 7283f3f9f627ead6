//! One transport over one path: both ends are threads of this process, so that they read one clock.

#[cfg(feature = "quic")]
use super::quic;
use super::{
    Messages, Transport, WanContest,
    ends::{MESSAGE, Progress, runtime},
    rbudp,
};
use crate::lab::compare::ContestError;
use bytes::Bytes;
use rails_celeritas::{AdaptiveOptions, CeleritasOptions, Connection};
use rails_lab::{LinkLab, Side};
use rails_multirail::{Secret, Security};
use rails_topo::Bandwidth;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{atomic::Ordering::Relaxed, mpsc},
    thread,
    time::{Duration, Instant},
};

/// A transfer that has ended.
pub(super) struct Transfer {
    /// Payload that arrived in the measured time.
    pub(super) counted: u64,
    /// The measured time.
    pub(super) time: Duration,
    /// Payload that arrived in all.
    pub(super) bytes: u64,
    /// Retransmitted segments; `None` if the kernel counts them.
    pub(super) retransmitted: Option<u64>,
    /// CPU time of the threads of both ends.
    pub(super) cpu: Duration,
}

impl Transfer {
    /// The goodput in bits a second.
    pub(super) fn goodput(&self) -> f64 {
        self.counted as f64 * 8.0 / self.time.as_secs_f64()
    }
}

/// Sends for the time of the contest, and so does the rival, if there is one.
pub(super) fn transfers(
    lab: &LinkLab,
    contest: &WanContest,
    transport: Transport,
) -> Result<(Transfer, Option<Transfer>), ContestError> {
    thread::scope(|scope| {
        let rival = contest.beside.map(|rival| scope.spawn(move || transfer(lab, contest, rival, None, RIVALS_PORT)));
        let own = transfer(lab, contest, transport, contest.warm_up_messages, PORT);
        let rival = rival.map(|rival| rival.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok((own?, rival.transpose()?))
    })
}

fn transfer(
    lab: &LinkLab,
    contest: &WanContest,
    transport: Transport,
    first: Option<Messages>,
    port: u16,
) -> Result<Transfer, ContestError> {
    let progress = Progress::default();
    let address = SocketAddr::new(lab.address(Side::B, 0), port);
    let (ready, listening) = mpsc::channel::<()>();
    let flows = if transport == Transport::ParallelCubic { 8 } else { 1 };
    #[cfg(feature = "quic")]
    let quic = &quic::Setup::of(contest).map_err(|source| ContestError::Transfer { source })?;
    thread::scope(|scope| {
        let progress = &progress;
        let receiver = scope.spawn(move || {
            let _inside = lab.enter(Side::B)?;
            progress.timed(|| match transport {
                Transport::Celeritas | Transport::Sealed | Transport::Adaptive => {
                    receive_messages(&options(contest, transport), address, ready, progress)
                }
                Transport::Rbudp => rbudp::receive(address, ready, progress),
                #[cfg(feature = "quic")]
                Transport::QuinnBbr | Transport::QuinnCubic => quic.receive_quinn(address, ready, progress),
                #[cfg(feature = "quic")]
                Transport::NoqBbr3 => quic.receive_noq(address, ready, progress),
                Transport::Cubic | Transport::Bbr | Transport::ParallelCubic => {
                    receive_flows(address, flows, ready, progress)
                }
            })
        });
        // A receiver that fails before it listens reports its error below.
        let sender = listening.recv().is_ok().then(|| {
            scope.spawn(move || {
                let _inside = lab.enter(Side::A)?;
                progress.timed(|| match transport {
                    Transport::Celeritas | Transport::Sealed | Transport::Adaptive => {
                        let message = message_len(contest.path.rate);
                        send_messages(&options(contest, transport), address, first, message, progress)
                    }
                    Transport::Rbudp => rbudp::send(contest.celeritas, address, progress),
                    #[cfg(feature = "quic")]
                    Transport::QuinnBbr => quic.send_quinn_bbr(address, progress),
                    #[cfg(feature = "quic")]
                    Transport::QuinnCubic => quic.send_quinn_cubic(address, progress),
                    #[cfg(feature = "quic")]
                    Transport::NoqBbr3 => quic.send_noq_bbr3(address, progress),
                    Transport::Bbr => send_flows(address, flows, "bbr", progress),
                    Transport::Cubic | Transport::ParallelCubic => send_flows(address, flows, "cubic", progress),
                })
            })
        });
        let is_alive = || sender.as_ref().is_some_and(|sender| !sender.is_finished()) && !receiver.is_finished();
        wait(contest.warm_up, is_alive);
        progress.counts.store(true, Relaxed);
        let (before, begin) = (progress.arrived.load(Relaxed), Instant::now());
        wait(contest.time, is_alive);
        let (after, time) = (progress.arrived.load(Relaxed), begin.elapsed());
        progress.is_over.store(true, Relaxed);
        for end in sender.into_iter().chain([receiver]) {
            end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let is_tcp = matches!(transport, Transport::Cubic | Transport::Bbr | Transport::ParallelCubic);
        Ok(Transfer {
            counted: after - before,
            time,
            bytes: progress.arrived.load(Relaxed),
            retransmitted: (!is_tcp).then(|| progress.retransmitted.load(Relaxed)),
            cpu: Duration::from_nanos(progress.cpu_nanoseconds.load(Relaxed)),
        })
    })
}

/// Sleeps, unless an end has failed.
fn wait(time: Duration, is_alive: impl Fn() -> bool) {
    let end = Instant::now() + time;
    while Instant::now() < end && is_alive() {
        thread::sleep(end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
    }
}

fn options(contest: &WanContest, transport: Transport) -> CeleritasOptions {
    let secret = || Secret::pre_shared(b"of both ends of wan").expect("it is long enough");
    match transport {
        Transport::Adaptive => CeleritasOptions::adaptive(AdaptiveOptions::new()),
        Transport::Sealed => CeleritasOptions::fixed(contest.celeritas).security(Security::psk(secret())),
        _ => CeleritasOptions::fixed(contest.celeritas),
    }
}

fn receive_messages(
    options: &CeleritasOptions,
    address: SocketAddr,
    ready: mpsc::Sender<()>,
    progress: &Progress,
) -> io::Result<()> {
    runtime()?.block_on(async {
        let listener = options.listen(address).map_err(io::Error::other)?;
        let _ = ready.send(());
        let connection = listener.accept().await.map_err(io::Error::other)?;
        let receive = async {
            while connection.receive().await.map_err(io::Error::other)?.is_some() {}
            Ok(())
        };
        let outcome = counted(&connection, receive, progress, |progress, stats| {
            progress.arrived.store(stats.receiver.bytes, Relaxed);
        });
        outcome.await?;
        connection.close().await.map_err(io::Error::other)
    })
}

fn send_messages(
    options: &CeleritasOptions,
    address: SocketAddr,
    first: Option<Messages>,
    message: usize,
    progress: &Progress,
) -> io::Result<()> {
    runtime()?.block_on(async {
        let connection = options.connect(address).await.map_err(io::Error::other)?;
        let block = Bytes::from(vec![7; message]);
        let send = async {
            if let Some(messages) = first {
                send_at_times(&connection, messages, progress).await?;
            }
            let mut last = None;
            while !progress.is_over() {
                let next = connection.send(vec![block.clone()]).await.map_err(io::Error::other)?;
                // Two are under way at a time.
                if let Some(last) = last.replace(next) {
                    last.await.map_err(io::Error::other)?;
                }
            }
            Ok(())
        };
        let outcome = counted(&connection, send, progress, |progress, stats| {
            progress.retransmitted.store(stats.sender.retransmitted_segments, Relaxed);
        });
        outcome.await?;
        connection.close().await.map_err(io::Error::other)
    })
}

/// The bytes of a message: those of 320 ms at most, so that a slow path soon ends its last
/// messages.
fn message_len(rate: Bandwidth) -> usize {
    MESSAGE.min((rate.as_bits_per_second() / 25) as usize)
}

/// Sends these messages until the measured time begins.
async fn send_at_times(connection: &Connection, messages: Messages, progress: &Progress) -> io::Result<()> {
    let block = Bytes::from(vec![7; messages.bytes]);
    let mut turns = tokio::time::interval(messages.every);
    let mut last = None;
    while !progress.counts.load(Relaxed) && !progress.is_over() {
        turns.tick().await;
        last = Some(connection.send(vec![block.clone()]).await.map_err(io::Error::other)?);
    }
    match last {
        Some(last) => last.await.map_err(io::Error::other),
        None => Ok(()),
    }
}

/// Runs an end, and updates its figures meanwhile and at its end.
async fn counted(
    connection: &Connection,
    run: impl Future<Output = io::Result<()>>,
    progress: &Progress,
    tell: impl Fn(&Progress, rails_celeritas::ConnectionStats),
) -> io::Result<()> {
    let mut run = std::pin::pin!(run);
    loop {
        tokio::select! {
            outcome = &mut run => {
                tell(progress, connection.stats());
                return outcome;
            }
            () = tokio::time::sleep(Duration::from_millis(5)) => tell(progress, connection.stats()),
        }
    }
}

fn receive_flows(address: SocketAddr, flows: usize, ready: mpsc::Sender<()>, progress: &Progress) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let _ = ready.send(());
    let receive = |mut stream: TcpStream| {
        let mut buffer = vec![0; 1 << 20];
        loop {
            match stream.read(&mut buffer)? {
                0 => return stream.write_all(&[1]),
                length => drop(progress.arrived.fetch_add(length as u64, Relaxed)),
            }
        }
    };
    let streams: io::Result<Vec<TcpStream>> = (0..flows).map(|_| Ok(listener.accept()?.0)).collect();
    each(streams?, progress, receive)
}

fn send_flows(address: SocketAddr, flows: usize, congestion: &str, progress: &Progress) -> io::Result<()> {
    let connect = |_| {
        let stream = TcpStream::connect(address)?;
        let socket = socket2::SockRef::from(&stream);
        socket.set_tcp_congestion(congestion.as_bytes())?;
        let got = socket.tcp_congestion()?;
        match got.starts_with(congestion.as_bytes()) {
            true => Ok(stream),
            false => Err(io::Error::other(format!("the kernel does not set {congestion}"))),
        }
    };
    let streams: io::Result<Vec<TcpStream>> = (0..flows).map(connect).collect();
    let block = vec![7; 256 << 10];
    each(streams?, progress, |mut stream: TcpStream| {
        while !progress.is_over() {
            stream.write_all(&block)?;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        // Waits until the receiver has the whole message.
        stream.read_exact(&mut [0])
    })
}

/// Runs each flow: the first one on this thread.
fn each(
    mut streams: Vec<TcpStream>,
    progress: &Progress,
    run: impl Fn(TcpStream) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let Some(first) = streams.pop() else { return Ok(()) };
    thread::scope(|scope| {
        let run = &run;
        let others: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                scope.spawn(move || {
                    let outcome = run(stream);
                    progress.add_cpu_time();
                    outcome
                })
            })
            .collect();
        let outcome = run(first);
        let others = others.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        others.fold(outcome, Result::and)
    })
}

const PORT: u16 = 7600;
const RIVALS_PORT: u16 = 7601;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_path_has_short_messages() {
        assert_eq!(
            [1, 499, 500, 10_000].map(|mbps| message_len(Bandwidth::mbps(mbps))),
            [40_000, 19_960_000, MESSAGE, MESSAGE]
        );
    }
}
