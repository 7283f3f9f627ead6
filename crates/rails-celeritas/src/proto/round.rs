//! One round of a driver: all that can be done at a time, in the order in which it has to be done.
//!
//! The driver of real sockets and the simulator of the tests run this code. Input comes first: a
//! timer judges only after everything that had come by then.

pub use super::io::Io;
use super::{
    connection::ConnectionProtocol,
    control::{Broken, ControlChannel},
};
use std::time::{Duration, Instant};

/// The rounds of a connection's driver.
#[derive(Debug, Default)]
pub struct Round {
    control: ControlChannel,
    /// When the last round began.
    ran_at: Option<Instant>,
    /// When the driver was to be woken after that round.
    asked: Option<Instant>,
}

impl Round {
    /// The rounds of a connection with that control channel.
    pub fn new(control: ControlChannel) -> Self {
        Self { control, ..Self::default() }
    }

    /// Does all that can be done now. Returns whether another round may find more at once.
    ///
    /// # Errors
    /// [`Broken`]. The protocol has stopped then.
    pub fn run(&mut self, now: Instant, protocol: &mut ConnectionProtocol, io: &mut impl Io) -> Result<bool, Broken> {
        self.work(now, protocol, io).inspect_err(|_| protocol.stop())
    }

    fn work(&mut self, now: Instant, protocol: &mut ConnectionProtocol, io: &mut impl Io) -> Result<bool, Broken> {
        self.ran_at = Some(now);
        let late = self.asked.take().map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        if late > LATE {
            // Before the input, whose times it concerns. A runtime that comes late may not know of all that
            // waits.
            protocol.handle_absence(now, late);
        }
        let has_segments = io.receive(now, protocol);
        let has_frames = self.control.read(now, protocol, io)?;
        if has_frames {
            protocol.handle_absence(now, Duration::ZERO);
        }
        if let Some(pause) = protocol.doubts_peer(now) {
            protocol.handle_peer_host(now, io.peer_host_lives(pause));
        }
        protocol.handle_timeout(now);
        let has_more = io.transmit(now, protocol);
        self.control.write(now, protocol, io)?;
        let is_worthwhile = has_segments || has_frames || has_more;
        self.asked = is_worthwhile.then_some(now);
        Ok(is_worthwhile)
    }

    /// When the next round is due, if nothing comes before. `is_blocked`: the socket for segments
    /// has not taken all.
    pub fn poll_timeout(&mut self, protocol: &ConnectionProtocol, is_blocked: bool) -> Option<Instant> {
        // The protocol would have more to send, if the sockets took it.
        let is_blocked = is_blocked || self.control.is_blocked();
        let pause = if is_blocked { BLOCKED_PAUSE } else { Duration::ZERO };
        // The time may have passed since the round, if the process was stopped in between.
        let earliest = self.ran_at.map(|ran| ran + pause);
        self.asked = protocol.poll_timeout().map(|due| earliest.map_or(due, |earliest| due.max(earliest)));
        self.asked
    }

    /// The control channel.
    pub fn control(&self) -> &ControlChannel {
        &self.control
    }
}

/// The least time between the rounds of timers while a socket takes nothing: it wakes the driver
/// when it does.
const BLOCKED_PAUSE: Duration = Duration::from_millis(1);
/// A driver that comes later by this than it wanted to was held up: the runtime's other tasks take
/// less.
const LATE: Duration = Duration::from_millis(100);
