//! The thread that moves frames between the two ends of an emulated link.

use super::{
    EmulatedCounters, EmulatedLink, LineCounters,
    line::{Fate, Line},
};
use crate::Side;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        prctl::set_timerslack,
        time::TimeSpec,
    },
};
use std::{
    collections::VecDeque,
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    unix::{ScheduleParams, set_thread_priority_and_policy, thread_native_id},
};
use tun_rs::SyncDevice;

/// Carries frames between two TAP devices on a thread of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Carrier {
    shared: Arc<Mutex<SharedLink>>,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with its owner. The thread locks it for a turn, never while it
/// sleeps.
#[derive(Debug)]
struct SharedLink {
    /// The lines from A and from B.
    lines: [Line; 2],
    counters: [LineCounters; 2],
    is_realtime: bool,
    /// The error that has ended the thread, if one has.
    ended: Option<Errno>,
}

impl Carrier {
    /// Starts the thread. The devices are those of A and of B.
    pub(crate) fn start(link: EmulatedLink, taps: [SyncDevice; 2]) -> io::Result<Self> {
        let shared = Arc::new(Mutex::new(SharedLink {
            lines: Side::BOTH.map(|side| Line::new(link, side)),
            counters: [LineCounters::default(); 2],
            is_realtime: false,
            ended: None,
        }));
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?);
        let mut worker = Worker {
            taps,
            shared: shared.clone(),
            stop: stop.clone(),
            in_flight: [VecDeque::new(), VecDeque::new()],
            began: Instant::now(),
            buffer: Box::new([0; LONGEST_FRAME]),
        };
        let thread = thread::Builder::new().name("rails-lab-link".into()).spawn(move || {
            if let Err(errno) = worker.run() {
                lock(&worker.shared).ended = Some(errno);
            }
        })?;
        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// Changes both directions of the link at once, from the next frame on.
    pub(crate) fn change(&self, link: EmulatedLink) -> Result<(), Errno> {
        let mut shared = self.alive()?;
        shared.lines.iter_mut().for_each(|line| line.change(link));
        Ok(())
    }

    /// The counts, without the kernel's drops.
    pub(crate) fn counters(&self) -> Result<EmulatedCounters, Errno> {
        let shared = self.alive()?;
        let [from_a, from_b] = shared.counters;
        Ok(EmulatedCounters { from_a, from_b, is_realtime: shared.is_realtime })
    }

    /// The shared state, unless the thread has ended.
    fn alive(&self) -> Result<MutexGuard<'_, SharedLink>, Errno> {
        let shared = lock(&self.shared);
        shared.ended.map_or(Ok(shared), Err)
    }
}

impl Drop for Carrier {
    /// The devices are closed, and therefore gone, when this returns.
    fn drop(&mut self) {
        // The write cannot fail: the eventfd's counter is far from its maximum.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

/// The thread's own state.
struct Worker {
    taps: [SyncDevice; 2],
    shared: Arc<Mutex<SharedLink>>,
    stop: Arc<EventFd>,
    /// The frames from A and from B that are under way, in order.
    in_flight: [VecDeque<InFlight>; 2],
    began: Instant,
    buffer: Box<[u8; LONGEST_FRAME]>,
}

/// A frame, with the instant at which it is due.
struct InFlight {
    due: Duration,
    frame: Box<[u8]>,
}

impl Worker {
    /// Runs until the carrier stops it, or a device disappears.
    fn run(&mut self) -> Result<(), Errno> {
        // By default the kernel may let a thread oversleep by 50 us: PR_SET_TIMERSLACK of prctl(2).
        set_timerslack(1)?;
        lock(&self.shared).is_realtime = enter_realtime();
        loop {
            let is_drained = self.turn()?;
            if is_drained {
                thread::sleep(REST);
            }
            let pause = if is_drained { self.until_next() } else { Some(Duration::ZERO) };
            let wanted = [self.taps[0].as_fd(), self.taps[1].as_fd(), self.stop.as_fd()];
            let mut polled = wanted.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match ppoll(&mut polled, pause.map(TimeSpec::from_duration), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
            let [_, _, stop] = &polled;
            if stop.any() == Some(true) {
                return Ok(());
            }
        }
    }

    /// Reads the arrived frames and delivers those that are due. Returns whether both devices are
    /// empty.
    fn turn(&mut self) -> Result<bool, Errno> {
        let shared = self.shared.clone();
        let mut shared = lock(&shared);
        let mut is_drained = true;
        for from in 0..2 {
            is_drained &= self.take(from, &mut shared)?;
            for from in 0..2 {
                self.deliver(from, &mut shared.counters[from]);
            }
        }
        Ok(is_drained)
    }

    /// Reads some frames of a side. Returns whether there were no more. A batch is bounded, so that
    /// due frames do not wait until a sender pauses.
    fn take(&mut self, from: usize, shared: &mut SharedLink) -> Result<bool, Errno> {
        for _ in 0..BATCH {
            let length = match self.taps[from].recv(&mut self.buffer[..]) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(errno_of(&error)),
            };
            let counters = &mut shared.counters[from];
            match shared.lines[from].offer(self.began.elapsed(), length) {
                Fate::Arrives(due) => {
                    counters.under_way += 1;
                    self.in_flight[from].push_back(InFlight { due, frame: self.buffer[..length].into() });
                }
                Fate::Lost => counters.lost += 1,
                Fate::QueueFull => counters.queue_full += 1,
            }
        }
        Ok(false)
    }

    /// Delivers the frames of a side that are due.
    fn deliver(&mut self, from: usize, counters: &mut LineCounters) {
        let to = &self.taps[1 - from];
        while let Some(InFlight { due, frame }) = self.in_flight[from].front() {
            let Some(lateness) = self.began.elapsed().checked_sub(*due) else { return };
            counters.max_lateness = counters.max_lateness.max(lateness);
            counters.under_way -= 1;
            match to.send(frame) {
                Ok(_) => {
                    counters.frames += 1;
                    counters.bytes += frame.len() as u64;
                }
                // tun_get_user() in drivers/net/tun.c gives EIO while the interface is down.
                Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) => counters.interface_down += 1,
                Err(_) => counters.refused += 1,
            }
            self.in_flight[from].pop_front();
        }
    }

    /// The time until the next frame is due; `None` when nothing is under way.
    fn until_next(&self) -> Option<Duration> {
        let due =
            self.in_flight.iter().filter_map(|in_flight| in_flight.front()).map(|in_flight| in_flight.due).min()?;
        Some(due.saturating_sub(self.began.elapsed()))
    }
}

/// Gives the thread a real-time class, so that a busy machine does not add to the delay. Returns
/// whether the kernel allowed it (`CAP_SYS_NICE`).
fn enter_realtime() -> bool {
    let lowest = ThreadPriority::from_posix(ScheduleParams { sched_priority: 1 });
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), lowest, fifo).is_ok()
}

fn lock(shared: &Mutex<SharedLink>) -> MutexGuard<'_, SharedLink> {
    // Counters and lines are consistent between any two statements, so a panic leaves no half-made
    // change.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw)
}

/// A frame of the default MTU is 1514 bytes; the longest MTU that a TAP may be given (65521,
/// drivers/net/tun.c) fits too.
const LONGEST_FRAME: usize = 1 << 16;
/// The thread's sleep after each turn, so that it takes a few frames at once: under full load at
/// 500 Mbit/s the sleep takes it from 80 % to 45 % of a core (measured; 200 us saves little more).
/// A frame may be that late on an idle machine.
const REST: Duration = Duration::from_micros(100);
/// The frames of a batch. At about 1 us each, a due frame waits some tens of microseconds at most.
const BATCH: usize = 32;
