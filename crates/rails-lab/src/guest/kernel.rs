//! The guest's kernel: one that was named, or the one in the cache.

use super::{GuestError, modules::Modules};
use crate::system::file_error;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A kernel image and its modules.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// `.../lib/modules/RELEASE`, where `modules.dep` lies.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// The kernel that the caller named, after a check of its files.
    pub(crate) fn named(image: &Path, modules: &Path) -> Result<Self, GuestError> {
        let kernel = Self { image: image.to_owned(), modules: modules.to_owned() };
        let reason = if !image.is_file() {
            format!("{} is not a file", image.display())
        } else if kernel.base().is_none() {
            format!("the modules' folder must be named .../lib/modules/RELEASE, and is {}", modules.display())
        } else if !modules.join(DEPENDENCIES).is_file() {
            format!("{} is not there; depmod makes it", modules.join(DEPENDENCIES).display())
        } else {
            return Ok(kernel);
        };
        Err(GuestError::NoKernel { reason })
    }

    /// The kernel in this folder of the cache; `None` unless it is complete.
    pub(crate) fn cached(folder: &Path) -> Option<Self> {
        let mut releases = fs::read_dir(folder.join(MODULES)).ok()?;
        let modules = releases.next()?.ok()?.path();
        Self::named(&folder.join(IMAGE), &modules).ok()
    }

    /// The folder for `modprobe -d`, which looks into `lib/modules/RELEASE` below it.
    pub(crate) fn base(&self) -> Option<&Path> {
        let parent = self.modules.parent()?;
        parent.ends_with(MODULES).then(|| parent.parent()?.parent()).flatten()
    }

    /// The files of the modules that these need, in the order in which to load them.
    pub(crate) fn load_order(&self, wanted: &[&str]) -> Result<Vec<PathBuf>, GuestError> {
        let read = |name: &str| {
            let path = self.modules.join(name);
            fs::read_to_string(&path).map_err(file_error("read", &path))
        };
        let modules = Modules::parse(&read(DEPENDENCIES)?, &read("modules.builtin")?);
        let files = modules
            .load_order(wanted)
            .map_err(|module| GuestError::NoModule { module, folder: self.modules.clone() })?;
        Ok(files.into_iter().map(|file| self.modules.join(file)).collect())
    }
}

pub(crate) const IMAGE: &str = "vmlinuz";
pub(crate) const MODULES: &str = "lib/modules";
const DEPENDENCIES: &str = "modules.dep";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_kernel_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let (image, modules) = (folder.path().join("bzImage"), folder.path().join("usr/lib/modules/6.1.0"));
        let reason = |image: &Path, modules: &Path| Kernel::named(image, modules).unwrap_err().to_string();
        assert!(reason(&image, &modules).ends_with("bzImage is not a file"));
        fs::write(&image, "").unwrap();
        fs::create_dir_all(&modules).unwrap();
        assert!(reason(&image, &modules).ends_with("modules.dep is not there; depmod makes it"));
        assert!(reason(&image, folder.path()).contains("must be named .../lib/modules/RELEASE"));
        fs::write(modules.join(DEPENDENCIES), "").unwrap();
        let kernel = Kernel::named(&image, &modules).unwrap();
        assert_eq!(kernel.base().unwrap(), folder.path().join("usr"));
    }

    #[test]
    fn half_a_kernel_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Kernel::cached(folder.path()).is_none());
        let modules = folder.path().join("lib/modules/6.1.0");
        fs::create_dir_all(&modules).unwrap();
        fs::write(folder.path().join(IMAGE), "").unwrap();
        assert!(Kernel::cached(folder.path()).is_none());
        fs::write(modules.join(DEPENDENCIES), "kernel/a.ko:\n").unwrap();
        fs::write(modules.join("modules.builtin"), "").unwrap();
        let kernel = Kernel::cached(folder.path()).unwrap();
        assert_eq!(kernel.load_order(&["a"]).unwrap(), [modules.join("kernel/a.ko")]);
        assert!(matches!(kernel.load_order(&["b"]), Err(GuestError::NoModule { module, .. }) if module == "b"));
    }
}
