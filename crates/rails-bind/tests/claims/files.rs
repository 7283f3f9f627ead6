//! Folders and files that others have made, changed or removed.

use crate::worker::{Worker, cpus, folder, say};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    libc,
    sys::stat::Mode,
    unistd::mkfifo,
};
use rails_bind::claims::{ClaimError, Claims, Resource};
use std::{
    error::Error,
    fs,
    os::{
        fd::AsRawFd,
        unix::{
            fs::{PermissionsExt, symlink},
            process::CommandExt,
        },
    },
    process::Command,
};

/// Plays, in a worker, a process that wants no good: it locks the files from their first byte to
/// beyond all numbers.
pub(crate) fn lock_to_the_end(claims: &Claims) -> usize {
    let mut locked = 0;
    for (name, length) in [("cpus", 0), ("interrupts", 1 << 62), ("queues.eth0", 0)] {
        let file = fs::File::options().write(true).create(true).truncate(false).open(claims.folder().join(name));
        let file = file.expect("anybody may write there");
        fcntl(&file, FcntlArg::F_SETLK(&lock(length))).expect("the file is free");
        // To close the file would unlock it.
        std::mem::forget(file);
        locked += 1;
    }
    locked
}

/// Plays, in a worker, a process of any program: its lock on the CPUs belongs to an open file and
/// to no process.
pub(crate) fn lock_for_an_open_file(claims: &Claims) {
    let file = fs::File::options().write(true).open(claims.folder().join("cpus")).expect("anybody may write there");
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock(0))).expect("the file is free");
    // To close the file would unlock it.
    std::mem::forget(file);
}

/// Locks all CPUs and becomes that program, which inherits the file and so the lock. Plays in a
/// worker.
pub(crate) fn lock_and_execute(claims: &Claims, program: &str) {
    let file = fs::File::options().write(true).open(claims.folder().join("cpus")).expect("anybody may write there");
    fcntl(&file, FcntlArg::F_SETLK(&lock(0))).expect("the file is free");
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).expect("it is open");
    say("ok");
    panic!("{program}: {}", Command::new(program).exec());
}

/// Makes the file of the CPUs, with a lease that keeps others from opening it for 45 s. Plays in a
/// worker.
pub(crate) fn lease(claims: &Claims) {
    let file = fs::File::options().write(true).create_new(true).open(claims.folder().join("cpus")).expect("it is new");
    file.set_permissions(PermissionsExt::from_mode(0o666)).expect("it is ours");
    // SAFETY: both calls have numbers alone for arguments, and the descriptor is open.
    #[allow(unsafe_code, reason = "nix has no leases, and the signal that asks for one back would end the process")]
    let leased = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    assert_eq!(leased, 0, "{}", std::io::Error::last_os_error());
    std::mem::forget(file);
}

/// A lock from the first byte on; to the end of all files with length 0.
fn lock(length: i64) -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: length as _, l_pid: 0 }
}

fn mode(path: &std::path::Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn folder_and_files_are_open_to_every_user() {
    let (_folder, claims) = folder();
    // Also with the umask of a process that keeps its files to itself. It is the whole process's, and
    // no other test of this program looks at the mode of a file that it makes.
    let umask = nix::sys::stat::umask(Mode::from_bits_truncate(0o077));
    let claimed = claims.claim([Resource::Interrupt(1)]);
    nix::sys::stat::umask(umask);
    claimed.expect("it is free").release().expect("the kernel lets go");
    assert_eq!((mode(claims.folder()), mode(&claims.folder().join("interrupts"))), (0o1777, 0o666));
    let names = |path: &std::path::Path| {
        let entries = fs::read_dir(path).expect("it is there");
        entries.map(|entry| entry.expect("it can be read").file_name().into_string().expect("text")).collect::<Vec<_>>()
    };
    assert_eq!(names(claims.folder()), ["interrupts"]);
    assert_eq!(names(claims.folder().parent().expect("it has one")), ["rails"]);
}

#[test]
fn listing_makes_nothing() {
    let (_folder, claims) = folder();
    assert!(claims.list().expect("there are none").is_empty());
    assert!(claims.taken().expect("there are none").is_empty());
    assert!(!claims.folder().exists());
    drop(claims.claim(cpus([0])).expect("it is free"));
    fs::write(claims.folder().join("queues.a:b"), "").expect("it can be written");
    assert!(claims.list().expect("that is no file of claims").is_empty());
}

#[test]
fn whole_files_locked_by_another_process() {
    let (_folder, claims) = folder();
    drop(claims.claim(cpus([0])).expect("it is free"));
    let mut worker = Worker::start(claims.folder());
    assert_eq!(worker.tell("lock-all"), "ok 3");
    let list = claims.list().expect("it can be read");
    assert_eq!((list.len(), list[0].pid), (1, Some(worker.pid())));
    assert_eq!(list[0].holds.to_string(), "CPUs 0-8191, interrupts 0-65535, rx queues 0-4095 of eth0");
    assert!(!claims.taken().expect("it can be read").cpus().is_empty());
    let message = claims.claim(cpus([5])).expect_err("it is held").to_string();
    assert!(message.starts_with(&format!("CPU 5 is held by process {}", worker.pid())), "{message}");
    assert!(message.len() < 500, "{message}");
}

#[test]
fn removed_under_claimers_is_made_anew() {
    let (_folder, claims) = folder();
    let mut workers = [Worker::start(claims.folder()), Worker::start(claims.folder())];
    for round in 0..20 {
        workers.iter_mut().for_each(|worker| worker.say("claim 0"));
        if round % 2 == 0 {
            // The file is there or not, and may be used.
            let _ = fs::remove_file(claims.folder().join("cpus"));
        } else {
            let _ = fs::remove_dir_all(claims.folder());
        }
        // A claim from before the removal is lost; a process that claims after the removal has to find a
        // file.
        for worker in &mut workers {
            let answer = worker.answer();
            assert!(answer == "ok CPU 0" || answer.starts_with("error CPU 0 is held by "), "{answer}");
        }
        workers.iter_mut().for_each(|worker| assert_eq!(worker.tell("release"), "ok"));
    }
    let ours = claims.claim(cpus([0])).expect("it is free");
    assert!(workers[0].tell("claim 0").starts_with("error CPU 0 is held by "));
    ours.check().expect("it holds");
}

/// The folder as killed processes leave it: files without a lock, and half-made ones.
#[test]
fn stale_folder_holds_nothing() {
    let (outside, claims) = folder();
    fs::create_dir(outside.path().join(".rails.new.0")).expect("it can be made");
    let mut dead = Worker::start(claims.folder());
    drop(claims.claim([Resource::Interrupt(1)]).expect("the folder can be made beside the other"));
    assert_eq!(dead.tell("claim 0 1"), "ok CPUs 0-1");
    dead.kill();
    fs::write(claims.folder().join(".cpus.new.0"), "").expect("it can be written");
    assert!(claims.list().expect("it can be read").is_empty());
    let queue = Resource::Queue { interface: "eth0".parse().expect("a name"), index: 0 };
    let all = cpus([0, 1]).into_iter().chain([Resource::Interrupt(1), queue]);
    claims.claim(all).expect("they are free").check().expect("it holds");
}

#[test]
fn links_pipes_and_folders_instead_of_files() {
    let (outside, claims) = folder();
    let made = claims.claim([Resource::Interrupt(1)]).expect("it is free");
    let (path, target) = (claims.folder().join("cpus"), outside.path().join("target"));
    fs::write(&target, "").expect("it can be written");
    let pipe = || mkfifo(&path, Mode::from_bits_truncate(0o666)).expect("it can be made");
    let makers: [(&str, &dyn Fn()); 4] = [
        ("link", &|| symlink(&target, &path).expect("it can be made")),
        ("dangling link", &|| symlink(outside.path().join("none"), &path).expect("it can be made")),
        ("pipe", &pipe),
        ("folder", &|| fs::create_dir(&path).expect("it can be made")),
    ];
    for (what, make) in makers {
        make();
        let error = claims.claim(cpus([0])).expect_err("it is no regular file");
        assert!(matches!(&error, ClaimError::NotAFile { path: said } if *said == path), "{what}: {error}");
        assert!(error.to_string().contains("is not a regular file"), "{error}");
        let list = claims.list().expect("the other files can be read");
        assert_eq!((list.len(), list[0].holds.to_string()), (1, "interrupt 1".to_owned()), "{what}");
        if what == "folder" { fs::remove_dir(&path) } else { fs::remove_file(&path) }.expect("it is there");
    }
    assert!(!outside.path().join("none").exists(), "nothing was made behind the link");
    made.check().expect("it holds");
}

#[test]
fn folder_that_is_a_link_or_no_folder() {
    let (outside, claims) = folder();
    let target = outside.path().join("target");
    fs::create_dir(&target).expect("it can be made");
    symlink(&target, claims.folder()).expect("it can be made");
    let error = claims.claim(cpus([0])).expect_err("it is a link");
    assert!(matches!(error, ClaimError::Folder { call: "open", .. }), "{error}");
    assert!(claims.list().is_err());
    assert_eq!(fs::read_dir(&target).expect("it is there").count(), 0);
    fs::remove_file(claims.folder()).expect("it is there");
    fs::write(claims.folder(), "").expect("it can be written");
    assert!(matches!(claims.claim(cpus([0])), Err(ClaimError::Folder { .. })));
}

/// Root cannot make a folder in `/proc` either.
#[test]
fn folder_that_cannot_be_made_comes_with_the_remedy() {
    let claims = Claims::at("/proc/rails");
    let error = claims.claim(cpus([0])).expect_err("it cannot be made");
    assert!(matches!(error, ClaimError::Folder { call: "make", .. }), "{error}");
    let message = error.to_string();
    assert!(message.starts_with("cannot make /proc/rails, the folder of the claims"), "{message}");
    assert!(message.contains("`install -d -m 1777 /proc/rails`"), "{message}");
    assert!(error.source().is_some());
    assert!(claims.list().expect("there are none").is_empty());
}

#[test]
fn refused_names_of_interfaces() {
    for name in ["", "..", "a/b", "eth0/../cpus", "a b", "a-name-too-long-"] {
        assert!(name.parse::<rails_bind::settings::InterfaceName>().is_err(), "{name}");
    }
}
