//! The kernel's files: one setting read or written.

use super::{Setting, SettingError, Value};
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// The kernel's files of this machine, or of a tree that looks like them.
#[derive(Debug, Clone)]
pub struct KernelFiles {
    root: PathBuf,
}

impl KernelFiles {
    /// Those of this machine, as the calling thread's network namespace and mounts show them.
    pub fn of_this_machine() -> Self {
        Self::under("/")
    }

    /// Those of the machine whose file system begins at `root` (it has `root/proc` and `root/sys`).
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where the file system begins.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What a setting is set to.
    ///
    /// # Errors
    /// [`SettingError::NotThere`], [`SettingError::Unsupported`], [`SettingError::Malformed`]; to read takes no
    /// privilege.
    pub fn read(&self, setting: &Setting) -> Result<Value, SettingError> {
        let path = self.path(setting);
        let text = fs::read_to_string(&path).map_err(|source| self.unreadable(setting, source))?;
        let text = text.trim();
        setting.parse(text).ok_or_else(|| SettingError::Malformed {
            setting: setting.clone(),
            path,
            text: text.to_owned(),
        })
    }

    /// Refuses what cannot be a value of the setting, before anything is changed.
    pub(super) fn check(setting: &Setting, value: &Value) -> Result<String, SettingError> {
        let text = setting.text(value).ok_or_else(|| SettingError::WrongKind {
            setting: setting.clone(),
            value: value.clone(),
            expected: if setting.takes_cpus() { "CPUs" } else { "a number" },
        })?;
        let must_not_be_empty = matches!(setting, Setting::InterruptAffinity { .. });
        if must_not_be_empty && value.cpus().is_some_and(|cpus| cpus.is_empty()) {
            return Err(SettingError::EmptySet { setting: setting.clone() });
        }
        Ok(text)
    }

    /// Writes, and reads back what the kernel made of it.
    pub(super) fn write(&self, setting: &Setting, value: &Value) -> Result<Value, SettingError> {
        let text = Self::check(setting, value)?;
        // One write: the kernel takes the whole value at once. The file must exist; it is never made. Truncating means
        // nothing to the kernel's own files, and makes a tree behave like them.
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.path(setting))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| self.refused(setting, value, source))?;
        let got = self.read(setting)?;
        // The kernel drops CPUs that are offline from a mask of RPS or XPS, if need be all of them.
        let emptied = |set: &Value| set.cpus().is_some_and(|cpus| cpus.is_empty());
        if emptied(&got) && !emptied(value) {
            return Err(SettingError::NoUsableCpu { setting: setting.clone(), value: value.clone() });
        }
        Ok(got)
    }

    fn path(&self, setting: &Setting) -> PathBuf {
        self.root.join(setting.path())
    }

    fn unreadable(&self, setting: &Setting, source: io::Error) -> SettingError {
        let (setting, path) = (setting.clone(), self.path(setting));
        match source.raw_os_error() {
            // A file that is listed and says that it is not there belongs to a feature that the interface lacks.
            Some(libc::ENOENT) if path.symlink_metadata().is_ok() => SettingError::Unsupported { setting, source },
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => SettingError::NotThere { setting, path },
            Some(libc::EOPNOTSUPP) => SettingError::Unsupported { setting, source },
            Some(libc::EACCES | libc::EPERM) => {
                SettingError::Denied { call: "read", setting, needs: "read permission to its file", source }
            }
            _ => SettingError::Call { call: "read", setting, path, source },
        }
    }

    /// What the kernel means by its answers to a write: `write_irq_affinity` in kernel/irq/proc.c, `store_rps_map` and
    /// `xps_cpus_store` in net/core/net-sysfs.c.
    fn refused(&self, setting: &Setting, value: &Value, source: io::Error) -> SettingError {
        let is_interrupt = matches!(setting, Setting::InterruptAffinity { .. });
        let takes_cpus = setting.takes_cpus();
        let (path, needs, setting) = (self.path(setting), setting.needs(), setting.clone());
        match source.raw_os_error() {
            Some(libc::ENOENT) if path.symlink_metadata().is_ok() => SettingError::Unsupported { setting, source },
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => SettingError::NotThere { setting, path },
            Some(libc::EOPNOTSUPP) => SettingError::Unsupported { setting, source },
            Some(libc::EROFS) => SettingError::ReadOnly { setting, path, source },
            // The file is opened before the kernel looks at the interrupt, so a lack of permission is EACCES; EIO, and
            // EPERM since Linux 6.13, come from an interrupt that user space may not move.
            Some(libc::EIO | libc::EPERM) if is_interrupt => SettingError::Managed { setting, source },
            Some(libc::EACCES | libc::EPERM) => SettingError::Denied { call: "write", setting, needs, source },
            Some(libc::EINVAL | libc::EOVERFLOW) if takes_cpus => {
                SettingError::NoUsableCpu { setting, value: value.clone() }
            }
            _ => SettingError::Call { call: "write", setting, path, source },
        }
    }
}
