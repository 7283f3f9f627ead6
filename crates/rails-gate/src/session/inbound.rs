//! Bytes from the peer on their way to the socket.
//!
//! Two write them: the session's receiver at once, if nothing waits, so that the connection's task
//! need not wake; and that task, once the socket has no room. Never do both at a time.

use super::{arrived::Arrived, flow::Violation};
use bytes::Bytes;
use std::task::Poll;

/// The bytes that wait, and who writes.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    arrived: Arrived,
    /// Somebody writes bytes that are no longer in `arrived`, so later ones have to wait there.
    is_writing: bool,
    /// The peer's direction has ended.
    has_ended: bool,
}

/// What becomes of bytes that arrive.
#[derive(Debug, PartialEq)]
pub(super) enum Arrival {
    /// The caller writes them, and [leaves](Inbound::leave) the rest.
    Write(Bytes),
    /// They wait for the connection's task, which is to be woken.
    Wake,
    /// They wait for the connection's task, which writes, and comes to them.
    Wait,
}

impl Inbound {
    /// Takes bytes that arrived; `has_socket` says whether the caller can write them.
    pub(super) fn arrive(&mut self, bytes: Bytes, has_socket: bool) -> Arrival {
        if has_socket && !self.is_writing && self.arrived.is_empty() {
            self.is_writing = true;
            return Arrival::Write(bytes);
        }
        self.arrived.push_back(bytes);
        if self.is_writing { Arrival::Wait } else { Arrival::Wake }
    }

    /// Takes the rest of bytes that the caller was to write, for which the socket had no room. Says
    /// whether the connection's task is to be woken.
    pub(super) fn leave(&mut self, rest: Bytes) -> bool {
        self.is_writing = false;
        if !rest.is_empty() {
            self.arrived.push_front(rest);
        }
        !self.arrived.is_empty() || self.has_ended
    }

    /// Notes the end of the peer's direction.
    ///
    /// # Errors
    /// It has ended before.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        if std::mem::replace(&mut self.has_ended, true) { Err(Violation::BehindTheEnd) } else { Ok(()) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The bytes that the connection's task writes next; `None` at the end. Once they are all
    /// written, it [says so](Self::written).
    pub(super) fn next(&mut self) -> Poll<Option<Bytes>> {
        // The session's receiver writes; it wakes the task if that leaves anything to do.
        if self.is_writing {
            return Poll::Pending;
        }
        match self.arrived.pop_front() {
            Some(bytes) => {
                self.is_writing = true;
                Poll::Ready(Some(bytes))
            }
            None if self.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Notes that the connection's task has written the bytes that it was given.
    pub(super) fn written(&mut self) {
        self.is_writing = false;
    }

    /// Takes away what waits.
    pub(super) fn throw_away(&mut self) -> Arrived {
        std::mem::take(&mut self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// The session's receiver.
    enum Receiver {
        Reads,
        Writes(Bytes),
    }

    /// The connection's task. It runs only when it is woken.
    enum Task {
        Asks,
        Writes(Bytes),
        Sleeps,
        Done,
    }

    struct World {
        inbound: Inbound,
        receiver: Receiver,
        task: Task,
        /// The task was woken since it last asked.
        is_woken: bool,
        messages: std::vec::IntoIter<Bytes>,
        is_attached: bool,
        socket: Vec<u8>,
    }

    impl World {
        /// A step of the session's receiver; `false` if it has none.
        fn receive(&mut self, room: usize) -> bool {
            match std::mem::replace(&mut self.receiver, Receiver::Reads) {
                Receiver::Reads => match self.messages.next() {
                    Some(bytes) => match self.inbound.arrive(bytes, self.is_attached) {
                        Arrival::Write(bytes) => self.receiver = Receiver::Writes(bytes),
                        Arrival::Wake => self.is_woken = true,
                        Arrival::Wait => {}
                    },
                    None => match self.inbound.end() {
                        Ok(()) => self.is_woken = true,
                        Err(_) => return false,
                    },
                },
                Receiver::Writes(mut bytes) => {
                    let written = bytes.split_to(room.min(bytes.len()));
                    self.socket.extend_from_slice(&written);
                    self.is_woken |= self.inbound.leave(bytes);
                }
            }
            true
        }

        /// A step of the task; `false` if it sleeps, or is done.
        fn run(&mut self, room: usize) -> bool {
            match std::mem::replace(&mut self.task, Task::Asks) {
                Task::Asks => {
                    self.is_attached = true;
                    // The waker is registered before the question.
                    self.is_woken = false;
                    self.task = match self.inbound.next() {
                        Poll::Ready(Some(bytes)) => Task::Writes(bytes),
                        Poll::Ready(None) => Task::Done,
                        Poll::Pending => Task::Sleeps,
                    };
                }
                Task::Writes(mut bytes) => {
                    let written = bytes.split_to(room.min(bytes.len()));
                    self.socket.extend_from_slice(&written);
                    if bytes.is_empty() {
                        self.inbound.written();
                    } else {
                        // It waits for room in the socket, which comes.
                        self.task = Task::Writes(bytes);
                    }
                }
                Task::Sleeps if self.is_woken => {}
                stays => {
                    self.task = stays;
                    return false;
                }
            }
            true
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_no_wake_up_in_any_order_of_steps(
            lengths in vec(1..6_usize, 0..12),
            schedule in vec((any::<bool>(), 0..6_usize), 0..80),
        ) {
            let mut next = 0_u8..;
            let messages: Vec<Bytes> = lengths.iter().map(|length| next.by_ref().take(*length).collect()).collect();
            let all = messages.concat();
            let mut world = World {
                inbound: Inbound::default(),
                receiver: Receiver::Reads,
                task: Task::Asks,
                is_woken: false,
                messages: messages.into_iter(),
                is_attached: false,
                socket: Vec::new(),
            };
            for (receives, room) in schedule {
                if receives { world.receive(room) } else { world.run(room) };
            }
            // Whoever can take a step takes it, until nobody can.
            while world.receive(1) | world.run(1) {}
            prop_assert!(matches!(world.task, Task::Done), "the task sleeps, and nobody wakes it");
            prop_assert_eq!(world.socket, all);
        }
    }
}
