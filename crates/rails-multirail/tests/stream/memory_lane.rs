//! A transport other than TCP: lanes through the memory of the test, without figures.

use bytes::{Buf, Bytes};
use rails_net::{
    AcceptError, Acceptor, ConnectError, Connecting, IncomingLane, Lane, ListenError, LocalEnd, StatsError, Transport,
    TransportStats,
};
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One end of a lane: its outgoing and its incoming flow.
#[derive(Debug)]
pub(crate) struct MemoryLane {
    local: SocketAddr,
    peer: SocketAddr,
    out: Pipe,
    into: Pipe,
    /// Counts the ends that are not dropped.
    open: Arc<Registrations>,
}

/// The calls that have a runtime report a lane's arrivals.
#[derive(Debug, Default)]
struct Registrations {
    count: AtomicUsize,
    are_refused: AtomicBool,
    /// Whether a lane that is asked for its figures panics.
    figures_panic: AtomicBool,
}

/// One direction of a lane.
#[derive(Debug, Clone, Default)]
struct Pipe(Arc<Mutex<Flow>>);

#[derive(Debug, Default)]
struct Flow {
    under_way: VecDeque<Bytes>,
    length: usize,
    /// The number of bytes that the flow still takes, if that is bounded.
    left: Option<usize>,
    /// Bytes that arrive repeatedly behind all sent ones.
    flood: Option<Bytes>,
    closed: bool,
    broken: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

/// A transport of such lanes, for listeners and initiators in one process.
#[derive(Debug, Clone)]
pub(crate) struct MemoryNetwork(Arc<Links>);

#[derive(Debug)]
struct Links {
    /// The listeners, by address.
    listening: Mutex<BTreeMap<SocketAddr, UnboundedSender<MemoryLane>>>,
    /// The time to connect a lane.
    delay: Duration,
    /// The number of bytes that a lane takes in all, if that is bounded.
    most: Option<usize>,
    /// The first lane, for the test to break.
    first: OnceLock<[Pipe; 2]>,
    made: AtomicUsize,
    /// Every end of a lane holds a clone.
    open: Arc<Registrations>,
}

#[derive(Debug)]
struct MemoryAcceptor {
    local: SocketAddr,
    incoming: UnboundedReceiver<MemoryLane>,
}

impl MemoryNetwork {
    pub(crate) fn new(delay: Duration) -> Self {
        Self::taking(delay, None)
    }

    /// As `new`, with lanes that take at most `most` bytes from the dialling end.
    pub(crate) fn taking(delay: Duration, most: Option<usize>) -> Self {
        let (listening, first, made, open) = Default::default();
        Self(Arc::new(Links { listening, delay, most, first, made, open }))
    }

    /// Breaks the first lane at once.
    pub(crate) fn break_first(&self) {
        for pipe in self.0.first.get().expect("a lane was made") {
            pipe.update(|flow| flow.broken = true);
        }
    }

    /// Makes these bytes arrive without end at the dialling end of the first lane.
    pub(crate) fn flood_first(&self, bytes: Bytes) {
        let [_, into] = self.0.first.get().expect("a lane was made");
        into.update(|flow| flow.flood = Some(bytes));
    }

    /// Makes every acceptor fail with a permanent error.
    pub(crate) fn cut_off(&self) {
        self.0.listening.lock().unwrap().clear();
    }

    /// The number of times that a runtime was asked to report a lane's arrivals.
    pub(crate) fn registrations(&self) -> usize {
        self.0.open.count.load(SeqCst)
    }

    /// Refuses further registrations.
    pub(crate) fn refuse_registrations(&self) {
        self.0.open.are_refused.store(true, SeqCst);
    }

    /// Makes every lane panic that is asked for its figures.
    pub(crate) fn panic_for_figures(&self) {
        self.0.open.figures_panic.store(true, SeqCst);
    }

    /// The number of ends of lanes that are not dropped.
    pub(crate) fn open(&self) -> usize {
        Arc::strong_count(&self.0.open) - 1
    }

    /// The number of lanes made.
    pub(crate) fn made(&self) -> usize {
        self.0.made.load(SeqCst)
    }
}

impl Transport for MemoryNetwork {
    fn scheme(&self) -> &'static str {
        "memory"
    }

    fn connect<'a>(&'a self, local: &'a LocalEnd, remote: SocketAddr) -> Connecting<'a> {
        let ip = local.address().unwrap_or(remote.ip());
        Box::pin(async move {
            tokio::time::sleep(self.0.delay).await;
            let (near, far) = lanes(ip, remote, &self.0.open);
            near.out.lock().left = self.0.most;
            let pipes = [near.out.clone(), near.into.clone()];
            let listening = self.0.listening.lock().unwrap().get(&remote).cloned();
            if listening.is_none_or(|listening| listening.send(far).is_err()) {
                let source = io::ErrorKind::ConnectionRefused.into();
                return Err(ConnectError::Refused { remote, local: local.clone(), source });
            }
            if self.0.made.fetch_add(1, SeqCst) == 0 {
                self.0.first.set(pipes).expect("it is the first");
            }
            Ok(Arc::new(near) as Arc<dyn Lane>)
        })
    }

    fn listen(&self, mut address: SocketAddr) -> Result<Box<dyn Acceptor>, ListenError> {
        let (sender, incoming) = unbounded_channel();
        let mut listening = self.0.listening.lock().unwrap();
        if address.port() == 0 {
            address.set_port(1 + listening.len() as u16);
        }
        if listening.insert(address, sender).is_some() {
            return Err(ListenError::Other { local: address, source: "the address is in use".into() });
        }
        Ok(Box::new(MemoryAcceptor { local: address, incoming }))
    }
}

impl Acceptor for MemoryAcceptor {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Result<IncomingLane, AcceptError>> {
        let Some(lane) = ready!(self.incoming.poll_recv(context)) else {
            return Poll::Ready(Err(AcceptError::Other { local: self.local, source: "the network is gone".into() }));
        };
        let (local, peer) = (lane.local, lane.peer);
        Poll::Ready(Ok(IncomingLane::new(local, peer, move || Ok(Arc::new(lane)))))
    }
}

fn lanes(local: IpAddr, remote: SocketAddr, open: &Arc<Registrations>) -> (MemoryLane, MemoryLane) {
    let (there, back) = (Pipe::default(), Pipe::default());
    let local = SocketAddr::new(local, 1);
    let near = MemoryLane { local, peer: remote, out: there.clone(), into: back.clone(), open: open.clone() };
    (near, MemoryLane { local: remote, peer: local, out: back, into: there, open: open.clone() })
}

impl Lane for MemoryLane {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize> {
        let mut room = match self.out.open()?.room() {
            0 => return Err(io::ErrorKind::WouldBlock.into()),
            room => room,
        };
        let control = Bytes::copy_from_slice(control);
        let mut taken = 0;
        self.out.update(|flow| {
            for bytes in [&control].into_iter().chain(payload) {
                let some = bytes.slice(..bytes.len().min(room));
                room -= some.len();
                taken += some.len();
                flow.length += some.len();
                flow.left = flow.left.map(|left| left - some.len());
                flow.under_way.push_back(some);
            }
        });
        Ok(taken)
    }

    fn poll_submit_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut flow = self.out.lock();
        if flow.room() > 0 || flow.broken {
            return Poll::Ready(Ok(()));
        }
        flow.sender = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_submit_ready(context)
    }

    fn close_write(&self) -> io::Result<()> {
        drop(self.out.open()?);
        self.out.update(|flow| flow.closed = true);
        Ok(())
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut flow = self.into.open()?;
        if let (0, Some(flood)) = (flow.length, flow.flood.clone()) {
            flow.length = flood.len();
            flow.under_way.push_back(flood);
        }
        if flow.length == 0 && !flow.closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        drop(flow);
        let mut received = 0;
        self.into.update(|flow| {
            for buffer in buffers {
                let mut filled = 0;
                while filled < buffer.len() && flow.length > 0 {
                    let bytes = flow.under_way.front_mut().expect("so many bytes are under way");
                    let count = bytes.len().min(buffer.len() - filled);
                    buffer[filled..filled + count].copy_from_slice(&bytes[..count]);
                    bytes.advance(count);
                    if bytes.is_empty() {
                        flow.under_way.pop_front();
                    }
                    filled += count;
                    flow.length -= count;
                }
                received += filled;
            }
        });
        Ok(received)
    }

    fn poll_receive_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut flow = self.into.lock();
        if flow.length > 0 || flow.flood.is_some() || flow.closed || flow.broken {
            return Poll::Ready(Ok(()));
        }
        flow.receiver = Some(context.waker().clone());
        Poll::Pending
    }

    fn stats(&self) -> Result<TransportStats, StatsError> {
        Ok(TransportStats::default())
    }

    fn detailed_stats(&self) -> Result<TransportStats, StatsError> {
        assert!(!self.open.figures_panic.load(SeqCst), "a transport that panics");
        self.stats()
    }

    fn register_here(&self) -> io::Result<()> {
        self.open.count.fetch_add(1, SeqCst);
        if self.open.are_refused.load(SeqCst) { Err(io::Error::other("there is no descriptor left")) } else { Ok(()) }
    }
}

impl Flow {
    fn room(&self) -> usize {
        CAPACITY.saturating_sub(self.length).min(self.left.unwrap_or(usize::MAX))
    }
}

impl Drop for MemoryLane {
    fn drop(&mut self) {
        self.out.update(|flow| flow.closed = true);
        self.into.update(|flow| flow.broken = true);
    }
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.0.lock().unwrap()
    }

    /// The flow, or an error if it is broken.
    fn open(&self) -> io::Result<MutexGuard<'_, Flow>> {
        let flow = self.lock();
        if flow.broken { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(flow) }
    }

    /// Changes the flow, and wakes the tasks that wait for a change.
    fn update(&self, act: impl FnOnce(&mut Flow)) {
        let mut flow = self.lock();
        act(&mut flow);
        let wakers = [flow.receiver.take(), flow.sender.take()];
        drop(flow);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// The most bytes under way.
const CAPACITY: usize = 100_000;
