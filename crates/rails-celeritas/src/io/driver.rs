//! The task that drives a connection: moves bytes between its sockets, its protocol and its
//! callers' memory, and keeps the time. It decides nothing: [`Round`] has the order of its work.

use super::{
    bursts::Bursts,
    error::ConnectionError,
    outgoing::Outgoing,
    scatter::Scatter,
    shared::{ConnectionShared, ConnectionState},
};
use crate::proto::{
    connection::ConnectionProtocol,
    control::Broken,
    hold_off::HoldOff,
    round::{Io, Round},
};
use rails_net::{Timer, UdpSocket};
use std::{
    future::Future,
    io,
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

/// The future of a connection's driver. Dropping it ends the connection.
pub(super) struct ConnectionDriver {
    pub(super) shared: Arc<ConnectionShared>,
    pub(super) sockets: Sockets,
    pub(super) round: Round,
    pub(super) timer: Timer,
}

/// The sockets of a connection, with the memory of segments that are on their way through them.
pub(super) struct Sockets {
    pub(super) segments: UdpSocket,
    pub(super) control: TcpStream,
    pub(super) scatter: Scatter,
    pub(super) bursts: Bursts,
    pub(super) hold_off: HoldOff,
}

/// The [`Io`] of one round: the sockets, and the messages whose bytes leave.
struct Moving<'a> {
    sockets: &'a mut Sockets,
    outgoing: &'a Outgoing,
}

impl Io for Moving<'_> {
    fn receive(&mut self, now: Instant, protocol: &mut ConnectionProtocol) -> bool {
        let Sockets { segments, scatter, hold_off, .. } = &mut *self.sockets;
        let (trains, bytes) = (scatter.trains, scatter.bytes);
        let is_open = |_: &usize| match scatter.receive(segments, now, protocol) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            // The kernel's want of memory, perhaps: the datagram is lost, as one on the way.
            Err(_) => false,
        };
        let calls = (0..CALLS).take_while(is_open).count();
        scatter.handle_waiting(now, protocol);
        hold_off.received(now, scatter.trains - trains, scatter.bytes - bytes, protocol.receiver().rtt());
        calls == CALLS
    }

    fn transmit(&mut self, now: Instant, protocol: &mut ConnectionProtocol) -> bool {
        let Sockets { segments, scatter, bursts, .. } = &mut *self.sockets;
        bursts.transmit(segments, scatter.peer.get(), protocol, self.outgoing, now)
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.sockets.control.try_read(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sockets.control.try_write(bytes)
    }

    fn shut(&mut self) -> io::Result<()> {
        socket2::SockRef::from(&self.sockets.control).shutdown(Shutdown::Write)
    }

    fn peer_host_lives(&mut self, within: Duration) -> bool {
        rails_net::is_answered(&self.sockets.control, within).unwrap_or(false)
    }
}

impl ConnectionDriver {
    /// One round: all that can be done now. Returns whether another round may find more.
    fn work(&mut self, state: &mut ConnectionState) -> Result<bool, Broken> {
        let mut moving = Moving { sockets: &mut self.sockets, outgoing: &state.outgoing };
        let worked = self.round.run(Instant::now(), &mut state.protocol, &mut moving);
        let Sockets { scatter, bursts, .. } = &self.sockets;
        while let Some(event) = state.protocol.poll_event() {
            state.tell(event, scatter.peer.get());
        }
        state.scatter = scatter.stats;
        state.helpers = bursts.helper_stats() + scatter.helper_stats();
        worked
    }

    /// Has the task woken when there is more to do. Returns whether there is already.
    fn wait(&mut self, state: &ConnectionState, context: &mut Context<'_>) -> io::Result<bool> {
        let mut held = self.sockets.hold_off.until();
        // A driver that no segment wakes looks again at times.
        if self.sockets.segments.watch_arrivals(held.is_none()).is_err() {
            held = Some(Instant::now() + UNWATCHED);
        }
        let mut is_ready = false;
        let mut look = |poll: Poll<io::Result<()>>| match poll {
            Poll::Ready(result) => result.map(|()| is_ready = true),
            Poll::Pending => Ok(()),
        };
        let (sockets, channel) = (&self.sockets, self.round.control());
        look(sockets.segments.poll_receive_ready(context))?;
        if channel.is_open() {
            look(sockets.control.poll_read_ready(context))?;
        }
        if channel.has_unsent() {
            look(sockets.control.poll_write_ready(context))?;
        }
        let is_blocked = sockets.bursts.is_blocked();
        if is_blocked {
            look(sockets.segments.poll_send_ready(context))?;
        }
        let due = self.round.poll_timeout(&state.protocol, is_blocked).into_iter().chain(held).min();
        let now = Instant::now();
        if due.is_some_and(|due| due <= now) {
            return Ok(true);
        }
        self.timer.set(now, due)?;
        look(self.timer.poll(context))?;
        Ok(is_ready)
    }
}

impl Future for ConnectionDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        let shared = Arc::clone(&driver.shared);
        // Dropped without the lock.
        let mut waker = Some(context.waker().clone());
        let mut state = shared.lock();
        std::mem::swap(&mut state.waker, &mut waker);
        state.protocol.watch(context.waker());
        for _ in 0..ROUNDS {
            let worked = driver.work(&mut state);
            let is_worthwhile = worked.unwrap_or_else(|broken| {
                state.finish(Err(broken.into()));
                false
            });
            if state.protocol.is_over() {
                ConnectionShared::announce(state);
                return Poll::Ready(());
            }
            if is_worthwhile {
                continue;
            }
            match driver.wait(&state, context) {
                Ok(true) => {}
                Ok(false) => {
                    ConnectionShared::announce(state);
                    return Poll::Pending;
                }
                Err(error) => state.finish(Err(ConnectionError::Control(error.kind()))),
            }
        }
        ConnectionShared::announce(state);
        // Other tasks of the runtime come in between.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.finish(Err(ConnectionError::Stopped));
        ConnectionShared::announce(state);
    }
}

/// The most calls that receive before something else is done.
const CALLS: usize = 16;
/// How often a driver looks for segments, if the runtime cannot watch the socket.
const UNWATCHED: Duration = Duration::from_millis(1);
/// The most rounds before other tasks have their turn.
const ROUNDS: usize = 8;
