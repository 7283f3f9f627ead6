//! Sending without a copy (`MSG_ZEROCOPY`).
//!
//! # References
//! Documentation/networking/msg_zerocopy.rst; W. de Bruijn and E. Dumazet, *sendmsg copy avoidance
//! with MSG_ZEROCOPY*, netdev 2.1

mod ledger;
mod notices;
mod orphans;
mod watch;

use super::with_slices;
use crate::sys::epoll::Watched;
use bytes::Bytes;
use ledger::Ledger;
use nix::sys::socket::{Shutdown, shutdown};
use orphans::{Orphan, OrphanPermit};
use rails_topo::DataSize;
use serde::Serialize;
use socket2::SockRef;
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use watch::{Watch, Writable};

/// The conditions for sending payload without a copy
/// ([`TcpTransport::zero_copy`](crate::TcpTransport::zero_copy)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ZeroCopy {
    min_payload: DataSize,
    max_outstanding: DataSize,
}

/// The counters of sending without a copy since the lane was opened. Serialized names carry their
/// units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ZeroCopyStats {
    /// Sends that the kernel accepted without a copy at first.
    pub sends: u64,
    /// Bytes of these sends.
    pub bytes: u64,
    /// Sends that the kernel is done with.
    pub completed: u64,
    /// Completed sends that the kernel copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`), as on the
    /// loopback interface and between namespaces.
    pub copied: u64,
    /// Bytes that the lane keeps because the kernel may still read them.
    pub outstanding_bytes: u64,
    /// Sends with a copy because too many bytes or sends were outstanding, or because the kernel
    /// refused (`ENOBUFS`).
    pub refused: u64,
    /// Whether the kernel copied 16 sends in a row, after which the lane sends with copies.
    pub stopped: bool,
}

impl ZeroCopy {
    /// The defaults, as each setter names them.
    pub fn new() -> Self {
        Self { min_payload: DataSize::bytes(32 << 10), max_outstanding: DataSize::bytes(16 << 20) }
    }

    /// The minimum payload to send without a copy.
    ///
    /// # Default
    /// 32 KiB. Pinning pages and the notices cost about as much as copying 10 KB, by the kernel's
    /// documentation.
    pub fn min_payload(mut self, size: DataSize) -> Self {
        self.min_payload = size;
        self
    }

    /// The bytes that the lane keeps for the kernel at most. A send that would exceed the limit is
    /// copied.
    ///
    /// # Default
    /// 16 MiB.
    ///
    /// # Cost
    /// As much memory for each lane, beside the memory of the stream: chunks of a closed lane stay
    /// until the kernel is done with them.
    pub fn max_outstanding(mut self, size: DataSize) -> Self {
        self.max_outstanding = size;
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
    pending: PendingSends,
}

/// The memory that the kernel reads from, and the lane's socket.
#[derive(Debug)]
struct PendingSends {
    /// A descriptor of the lane's socket that outlives the lane's own.
    socket: Arc<OwnedFd>,
    options: ZeroCopy,
    state: Mutex<SendState>,
    /// Whether another owner keeps using the socket.
    is_detached: AtomicBool,
    orphan_permit: OrphanPermit,
}

#[derive(Debug, Default)]
struct SendState {
    ledger: Ledger<SendBuffers>,
    /// Empty records for further sends.
    spare: Vec<SendBuffers>,
}

/// The bytes of one send.
#[derive(Debug, Default)]
struct SendBuffers {
    control: Vec<u8>,
    payload: Vec<Bytes>,
}

impl ZeroCopySender {
    /// A sender for a connected socket with `SO_ZEROCOPY`. Must be called on the socket's runtime.
    ///
    /// # Errors
    /// The call that failed, and its error.
    pub(crate) fn new(socket: BorrowedFd<'_>, options: ZeroCopy) -> Result<Self, (&'static str, io::Error)> {
        let socket = Arc::new(socket.try_clone_to_owned().map_err(|error| ("fcntl", error))?);
        let watched = Watched::by_edges(&socket).and_then(Watch::attach);
        let watch = watched.map_err(|error| ("epoll_ctl", error))?;
        let orphan_permit = OrphanPermit::begin().map_err(|error| ("pthread_create", error))?;
        Ok(Self {
            watch,
            pending: PendingSends {
                socket,
                options,
                state: Mutex::default(),
                is_detached: AtomicBool::new(false),
                orphan_permit,
            },
        })
    }

    /// As [`Lane::try_submit`](crate::Lane::try_submit).
    pub(crate) fn try_submit(&self, control: &[u8], payload: &[Bytes]) -> io::Result<usize> {
        let length: usize = payload.iter().map(Bytes::len).sum();
        if let Some(outcome) = self.pending.send_without_copy(control, payload, length as u64) {
            return outcome;
        }
        with_slices(control, payload, |slices| {
            SockRef::from(&self.pending.socket).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
        })
    }

    /// Waits until the socket takes more to send.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match watch::ask(&self.pending.socket)? {
                Writable::Yes => return Poll::Ready(Ok(())),
                // Without a notice there is an error of the socket, which the next write returns.
                Writable::Error if !self.pending.settle() => return Poll::Ready(Ok(())),
                Writable::Error => {}
                Writable::No => ready!(self.watch.poll_changed(context))?,
            }
        }
    }

    /// Frees the memory that the kernel is done with.
    pub(crate) fn settle(&self) {
        if !self.pending.lock().ledger.is_settled() {
            self.pending.settle();
        }
    }

    pub(crate) fn stats(&self) -> ZeroCopyStats {
        self.settle();
        self.pending.lock().ledger.stats
    }

    /// Notes that another owner keeps using the socket, without the lane.
    pub(crate) fn detach(&self) {
        self.pending.is_detached.store(true, Relaxed);
    }
}

impl PendingSends {
    /// Sends without a copy; `None` if the caller should send with a copy.
    fn send_without_copy(&self, control: &[u8], payload: &[Bytes], length: u64) -> Option<io::Result<usize>> {
        if length < self.options.min_payload.as_bytes() {
            return None;
        }
        self.settle();
        let mut state = self.lock();
        let SendState { ledger, spare } = &mut *state;
        if ledger.stats.stopped {
            return None;
        }
        let outstanding = ledger.stats.outstanding_bytes + length;
        if outstanding > self.options.max_outstanding.as_bytes() || ledger.outstanding() >= MAX_SENDS {
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
                // The caller submits again the bytes that were not taken, so this send need not keep them.
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
                // "sendmsg fails with ENOBUFS: the socket exceeds its optmem limit or the user exceeds its ulimit
                // on locked pages." (msg_zerocopy.rst)
                if error.raw_os_error() == Some(libc::ENOBUFS) {
                    ledger.stats.refused += 1;
                    return None;
                }
                return Some(Err(error));
            }
        }
        Some(sent)
    }

    /// Frees the memory that the kernel is done with. Returns whether there was a notice.
    fn settle(&self) -> bool {
        let released = settle(&mut self.lock().ledger, self.socket.as_fd());
        let is_told = !released.is_empty();
        if is_told {
            // Dropping memory may run foreign code, so the lock is released first.
            let emptied: Vec<_> = released.into_iter().map(SendBuffers::emptied).collect();
            self.lock().spare.extend(emptied);
        }
        is_told
    }

    fn lock(&self) -> MutexGuard<'_, SendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the memory of the closed lane until the kernel is done with it.
impl Drop for PendingSends {
    fn drop(&mut self) {
        self.settle();
        let ledger = mem::take(&mut self.lock().ledger);
        if ledger.is_settled() {
            return;
        }
        let may_be_cut = !self.is_detached.load(Relaxed);
        if may_be_cut {
            // This descriptor stays open, and must not keep the peer waiting for the end of the connection.
            let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        }
        self.orphan_permit.adopt(Orphan { socket: self.socket.clone(), ledger, may_be_cut });
    }
}

impl SendBuffers {
    fn emptied(mut self) -> Self {
        self.control.clear();
        self.payload.drain(..).for_each(drop_caught);
        self
    }
}

/// Drops the bytes. A panic of their owner's destructor must not free other memory, which the
/// kernel may still read.
fn drop_caught(bytes: Bytes) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(bytes))) {
        // The panic's own destructor may panic too.
        mem::forget(panic);
        tracing::error!("the owner of sent bytes has panicked as it was dropped");
    }
}

/// Reads the kernel's notices, and gives back the records of the sends that it is done with.
fn settle(ledger: &mut Ledger<SendBuffers>, socket: BorrowedFd<'_>) -> Vec<SendBuffers> {
    let mut released = Vec::new();
    while !ledger.is_settled() {
        let Some(notice) = notices::next(socket) else { break };
        released.extend(ledger.complete(notice.low, notice.high, notice.copied));
    }
    released
}

/// The limit on outstanding sends. A partial send counts too, and each keeps memory of its own.
const MAX_SENDS: usize = 1024;
