//! A timer that is finer than the runtime's millisecond.

use crate::sys::timerfd::TimerDescriptor;
use nix::{
    errno::Errno,
    sys::{
        time::TimeSpec,
        timerfd::{Expiration, TimerSetTimeFlags},
    },
};
use std::{
    io,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::io::{Interest, unix::AsyncFd};

/// A timer of the kernel (`timerfd_create(2)`), watched by the runtime. tokio's own timers fire up
/// to a millisecond late, the time of 1.25 MB at 10 Gbit/s.
#[derive(Debug)]
pub struct Timer {
    fd: AsyncFd<TimerDescriptor>,
    /// The time at which the timer fires; `None` if it is not set.
    set: Option<Instant>,
}

impl Timer {
    /// A timer on the calling thread's runtime, not set.
    ///
    /// # Errors
    /// The kernel's, mostly for too many descriptors.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: TimerDescriptor::new()?.attach()?, set: None })
    }

    /// Sets the timer to fire at that time, or never. A time that has passed fires at once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&mut self, now: Instant, at: Option<Instant>) -> io::Result<()> {
        if self.set == at {
            return Ok(());
        }
        self.set = None;
        // A report of the former setting is cleared; reading the timer would take a call.
        let _ = self.fd.try_io(Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        let timer = &self.fd.get_ref().timer();
        match at {
            // A time of zero would switch the timer off.
            Some(at) => {
                let wait = at.saturating_duration_since(now).max(Duration::from_nanos(1));
                timer.set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty())?;
            }
            None => timer.unset()?,
        }
        self.set = at;
        Ok(())
    }

    /// Waits until the timer has fired, once for each setting. The waker of the latest caller is
    /// kept.
    ///
    /// # Errors
    /// The runtime's, when it shuts down.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(context))?;
            match guard.get_inner().timer().wait() {
                Ok(()) => {
                    guard.clear_ready();
                    self.set = None;
                    return Poll::Ready(Ok(()));
                }
                // The timer was set anew after it had fired.
                Err(Errno::EAGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn fires_once_for_each_setting() {
        let mut timer = Timer::new().unwrap();
        for _ in 0..3 {
            let now = Instant::now();
            timer.set(now, Some(now + Duration::from_micros(300))).unwrap();
            poll_fn(|context| timer.poll(context)).await.unwrap();
            assert!(Instant::now() >= now + Duration::from_micros(300));
        }
        timer.set(Instant::now(), None).unwrap();
        let silent = tokio::time::timeout(Duration::from_millis(5), poll_fn(|context| timer.poll(context))).await;
        silent.expect_err("it is not set");
    }
}
