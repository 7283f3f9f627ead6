//! From the name of a systemd unit to the folder of its cgroup.

use super::{cgroup, error::RedirectError};
use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Command,
};

/// Why the cgroup of a unit is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// No unit has such a name.
    #[error("{unit:?} is not the name of a unit that has a cgroup")]
    Name {
        /// The name that was given.
        unit: String,
    },
    /// The unit does not exist, or runs no process.
    #[error("the unit {unit} has no cgroup: it does not run")]
    NotRunning {
        /// The unit.
        unit: String,
    },
    /// systemd does not answer, and several cgroups have the unit's name: those of users' managers.
    #[error("{} cgroups have the name {unit}: {}", cgroups.len(), list(cgroups))]
    Several {
        /// The unit.
        unit: String,
        /// The cgroups.
        cgroups: Vec<PathBuf>,
    },
    /// No cgroup2 file system is mounted.
    #[error("no cgroup2 file system is mounted")]
    NoCgroup2,
    /// A file of the operating system cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The cgroups cannot be searched.
    #[error(transparent)]
    Search(Box<RedirectError>),
}

/// The folder of a systemd unit's cgroup.
///
/// A name without a suffix is that of a service: `nginx` is `nginx.service`. systemd is asked by
/// `systemctl show`; where it does not answer, the cgroup2 file system is searched for a folder of
/// that name.
///
/// # Errors
///
/// [`UnitError::Name`] for a name that no unit can have, [`UnitError::NotRunning`] and the others
/// as they say.
///
/// # References
///
/// systemctl(1), systemd.unit(5)
pub fn cgroup_of_unit(unit: &str) -> Result<PathBuf, UnitError> {
    let unit = full_name(unit)?;
    let root = cgroup2()?;
    let Some(control_group) = ask_systemd(&unit) else {
        return search(&root, &unit);
    };
    let folder = root.join(control_group.trim_start_matches('/'));
    if control_group.is_empty() || !folder.is_dir() {
        return Err(UnitError::NotRunning { unit });
    }
    Ok(folder)
}

/// The unit's name with its suffix.
fn full_name(unit: &str) -> Result<String, UnitError> {
    let full = match unit.rsplit_once('.') {
        Some((_, suffix)) if SUFFIXES.contains(&suffix) => unit.to_owned(),
        _ => format!("{unit}.service"),
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let stem = full.rsplit_once('.').map_or("", |(stem, _)| stem);
    // Without an instance, `name@.service` is a template.
    let is_unit = !stem.is_empty() && !stem.ends_with('@') && !stem.starts_with('@');
    if !is_unit || full.len() > MAX_NAME_BYTES || !full.bytes().all(is_allowed) {
        return Err(UnitError::Name { unit: unit.to_owned() });
    }
    Ok(full)
}

/// The unit's path below the cgroup file system, empty if it has none; `None` if systemd does not
/// answer.
fn ask_systemd(unit: &str) -> Option<String> {
    let output = Command::new("systemctl").args(["show", "--property=ControlGroup", "--value", "--", unit]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The one folder below `root` that has the unit's name.
fn search(root: &Path, unit: &str) -> Result<PathBuf, UnitError> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for below in cgroup::folders_below(&folder).map_err(|error| UnitError::Search(Box::new(error)))? {
            if below.file_name().is_some_and(|name| name == unit) {
                found.push(below.clone());
            }
            folders.push(below);
        }
    }
    match found.len() {
        0 => Err(UnitError::NotRunning { unit: unit.to_owned() }),
        1 => Ok(found.remove(0)),
        _ => {
            found.sort();
            Err(UnitError::Several { unit: unit.to_owned(), cgroups: found })
        }
    }
}

/// The first place where a cgroup2 file system is mounted.
fn cgroup2() -> Result<PathBuf, UnitError> {
    let mounts = Path::new("/proc/self/mounts");
    let text =
        fs::read_to_string(mounts).map_err(|source| UnitError::Unreadable { path: mounts.to_owned(), source })?;
    cgroup2_of(&text).ok_or(UnitError::NoCgroup2)
}

/// The place is the second word of a line, and the file system's name the third (fstab(5)).
fn cgroup2_of(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, file_system) = (words.next()?, words.next()?);
        (file_system == "cgroup2").then(|| unescaped(place))
    })
}

/// Spaces, tabs, ends of lines and backslashes are written as `\` and three octal digits.
fn unescaped(place: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = place.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

fn list(cgroups: &[PathBuf]) -> String {
    cgroups.iter().map(|cgroup| cgroup.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The kinds of units that have a cgroup (systemd.resource-control(5)).
const SUFFIXES: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];
/// systemd.unit(5)
const MAX_NAME_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_checked() {
        for (given, full) in [
            ("nginx", "nginx.service"),
            ("nginx.service", "nginx.service"),
            ("user-1000.slice", "user-1000.slice"),
            ("getty@tty1", "getty@tty1.service"),
            ("dev-disk-by\\x2dlabel.swap", "dev-disk-by\\x2dlabel.swap"),
            ("org.example.daemon", "org.example.daemon.service"),
        ] {
            assert_eq!(full_name(given).unwrap(), full);
        }
        let long = "a".repeat(MAX_NAME_BYTES - ".service".len());
        assert!(full_name(&long).is_ok());
        for bad in ["", ".service", "../../etc", "a/b", "a b", "getty@", "@", "näme", "a\n", &format!("{long}a")] {
            assert!(matches!(full_name(bad), Err(UnitError::Name { .. })), "{bad:?}");
        }
    }

    #[test]
    fn folder_of_a_unit_is_found_if_there_is_one() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| fs::create_dir_all(root.path().join(path)).unwrap();
        make("system.slice/nginx.service");
        make("user.slice/user@1.service/app.service");
        make("user.slice/user@2.service/app.service");
        assert_eq!(search(root.path(), "nginx.service").unwrap(), root.path().join("system.slice/nginx.service"));
        assert!(matches!(search(root.path(), "gone.service"), Err(UnitError::NotRunning { .. })));
        let Err(UnitError::Several { cgroups, .. }) = search(root.path(), "app.service") else {
            panic!("there are two");
        };
        assert_eq!(cgroups.len(), 2);
    }

    #[test]
    fn mount_of_cgroup2_is_found_wherever_it_is() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup2_of(hybrid), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(cgroup2_of("none /mnt/my\\040groups cgroup2 rw 0 0\n"), Some("/mnt/my groups".into()));
        assert_eq!(cgroup2_of("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"), None);
    }
}
