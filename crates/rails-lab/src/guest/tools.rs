//! The programs that a guest is built with.

use crate::tool::find;
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

/// A program that a guest is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tool {
    /// The emulator.
    Qemu,
    /// The guest's first program, statically linked: there are no libraries yet.
    StaticBusybox,
    /// Records the dependencies of kernel modules.
    Depmod,
    /// Loads kernel modules.
    Modprobe,
    /// Fetches the kernel.
    Apt,
    /// Unpacks the kernel.
    Dpkg,
}

impl Tool {
    /// Programs that every guest needs.
    pub const ALWAYS: [Self; 4] = [Self::Qemu, Self::StaticBusybox, Self::Depmod, Self::Modprobe];
    /// Programs that fetch a kernel, if none was named and none is cached.
    pub const TO_FETCH: [Self; 2] = [Self::Apt, Self::Dpkg];

    /// The program's file, along `PATH` and where distributions keep programs for root.
    pub fn find(self) -> Option<PathBuf> {
        let (name, package) = self.names();
        let file = find(name, package, &env::var_os("PATH").unwrap_or_default()).ok()?;
        (self != Self::StaticBusybox || is_static(&file)).then_some(file)
    }

    /// The program, and the package of Debian that holds it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Qemu => ("qemu-system-x86_64", "qemu-system-x86"),
            Self::StaticBusybox => ("busybox", "busybox-static"),
            Self::Depmod => ("depmod", "kmod"),
            Self::Modprobe => ("modprobe", "kmod"),
            Self::Apt => ("apt-get", "apt"),
            Self::Dpkg => ("dpkg", "dpkg"),
        }
    }

    pub(crate) fn list(tools: &[Self]) -> String {
        tools.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, package) = self.names();
        let linked = if *self == Self::StaticBusybox { ", statically linked" } else { "" };
        write!(formatter, "`{name}`{linked} (package {package})")
    }
}

fn is_static(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| names_an_interpreter(&bytes) == Some(false))
}

/// Whether a 64-bit little-endian ELF file requests a dynamic loader; `None` for other files.
///
/// # References
///
/// elf(5): `e_phoff`, `e_phentsize`, `e_phnum` of the header, and `PT_INTERP`
fn names_an_interpreter(elf: &[u8]) -> Option<bool> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?)));
    let offset = usize::try_from(u64::from_le_bytes(elf.get(32..40)?.try_into().ok()?)).ok()?;
    let (size, count) = (short(54)?, short(56)?);
    for entry in 0..count {
        let start = offset.checked_add(entry * size)?;
        let kind = elf.get(start..start.checked_add(4)?)?;
        if kind == PT_INTERP.to_le_bytes() {
            return Some(true);
        }
    }
    Some(false)
}

const PT_INTERP: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::GuestError;
    use proptest::prelude::*;

    #[test]
    fn a_program_with_libraries_is_not_static() {
        assert!(!is_static(Path::new("/proc/self/exe")), "the test program is linked against libc");
        assert!(!is_static(Path::new("/etc/passwd")));
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        assert_eq!(names_an_interpreter(&elf(&[1, 6])), Some(false));
        assert_eq!(names_an_interpreter(&elf(&[1, 3, 6])), Some(true));
    }

    #[test]
    fn missing_programs_with_their_packages() {
        let error = GuestError::Missing { missing: vec![Tool::Qemu, Tool::StaticBusybox] };
        assert_eq!(
            error.to_string(),
            "the guest needs programs that are not installed: `qemu-system-x86_64` (package qemu-system-x86), \
             `busybox`, statically linked (package busybox-static)"
        );
    }

    proptest! {
        #[test]
        fn no_file_is_too_odd(mut bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let magic = b"\x7fELF\x02\x01";
            let length = magic.len().min(bytes.len());
            bytes[..length].copy_from_slice(&magic[..length]);
            let _ = names_an_interpreter(&bytes);
        }
    }

    /// An ELF header and segments of these kinds.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&[0; 52]);
        }
        bytes
    }
}
