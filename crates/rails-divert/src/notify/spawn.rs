//! Starts a program with a filter.

use super::{
    error::NotifyError,
    journal::Journal,
    keeper::Keeper,
    loopback::Loopback,
    notifier::Notifier,
    privilege,
    watch::{Received, Watch},
};
use crate::sys::{
    pidfd::{self, Whole},
    seccomp::{self, Listener, Waiting},
};
use nix::{
    poll::PollTimeout,
    sys::{
        prctl,
        uio::{RemoteIoVec, process_vm_readv},
    },
    unistd::Pid,
};
use std::{
    fs,
    io::{self, IoSliceMut},
    os::fd::{AsFd, AsRawFd},
    path::PathBuf,
    process::{self, Child, Command},
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

/// Starts a program whose TCP connections are told before they are made, with those of all programs
/// that it starts. No privileges are needed.
///
/// `keeper` is a command that calls [`keeper::run`](super::keeper::run()), mostly this very program
/// with an argument of its own: the connections of the program depend on it once this process
/// dies. Its standard streams are replaced. The keeper is a child process of this one as well.
///
/// A new thread starts the program and ends. It has the CPUs, the memory policy and the signal
/// dispositions of the calling one; but a program that asks for a signal at its parent's death
/// (`PR_SET_PDEATHSIG`, in a hook of `pre_exec`) gets it when that thread ends: at once.
///
/// The program and all that it starts run with `no_new_privs`: set-user-ID and set-group-ID bits
/// and file capabilities, as `sudo` and `ping` have them, give them nothing. They cannot have
/// another filter that notifies. The filter costs each other system call 0.02 to 0.03 µs, and a
/// connection that is not diverted 9 to 32 µs (`benches/connect.rs`, on a busy machine of two
/// cores).
///
/// # Errors
/// See [`NotifyError`]; nothing runs then.
pub fn spawn(command: Command, keeper: Command) -> Result<(Child, Notifier), NotifyError> {
    start(command, keeper, &[Waiting::Killable, Waiting::Interruptible])
}

/// Starts a program, with the first way of waiting that the kernel has.
pub(super) fn start(
    command: Command,
    keeper: Command,
    ways: &'static [Waiting],
) -> Result<(Child, Notifier), NotifyError> {
    check_ptrace()?;
    privilege::check(&command)?;
    let loopback = Loopback::new().map_err(|source| NotifyError::NoLoopback { source })?;
    let program = PathBuf::from(command.get_program());
    let (tell, told) = sync_channel(1);
    let starter = thread::Builder::new()
        .name("rails-notified".to_owned())
        .spawn(move || start_filtered(command, ways, &tell))
        .map_err(call("clone"))?;
    // The thread waits in its first call until it is answered, or until nobody holds the listener.
    let (listener, waiting) = told.recv().expect("the thread tells its result")?;
    let watch = watch(listener, waiting, keeper, loopback)?;
    let started = starter.join().expect("the thread does not panic");
    let child = started.and_then(|child| child).map_err(|source| NotifyError::Start { program, source })?;
    Ok((child, Notifier::new(watch)))
}

/// Filters this thread, tells the listener, and starts the program once the first call is answered.
fn start_filtered(
    mut command: Command,
    ways: &[Waiting],
    tell: &SyncSender<Result<(Listener, Waiting), NotifyError>>,
) -> io::Result<io::Result<Child>> {
    let installed = prctl::set_no_new_privs().map_err(|errno| call("prctl")(errno.into())).and_then(|()| install(ways));
    let filtered = installed.is_ok();
    tell.send(installed).map_err(io::Error::other)?;
    if !filtered {
        return Err(io::ErrorKind::Other.into());
    }
    let error = seccomp::connect_nothing();
    // Otherwise the call was not answered, for the other side has given up.
    if error.raw_os_error() == Some(libc::EBADF) { Ok(command.spawn()) } else { Err(error) }
}

fn install(ways: &[Waiting]) -> Result<(Listener, Waiting), NotifyError> {
    let mut last = io::ErrorKind::Unsupported.into();
    for way in ways {
        match seccomp::install(*way) {
            Ok(listener) => return Ok((listener, *way)),
            // Of an older kernel.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = error,
            Err(error) => return Err(refusal("seccomp", error)),
        }
    }
    Err(refusal("seccomp", last))
}

/// Starts the keeper, and answers the first call: its number is the first in the journal.
fn watch(
    listener: Listener,
    waiting: Waiting,
    command: Command,
    loopback: Loopback,
) -> Result<Arc<Watch>, NotifyError> {
    let journal = Journal::new().map_err(call("memfd_create"))?;
    let program = PathBuf::from(command.get_program());
    let keeper =
        Keeper::start(command, &listener, &journal).map_err(|source| NotifyError::Keeper { program, source })?;
    let watch = Arc::new(Watch::new(listener, waiting, journal, keeper, loopback));
    match watch.receive(PollTimeout::NONE).map_err(call("SECCOMP_IOCTL_NOTIF_RECV"))? {
        Received::Pending(first) => first.skip(),
        Received::Nothing | Received::End => {
            return Err(NotifyError::Unsupported { source: io::ErrorKind::UnexpectedEof.into() });
        }
    }
    Ok(watch)
}

/// Refuses a machine on which no socket can be taken from another process.
fn check_ptrace() -> Result<(), NotifyError> {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    if let Some(scope) = refusing_scope(&scope, &status) {
        return Err(NotifyError::PtraceScope { scope });
    }
    let this = pidfd::open(process::id(), Whole::Process).map_err(|error| refusal("pidfd_open", error))?;
    pidfd::take(this.as_fd(), this.as_raw_fd()).map_err(|error| refusal("pidfd_getfd", error))?;
    let (from, mut to) = ([1_u8], [0_u8]);
    let remote = [RemoteIoVec { base: from.as_ptr().addr(), len: 1 }];
    process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut to)], &remote)
        .map_err(|errno| refusal("process_vm_readv", errno.into()))?;
    Ok(())
}

/// The setting of `ptrace_scope`, if a thread with this `/proc/PID/status` can take no descriptors
/// under it (Documentation/admin-guide/LSM/Yama.rst).
fn refusing_scope(scope: &str, status: &str) -> Option<u8> {
    let scope = scope.trim().parse().ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let capable = effective & (1 << CAP_SYS_PTRACE) != 0;
    (scope > 2 || (scope == 2 && !capable)).then_some(scope)
}

fn refusal(call: &'static str, source: io::Error) -> NotifyError {
    match source.raw_os_error() {
        Some(libc::EBUSY) => NotifyError::HasNotifier,
        Some(libc::EPERM | libc::EACCES) => NotifyError::Sandboxed { call, source },
        Some(libc::EINVAL | libc::ENOSYS) => NotifyError::Unsupported { source },
        None if source.kind() == io::ErrorKind::Unsupported => NotifyError::Unsupported { source },
        _ => NotifyError::Call { call, source },
    }
}

fn call(call: &'static str) -> impl Fn(io::Error) -> NotifyError {
    move |source| NotifyError::Call { call, source }
}

/// include/uapi/linux/capability.h.
const CAP_SYS_PTRACE: u32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_refuses_by_its_number_and_the_capability() {
        let (with, without) = ("CapPrm:\t0\nCapEff:\t0000000000080000\n", "CapEff:\t0000000000000000\n");
        for (scope, status, refused) in [
            ("", without, None),
            ("0\n", without, None),
            ("1\n", without, None),
            ("2\n", without, Some(2)),
            ("2\n", with, None),
            ("2\n", "", Some(2)),
            ("3\n", with, Some(3)),
        ] {
            assert_eq!(refusing_scope(scope, status), refused, "{scope:?} {status:?}");
        }
    }

    #[test]
    fn refusals_name_their_remedies() {
        let message = |errno| refusal("seccomp", io::Error::from_raw_os_error(errno)).to_string();
        assert!(message(libc::EBUSY).contains("only one"));
        assert!(message(libc::EPERM).contains("seccomp profile"));
        assert!(message(libc::ENOSYS).contains("Linux 5.9"));
        assert_eq!(message(libc::ENOMEM), "seccomp failed");
    }
}
