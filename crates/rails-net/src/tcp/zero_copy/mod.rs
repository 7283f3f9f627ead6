//! Sending without a copy (`MSG_ZEROCOPY`).
//!
//! # References
//! Documentation/networking/msg_zerocopy.rst; W. de Bruijn and E. Dumazet, *sendmsg copy avoidance with MSG_ZEROCOPY*, netdev 2.1

mod ledger;
mod notices;
mod orphans;
mod watch;

use super::with_slices;
use crate::sys::epoll::Watched;
use bytes::Bytes;
use ledger::Ledger;
use nix::sys::socket::{Shutdown, shutdown};
use orphans::Orphan;
use rails_topo::DataSize;
use serde::Serialize;
use socket2::SockRef;
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use watch::{Watch, Writable};

/// When payload is sent without copying it ([`TcpTransport::zero_copy`](crate::TcpTransport::zero_copy)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ZeroCopy {
    least: DataSize,
    most_outstanding: DataSize,
}

/// What became of sending without a copy, since the lane was made. Serialized names carry their units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ZeroCopyStats {
    /// Sends that the kernel took without a copy, as far as it said then.
    pub sends: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Sends of them that the kernel is done with.
    pub completed: u64,
    /// Sends of those that it copied after all, later (`SO_EE_CODE_ZEROCOPY_COPIED`), as on the loopback interface and between namespaces.
    pub copied: u64,
    /// Bytes that the kernel may still read, and that are kept for it.
    pub outstanding_bytes: u64,
    /// Sends that were made with a copy as too much was outstanding, or because the kernel wanted it so (`ENOBUFS`).
    pub refused: u64,
    /// The kernel copied 16 sends in a row, and is not asked any more on this connection.
    pub stopped: bool,
}

impl ZeroCopy {
    /// The defaults, as each setter names them.
    pub fn new() -> Self {
        Self { least: DataSize::bytes(32 << 10), most_outstanding: DataSize::bytes(16 << 20) }
    }

    /// The least payload that is sent without a copy.
    ///
    /// # Default
    /// 32 KiB. To pin pages and to tell of them costs about as much as to copy 10 KB, by the kernel's documentation.
    pub fn least(mut self, size: DataSize) -> Self {
        self.least = size;
        self
    }

    /// The most that is kept for the kernel to read. What would exceed it is copied.
    ///
    /// # Default
    /// 16 MiB.
    ///
    /// # Cost
    /// As much memory for each lane, besides what a stream holds already: chunks of a lane that was given up stay until the kernel has let them go.
    pub fn most_outstanding(mut self, size: DataSize) -> Self {
        self.most_outstanding = size;
        self
    }
}

impl Default for ZeroCopy {
    fn default() -> Self {
        Self::new()
    }
}

/// The sending side of a socket that sends without copies.
#[derive(Debug)]
pub(crate) struct ZeroCopySender {
    watch: Watch,
    owed: Owed,
}

/// What the kernel is owed: the memory it reads from.
#[derive(Debug)]
struct Owed {
    /// The lane's socket, by a descriptor of its own: it outlives the lane's.
    socket: Arc<OwnedFd>,
    options: ZeroCopy,
    state: Mutex<State>,
    /// The socket is used on by someone else.
    left: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger<Kept>,
    /// To be used again.
    spare: Vec<Kept>,
}

/// What one send was made of.
#[derive(Debug, Default)]
struct Kept {
    control: Vec<u8>,
    payload: Vec<Bytes>,
}

impl ZeroCopySender {
    /// For a connected socket with `SO_ZEROCOPY`. Must be called on its runtime.
    pub(crate) fn new(socket: BorrowedFd<'_>, options: ZeroCopy) -> io::Result<Self> {
        let socket = Arc::new(socket.try_clone_to_owned()?);
        let watch = Watch::attach(Watched::new(&socket)?)?;
        Ok(Self { watch, owed: Owed { socket, options, state: Mutex::default(), left: AtomicBool::new(false) } })
    }

    /// As [`Lane::try_submit`](crate::Lane::try_submit).
    pub(crate) fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize> {
        let length: usize = payload.iter().map(Bytes::len).sum();
        if let Some(outcome) = self.owed.send_without_copy(control, payload, length as u64) {
            return outcome;
        }
        with_slices(control, payload, |slices| {
            SockRef::from(&self.owed.socket).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
        })
    }

    /// Waits until the socket takes more to send.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match watch::ask(&self.owed.socket)? {
                Writable::Yes => return Poll::Ready(Ok(())),
                // An error that is no notice: writing finds it out.
                Writable::Error if !self.owed.settle() => return Poll::Ready(Ok(())),
                Writable::Error => {}
                Writable::No => ready!(self.watch.poll_changed(context))?,
            }
        }
    }

    /// Lets go of what the kernel is done with.
    pub(crate) fn settle(&self) {
        if !self.owed.lock().ledger.is_settled() {
            self.owed.settle();
        }
    }

    pub(crate) fn stats(&self) -> ZeroCopyStats {
        self.settle();
        self.owed.lock().ledger.stats
    }

    /// The socket is used on, without its lane.
    pub(crate) fn leave(&self) {
        self.owed.left.store(true, Relaxed);
    }
}

impl Owed {
    /// `None` where it is to be sent with a copy.
    fn send_without_copy(&self, control: &[u8], payload: &[Bytes], length: u64) -> Option<io::Result<usize>> {
        let mut state = self.lock();
        let State { ledger, spare } = &mut *state;
        if length < self.options.least.as_bytes() || ledger.stats.stopped {
            return None;
        }
        spare.extend(settle(ledger, self.socket.as_fd()));
        let outstanding = ledger.stats.outstanding_bytes + length;
        if outstanding > self.options.most_outstanding.as_bytes() || ledger.outstanding() >= MOST_SENDS {
            ledger.stats.refused += 1;
            return None;
        }
        let mut kept = spare.pop().unwrap_or_default();
        kept.control.extend_from_slice(control);
        let sent = with_slices(&kept.control, payload, |slices| {
            SockRef::from(&self.socket).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY)
        });
        match sent {
            Ok(0) => spare.push(kept.emptied()),
            Ok(count) => {
                // What was not taken is handed in again, and need not be kept for this send.
                let mut taken = count.saturating_sub(kept.control.len());
                let needed = payload.iter().take_while(|bytes| {
                    let is_needed = taken > 0;
                    taken = taken.saturating_sub(bytes.len());
                    is_needed
                });
                kept.payload.extend(needed.cloned());
                ledger.add(kept, count as u64);
            }
            Err(error) => {
                spare.push(kept.emptied());
                // "sendmsg fails with ENOBUFS: the socket exceeds its optmem limit or the user exceeds its ulimit on locked pages." (msg_zerocopy.rst)
                if error.raw_os_error() == Some(libc::ENOBUFS) {
                    ledger.stats.refused += 1;
                    return None;
                }
                return Some(Err(error));
            }
        }
        Some(sent)
    }

    /// Lets go of what the kernel is done with, and says whether it said anything.
    fn settle(&self) -> bool {
        let mut state = self.lock();
        let State { ledger, spare } = &mut *state;
        let before = ledger.stats.completed;
        spare.extend(settle(ledger, self.socket.as_fd()));
        ledger.stats.completed > before
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lane is gone; its memory stays until the kernel is done with it.
impl Drop for Owed {
    fn drop(&mut self) {
        self.settle();
        let ledger = mem::take(&mut self.lock().ledger);
        if ledger.is_settled() {
            return;
        }
        let may_be_cut = !self.left.load(Relaxed);
        if may_be_cut {
            // The descriptor that stays open must not keep the peer waiting for the end of the connection.
            let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        }
        orphans::adopt(Orphan { socket: self.socket.clone(), ledger, may_be_cut });
    }
}

impl Kept {
    fn emptied(mut self) -> Self {
        self.control.clear();
        self.payload.clear();
        self
    }
}

/// Reads the kernel's notices, and gives back what was kept for the sends that it is done with, emptied.
fn settle(ledger: &mut Ledger<Kept>, socket: BorrowedFd<'_>) -> Vec<Kept> {
    let mut released = Vec::new();
    while !ledger.is_settled() {
        let Some(notice) = notices::next(socket) else { break };
        released.extend(ledger.complete(notice.low, notice.high, notice.copied).into_iter().map(Kept::emptied));
    }
    released
}

/// How many sends may wait for the kernel: a partial send is one too, and each keeps memory of its own.
const MOST_SENDS: usize = 1024;
