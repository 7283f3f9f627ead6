//! The initial RAM disk: busybox, the modules that reach the root file system, and the command to
//! run.

use super::{GuestError, kernel::Kernel};
use crate::system::{SystemError, file_error, output};
use cpio::newc::{self, ModeFileType};
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The guest's command, and its folder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Job {
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(String, OsString)>,
    pub(crate) folder: PathBuf,
    /// Paths of the owner that stay visible below a tmpfs.
    pub(crate) shown: Vec<PathBuf>,
}

impl Job {
    /// The script that executes the command, whose words no other shell interprets.
    fn command(&self) -> Vec<u8> {
        let mut script = b"cd ".to_vec();
        script.extend(quoted(self.folder.as_os_str()));
        script.extend(b" || exit\nexec env -i");
        for (name, value) in &self.environment {
            script.extend(format!(" {name}=").as_bytes());
            script.extend(quoted(value));
        }
        for word in &self.words {
            script.push(b' ');
            script.extend(quoted(word));
        }
        script.push(b'\n');
        script
    }

    /// A line `show PATH` for each path that a tmpfs covers.
    fn shows(&self) -> Vec<u8> {
        let covered = |path: &&PathBuf| COVERED.iter().any(|over| path.starts_with(over) && *path != Path::new(over));
        let mut script = Vec::new();
        for path in self.shown.iter().filter(covered) {
            script.extend(b"show ");
            script.extend(quoted(path.as_os_str()));
            script.push(b'\n');
        }
        script
    }
}

/// Writes the archive, uncompressed because it is read once, from memory.
pub(crate) fn write(to: impl Write, busybox: &Path, kernel: &Kernel, job: &Job) -> Result<(), GuestError> {
    let mut files = vec![
        ("init".to_owned(), INIT.to_vec()),
        ("bin/busybox".to_owned(), read(busybox)?),
        ("run.sh".to_owned(), RUN.to_vec()),
        ("command.sh".to_owned(), job.command()),
        ("shown".to_owned(), job.shows()),
    ];
    for (number, module) in kernel.load_order(&WANTED)?.into_iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split(".ko").next().unwrap_or_default();
        // The init script loads them in the order of their names.
        files.push((format!("modules/{number:03}-{name}.ko"), uncompressed(&module)?));
    }
    Ok(archive(to, &files).map_err(file_error("write", "initrd"))?)
}

fn archive(mut to: impl Write, files: &[(String, Vec<u8>)]) -> io::Result<()> {
    let folders = FOLDERS.iter().map(|name| (*name, ModeFileType::Directory, &[][..]));
    let files = files.iter().map(|(name, bytes)| (name.as_str(), ModeFileType::Regular, &bytes[..]));
    for (number, (name, kind, bytes)) in (1..).zip(folders.chain(files)) {
        let size = u32::try_from(bytes.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let entry = newc::Builder::new(name).ino(number).mode(0o755).set_mode_file_type(kind);
        let mut writer = entry.write(to, size);
        writer.write_all(bytes)?;
        to = writer.finish()?;
    }
    newc::trailer(to)?.flush()
}

/// busybox does not load compressed modules on every kernel, so they are unpacked here.
fn uncompressed(module: &Path) -> Result<Vec<u8>, SystemError> {
    let program = match module.extension().and_then(OsStr::to_str) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return read(module),
    };
    output(Command::new(program).arg("-dc").arg(module))
}

fn read(path: &Path) -> Result<Vec<u8>, SystemError> {
    fs::read(path).map_err(file_error("read", path))
}

/// The word, quoted for a POSIX shell; it may have any bytes.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = b"'".to_vec();
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// The paths of the guest's own, empty file systems.
const COVERED: [&str; 3] = ["/run", "/tmp", "/dev"];
const FOLDERS: [&str; 8] = ["bin", "dev", "host", "mnt", "modules", "proc", "run", "sys"];
/// The drivers of the root file system, the status port and the NICs: no udev loads drivers in the
/// guest.
const WANTED: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "virtio_net"];
const INIT: &[u8] = include_bytes!("init.sh");
const RUN: &[u8] = include_bytes!("run.sh");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    fn unpacked(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut rest = bytes;
        let mut entries = Vec::new();
        loop {
            let mut reader = newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            entries.push((name, mode, content));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn archive_of_busybox_scripts_and_ordered_modules() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("lib/modules/6.1.0");
        fs::create_dir_all(&modules).unwrap();
        let dep = "virtio.ko:\nvirtio_pci.ko: virtio.ko\nvirtio_console.ko: virtio.ko\n9pnet_virtio.ko:\n9p.ko:\n";
        fs::write(modules.join("modules.dep"), dep).unwrap();
        fs::write(modules.join("modules.builtin"), "kernel/virtio_net.ko\n").unwrap();
        for file in ["virtio.ko", "virtio_pci.ko", "virtio_console.ko", "9pnet_virtio.ko", "9p.ko"] {
            fs::write(modules.join(file), file).unwrap();
        }
        let (image, busybox) = (folder.path().join("vmlinuz"), folder.path().join("busybox"));
        fs::write(&image, "").unwrap();
        fs::write(&busybox, "a program").unwrap();
        let kernel = Kernel::named(&image, &modules).unwrap();
        let job = Job {
            words: vec!["echo".into(), "it's".into()],
            environment: vec![("A".into(), "b c".into())],
            folder: "/srv/x y".into(),
            shown: vec!["/tmp/checkout".into(), "/srv/x".into(), "/tmp".into()],
        };
        let mut bytes = Vec::new();
        write(&mut bytes, &busybox, &kernel, &job).unwrap();

        let entries = unpacked(&bytes);
        let content = |name: &str| &entries.iter().find(|entry| entry.0 == name).unwrap().2[..];
        assert_eq!(content("init"), INIT);
        assert_eq!(content("bin/busybox"), b"a program");
        assert_eq!(content("command.sh"), b"cd '/srv/x y' || exit\nexec env -i A='b c' 'echo' 'it'\\''s'\n");
        assert_eq!(content("shown"), b"show '/tmp/checkout'\n");
        assert_eq!(content("modules/001-virtio_pci.ko"), b"virtio_pci.ko");
        let names: Vec<_> = entries.iter().filter_map(|entry| entry.0.strip_prefix("modules/")).collect();
        let expected =
            ["000-virtio.ko", "001-virtio_pci.ko", "002-virtio_console.ko", "003-9pnet_virtio.ko", "004-9p.ko"];
        assert_eq!(names, expected);
        assert!(entries.iter().all(|entry| entry.1 & 0o111 == 0o111));
        assert_eq!(entries.iter().find(|entry| entry.0 == "mnt").unwrap().1 & 0o170_000, 0o040_000);
    }

    #[test]
    fn compressed_modules_are_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("virtio.ko");
        fs::write(&plain, "module").unwrap();
        output(Command::new("gzip").arg(&plain)).unwrap();
        assert_eq!(uncompressed(&plain.with_extension("ko.gz")).unwrap(), b"module");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_word_comes_out_of_a_shell_as_it_went_in(bytes in proptest::collection::vec(1_u8.., 0..40)) {
            let mut script = b"printf %s ".to_vec();
            script.extend(quoted(OsStr::from_bytes(&bytes)));
            let shell = Command::new("/bin/sh").arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap();
            prop_assert_eq!(shell.stdout, bytes);
        }
    }
}
