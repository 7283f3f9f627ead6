//! The task that drives a connection: moves bytes between its sockets, its protocol and its callers' memory, and keeps
//! the time. It decides nothing.

use super::{
    ahead::HelperStats,
    bursts::Bursts,
    byte_stream::Waiting,
    control::ControlChannel,
    error::ConnectionError,
    outgoing::{Delivery, Outgoing},
    scatter::{Scatter, ScatterStats},
};
use crate::proto::connection::{ConnectionProtocol, Event, Failure};
use rails_net::{Timer, UdpSocket};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// A connection, as its driver and its callers share it.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the callers that wait for a message or for the end.
    pub(super) changed: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) protocol: ConnectionProtocol,
    pub(super) outgoing: Outgoing,
    /// The last caller is gone.
    pub(super) is_dropped: bool,
    /// The end of the connection; an error if messages are missing.
    pub(super) end: Option<Result<(), ConnectionError>>,
    pub(super) scatter: ScatterStats,
    pub(super) helpers: HelperStats,
    pub(super) waiting: Waiting,
    waker: Option<Waker>,
}

/// The future of a connection's driver. Dropping it ends the connection.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) segments: UdpSocket,
    pub(super) control: ControlChannel,
    pub(super) timer: Timer,
    pub(super) scatter: Scatter,
    pub(super) bursts: Bursts,
}

impl Shared {
    pub(super) fn new(protocol: ConnectionProtocol) -> Self {
        let state = State {
            protocol,
            outgoing: Outgoing::default(),
            is_dropped: false,
            end: None,
            scatter: ScatterStats::default(),
            helpers: HelperStats::default(),
            waiting: Waiting::default(),
            waker: None,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the callers of news, after a change by the driver.
    fn announce(&self, mut state: MutexGuard<'_, State>) {
        let woken = state.take_woken();
        // They may call back at once.
        drop(state);
        woken.into_iter().flatten().for_each(Waker::wake);
        self.changed.notify_waiters();
    }

    /// Changes the state, and has the driver look at it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    fn finish(&mut self, end: Result<(), ConnectionError>) {
        if self.end.is_none() {
            if end.is_err() {
                self.protocol.stop();
            }
            self.end = Some(end);
            self.outgoing.clear();
        }
    }

    /// Tells of the protocol's news.
    fn tell(&mut self, event: Event, peer: SocketAddr) {
        match event {
            Event::Delivered { message } => self.outgoing.settle(message, Delivery::Arrived),
            Event::Expired { message } => self.outgoing.settle(message, Delivery::Expired),
            Event::Refused { message } => self.outgoing.settle(message, Delivery::Refused),
            Event::Closed => self.finish(Ok(())),
            Event::Failed(Failure::Silent(_)) if self.protocol.stats().0.acknowledged_bytes == 0 => {
                self.finish(Err(ConnectionError::Blocked { remote: peer }));
            }
            Event::Failed(failure) => self.finish(Err(failure.into())),
            // Callers look for their messages after each round.
            Event::Arrival(_) | Event::Finished { .. } => {}
        }
    }
}

impl Driver {
    /// One round: all that can be done now. Returns whether another round may find more.
    fn work(&mut self, state: &mut State) -> Result<bool, ConnectionError> {
        let now = Instant::now();
        let mut is_worthwhile = false;
        for _ in 0..TRAINS {
            match self.scatter.receive(&self.segments, now, &mut state.protocol) {
                Ok(()) => is_worthwhile = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The kernel's want of memory, perhaps: the datagram is lost, as one on the way.
                Err(_) => break,
            }
        }
        self.scatter.handle_waiting(now, &mut state.protocol);
        is_worthwhile |= self.control.read(state, now)?;
        state.protocol.handle_timeout(now);
        is_worthwhile |= self.bursts.transmit(&self.segments, self.scatter.peer.get(), state, now);
        self.control.write(state, now)?;
        while let Some(event) = state.protocol.poll_event() {
            state.tell(event, self.scatter.peer.get());
        }
        state.scatter = self.scatter.stats;
        state.helpers = self.bursts.helper_stats() + self.scatter.helper_stats();
        Ok(is_worthwhile)
    }

    /// Has the task woken when there is more to do. Returns whether there is already.
    fn wait(&mut self, state: &State, context: &mut Context<'_>) -> io::Result<bool> {
        let mut is_ready = false;
        let mut look = |poll: Poll<io::Result<()>>| match poll {
            Poll::Ready(result) => result.map(|()| is_ready = true),
            Poll::Pending => Ok(()),
        };
        look(self.segments.poll_receive_ready(context))?;
        look(self.control.poll_ready(context))?;
        let is_blocked = self.bursts.is_blocked();
        if is_blocked {
            look(self.segments.poll_send_ready(context))?;
        }
        let now = Instant::now();
        let mut due = state.protocol.poll_timeout();
        if is_blocked || self.control.is_blocked() {
            // The protocol would have more to send, if the sockets took it.
            due = due.map(|due| due.max(now + Duration::from_millis(1)));
        }
        self.timer.set(now, due)?;
        look(self.timer.poll(context))?;
        Ok(is_ready)
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        let shared = Arc::clone(&driver.shared);
        let mut state = shared.lock();
        for _ in 0..ROUNDS {
            let worked = driver.work(&mut state);
            let is_worthwhile = match worked {
                Ok(is_worthwhile) => is_worthwhile,
                Err(error) => {
                    state.finish(Err(error));
                    false
                }
            };
            if state.end.is_some() || state.is_dropped {
                shared.announce(state);
                return Poll::Ready(());
            }
            if is_worthwhile {
                continue;
            }
            state.waker = Some(context.waker().clone());
            match driver.wait(&state, context) {
                Ok(true) => {}
                Ok(false) => {
                    shared.announce(state);
                    return Poll::Pending;
                }
                Err(error) => state.finish(Err(ConnectionError::Control(error.kind()))),
            }
        }
        shared.announce(state);
        // Other tasks of the runtime come in between.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.finish(Err(ConnectionError::Stopped));
        self.shared.announce(state);
    }
}

/// The most trains that are received before something else is done.
const TRAINS: usize = 16;
/// The most rounds before other tasks have their turn.
const ROUNDS: usize = 8;
