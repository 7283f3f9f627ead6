//! Carriers of messages, and the threads that make their transfers progress.

use crate::{endpoint::say_listening, machine::this_machine, placement};
use anyhow::{Context, Result};
use bytes::Bytes;
use clap::ValueEnum;
use rails_bind::thread::current_affinity;
use rails_multirail::{
    MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Security, StreamOptions, planner::LocalEnd,
};
use rails_topo::CpuSet;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use std::{
    fmt,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::mpsc,
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
    task::yield_now,
    time::timeout,
};

/// A carrier of messages between two programs that compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Carrier {
    /// A stream over one rail; transfers are tasks on the rail
    Rails,
    /// A plain tokio TCP flow; transfers are tasks on a runtime with a thread of its own
    ProgressThread,
    /// A plain tokio TCP flow; a transfer makes progress only when the program starts it and while
    /// it waits for it
    NoProgress,
}

/// A carrier at one end.
pub(super) struct Engine {
    driver: Driver,
    /// The CPUs of the thread on which transfers make progress, as read back.
    pub(super) cpus: CpuSet,
}

/// The driver of the transfers.
enum Driver {
    Rail(Rails),
    Thread(ProgressThread),
    /// The program, when it starts a transfer and while it waits.
    Program(Runtime),
}

/// A thread with a tokio runtime. Dropping it ends it.
struct ProgressThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A transfer that was started.
pub(super) enum Transfer<'e, T> {
    Started(mpsc::Receiver<io::Result<T>>),
    Ended(io::Result<T>),
    /// The transfer went as far as it could without waiting.
    Deferred(&'e Runtime, Pin<Box<dyn Future<Output = io::Result<T>>>>),
}

/// A connection.
pub(super) enum Wire {
    Rails(Box<MultiRailStream>),
    Tcp(TcpStream),
}

/// Accepts connections.
pub(super) enum Acceptor {
    Rails(MultiRailListener),
    Tcp(TcpListener),
}

/// Opens connections.
#[derive(Clone)]
pub(super) enum Opener {
    Rails(Rails),
    Tcp,
}

impl Engine {
    /// The carrier at the end with this address. The carrier's threads inherit the CPUs of the
    /// calling one.
    pub(super) fn start(carrier: Carrier, local: IpAddr) -> Result<Self> {
        let driver = match carrier {
            Carrier::Rails => {
                let request = RailRequest::on([LocalEnd::Address(local)]);
                let (_, rails) = placement::build(&this_machine()?, &request, "--orders")?;
                Driver::Rail(rails)
            }
            Carrier::ProgressThread => {
                let (thread, cpus) = ProgressThread::start().context("no thread with a tokio runtime")?;
                return Ok(Self { driver: Driver::Thread(thread), cpus });
            }
            Carrier::NoProgress => {
                let runtime = Builder::new_current_thread().enable_all().build();
                Driver::Program(runtime.context("no tokio runtime")?)
            }
        };
        let cpus = match &driver {
            Driver::Rail(rails) => rails[RailId(0)].runtime().cpus_now()?,
            _ => current_affinity()?,
        };
        Ok(Self { driver, cpus })
    }

    /// Starts a transfer. It makes progress in the background, if the carrier has any; otherwise
    /// the program takes it as far as the kernel lets it go without waiting.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        transfer: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> Transfer<'_, T> {
        let handle = match &self.driver {
            Driver::Rail(rails) => rails[RailId(0)].runtime().handle(),
            Driver::Thread(thread) => &thread.handle,
            Driver::Program(runtime) => {
                let mut transfer = Box::pin(transfer);
                let first = runtime.block_on(async {
                    // tokio does not try a socket that it considers unready, until epoll reports it
                    // after this yield.
                    yield_now().await;
                    poll_fn(|context| Poll::Ready(transfer.as_mut().poll(context))).await
                });
                return match first {
                    Poll::Ready(result) => Transfer::Ended(result),
                    Poll::Pending => Transfer::Deferred(runtime, transfer),
                };
            }
        };
        let (done, result) = mpsc::sync_channel(1);
        handle.spawn(async move { done.send(transfer.await) });
        Transfer::Started(result)
    }

    /// Carries a transfer out.
    pub(super) fn run<T: Send + 'static>(
        &self,
        transfer: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        self.begin(transfer).wait()
    }

    /// The opener of this carrier's connections.
    pub(super) fn opener(&self) -> Opener {
        match &self.driver {
            Driver::Rail(rails) => Opener::Rails(rails.clone()),
            Driver::Thread(_) | Driver::Program(_) => Opener::Tcp,
        }
    }
}

impl<T> Transfer<'_, T> {
    /// Waits for the transfer's end.
    pub(super) fn wait(self) -> io::Result<T> {
        match self {
            Self::Started(result) => result.recv().map_err(|_| io::Error::other("the task of a transfer panicked"))?,
            Self::Ended(result) => result,
            Self::Deferred(runtime, transfer) => runtime.block_on(transfer),
        }
    }
}

impl Opener {
    /// Listens at an address, with a port that the kernel chooses, and prints it to stderr.
    pub(super) async fn listen(self, local: IpAddr) -> io::Result<Acceptor> {
        let address = SocketAddr::new(local, 0);
        let acceptor = match self {
            Self::Rails(rails) => {
                let bound = MultiRailListener::bind(&rails, &[address][..], &options()).await;
                Acceptor::Rails(bound.map_err(io::Error::other)?)
            }
            Self::Tcp => Acceptor::Tcp(TcpListener::bind(address).await?),
        };
        match &acceptor {
            Acceptor::Rails(listener) => say_listening(listener.local_addrs()),
            Acceptor::Tcp(listener) => say_listening(&[listener.local_addr()?.into()]),
        }
        Ok(acceptor)
    }

    pub(super) async fn connect(self, remote: SocketAddr) -> io::Result<Wire> {
        match self {
            Self::Rails(rails) => {
                let opened = MultiRailStream::connect(&rails, remote, &options()).await;
                Ok(Wire::Rails(Box::new(opened.map_err(io::Error::other)?)))
            }
            Self::Tcp => Wire::tcp(TcpStream::connect(remote).await?),
        }
    }
}

impl Acceptor {
    /// The next connection; an error if none comes within [`PATIENCE`].
    pub(super) async fn accept(&self) -> io::Result<Wire> {
        let accept = async {
            match self {
                Self::Rails(listener) => {
                    let accepted = listener.accept().await;
                    Ok(Wire::Rails(Box::new(accepted.map_err(io::Error::other)?)))
                }
                Self::Tcp(listener) => Wire::tcp(listener.accept().await?.0),
            }
        };
        let in_time = timeout(PATIENCE, accept).await;
        in_time.unwrap_or_else(|_| {
            let error = format!("the other end opened no connection within {PATIENCE:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, error))
        })
    }
}

impl Wire {
    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Sends a message, a stream without copying it.
    pub(super) async fn send(&mut self, message: Bytes) -> io::Result<()> {
        match self {
            Self::Rails(stream) => Ok(stream.write_bytes(message).await?),
            Self::Tcp(stream) => stream.write_all(&message).await,
        }
    }

    /// Receives a message of this length into the program's buffer.
    pub(super) async fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Rails(stream) => stream.read_exact(message).await?,
            Self::Tcp(stream) => stream.read_exact(message).await?,
        };
        Ok(())
    }

    /// Congestion control, as read from the sockets.
    pub(super) fn congestion_control(&self) -> io::Result<Vec<String>> {
        match self {
            Self::Rails(stream) => {
                let lanes = stream.stats().lanes.into_iter();
                Ok(lanes.filter_map(|lane| lane.transport?.congestion).collect())
            }
            Self::Tcp(stream) => {
                let name = SockRef::from(stream).tcp_congestion()?;
                Ok(vec![String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()])
            }
        }
    }

    /// Ends the sending side. A stream then waits for the peer's end too; a TCP flow does not.
    pub(super) async fn close(self) -> io::Result<()> {
        match self {
            Self::Rails(stream) => stream.close().await.map(drop),
            Self::Tcp(mut stream) => stream.shutdown().await,
        }
    }
}

impl ProgressThread {
    /// Starts the thread, and gives its CPUs as read back.
    fn start() -> Result<(Self, CpuSet)> {
        let (report, started) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let built = current_affinity().map_err(anyhow::Error::from).and_then(|cpus| {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                Ok((runtime, cpus))
            });
            match built {
                Ok((runtime, cpus)) => {
                    let _ = report.send(Ok((runtime.handle().clone(), cpus)));
                    // The thread ends when `stop` is dropped.
                    let _ = runtime.block_on(stopped);
                }
                Err(error) => drop(report.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(run)?;
        let (handle, cpus) = started.recv().context("it panicked")??;
        Ok((Self { handle, stop: Some(stop), thread: Some(thread) }, cpus))
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of a task ends the task alone.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn options() -> StreamOptions {
    StreamOptions::new(Security::insecure())
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rails => "rails",
            Self::ProgressThread => "tokio TCP, progress thread",
            Self::NoProgress => "tokio TCP, none in the background",
        })
    }
}

/// The peer opens its connection within this time.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::Ipv4Addr,
    };

    #[test]
    fn a_start_hands_bytes_to_the_kernel() {
        let local = Ipv4Addr::LOCALHOST.into();
        let engine = Engine::start(Carrier::NoProgress, local).unwrap();
        let listener = std::net::TcpListener::bind((local, 0)).unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        // tokio does not know yet that the socket is writable.
        let mut wire = engine.run(async { Wire::tcp(TcpStream::from_std(stream)?) }).unwrap();
        for message in [*b"one", *b"two"] {
            let transfer = engine.begin(async move {
                wire.send(Bytes::copy_from_slice(&message)).await?;
                wire.receive(&mut [0]).await?;
                Ok(wire)
            });
            assert!(matches!(transfer, Transfer::Deferred(..)));
            let mut arrived = [0; 3];
            peer.read_exact(&mut arrived).expect("they are there before anybody waits");
            assert_eq!(arrived, message);
            peer.write_all(b"a").unwrap();
            wire = transfer.wait().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_comes_is_an_error() {
        let acceptor = Opener::Tcp.listen(Ipv4Addr::LOCALHOST.into()).await.unwrap();
        let error = acceptor.accept().await.err().expect("nobody connects");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("within 20s"), "{error}");
    }
}
