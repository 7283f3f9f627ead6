//! Fetching a kernel, and programs, into the cache, once, without root.

use super::{
    GuestError,
    kernel::{IMAGE, Kernel, MODULES},
    tools::Tool,
};
use crate::system::{file_error, output};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::Builder;

/// The cache's kernel, fetched if it is missing.
pub(crate) fn cached_or_fetched(cache: &Path) -> Result<Kernel, GuestError> {
    let target = cache.join("kernel");
    let cached = || Kernel::cached(&target);
    once(cache, &target, cached, |work| fetch(work).map(|()| work.join("kernel")))
}

/// A program that the owner has not installed, from Debian's package of the same name: the folder
/// that the package is unpacked in. The owner must have the libraries of the program.
pub(crate) fn cached_or_fetched_program(cache: &Path, name: &str) -> Result<PathBuf, GuestError> {
    let target = cache.join(format!("program-{name}"));
    let cached = || target.is_dir().then(|| target.clone());
    once(cache, &target, cached, |work| {
        let no_program =
            |error: GuestError| GuestError::NoProgram { program: name.to_owned(), source: Box::new(error) };
        download(work, name).map_err(no_program)
    })
}

/// The kernel or package that `cached` finds, or else a new one by `put_together`.
///
/// The new one is made in a folder of another name, which is renamed when it is complete, under a
/// lock that the kernel drops when its process dies. So two runs fetch it once, and a half-finished
/// fetch never counts as complete.
fn once<T>(
    cache: &Path,
    target: &Path,
    cached: impl Fn() -> Option<T>,
    put_together: impl FnOnce(&Path) -> Result<PathBuf, GuestError>,
) -> Result<T, GuestError> {
    if let Some(found) = cached() {
        return Ok(found);
    }
    make(cache)?;
    let path = cache.join("lock");
    let lock = File::create(&path).map_err(file_error("create", &path))?;
    lock.lock().map_err(file_error("flock", &path))?;
    if let Some(found) = cached() {
        return Ok(found);
    }
    remove_leftovers(cache, target)?;
    let work = Builder::new().prefix(UNFINISHED).tempdir_in(cache).map_err(file_error("mkdtemp", cache))?;
    let complete = put_together(work.path())?;
    fs::rename(&complete, target).map_err(file_error("rename", &complete))?;
    let useless =
        || GuestError::NoKernel { reason: format!("the package fetched into {} holds none", target.display()) };
    cached().ok_or_else(useless)
}

/// Downloads one package and unpacks it into `unpacked`.
fn download(work: &Path, package: &str) -> Result<PathBuf, GuestError> {
    output(tool(Tool::Apt)?.arg("download").arg(package).current_dir(work))?;
    let archive = only(work, |name| name.ends_with(".deb"))?;
    let unpacked = work.join("unpacked");
    output(tool(Tool::Dpkg)?.arg("-x").arg(&archive).arg(&unpacked))?;
    Ok(unpacked)
}

/// Makes `kernel/vmlinuz` and `kernel/lib/modules/RELEASE` in this folder.
fn fetch(work: &Path) -> Result<(), GuestError> {
    let unpacked = download(work, &package()?).map_err(no_package)?;

    let kernel = work.join("kernel");
    make(&kernel.join("lib"))?;
    let image = only(&unpacked.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    fs::rename(&image, kernel.join(IMAGE)).map_err(file_error("rename", &image))?;
    // Debian 13 has the modules below /usr, earlier releases do not.
    let old = unpacked.join(MODULES);
    let modules = if old.is_dir() { old } else { unpacked.join("usr").join(MODULES) };
    fs::rename(&modules, kernel.join(MODULES)).map_err(file_error("rename", &modules))?;

    let release = only(&kernel.join(MODULES), |_| true)?;
    output(tool(Tool::Depmod)?.arg("-b").arg(&kernel).args(release.file_name()))?;
    // A kmod that was built to look below /usr does so under `-d` too.
    let link = kernel.join("usr");
    Ok(std::os::unix::fs::symlink(".", &link).map_err(file_error("symlink", &link))?)
}

/// The kernel package on which Debian's metapackage depends.
fn package() -> Result<String, GuestError> {
    let answer = output(Command::new("apt-cache").args(["depends", META])).map_err(no_package)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    first_dependency(&answer).map(str::to_owned).ok_or_else(|| GuestError::NoKernel {
        reason: format!("apt-cache knows no package that {META} depends on; {ADVICE}"),
    })
}

fn first_dependency(answer: &str) -> Option<&str> {
    answer
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
}

fn no_package(error: impl std::fmt::Display) -> GuestError {
    GuestError::NoKernel { reason: format!("{error}; {ADVICE}") }
}

/// Removes the leftovers of a killed run; no other run is active while this process holds the lock.
/// An incomplete kernel (with a part deleted) is removed too.
fn remove_leftovers(cache: &Path, target: &Path) -> Result<(), GuestError> {
    for entry in fs::read_dir(cache).map_err(file_error("readdir", cache))? {
        let path = entry.map_err(file_error("readdir", cache))?.path();
        let unfinished = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(UNFINISHED));
        if unfinished || path == target {
            fs::remove_dir_all(&path).map_err(file_error("remove", &path))?;
        }
    }
    Ok(())
}

/// The only entry of this folder whose name satisfies `such`.
fn only(folder: &Path, such: impl Fn(&str) -> bool) -> Result<PathBuf, GuestError> {
    let entries = fs::read_dir(folder).map_err(file_error("readdir", folder))?;
    let mut found = entries.flatten().filter(|entry| such(&entry.file_name().to_string_lossy()));
    found.next().map(|entry| entry.path()).ok_or_else(|| GuestError::NoKernel {
        reason: format!("{} lacks a file that every kernel package has", folder.display()),
    })
}

fn tool(tool: Tool) -> Result<Command, GuestError> {
    tool.find().map(Command::new).ok_or(GuestError::Missing { missing: vec![tool] })
}

fn make(folder: &Path) -> Result<(), GuestError> {
    Ok(fs::create_dir_all(folder).map_err(file_error("mkdir", folder))?)
}

const META: &str = "linux-image-amd64";
const UNFINISHED: &str = ".unfinished-";
const ADVICE: &str =
    "on Debian, `apt-get update` refreshes apt's package lists; elsewhere, name a kernel and its modules";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_package_is_read() {
        let answer = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Suggests: x\n";
        assert_eq!(first_dependency(answer), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(first_dependency("linux-image-amd64\n"), None);
    }

    #[test]
    fn leftovers_of_a_dead_run_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("kernel");
        for folder in [".unfinished-x/unpacked", "kernel/lib", "other"] {
            fs::create_dir_all(cache.path().join(folder)).unwrap();
        }
        remove_leftovers(cache.path(), &target).unwrap();
        assert!(!target.exists() && !cache.path().join(".unfinished-x").exists());
        assert!(cache.path().join("other").is_dir());
    }

    #[test]
    fn complete_kernel_without_a_lock_or_a_network() {
        let cache = tempfile::tempdir().unwrap();
        let modules = cache.path().join("kernel").join(MODULES).join("6.1.0");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("modules.dep"), "").unwrap();
        fs::write(cache.path().join("kernel").join(IMAGE), "").unwrap();
        assert_eq!(cached_or_fetched(cache.path()).unwrap().modules, modules);
        assert!(!cache.path().join("lock").exists());
    }
}
