//! Wires that delay messages, end, and change them.

use crate::{
    library::{Library, Peer},
    link::{LinkReceiver, LinkSender, serve},
    node::Node,
    wire::BlockHeader,
};
use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{
        Notify,
        mpsc::{Receiver, Sender, channel},
    },
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// A connection, which both ends see end.
#[derive(Debug)]
struct Connection {
    is_cut: AtomicBool,
    cut: Notify,
    /// The reader takes nothing until then.
    stalled_until: Mutex<Instant>,
}

#[derive(Debug, Clone)]
pub(crate) struct WireSender {
    connection: Arc<Connection>,
    messages: Sender<(Instant, Bytes)>,
    delay: Duration,
    /// Changes a byte of a block now and then.
    damage: Option<Arc<Mutex<ChaCha8Rng>>>,
}

#[derive(Debug)]
pub(crate) struct WireReceiver {
    connection: Arc<Connection>,
    messages: Receiver<(Instant, Bytes)>,
}

/// A node that serves, as another one dials it.
#[derive(Clone)]
pub(crate) struct SimulatedNode(Arc<NodeState>);

struct NodeState {
    node: Arc<Node>,
    library: Arc<Library>,
    delay: Duration,
    is_down: AtomicBool,
    damage: Option<Arc<Mutex<ChaCha8Rng>>>,
    connections: Mutex<Vec<(Arc<Connection>, JoinHandle<String>)>>,
}

impl SimulatedNode {
    /// A node that answers after that time. A node that lies changes bytes of its messages.
    pub(super) fn new(library: &Arc<Library>, delay: Duration, lies: Option<u64>) -> Self {
        let damage = lies.map(|seed| Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))));
        Self(Arc::new(NodeState {
            node: Arc::clone(library.node()),
            library: Arc::clone(library),
            delay,
            is_down: AtomicBool::new(false),
            damage,
            connections: Mutex::default(),
        }))
    }

    /// A link to the node; `None` while it is down.
    pub(crate) async fn dial(&self) -> Option<(LinkSender, LinkReceiver)> {
        tokio::time::sleep(self.0.delay * 2).await;
        if self.0.is_down.load(Ordering::Relaxed) {
            return None;
        }
        let connection = Arc::new(Connection {
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
            stalled_until: Mutex::new(Instant::now()),
        });
        let wire = |damage: Option<Arc<_>>| {
            let (sender, receiver) = channel(MAX_ON_THEIR_WAY);
            let sender =
                WireSender { connection: Arc::clone(&connection), messages: sender, delay: self.0.delay, damage };
            let receiver = WireReceiver { connection: Arc::clone(&connection), messages: receiver };
            (LinkSender::Simulated(sender), LinkReceiver::Simulated(receiver))
        };
        let ((there, there_received), (back, back_received)) = (wire(None), wire(self.0.damage.clone()));
        let (node, library) = (Arc::clone(&self.0.node), Arc::clone(&self.0.library));
        let served = tokio::spawn(async move { serve(&node, &library, Peer::far(None), back, there_received).await });
        self.0.connections.lock().unwrap().push((connection, served));
        Some((there, back_received))
    }

    /// Ends every link.
    pub(super) fn cut(&self) {
        for (connection, _) in self.0.connections.lock().unwrap().iter() {
            connection.is_cut.store(true, Ordering::Relaxed);
            connection.cut.notify_waiters();
        }
    }

    /// No link carries a message for that time.
    pub(super) fn stall(&self, time: Duration) {
        for (connection, _) in self.0.connections.lock().unwrap().iter() {
            *connection.stalled_until.lock().unwrap() = Instant::now() + time;
        }
    }

    /// Kills the node, or brings it back with the memory that it had.
    pub(super) fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::Relaxed);
        if is_down {
            self.cut();
            for (_, served) in self.0.connections.lock().unwrap().drain(..) {
                served.abort();
            }
        }
    }
}

impl Connection {
    fn ended(&self) -> io::Result<()> {
        if self.is_cut.load(Ordering::Relaxed) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl WireSender {
    pub(crate) async fn send(&self, message: Bytes) -> io::Result<()> {
        self.connection.ended()?;
        let mut message = message;
        if let Some(damage) = &self.damage {
            let mut random = damage.lock().unwrap();
            // Of a lie about the array itself nobody could know.
            if message.len() > BlockHeader::BYTES && message[0] == 3 && random.random_bool(0.05) {
                let mut bytes = message.to_vec();
                let at = random.random_range(BlockHeader::BYTES..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8_u8);
                message = bytes.into();
            }
        }
        let cut = self.connection.cut.notified();
        self.connection.ended()?;
        tokio::select! {
            biased;
            () = cut => Err(io::ErrorKind::ConnectionReset.into()),
            sent = self.messages.send((Instant::now() + self.delay, message)) => {
                sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

impl WireReceiver {
    pub(crate) async fn recv(&mut self) -> io::Result<Option<Bytes>> {
        let cut = self.connection.cut.notified();
        self.connection.ended()?;
        let arrival = async {
            let stalled_until = *self.connection.stalled_until.lock().unwrap();
            sleep_until(stalled_until).await;
            let (at, message) = self.messages.recv().await?;
            sleep_until(at).await;
            Some(message)
        };
        tokio::select! {
            biased;
            () = cut => Err(io::ErrorKind::ConnectionReset.into()),
            message = arrival => Ok(message),
        }
    }
}

/// The messages of one direction that are sent and not received.
const MAX_ON_THEIR_WAY: usize = 16;
