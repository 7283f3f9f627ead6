//! The loops of threads that do nothing but run tasks, and their control.

use super::{
    budget::Budget,
    runner::Runner,
    sync::{AtomicBool, AtomicU64, Relaxed, thread},
};
use nix::time::{ClockId, clock_gettime};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Switches a thread on and off, limits its CPU time, and ends it.
#[derive(Debug)]
pub(crate) struct Control {
    is_over: AtomicBool,
    is_enabled: AtomicBool,
    /// The bits of the thread's share of a CPU's time.
    share: AtomicU64,
}

/// The loop of one such thread.
pub(crate) struct TaskLoop {
    runner: Runner,
    control: Arc<Control>,
    budget: Budget,
}

impl Control {
    pub(crate) fn new() -> Self {
        let [is_over, is_enabled] = [false, true].map(AtomicBool::new);
        Self { is_over, is_enabled, share: AtomicU64::new(1.0_f64.to_bits()) }
    }

    pub(crate) fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Relaxed)
    }

    /// Has the thread end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    pub(crate) fn set_share(&self, share: f64) {
        self.share.store(share.to_bits(), Relaxed);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Relaxed))
    }
}

impl TaskLoop {
    pub(crate) fn new(runner: Runner, control: Arc<Control>) -> Self {
        let budget = Budget::new(control.share(), Instant::now(), cpu_time());
        Self { runner, control, budget }
    }

    /// Runs tasks as they come, and goes on with those that poll.
    pub(crate) fn work(mut self) {
        while self.goes_on() {
            let pass = self.runner.run();
            match pass.polling {
                0 if pass.ran == 0 => self.runner.sleep(None),
                0 => {}
                // Another thread of the idle class may want the CPU.
                _ => thread::yield_now(),
            }
            if pass.ran > 0 {
                self.rest();
            }
        }
    }

    /// Runs tasks once in each period while one of them polls, and at each deadline.
    pub(crate) fn tick(mut self, period: Duration) {
        let mut next_pass: Option<Instant> = None;
        while self.goes_on() {
            let runner = &self.runner;
            let (has_polling_task, due) = (runner.has_polling_task(), runner.next_due());
            next_pass = if has_polling_task { next_pass.or_else(|| Instant::now().checked_add(period)) } else { None };
            let until_pass = next_pass.map(|instant| instant.saturating_duration_since(Instant::now()));
            let time = until_pass.into_iter().chain(due.map(|due| runner.until(due))).min();
            if time == Some(Duration::ZERO) {
                runner.run();
                next_pass = None;
                self.rest();
            } else if runner.fall_asleep(|| (runner.has_polling_task(), runner.next_due()) != (has_polling_task, due)) {
                match time {
                    Some(time) => thread::park_timeout(time),
                    None => thread::park(),
                }
                runner.end_sleep();
            }
        }
    }

    /// Waits while the thread is switched off, and heeds a new share. Returns whether the thread
    /// goes on then.
    fn goes_on(&mut self) -> bool {
        let is_off = || !self.control.is_enabled() && !self.control.is_over();
        if is_off() {
            self.runner.pass_on_wakes();
        }
        while is_off() {
            thread::park();
        }
        let share = self.control.share();
        if share != self.budget.share() {
            self.budget = Budget::new(share, Instant::now(), cpu_time());
        }
        !self.control.is_over() && !self.runner.is_closed()
    }

    /// Sleeps off the time that the thread has used beyond its share.
    fn rest(&mut self) {
        let share = self.budget.share();
        if share == 1.0 {
            return;
        }
        let now = Instant::now();
        let until = self.budget.rest(now, cpu_time()).map(|rest| now + rest);
        if until.is_some() {
            // Another thread may go on with a task that polls.
            self.runner.pass_on_wakes();
        }
        let left = || until.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        while let Some(left) = left()
            && !self.control.is_over()
            && self.control.share() == share
        {
            thread::park_timeout(left);
        }
    }
}

/// The time that this thread has used.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a clock for each thread").into()
}
