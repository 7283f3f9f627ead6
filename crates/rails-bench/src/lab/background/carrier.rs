//! Carriers of messages, and the threads on which their transfers make progress.

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
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::mpsc,
    thread::{self, JoinHandle},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

/// A carrier of messages between two programs that compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Carrier {
    /// A stream over one rail; transfers are tasks on the rail
    Rails,
    /// A plain tokio TCP flow; transfers are tasks on a runtime with a thread of its own
    ProgressThread,
    /// A plain tokio TCP flow; a transfer makes progress only while the program waits for it
    NoProgress,
}

/// A carrier at one end.
pub(super) struct Engine {
    driver: Driver,
    /// The CPUs of the thread on which transfers make progress, as read back.
    pub(super) cpus: CpuSet,
}

/// What drives the transfers.
enum Driver {
    Rail(Rails),
    Thread(ProgressThread),
    /// The program, while it waits.
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
    Deferred(&'e Runtime, Pin<Box<dyn Future<Output = io::Result<T>>>>),
}

/// A connection.
pub(super) enum Wire {
    Rails(Box<MultiRailStream>),
    Tcp(TcpStream),
}

/// Where connections come in.
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
    /// The carrier at the end with this address. Its threads inherit the CPUs of this one.
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
            Driver::Rail(rails) => rails[RailId(0)].runtime().placement().cpus.got().clone(),
            _ => current_affinity()?,
        };
        Ok(Self { driver, cpus })
    }

    /// Starts a transfer. It makes progress in the background, if the carrier has any.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        transfer: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> Transfer<'_, T> {
        let handle = match &self.driver {
            Driver::Rail(rails) => rails[RailId(0)].runtime().handle(),
            Driver::Thread(thread) => &thread.handle,
            Driver::Program(runtime) => return Transfer::Deferred(runtime, Box::pin(transfer)),
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

    /// Opens its connections.
    pub(super) fn opener(&self) -> Opener {
        match &self.driver {
            Driver::Rail(rails) => Opener::Rails(rails.clone()),
            Driver::Thread(_) | Driver::Program(_) => Opener::Tcp,
        }
    }
}

impl<T> Transfer<'_, T> {
    /// Waits for its end.
    pub(super) fn wait(self) -> io::Result<T> {
        match self {
            Self::Started(result) => result.recv().map_err(|_| io::Error::other("the task of a transfer panicked"))?,
            Self::Deferred(runtime, transfer) => runtime.block_on(transfer),
        }
    }
}

impl Opener {
    /// Listens at an address, with a port that the kernel chooses, and says where on stderr.
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
    pub(super) async fn accept(&self) -> io::Result<Wire> {
        match self {
            Self::Rails(listener) => {
                let accepted = listener.accept().await;
                Ok(Wire::Rails(Box::new(accepted.map_err(io::Error::other)?)))
            }
            Self::Tcp(listener) => Wire::tcp(listener.accept().await?.0),
        }
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

    /// Congestion control as the sockets say it.
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

    /// Ends it, once the peer does too.
    pub(super) async fn close(self) -> io::Result<()> {
        match self {
            Self::Rails(stream) => stream.close().await.map(drop),
            Self::Tcp(mut stream) => stream.shutdown().await,
        }
    }
}

impl ProgressThread {
    /// Starts it, and gives its CPUs as read back.
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
                    // It ends when it is told to, or with the thread that would tell it.
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
