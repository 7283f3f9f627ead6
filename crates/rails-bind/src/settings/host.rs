//! A host: one setting read or written.

use super::{InterfaceName, Setting, SettingError, Value, bans, tasks};
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// This machine, or a tree with the kernel's files of a machine. Threads and processes are always
/// those of this machine.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// This machine, as the calling thread's mounts show it.
    pub fn this() -> Self {
        Self::under("/")
    }

    /// The machine whose file system begins at `root` (it has `root/proc` and `root/sys`).
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root of the file system.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// [`SettingError::NotThere`], [`SettingError::Unsupported`], [`SettingError::Malformed`],
    /// [`SettingError::Foreign`]. Reading takes no privilege, except for the memory of another
    /// user's process.
    pub fn read(&self, setting: &Setting) -> Result<Value, SettingError> {
        let Some(path) = self.path(setting) else { return self.read_by_call(setting) };
        let text = fs::read_to_string(&path).map_err(|source| unreadable(setting, &path, source))?;
        self.refuse_foreign(setting)?;
        let text = text.trim();
        setting.parse(text).ok_or_else(|| SettingError::Malformed {
            setting: setting.clone(),
            path,
            text: text.to_owned(),
        })
    }

    /// Refuses an impossible value of the setting, before anything is changed.
    pub(super) fn check(setting: &Setting, value: &Value) -> Result<String, SettingError> {
        let text = setting.text(value).ok_or_else(|| SettingError::WrongKind {
            setting: setting.clone(),
            value: value.clone(),
            expected: setting.form().in_words(),
        })?;
        if setting.must_not_be_empty() && value.is_empty() {
            return Err(SettingError::EmptySet { setting: setting.clone() });
        }
        Ok(text)
    }

    /// Writes, and reads back.
    pub(super) fn write(&self, setting: &Setting, value: &Value) -> Result<Value, SettingError> {
        let text = Self::check(setting, value)?;
        self.refuse_claimed(setting)?;
        self.refuse_foreign(setting)?;
        match self.path(setting) {
            None => self.write_by_call(setting, value)?,
            Some(path) => write(&path, &text).map_err(|source| refused(setting, value, path, source))?,
        }
        let got = self.read(setting)?;
        // The kernel drops CPUs that are offline from a mask of RPS or XPS, if need be all of them.
        if got.is_empty() && !value.is_empty() {
            return Err(SettingError::NoneUsable { setting: setting.clone(), value: value.clone() });
        }
        Ok(got)
    }

    /// Refuses a file that belongs to another interface than the setting names. In a tree of files
    /// every interface is its own.
    fn refuse_foreign(&self, setting: &Setting) -> Result<(), SettingError> {
        let is_own =
            |interface: &InterfaceName| self.root != Path::new("/") || rails_topo::sysfs_shows(interface.as_str());
        match setting.interface().is_none_or(is_own) {
            true => Ok(()),
            false => Err(SettingError::Foreign { setting: setting.clone() }),
        }
    }

    fn read_by_call(&self, setting: &Setting) -> Result<Value, SettingError> {
        match setting {
            Setting::IrqbalanceBan { interrupt } => bans::read(&self.root, setting, *interrupt),
            _ => tasks::read(setting),
        }
    }

    fn write_by_call(&self, setting: &Setting, value: &Value) -> Result<(), SettingError> {
        match (setting, value) {
            (Setting::IrqbalanceBan { interrupt }, Value::Number(banned)) => {
                bans::write(&self.root, setting, *interrupt, *banned != 0)
            }
            _ => tasks::write(setting, value),
        }
    }

    fn path(&self, setting: &Setting) -> Option<PathBuf> {
        setting.path().map(|path| self.root.join(path))
    }
}

/// Writes the whole value at once, as the kernel takes it. The file must exist; it is never made.
/// Truncating has no effect on the kernel's files, and makes a tree behave like them.
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

fn unreadable(setting: &Setting, path: &Path, source: io::Error) -> SettingError {
    let (setting, path) = (setting.clone(), path.to_owned());
    match source.raw_os_error() {
        // A file that is listed and does not exist belongs to a feature that the interface lacks.
        Some(libc::ENOENT) if path.symlink_metadata().is_ok() => SettingError::Unsupported { setting, source },
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => SettingError::NotThere { setting, path },
        Some(libc::EOPNOTSUPP) => SettingError::Unsupported { setting, source },
        Some(libc::EACCES | libc::EPERM) => {
            SettingError::Denied { call: "read", setting, needs: "read permission to its file", source }
        }
        _ => SettingError::Call { call: "read", setting, source },
    }
}

/// The meaning of the kernel's answers to a write: `write_irq_affinity` in kernel/irq/proc.c,
/// `store_rps_map` and `xps_cpus_store` in net/core/net-sysfs.c.
fn refused(setting: &Setting, value: &Value, path: PathBuf, source: io::Error) -> SettingError {
    let is_interrupt = matches!(setting, Setting::InterruptAffinity { .. });
    let takes_cpus = value.cpus().is_some();
    let (needs, setting) = (setting.needs(), setting.clone());
    match source.raw_os_error() {
        Some(libc::ENOENT) if path.symlink_metadata().is_ok() => SettingError::Unsupported { setting, source },
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => SettingError::NotThere { setting, path },
        Some(libc::EOPNOTSUPP) => SettingError::Unsupported { setting, source },
        Some(libc::EROFS) => SettingError::ReadOnly { setting, path, source },
        // The file is opened before the kernel looks at the interrupt, so a lack of permission is EACCES; EIO, or EPERM
        // in newer kernels, comes from an interrupt that user space may not move.
        Some(libc::EIO | libc::EPERM) if is_interrupt => SettingError::Managed { setting, source },
        Some(libc::EACCES | libc::EPERM) => SettingError::Denied { call: "write", setting, needs, source },
        Some(libc::EINVAL | libc::EOVERFLOW | libc::ERANGE) if takes_cpus => {
            SettingError::NoneUsable { setting, value: value.clone() }
        }
        _ => SettingError::Call { call: "write", setting, source },
    }
}
