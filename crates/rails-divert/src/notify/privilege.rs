//! Finds the file that a command runs, and whether it gives privileges.

use super::error::{NotifyError, Privilege};
use crate::sys::xattr;
use nix::{
    sys::statvfs::{FsFlags, statvfs},
    unistd::{AccessFlags, access, getegid, geteuid},
};
use std::{
    borrow::Cow,
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::Command,
};

/// Refuses a command whose program, or whose script's interpreter, gains privileges when it starts.
/// A file that is not found, or cannot be examined, is left to the start.
pub(super) fn check(command: &Command) -> Result<(), NotifyError> {
    let mut next = find(command);
    for _ in 0..MAX_INTERPRETERS {
        let Some(program) = next else { return Ok(()) };
        if let Ok(Some(by)) = of_file(&program) {
            return Err(NotifyError::GainsPrivileges { program, by });
        }
        next = interpreter(&program).ok().flatten();
    }
    Ok(())
}

/// The file that `execvp(3)` will run.
fn find(command: &Command) -> Option<PathBuf> {
    let program = command.get_program();
    let folder = command.get_current_dir().unwrap_or(Path::new(""));
    if program.as_bytes().contains(&b'/') {
        return Some(folder.join(program));
    }
    let path = search_path(command);
    let candidates = env::split_paths(&path).map(|entry| folder.join(entry).join(program));
    candidates.into_iter().find(|file| file.is_file() && access(file, AccessFlags::X_OK).is_ok())
}

/// The folders in which the program is looked for: the command's own, or this process's.
fn search_path(command: &Command) -> Cow<'static, OsStr> {
    let of_command = command.get_envs().find(|(name, _)| *name == "PATH");
    let path: Option<OsString> = match of_command {
        Some((_, value)) => value.map(OsStr::to_owned),
        None => env::var_os("PATH"),
    };
    // As glibc and musl have it.
    path.map_or(Cow::Borrowed(OsStr::new("/bin:/usr/bin")), Cow::Owned)
}

/// The privileges that the file gives to this process.
fn of_file(file: &Path) -> io::Result<Option<Privilege>> {
    let metadata = fs::metadata(file)?;
    if statvfs(file).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOSUID)) {
        return Ok(None);
    }
    let bits = metadata.mode();
    if bits & SET_USER != 0 && metadata.uid() != geteuid().as_raw() {
        return Ok(Some(Privilege::SetUser));
    }
    if bits & SET_GROUP != 0 && bits & GROUP_RUNS != 0 && metadata.gid() != getegid().as_raw() {
        return Ok(Some(Privilege::SetGroup));
    }
    // Root has them all.
    let capable = !geteuid().is_root() && xattr::has_capabilities(file)?;
    Ok(capable.then_some(Privilege::Capabilities))
}

/// The program that runs this script; `None` if it is no script.
fn interpreter(script: &Path) -> io::Result<Option<PathBuf>> {
    let mut begin = Vec::new();
    File::open(script)?.take(MAX_FIRST_LINE).read_to_end(&mut begin)?;
    Ok(named_interpreter(&begin))
}

/// The interpreter that the first line of a script names.
fn named_interpreter(begin: &[u8]) -> Option<PathBuf> {
    let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// inode(7): `S_ISUID`, `S_ISGID` and `S_IXGRP`. Without the last, the second asks for mandatory
/// locks.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const GROUP_RUNS: u32 = 0o010;

/// `BINPRM_BUF_SIZE` of include/uapi/linux/binfmts.h: the kernel reads as much of a script.
const MAX_FIRST_LINE: u64 = 256;

/// The kernel follows as many interpreters that are scripts themselves (`exec_binprm` in
/// fs/exec.c), after the program.
const MAX_INTERPRETERS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        path
    }

    #[test]
    fn interpreters_are_read_as_the_kernel_does() {
        let read = |text: &str| named_interpreter(text.as_bytes());
        assert_eq!(read("#!/bin/sh\necho"), Some("/bin/sh".into()));
        assert_eq!(read("#! \t/usr/bin/env python3\n"), Some("/usr/bin/env".into()));
        assert_eq!(read("#!/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(read("#!\n/bin/sh"), None);
        assert_eq!(read("\x7fELF"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn programs_are_found_as_execvp_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::create_dir(&first).expect("a folder");
        fs::create_dir(&second).expect("a folder");
        file(&first, "tool", "", 0o644);
        let tool = file(&second, "tool", "", 0o755);
        let mut command = Command::new("tool");
        command.env("PATH", env::join_paths([&first, &second]).expect("no colons"));
        assert_eq!(find(&command), Some(tool), "the first one cannot be run");

        assert_eq!(find(Command::new("./tool").current_dir(&second)), Some(second.join("./tool")));
        assert_eq!(find(Command::new("tool").env("PATH", &first)), None);
        assert!(find(&Command::new("sh")).is_some_and(|found| found.is_absolute()));
        assert!(find(Command::new("sh").env_remove("PATH")).is_some_and(|found| found.ends_with("bin/sh")));
    }

    #[test]
    fn own_bits_give_no_privileges() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = file(folder.path(), "own", "#!/bin/sh\n", 0o6755);
        assert_eq!(of_file(&own).ok(), Some(None), "it is this user's and this group's");
        assert!(check(&Command::new(own)).is_ok());
        assert!(check(&Command::new("/no/such/program")).is_ok(), "that is for the start to say");
    }
}
