//! A two-socket machine with four NICs, emulated, to run tests in.
//!
//! [`Guest::run`] boots it on the root file system of its owner and runs one command there as root:
//!
//! ```no_run
//! use rails_lab::guest::Guest;
//!
//! # fn main() -> Result<(), rails_lab::guest::GuestError> {
//! let guest = Guest::builder().build()?;
//! let status = guest.run(["numactl", "--hardware"], |line| print!("{}", String::from_utf8_lossy(line)))?;
//! assert!(status.is_success());
//! # Ok(())
//! # }
//! ```
//!
//! # The machine
//!
//! - Two packages, each a NUMA node (0 and 1) with its own cores and memory, at distance 21.
//! - Four virtio NICs on PCI Express, whose MSI-X interrupts can be moved: the addresses
//!   52:54:00:00:00:01 and ..:03 are on node 0 and cabled with each other, ..:02 and ..:04 are on
//!   node 1 and cabled likewise. There is no other network.
//! - A disk of 16 MiB on node 1, full of zeros at each boot: `/dev/nvme0n1`, once the module `nvme`
//!   is [loaded](load_module).
//! - The root file system is the owner's, read-only; `/run`, `/tmp` and `/dev/shm` are empty and
//!   writable, but for the paths that were to be [shown](GuestBuilder::show). The cgroup2 hierarchy
//!   is at `/sys/fs/cgroup`.
//! - The command's environment is `RAILS_GUEST=1`, `PATH`, `HOME`, `TMPDIR=/run`, where
//!   [`load_module`] finds modules, and the variables of [`GuestBuilder::env`]. Its standard input
//!   is empty; its two outputs are one.
//!
//! # Limits
//!
//! QEMU emulates the guest instruction by instruction, which takes neither KVM nor root, and is
//! slow. Remote memory costs no more than local memory there, and a cable has no rate. It proves
//! where things are placed, not how fast they are.
//!
//! # Contract
//!
//! The emulator never outlives its owner: it is killed when [`Guest::run`] returns or unwinds, and
//! by a keeper process when the owner is killed.

mod cable;
mod error;
mod fetch;
mod initrd;
mod inside;
mod kernel;
mod machine;
mod modules;
mod options;
mod process;
mod run;
mod status;
mod tools;

pub use cable::Cable;
pub use error::{Console, GuestError};
pub use inside::{drop_caches, inside, load_module, require};
use kernel::Kernel;
use machine::Size;
pub use options::GuestBuilder;
pub use run::GuestStatus;
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};
pub use tools::Tool;

/// A two-socket machine that can be booted, any number of times.
#[derive(Debug, Clone)]
pub struct Guest {
    size: Size,
    time_limit: Duration,
    cache: PathBuf,
    /// The image and the modules' folder, if the caller named them.
    kernel: Option<(PathBuf, PathBuf)>,
    environment: Vec<(String, OsString)>,
    folder: PathBuf,
    shown: Vec<PathBuf>,
    programs: Vec<String>,
}

impl Guest {
    /// A builder of a machine, by default with two cores and 1 GiB on each node.
    pub fn builder() -> GuestBuilder {
        GuestBuilder::default()
    }

    /// Looks for the programs and files that a guest needs, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`GuestError::Architecture`], or [`GuestError::Missing`] with every program that is not
    /// installed.
    pub fn check(&self) -> Result<(), GuestError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(GuestError::Architecture { found: std::env::consts::ARCH });
        }
        let has_kernel = self.kernel.is_some() || Kernel::cached(&self.cache.join("kernel")).is_some();
        let to_fetch = if has_kernel { &[][..] } else { &Tool::TO_FETCH };
        let missing: Vec<Tool> =
            Tool::ALWAYS.iter().chain(to_fetch).copied().filter(|tool| tool.find().is_none()).collect();
        if missing.is_empty() { Ok(()) } else { Err(GuestError::Missing { missing }) }
    }

    /// Checks, and fetches the kernel into the cache if it is missing (Debian's, about 70 MB, 400
    /// MB on disk), and [programs](GuestBuilder::program) likewise.
    ///
    /// [`Guest::run`] does so too; a separate call separates a guest that is unavailable from one
    /// that fails.
    ///
    /// # Errors
    ///
    /// As [`Guest::check`], and [`GuestError::NoKernel`], [`GuestError::NoProgram`] or
    /// [`GuestError::System`].
    pub fn prepare(&self) -> Result<(), GuestError> {
        self.check()?;
        self.find_kernel()?;
        self.borrowed_programs().map(drop)
    }

    /// Boots, runs the command to its end as root, and powers off.
    ///
    /// `sink` gets each line of the command's output as it comes, with its newline; a line beyond
    /// 64 KiB comes in parts. Processes that the command leaves running are killed.
    ///
    /// An emulator that crashes before the command starts is started again, three times at most;
    /// [`GuestStatus::crashed_boots`] counts them.
    ///
    /// # Errors
    ///
    /// A command that fails is no error. Errors are those of [`Guest::prepare`], and
    /// [`GuestError::EmulatorCrashed`], or [`GuestError::NotUp`], [`GuestError::Panicked`],
    /// [`GuestError::TimedOut`] or [`GuestError::Lost`] with lines of the guest's console.
    pub fn run<S: AsRef<OsStr>>(
        &self,
        command: impl IntoIterator<Item = S>,
        sink: impl FnMut(&[u8]),
    ) -> Result<GuestStatus, GuestError> {
        let words = command.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self.check()?;
        run::run(self, &self.find_kernel()?, words, sink)
    }

    fn find_kernel(&self) -> Result<Kernel, GuestError> {
        match &self.kernel {
            Some((image, modules)) => Kernel::named(image, modules),
            None => fetch::cached_or_fetched(&self.cache),
        }
    }

    /// The folders of fetched packages, for programs that the owner has not installed.
    fn borrowed_programs(&self) -> Result<Vec<PathBuf>, GuestError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let missing = self.programs.iter().filter(|name| !crate::tool::is_installed(name, &path));
        missing.map(|name| fetch::cached_or_fetched_program(&self.cache, name)).collect()
    }

    /// The paths that a tmpfs must not hide: those named, and those that the command line and the
    /// kernel need.
    fn shown(&self, program: &Path, kernel: &Kernel, borrowed: &[PathBuf]) -> Vec<PathBuf> {
        let mut shown = self.shown.clone();
        shown.push(self.folder.clone());
        shown.extend_from_slice(borrowed);
        shown.extend(kernel.base().map(Path::to_owned));
        shown.extend(program.is_absolute().then(|| program.to_owned()));
        // A path below another is visible with it; mounting it again would fail on a read-only file
        // system.
        let all = shown.clone();
        shown.retain(|path| !all.iter().any(|above| path != above && path.starts_with(above)));
        shown.sort();
        shown.dedup();
        shown
    }
}
