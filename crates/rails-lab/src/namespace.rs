//! One end of a lab: programs and threads that run inside.

use crate::{
    LabError,
    system::{SystemError, file_error},
};
use nix::sched::{CloneFlags, setns};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// One end of a lab.
///
/// The value is a handle: a clone may go to another thread and may outlive its lab; then entering
/// fails.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    ip: PathBuf,
}

impl Namespace {
    pub(crate) fn new(name: String, ip: PathBuf) -> Self {
        Self { name, ip }
    }

    /// The name that `ip netns list` shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs `program` in this namespace, with `/sys` showing the namespace's
    /// interfaces.
    ///
    /// The child's pid is the program's own: `ip netns exec` replaces itself. So a missing program
    /// is reported by a message and an exit status of `ip` (which differs by version), not by an
    /// error of `spawn`.
    ///
    /// # References
    ///
    /// ip-netns(8)
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Moves the current thread into this namespace until the guard is dropped.
    ///
    /// Sockets belong to the namespace their thread was in when it opened them, and stay there.
    /// Threads started while the guard is held stay in this namespace, so a tokio runtime that is
    /// built and run under the guard is inside with all its workers. `/proc/thread-self/net` and
    /// `/proc/sys/net` follow the thread; **`/sys` does not**: it keeps showing the interfaces of
    /// the namespace it was mounted in.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] when the namespace is gone, [`LabError::Enter`] when the kernel
    /// refuses.
    ///
    /// # Privileges
    ///
    /// `CAP_SYS_ADMIN`, on entering and again when the guard is dropped.
    ///
    /// # References
    ///
    /// setns(2), network_namespaces(7)
    #[doc(alias = "setns")]
    pub fn enter(&self) -> Result<Entered, LabError> {
        let home = open(Path::new(OWN_NAMESPACE))?;
        let target = open(&Path::new(NAMESPACES).join(&self.name))?;
        setns(target, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| LabError::Enter { namespace: self.name.clone(), source: errno.into() })?;
        Ok(Entered { home, _not_send: PhantomData })
    }
}

/// A guard that keeps the current thread inside a namespace; dropping it moves the thread back.
///
/// Guards that are held at the same time on one thread must be dropped in the reverse order.
///
/// # Panics
///
/// Dropping panics if the thread cannot be moved back (it gave up `CAP_SYS_ADMIN` meanwhile):
/// continuing in the wrong network would be worse.
#[derive(Debug)]
#[must_use = "the thread leaves the namespace when this is dropped"]
pub struct Entered {
    home: File,
    /// The namespace is the thread's, so the guard may not leave it.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Err(errno) = setns(&self.home, CloneFlags::CLONE_NEWNET) {
            // A second panic while unwinding aborts the process, which is still better than the wrong network.
            panic!("setns failed for the thread's own network namespace: {errno}");
        }
    }
}

fn open(path: &Path) -> Result<File, SystemError> {
    File::open(path).map_err(file_error("open", path))
}

/// Tries to make a namespace, on a thread of its own, with which the namespace ends at once.
pub(crate) fn check_allowed() -> Result<(), LabError> {
    let answer = thread::Builder::new()
        .name("netns-check".into())
        .spawn(|| nix::sched::unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from))
        .and_then(|thread| thread.join().expect("a thread with one syscall does not panic"));
    answer.map_err(|source| LabError::NamespacesRefused { source })
}

/// The folder of the namespaces that `ip netns` made (iproute2, include/namespace.h,
/// `NETNS_RUN_DIR`).
pub(crate) const NAMESPACES: &str = "/var/run/netns";
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
