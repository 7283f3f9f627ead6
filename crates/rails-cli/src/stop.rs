//! Signals that end the program: the first ends the work in order, the second the process.

use crate::exit::Signal;
use anyhow::Result;
use std::{fs, io};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// The requests of the user, or of the service manager, to end. Clones receive them too.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<Option<Signal>>);

impl Stop {
    /// Handles SIGINT, SIGTERM, SIGHUP and SIGXCPU from now on, except those that the program was
    /// started to ignore, as by nohup(1), or by a shell in the background. From now on a write past
    /// RLIMIT_FSIZE is an error and does not end the program (SIGXFSZ). Must be called inside a
    /// runtime with a thread of its own for the second signal.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn on_signals() -> io::Result<Self> {
        Ok(Self::on([Signal::Interrupt, Signal::Terminate, Signal::HangUp, Signal::CpuTime])?.0)
    }

    /// As [`on_signals`](Self::on_signals), but for SIGHUP, which has another meaning for a
    /// service.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn of_a_service() -> io::Result<Self> {
        Ok(Self::on([Signal::Interrupt, Signal::Terminate, Signal::CpuTime])?.0)
    }

    /// As [`on_signals`](Self::on_signals), but SIGHUP runs `renewal`, if there is one. SIGHUP ends
    /// the program all the same when it comes of the program's terminal, which was closed.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn renewing(renewal: Option<Renewal>) -> io::Result<Self> {
        let Some(renewal) = renewal else { return Self::on_signals() };
        let (stopped, stop) = Self::on([Signal::Interrupt, Signal::Terminate, Signal::CpuTime])?;
        let ends_with_terminal = has_terminal() && !Ignored::by_this_process().has(SignalKind::hangup());
        let mut arrived = signal(SignalKind::hangup())?;
        tokio::spawn(async move {
            while arrived.recv().await.is_some() {
                if ends_with_terminal && !has_terminal() {
                    ask(&stop, Signal::HangUp);
                } else {
                    renewal();
                }
            }
        });
        Ok(stopped)
    }

    fn on(signals: impl IntoIterator<Item = Signal>) -> io::Result<(Self, watch::Sender<Option<Signal>>)> {
        let (stop, stopped) = watch::channel(None);
        let ignored = Ignored::by_this_process();
        for asked in signals {
            if ignored.has(kind(asked)) {
                continue;
            }
            let mut arrived = signal(kind(asked))?;
            let stop = stop.clone();
            tokio::spawn(async move {
                while arrived.recv().await.is_some() {
                    ask(&stop, asked);
                }
            });
        }
        // A handler that does nothing: write(2) then fails with EFBIG. Programs that this one starts do not
        // inherit it.
        let file_size = SignalKind::from_raw(nix::libc::SIGXFSZ);
        if !ignored.has(file_size) {
            drop(signal(file_size)?);
        }
        Ok((Self(stopped), stop))
    }

    /// Waits for a signal.
    pub async fn requested(&mut self) -> Signal {
        match self.0.wait_for(Option::is_some).await.map(|signal| *signal) {
            Ok(Some(signal)) => signal,
            // No task takes signals: all of them are ignored, or the runtime is being taken down.
            _ => std::future::pending().await,
        }
    }

    /// Runs work, unless a signal comes first. The caller ends what the work has begun.
    ///
    /// # Errors
    /// [`Stopped`], or the work's failure.
    pub async fn or<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            // Signals come first: the peer may have ended by the same signal.
            biased;
            signal = self.requested() => Err(Stopped(signal).into()),
            done = work => done,
        }
    }

    /// The signal, if one has come.
    pub fn so_far(&self) -> Option<Signal> {
        *self.0.borrow()
    }
}

/// The work of a program at SIGHUP.
pub type Renewal = Box<dyn Fn() + Send>;

/// Asks for the end of the work, and ends the process if that was asked for before.
fn ask(stop: &watch::Sender<Option<Signal>>, asked: Signal) {
    // The kernel repeats SIGXCPU each second, up to the hard limit, so a second one is no new request.
    if stop.send_replace(Some(asked)).is_some() && asked != Signal::CpuTime {
        // Does not wait for dropped streams.
        rails_bind::process::exit_at_once(asked.code().into());
    }
}

/// Whether the process has a terminal by which it is controlled (tty(4)).
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// A signal ended the work. As the error of a command it becomes the command's
/// [`Exit`](crate::exit::Exit).
#[derive(Debug, thiserror::Error)]
#[error("a signal ended it")]
pub struct Stopped(pub Signal);

fn kind(signal: Signal) -> SignalKind {
    match signal {
        Signal::Interrupt => SignalKind::interrupt(),
        Signal::Terminate => SignalKind::terminate(),
        Signal::HangUp => SignalKind::hangup(),
        Signal::CpuTime => SignalKind::from_raw(nix::libc::SIGXCPU),
    }
}

/// The signals that a process ignores, as a mask whose lowest bit is signal 1.
struct Ignored(u64);

impl Ignored {
    /// The mask of this process; empty if `/proc` is hidden.
    fn by_this_process() -> Self {
        // proc_pid_status(5): a mask in hexadecimal.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }

    fn has(&self, signal: SignalKind) -> bool {
        self.0 >> (signal.as_raw_value() - 1) & 1 == 1
    }
}
