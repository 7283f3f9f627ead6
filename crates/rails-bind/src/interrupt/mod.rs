//! Interrupts: the CPUs that may serve each, those that do, their counts, and their distribution.
//!
//! Moving an interrupt is a change of the machine's [`settings`](crate::settings): [`distribute`]
//! makes the changes.

mod counts;
mod distribution;
pub mod irqbalance;

pub use counts::InterruptCounts;
pub use distribution::{Distribution, DistributionError, Vectors, distribute};
use rails_topo::{CpuSet, ParseSetError};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The CPUs that may serve an interrupt, and those that do, as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptStatus {
    /// The interrupt's number in `/proc/interrupts`.
    pub number: u32,
    /// The CPUs that may serve the interrupt (`smp_affinity_list`), as requested.
    pub requested: CpuSet,
    /// The CPUs that serve the interrupt (`effective_affinity_list`). Empty while the interrupt is
    /// not started; `None` if the kernel does not state them (before 4.15, or an architecture
    /// without it).
    ///
    /// After a new request these CPUs may stay the same until the interrupt next fires.
    pub effective: Option<CpuSet>,
}

/// The error of reading an interrupt's affinity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterruptError {
    /// There is no interrupt of that number.
    #[error("interrupt {number} does not exist (no {})", directory.display())]
    NoSuchInterrupt {
        /// The number.
        number: u32,
        /// The directory that the interrupt would have.
        directory: PathBuf,
    },

    /// The file may not be read.
    #[error("no permission to read {}", path.display())]
    PermissionDenied {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The file could not be read for another reason.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },

    /// The file does not hold a list of CPUs.
    #[error("{} does not hold a list of CPUs", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault in the text.
        source: ParseSetError,
    },
}

/// Reads interrupt `number` of this machine.
///
/// # Privileges
/// None.
///
/// # Errors
/// One variant each for an interrupt that does not exist, a file that may not be read, and one that
/// holds no list.
///
/// # References
/// [SMP IRQ affinity](https://docs.kernel.org/core-api/irq/irq-affinity.html)
pub fn read(number: u32) -> Result<InterruptStatus, InterruptError> {
    read_under(Path::new("/"), number)
}

/// Reads interrupt `number` of the machine whose file system begins at `root` (it has
/// `root/proc/irq`).
///
/// # Errors
/// As [`read`].
pub fn read_under(root: &Path, number: u32) -> Result<InterruptStatus, InterruptError> {
    let directory = root.join("proc/irq").join(number.to_string());
    if matches!(directory.try_exists(), Ok(false)) {
        return Err(InterruptError::NoSuchInterrupt { number, directory });
    }
    let requested = list(directory.join("smp_affinity_list"))?;
    let effective = match list(directory.join("effective_affinity_list")) {
        Ok(effective) => Some(effective),
        Err(InterruptError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(InterruptStatus { number, requested, effective })
}

fn list(path: PathBuf) -> Result<CpuSet, InterruptError> {
    match fs::read_to_string(&path) {
        Ok(text) => text.parse().map_err(|source| InterruptError::Malformed { path, source }),
        Err(source) => Err(unreadable(path, source)),
    }
}

fn unreadable(path: PathBuf, source: io::Error) -> InterruptError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => InterruptError::PermissionDenied { path, source },
        _ => InterruptError::Read { path, source },
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    counts::fuzz(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rails_topo::CpuId;

    /// A root with interrupt 24, which has these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let directory = root.path().join("proc/irq/24");
        fs::create_dir_all(&directory).expect("a directory");
        for (name, text) in files {
            fs::write(directory.join(name), text).expect("a file");
        }
        root
    }

    #[test]
    fn requested_and_effective_affinity() {
        let root = machine(&[("smp_affinity_list", "0-3\n"), ("effective_affinity_list", "2\n")]);
        let interrupt = read_under(root.path(), 24).expect("it is well-formed");
        assert_eq!(interrupt.requested.to_string(), "0-3");
        assert_eq!(interrupt.effective.map(|cpus| cpus.to_string()).as_deref(), Some("2"));
    }

    #[test]
    fn kernel_without_effective_affinity() {
        let root = machine(&[("smp_affinity_list", "0-3\n")]);
        assert_eq!(read_under(root.path(), 24).expect("it is well-formed").effective, None);
        let root = machine(&[("smp_affinity_list", "0-3\n"), ("effective_affinity_list", "\n")]);
        assert_eq!(read_under(root.path(), 24).expect("it is well-formed").effective, Some(CpuSet::new()));
    }

    #[test]
    fn each_failure_has_its_name() {
        let root = machine(&[("smp_affinity_list", "0-3;8\n")]);
        assert!(matches!(read_under(root.path(), 25), Err(InterruptError::NoSuchInterrupt { number: 25, .. })));
        let error = read_under(root.path(), 24).expect_err("the list is malformed");
        assert!(matches!(error, InterruptError::Malformed { .. }), "{error}");
        assert!(error.to_string().ends_with("proc/irq/24/smp_affinity_list does not hold a list of CPUs"), "{error}");
        let root = machine(&[]);
        assert!(matches!(read_under(root.path(), 24), Err(InterruptError::Read { .. })));
        // Tests may run as root, whom no file refuses.
        let denied = unreadable(PathBuf::from("f"), io::Error::from_raw_os_error(libc::EACCES));
        assert!(matches!(denied, InterruptError::PermissionDenied { .. }));
    }

    proptest! {
        #[test]
        fn any_affinity_list_of_the_kernel(numbers in proptest::collection::btree_set(0_u32..9000, 0..40)) {
            let cpus: CpuSet = numbers.into_iter().map(CpuId).collect();
            let text = format!("{cpus}\n");
            let root = machine(&[("smp_affinity_list", &text), ("effective_affinity_list", &text)]);
            let interrupt = read_under(root.path(), 24).expect("it is well-formed");
            prop_assert_eq!(interrupt, InterruptStatus { number: 24, requested: cpus.clone(), effective: Some(cpus) });
        }
    }
}
