//! One file's failure is named at both sides and stops nothing else.

use super::support::{Notes, block_on, bytes, harvest, in_a_process, transfer, watched};
use cap_std::{ambient_authority, fs::Dir};
use nix::sys::resource::{Resource, setrlimit};
use rails_transfer::{ReceiveError, ReceiveSummary, SendError, SendSummary, ThreadError, receive, send};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};
use tempfile::tempdir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// Sends `bad` and then `good`, running `spoil` on `bad` when the observer hears `when`; checks
/// that `bad` failed at both sides for the same reason, that `good` arrived, and that `bad` is not
/// there.
fn spoiled(size: usize, when: &'static str, expected: &str, spoil: impl Fn(&Path) + Send + Sync + 'static) {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let sources = [from.path().join("bad"), from.path().join("good")];
    fs::write(&sources[0], bytes(1, size)).unwrap();
    fs::write(&sources[1], "good").unwrap();
    let bad = sources[0].clone();
    let notes = Notes::new(move |note: &str| {
        if note.starts_with(when) {
            spoil(&bad);
        }
    });
    let (sent, received) = watched(&sources, into.path(), duplex(4096), notes);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(sent.failures.len(), 1, "{:?}", sent.failures);
    assert_eq!(sent.failures, received.failures);
    assert_eq!(sent.failures[0].path.as_deref(), Some(Path::new("bad")));
    assert!(sent.failures[0].reason.as_str().contains(expected), "{:?}", sent.failures);
    assert!(!sent.is_complete() && !received.is_complete());
    assert_eq!((sent.files.len(), received.stored), (1, 1));
    assert!(!into.path().join("bad").exists());
    assert_eq!(fs::read(into.path().join("good")).unwrap(), b"good");
}

#[test]
fn a_file_that_vanishes_after_it_was_listed() {
    spoiled(1000, "totals", "No such file", |bad| fs::remove_file(bad).unwrap());
}

#[test]
fn a_file_that_becomes_a_pipe_a_socket_or_a_link() {
    spoiled(0, "totals", "no longer a regular file", |bad| {
        fs::remove_file(bad).unwrap();
        assert!(Command::new("mkfifo").arg(bad).status().unwrap().success());
    });
    spoiled(0, "totals", "cannot open the file", |bad| {
        fs::remove_file(bad).unwrap();
        drop(UnixListener::bind(bad).unwrap());
    });
}

#[test]
fn file_below_a_folder_that_becomes_a_link() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let file = from.path().join("d/f");
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(&file, "f").unwrap();
    let notes = Notes::new(move |note: &str| {
        if note.starts_with("totals") {
            fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        }
    });
    let (sent, _) = watched(&[from.path().join("d")], into.path(), duplex(64), notes);
    assert!(sent.unwrap().failures[0].reason.as_str().contains("cannot open"));
    assert!(!into.path().join("d/f").exists());
}

/// Larger than the read-ahead, so that the end is still to be read when the first block is sent.
const LARGE: usize = 8 << 20;

/// By now the beginning has been read.
const FIRST_BLOCK: &str = "moved bad";

/// A file is changed so that the bytes that are read are in part the old ones.
type Change = fn(&Path);

const CHANGES: [Change; 5] = [
    spoil,
    // The change puts the file's time back.
    |file| {
        let opened = OpenOptions::new().write(true).open(file).unwrap();
        let modified = opened.metadata().unwrap().modified().unwrap();
        spoil(file);
        opened.set_modified(modified).unwrap();
    },
    |file| {
        // The size changes first: the next offer has the size at which the change was noticed.
        OpenOptions::new().append(true).open(file).unwrap().write_all(b"x").unwrap();
        spoil(file);
    },
    |file| {
        let shrinking = OpenOptions::new().write(true).open(file).unwrap();
        shrinking.set_len(shrinking.metadata().unwrap().len() - 10).unwrap();
        spoil(file);
    },
    |file| {
        let other = file.with_extension("other");
        fs::write(&other, bytes(9, LARGE)).unwrap();
        fs::rename(other, file).unwrap();
    },
];

/// Gives the file a beginning that it never had: the second attempt finds nothing at the receiver
/// to go on from, and is as long as the first.
fn spoil(file: &Path) {
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    let beginning = TIMES.fetch_add(1, Relaxed).to_le_bytes();
    OpenOptions::new().write(true).open(file).unwrap().write_all(&beginning).unwrap();
}

/// Sends `bad` and then `good`, and changes `bad` when the observer hears `when` for the first time
/// since `bad` was begun, at most that many times. Gives how often it was begun.
fn changed(when: &'static str, times: usize, change: Change) -> (SendSummary, ReceiveSummary, usize) {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let sources = [from.path().join("bad"), from.path().join("good")];
    fs::write(&sources[0], bytes(1, LARGE)).unwrap();
    fs::write(&sources[1], "good").unwrap();
    let (bad, left, is_due) = (sources[0].clone(), AtomicUsize::new(times), AtomicBool::new(true));
    let notes = Notes::new(move |note: &str| {
        is_due.fetch_or(note.starts_with("started bad"), Relaxed);
        let is_left = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if note.starts_with(when) && is_due.swap(false, Relaxed) && is_left() {
            change(&bad);
        }
    });
    let (sent, received) = watched(&sources, into.path(), duplex(1 << 16), notes.clone());
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(fs::read(into.path().join("good")).unwrap(), b"good");
    let there = fs::read(into.path().join("bad"));
    match sent.is_complete() {
        true => assert!(there.unwrap() == fs::read(&sources[0]).unwrap(), "it is as it is at the sender"),
        false => assert!(there.is_err(), "it is not there"),
    }
    let begun = notes.notes.lock().unwrap().iter().filter(|note| note.starts_with("started bad")).count();
    (sent, received, begun)
}

#[test]
fn a_file_that_changes_once_is_sent_again() {
    for change in CHANGES {
        let (sent, received, begun) = changed(FIRST_BLOCK, 1, change);
        assert!(sent.is_complete() && received.is_complete(), "{:?} {:?}", sent.failures, received.failures);
        assert_eq!((sent.files.len(), received.stored, received.failed, begun), (2, 2, 0, 2));
    }
    // Between listing and opening: nothing was sent in vain.
    let (sent, received, begun) = changed("totals", 1, CHANGES[2]);
    assert!(sent.is_complete() && received.is_complete(), "{:?} {:?}", sent.failures, received.failures);
    assert_eq!((sent.bytes_sent, begun), (LARGE as u64 + 1 + 4, 1));
}

#[test]
fn a_file_that_changes_each_time_fails_by_name() {
    let expected = ["changed", "changed", "grew", "shrank", "was replaced"];
    for (change, expected) in CHANGES.into_iter().zip(expected) {
        let (sent, received, begun) = changed(FIRST_BLOCK, usize::MAX, change);
        assert_eq!((sent.failures.len(), received.failed, received.stored, begun), (1, 1, 1, 2));
        assert_eq!(sent.failures, received.failures);
        assert_eq!(sent.failures[0].path.as_deref(), Some(Path::new("bad")));
        assert!(sent.failures[0].reason.as_str().contains(expected), "{:?}", sent.failures);
    }
}

#[test]
fn a_file_whose_reading_fails() {
    let into = tempdir().unwrap();
    // A regular file of size 0 whose first byte is an unmapped address: reading fails with EIO, for
    // root as well (proc_pid_mem(5)).
    let (sent, received) = transfer(&[Path::new("/proc/self/mem").to_owned()], into.path(), 64);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert!(sent.failures[0].reason.as_str().contains("cannot read the file"), "{:?}", sent.failures);
    assert_eq!(sent.failures, received.failures);
    assert!(harvest(into.path()).is_empty());
}

#[test]
fn names_taken_by_the_other_kind() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("a"), "a").unwrap();
    fs::create_dir(from.path().join("b")).unwrap();
    fs::write(from.path().join("b/in"), "b").unwrap();
    fs::write(from.path().join("c"), "c").unwrap();
    fs::create_dir(into.path().join("a")).unwrap();
    fs::write(into.path().join("b"), "here").unwrap();
    let (sent, received) = transfer(&[from.path().join(".")], into.path(), 64);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    let failed: Vec<_> = sent.failures.iter().map(|failure| failure.path.clone().unwrap()).collect();
    assert_eq!(failed, ["a", "b", "b/in"].map(std::path::PathBuf::from));
    assert_eq!((received.failed, received.stored), (3, 1));
    assert_eq!(fs::read(into.path().join("b")).unwrap(), b"here");
    assert_eq!(harvest(into.path()).len(), 3);
}

#[test]
fn file_given_up_with_blocks_under_way() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let sources = [from.path().join("bad"), from.path().join("good")];
    fs::write(&sources[0], bytes(1, LARGE)).unwrap();
    fs::write(&sources[1], "good").unwrap();
    // The sender is about to say that it starts; the receiver will find a part that was not there when
    // it looked.
    let part = into.path().join(".bad.rails-part");
    let notes = Notes::new(move |note: &str| {
        if note.starts_with("started bad") {
            fs::write(&part, "").unwrap();
        }
    });
    let (sent, received) = watched(&sources, into.path(), duplex(4096), notes);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert!(sent.failures[0].reason.as_str().contains("another transfer"), "{:?}", sent.failures);
    assert_eq!(sent.failures, received.failures);
    assert_eq!(received.stored, 1);
    // The sender stopped soon after it heard of the failure, and the block under way was not written.
    assert!(sent.bytes_sent < LARGE as u64, "{} bytes sent", sent.bytes_sent);
    assert_eq!(received.bytes_received, 4);
}

#[test]
fn receiver_without_its_folder_says_why() {
    let from = tempdir().unwrap();
    let file = from.path().join("f");
    fs::write(&file, "x").unwrap();
    let (sent, received) = transfer(std::slice::from_ref(&file), &file, 64);
    assert!(matches!(received, Err(ReceiveError::Folder { .. })), "{received:?}");
    let Err(SendError::Refused(reason)) = sent else { panic!("{sent:?}") };
    assert!(reason.as_str().contains("cannot open the folder"), "{reason}");
}

#[test]
fn no_thread_to_be_had_is_said_at_both_ends() {
    in_a_process("failures::no_thread_to_be_had_is_said_at_both_ends", &[], || {
        if nix::unistd::geteuid().is_root() {
            // The kernel holds every other user to the limit.
            nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).unwrap();
        }
        setrlimit(Resource::RLIMIT_NPROC, 0, 0).unwrap();
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        fs::write(from.path().join("f"), "x").unwrap();
        let sources = [from.path().join("f")];
        let (a, b) = duplex(4096);
        let sent = block_on(send(a, &sources, Arc::new(())));
        assert!(matches!(sent, Err(SendError::Thread(ThreadError::Spawn(_)))), "{sent:?}");
        drop(b);

        let (mut near, far) = duplex(4096);
        let (received, told) = block_on(async {
            near.write_all(b"RAILS-FT\x06\x00S\0\0").await.unwrap();
            let received = receive(far, into.path(), Arc::new(())).await;
            let mut told = Vec::new();
            near.read_to_end(&mut told).await.unwrap();
            (received, String::from_utf8_lossy(&told).into_owned())
        });
        assert!(matches!(received, Err(ReceiveError::Thread(ThreadError::Spawn(_)))), "{received:?}");
        assert!(told.contains("pids.max") && told.contains("RLIMIT_NPROC"), "{told}");
    });
}

#[test]
fn nothing_is_sent_when_two_sources_clash() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "x").unwrap();
    let twice = [from.path().join("f"), from.path().join("f")];
    let (sent, received) = transfer(&twice, into.path(), 64);
    assert!(matches!(sent, Err(SendError::Clash { .. })));
    assert!(received.is_err() && harvest(into.path()).is_empty());
}

/// A small file system of its own, taken away at the end.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(options: &str) -> Self {
        let at = tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at.path()).status();
        assert!(mounted.unwrap().success(), "mount");
        Self(at)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily, so that a failed test, which may still have files open, leaves no mount behind.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
#[ignore = "needs root: mounts a small tmpfs"]
fn netns_transfer_to_a_full_disk() {
    let from = tempdir().unwrap();
    let sources = [from.path().join("big"), from.path().join("small")];
    let file = bytes(1, 3 << 20);
    fs::write(&sources[0], &file).unwrap();
    fs::write(&sources[1], "").unwrap();
    let disk = Tmpfs::mount("size=2m");
    let into = disk.0.path();
    let (sent, received) = transfer(&sources, into, 1 << 16);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(sent.failures, received.failures);
    assert_eq!(sent.failures.len(), 1);
    assert!(sent.failures[0].reason.as_str().contains("No space left on device"), "{:?}", sent.failures);
    assert_eq!(received.stored, 1);
    assert!(!into.join("big").exists());

    // With room, the next run goes on from the bytes on the full disk.
    let part = fs::metadata(into.join(".big.rails-part")).unwrap().len();
    assert!(part > 1 << 20);
    let grown = Command::new("mount").args(["-o", "remount,size=8m"]).arg(into).status();
    assert!(grown.unwrap().success(), "remount");
    let (sent, received) = transfer(&sources, into, 1 << 16);
    assert!(received.unwrap().is_complete());
    assert_eq!(sent.unwrap().bytes_sent, file.len() as u64 - part);
    assert_eq!(fs::read(into.join("big")).unwrap(), file);
}

#[test]
#[ignore = "needs root: mounts a small tmpfs"]
fn netns_transfer_to_a_read_only_disk() {
    let from = tempdir().unwrap();
    fs::write(from.path().join("f"), "x").unwrap();
    let disk = Tmpfs::mount("size=1m,ro");
    let (sent, received) = transfer(&[from.path().join("f")], disk.0.path(), 64);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(sent.failures, received.failures);
    assert!(sent.failures[0].reason.as_str().contains("Read-only file system"), "{:?}", sent.failures);
}

/// Makes a chain of folders with long names; gives the last one, whose path from `root` has that
/// many bytes at most, and that path. A path longer than PATH_MAX can only be reached from a folder
/// on the way.
fn deep(root: &Path, len: usize) -> (Dir, PathBuf) {
    let mut dir = Dir::open_ambient_dir(root, ambient_authority()).unwrap();
    let (name, mut path) = ("d".repeat(200), PathBuf::new());
    while path.as_os_str().len() + 1 + name.len() <= len {
        let _ = dir.create_dir(&name);
        dir = dir.open_dir(&name).unwrap();
        path.push(&name);
    }
    (dir, path)
}

#[test]
fn paths_past_the_longest_are_named_alone() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    // The path of each folder is at most PATH_MAX from the source, and longer from the root of the file
    // system.
    let root = from.path().join("x".repeat(250)).join("y".repeat(250));
    fs::create_dir_all(root.join("long")).unwrap();
    let (last, inside) = deep(&root.join("long"), 4000);
    last.write("beside", "b").unwrap();
    let (below, _) = deep(&root.join("long"), 4400);
    below.write("out of reach", "o").unwrap();
    fs::write(root.join("long/short"), "s").unwrap();

    let (sent, received) = transfer(&[root.join("long")], into.path(), 4096);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.files.len(), received.stored, sent.skipped.len()), (2, 2, 0));
    assert_eq!((sent.failures.len(), received.failed), (1, 1), "{:?}", sent.failures);
    let reason = sent.failures[0].reason.as_str();
    assert!(reason.contains("at most 4096") && reason.contains("xx...dd") && reason.len() < 300, "{reason}");
    let into = Dir::open_ambient_dir(into.path().join("long"), ambient_authority()).unwrap();
    assert_eq!(into.read_to_string(inside.join("beside")).unwrap(), "b");
    assert_eq!(into.read_to_string("short").unwrap(), "s");
}
