//! Signals: those that are passed on to the program, and the stops and goes of its job.

use anyhow::{Context, Result};
use nix::{
    libc,
    sys::{
        signal::{SigSet, Signal, kill, raise},
        signalfd::{SfdFlags, SignalFd, siginfo},
        wait::WaitStatus,
    },
    unistd::{Pid, getpgid, getpgrp, getpid, getsid},
};
use std::{
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

/// The signals of this process, which it reads one by one while it watches.
///
/// They are blocked and not handled, so those that this process was started to ignore, as by
/// nohup(1), stay ignored in the program.
#[derive(Debug)]
pub(super) struct Signals {
    arrived: SignalFd,
    /// When the terminal last asked its foreground job to stop.
    asked_to_stop: Option<Instant>,
}

impl Signals {
    /// Blocks the signals in the calling thread, and in those that it starts from now on.
    pub(super) fn block() -> Result<Self> {
        let blocked: SigSet = PASSED_ON.into_iter().chain([Signal::SIGCHLD]).collect();
        blocked.thread_block().context("sigprocmask")?;
        let arrived =
            SignalFd::with_flags(&blocked, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).context("signalfd")?;
        Ok(Self { arrived, asked_to_stop: None })
    }

    /// The descriptor that is readable when a signal has come.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }

    /// Reads all signals that have come, and passes them on to the program.
    pub(super) fn pass_on(&mut self, program: Pid) {
        while let Ok(Some(info)) = self.arrived.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or_default();
            let Ok(signal) = Signal::try_from(number) else { continue };
            if signal == Signal::SIGTSTP {
                self.asked_to_stop = Some(Instant::now());
            }
            let job = Job {
                has_program: getpgid(Some(program)).is_ok_and(|group| group == getpgrp()),
                is_led: getsid(None).is_ok_and(|session| session == getpid()),
            };
            if signal != Signal::SIGCHLD && job.needs(signal, is_terminal(&info)) {
                // The program may have ended a moment ago.
                let _ = kill(program, signal);
            }
        }
    }

    /// Stops this process as well if the program was stopped together with the job, so that the
    /// shell sees it; returns when the job goes on, and lets the program go on.
    ///
    /// A program that a debugger or a tool has stopped belongs to no job: the debugger lets the
    /// program alone go on.
    pub(super) fn stop_along(&mut self, program: Pid, status: WaitStatus) {
        let WaitStatus::Stopped(_, signal) = status else { return };
        let was_asked = self.asked_to_stop.take().is_some_and(|asked| asked.elapsed() < TO_STOP);
        let is_of_job = matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU);
        if !(is_of_job || (was_asked && signal == Signal::SIGSTOP)) || std::fs::File::open("/dev/tty").is_err() {
            return;
        }
        // The default action takes place where the signal is no longer blocked.
        let of_one = SigSet::from(signal);
        if raise(signal).is_ok() && of_one.thread_unblock().is_ok() {
            let _ = of_one.thread_block();
            let _ = kill(program, Signal::SIGCONT);
        }
    }
}

/// The relation of this process to its job and its session.
#[derive(Debug, Clone, Copy)]
struct Job {
    /// Whether the program is in this process's group, whose members the terminal signals together.
    has_program: bool,
    /// Whether this process leads its session.
    is_led: bool,
}

impl Job {
    /// Whether a signal of this process has to be passed on: the program of the same group has had
    /// the terminal's already, but for the hang-up, which comes to the session's leader alone
    /// (`__tty_hangup` in drivers/tty/tty_jobctrl.c).
    fn needs(self, signal: Signal, is_terminals: bool) -> bool {
        !is_terminals || !self.has_program || (signal == Signal::SIGHUP && self.is_led)
    }
}

/// Whether the kernel sent the signal, as the terminal's are sent (`isig` in drivers/tty/n_tty.c).
fn is_terminal(info: &siginfo) -> bool {
    info.ssi_code == libc::SI_KERNEL
}

/// The signals that users, shells and service managers send to a program. A `SIGCONT` lets this
/// process go on although it is blocked.
const PASSED_ON: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTERM,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
];
/// How long a program takes at most to stop when it was asked to: it puts the terminal in order.
const TO_STOP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminals_signals_come_once() {
        let shared = Job { has_program: true, is_led: false };
        for signal in PASSED_ON {
            assert!(!shared.needs(signal, true), "{signal}: the program has had it");
            assert!(shared.needs(signal, false), "{signal}: this process alone has had it");
            assert!(Job { has_program: false, ..shared }.needs(signal, true), "{signal}: it is in another group");
        }
        let leader = Job { is_led: true, ..shared };
        assert!(leader.needs(Signal::SIGHUP, true) && !leader.needs(Signal::SIGINT, true));
    }
}
