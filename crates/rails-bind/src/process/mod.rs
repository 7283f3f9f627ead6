//! Any process: its sockets, its descendants, and whether it has the same network. This process:
//! its end.

mod open_sockets;
mod tree;

use crate::{sys, thread::Tid};
pub use open_sockets::{Protocol, Socket, SocketState};
use std::{fs, io, os::unix::fs::MetadataExt, process::Command};
pub use tree::ProcessTree;

/// A process, by its number; any process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pid: Tid,
}

/// The error of reading facts of a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// There is no such process, or it has ended.
    #[error("process {pid} does not exist or has ended")]
    NoSuchProcess {
        /// The process.
        pid: Tid,
    },

    /// The process's files may not be read.
    #[error("no permission to read {file}: another user's process takes {needs}")]
    NotPermitted {
        /// The file.
        file: String,
        /// The required capabilities, as measured.
        needs: &'static str,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// A file is malformed.
    #[error("{file} is not understood")]
    Malformed {
        /// The file.
        file: String,
        /// The fault.
        source: io::Error,
    },

    /// A file could not be read for another reason.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: String,
        /// The answer of the operating system.
        source: io::Error,
    },
}

/// Has `hook` called at the end of this process: after `main` has returned, or when a thread calls
/// [`std::process::exit`]. It is not called when a signal or [`abort`](std::process::abort) ends
/// the process. Hooks are called in the reverse order of their registration, by the thread that
/// ends the process; the other threads still run.
///
/// The thread-local values of the calling thread that have a destructor are gone by then, so `hook`
/// must not use them: neither `tracing` nor `std::thread::current`. A panic in `hook` aborts the
/// process.
///
/// # Errors
/// The operating system's, if it has no memory for the hook.
///
/// # References
/// [atexit(3)](https://man7.org/linux/man-pages/man3/atexit.3.html)
pub fn at_exit(hook: extern "C" fn()) -> io::Result<()> {
    sys::at_exit::register(hook)
}

/// Ends this process at once, without its [hooks](at_exit) and the C library's buffered output.
///
/// # References
/// [_exit(2)](https://man7.org/linux/man-pages/man2/_exit.2.html)
pub fn exit_at_once(code: i32) -> ! {
    sys::at_exit::exit_at_once(code)
}

/// Has a program begin with the signals blocked that the calling thread blocks now, and not with
/// those that the thread blocks which starts it. So signals can be blocked first, and none is
/// missed in between.
///
/// # Errors
/// The operating system's.
///
/// # References
/// [pthread_sigmask(3)](https://man7.org/linux/man-pages/man3/pthread_sigmask.3.html)
pub fn begin_with_present_signals(command: &mut Command) -> io::Result<()> {
    sys::signals::begin_with_present_mask(command)
}

/// Ends this process by a signal, as if nothing had handled it: whoever waits for this process sees
/// the signal. Returns only if the signal ends no process, as `SIGCHLD`, and for numbers that are
/// no signal's. A signal that makes a core file makes one of this process, as
/// [`RLIMIT_CORE`](https://man7.org/linux/man-pages/man2/getrlimit.2.html) allows.
///
/// # Errors
/// The operating system's.
///
/// # References
/// [signal(7)](https://man7.org/linux/man-pages/man7/signal.7.html)
pub fn end_by_signal(number: i32) -> io::Result<()> {
    sys::signals::raise_with_default_action(number)
}

impl Process {
    /// The process of that number, which need not exist.
    pub fn of(pid: Tid) -> Self {
        Self { pid }
    }

    /// The process's number.
    pub fn pid(self) -> Tid {
        self.pid
    }

    /// The TCP and UDP sockets of the process, IPv4 and IPv6, of its own network namespace, by
    /// inode, each once. A socket that the process opens or closes during the call may be missing;
    /// a socket without an address is left out.
    ///
    /// # Privileges
    /// None for a process of the same user that may be dumped. For others `CAP_DAC_READ_SEARCH` (or
    /// `CAP_DAC_OVERRIDE`) to list the descriptors and `CAP_SYS_PTRACE` to read their links;
    /// either alone is not enough, for user 0 too.
    ///
    /// # Errors
    /// By variant; a zombie counts as ended.
    ///
    /// # References
    /// [proc_pid_fd(5)](https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html),
    /// [proc_pid_net(5)](https://man7.org/linux/man-pages/man5/proc_pid_net.5.html)
    pub fn sockets(self) -> Result<Vec<Socket>, ProcessError> {
        open_sockets::of(self.pid)
    }

    /// Whether the process shares the calling thread's network namespace, and so its NICs and
    /// addresses.
    ///
    /// # Privileges
    /// None for a process of the same user that may be dumped; `CAP_SYS_PTRACE` for others.
    ///
    /// # Errors
    /// By variant; a zombie counts as ended.
    ///
    /// # References
    /// [network_namespaces(7)](https://man7.org/linux/man-pages/man7/network_namespaces.7.html)
    pub fn shares_network_namespace(self) -> Result<bool, ProcessError> {
        let namespace = |task: &str| {
            let file = format!("/proc/{task}/ns/net");
            let metadata = fs::metadata(&file).map_err(|source| unreadable(self.pid, file, TO_LOOK, source))?;
            Ok((metadata.dev(), metadata.ino()))
        };
        Ok(namespace(&self.pid.to_string())? == namespace("thread-self")?)
    }
}

/// The error of an unreadable file below `/proc/PID`, by the answer of the operating system.
fn unreadable(pid: Tid, file: String, needs: &'static str, source: io::Error) -> ProcessError {
    match source.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => ProcessError::NoSuchProcess { pid },
        // The files of a zombie are root's.
        Some(libc::EACCES | libc::EPERM) if has_ended(pid) => ProcessError::NoSuchProcess { pid },
        Some(libc::EACCES | libc::EPERM) => ProcessError::NotPermitted { file, needs, source },
        _ => ProcessError::Read { file, source },
    }
}

/// Whether the process is a zombie, or is being removed.
fn has_ended(pid: Tid) -> bool {
    let stat = procfs::process::Process::new(pid.as_raw()).and_then(|process| process.stat());
    stat.is_ok_and(|stat| matches!(stat.state, 'Z' | 'X'))
}

/// The capability to follow a link below `/proc/PID`.
const TO_LOOK: &str = "CAP_SYS_PTRACE";
/// The capabilities to list a directory there first.
const TO_LIST_AND_LOOK: &str = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn number(pid: u32) -> Tid {
        i32::try_from(pid).ok().and_then(Tid::from_raw).expect("a process has a number")
    }

    #[test]
    fn this_process_shares_its_own_network() {
        assert!(
            Process::of(number(std::process::id())).shares_network_namespace().expect("a process may look at itself")
        );
    }

    #[test]
    fn absent_and_ended_processes() {
        let mut ended = Command::new("true").stdin(Stdio::null()).spawn().expect("it is there");
        // A zombie until it is waited for, which the test does at its end.
        let stat = format!("/proc/{}/stat", ended.id());
        while !fs::read_to_string(&stat).expect("it is not waited for yet").contains(") Z ") {
            std::thread::yield_now();
        }
        for pid in [4_194_305, 0x7fff_ffff, ended.id()].map(number) {
            let process = Process::of(pid);
            let errors = [
                process.sockets().expect_err("it has none"),
                process.shares_network_namespace().expect_err("it has none"),
            ];
            for error in errors {
                assert!(matches!(error, ProcessError::NoSuchProcess { pid: said } if said == pid), "{error}");
            }
        }
        ended.wait().expect("it ended");
    }
}
