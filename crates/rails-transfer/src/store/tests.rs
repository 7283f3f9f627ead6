//! A store on a file system that refuses calls.

use super::*;
use crate::{
    calls::Calls,
    guarantee::{Guarantee, LackingGuarantee},
    hash::block_digest,
    keep::Xattrs,
    message::There,
    meta::{Extras, Modified},
    observe::Observer,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

/// An observer that keeps the missing guarantees that it hears of.
#[derive(Default)]
struct LackingLog(Mutex<Vec<LackingGuarantee>>);

impl Observer for LackingLog {
    fn lacking(&self, lacking: &LackingGuarantee) {
        self.0.lock().unwrap().push(lacking.clone());
    }
}

fn path(name: &str) -> RelPath {
    RelPath::parse(name).unwrap()
}

fn meta(mode: u32) -> Meta {
    Meta { mode: Some(mode), modified: Some(Modified { seconds: 1_000_000_000, nanos: 0 }), ..Meta::default() }
}

/// An offer of a file that is compared by its digest.
fn offer(name: &str, size: u64) -> Offer {
    Offer { path: path(name), size, meta: meta(0o640), compare: Compare::Digests }
}

/// The file that is found for an offer, and is not the sender's.
fn look(store: &Store, name: &str, size: u64) -> Result<(Incoming, Held), Reason> {
    match store.look(&offer(name, size), &|| true)? {
        Found::Other(file, held) => Ok((*file, held)),
        Found::Kept => panic!("{name} was compared by its time"),
    }
}

/// Stores two files in a folder, keeps one of them, and seals the folder; gives what was lacking.
fn store_some(into: &TempDir, calls: Calls, strict: bool) -> Result<Vec<Guarantee>, Reason> {
    let log = Arc::new(LackingLog::default());
    let guarantees = Guarantees::new(calls, strict, log.clone());
    let store = Store::open(into.path(), guarantees).unwrap();
    store.make_folder(&path("d"))?;
    for (name, bytes) in [("d/a", b"a"), ("d/b", b"b")] {
        let (mut file, _) = look(&store, name, 1)?;
        file.start(0, meta(0o640), &store.guarantees)?;
        file.write(bytes)?;
        file.verify(blake3::hash(bytes).into())?;
        store.finish(vec![file]).remove(0)?;
        assert_eq!(fs::read(into.path().join(name)).unwrap(), bytes);
    }
    let (kept, held) = look(&store, "d/b", 1)?;
    assert_eq!(held.there, Some(There { len: 1, blocks: vec![block_digest(0, b"b")] }));
    store.keep(kept, &meta(0o600))?;
    store.seal_folder(&path("d"), &meta(0o750))?;
    store.sync()?;
    let lacking = store.guarantees.lacking();
    assert_eq!(*log.0.lock().unwrap(), lacking, "each is reported once, when it is found");
    Ok(lacking.iter().map(|lacking| lacking.guarantee).collect())
}

fn stored(calls: Calls) -> Vec<Guarantee> {
    store_some(&tempfile::tempdir().unwrap(), calls, false).unwrap()
}

fn refused_strictly(calls: Calls) -> String {
    store_some(&tempfile::tempdir().unwrap(), calls, true).unwrap_err().to_string()
}

fn failed<const CODE: i32>() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(CODE))
}

/// Calls for each error that says that a call is not to be had.
macro_rules! refusing {
    ($call:ident, |$($argument:pat_param),*|) => {
        [
            Calls { $call: |$($argument),*| failed::<{ libc::ENOSYS }>(), ..Calls::KERNEL },
            Calls { $call: |$($argument),*| failed::<{ libc::EOPNOTSUPP }>(), ..Calls::KERNEL },
            Calls { $call: |$($argument),*| failed::<{ libc::EINVAL }>(), ..Calls::KERNEL },
            Calls { $call: |$($argument),*| failed::<{ libc::EPERM }>(), ..Calls::KERNEL },
            Calls { $call: |$($argument),*| failed::<{ libc::ENOLCK }>(), ..Calls::KERNEL },
        ]
    };
}

#[test]
fn nothing_is_lacking_on_a_good_file_system() {
    let into = tempfile::tempdir().unwrap();
    assert_eq!(store_some(&into, Calls::KERNEL, true), Ok(vec![]));
    let mode = |name: &str| fs::metadata(into.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(["d/a", "d/b", "d"].map(mode), [0o640, 0o600, 0o750]);
}

#[test]
fn refused_syncs_are_told_once_and_others_fail() {
    for calls in refusing!(sync, |_|) {
        assert_eq!(stored(calls), [Guarantee::Sync]);
        assert!(refused_strictly(calls).contains("put the file on disk"));
    }
    let broken = Calls { sync: |_| failed::<{ libc::EIO }>(), ..Calls::KERNEL };
    let full = Calls { sync: |_| failed::<{ libc::ENOSPC }>(), ..Calls::KERNEL };
    let quota = Calls { sync: |_| failed::<{ libc::EDQUOT }>(), ..Calls::KERNEL };
    for calls in [broken, full, quota] {
        let into = tempfile::tempdir().unwrap();
        let reason = store_some(&into, calls, false).unwrap_err();
        assert!(reason.as_str().contains("cannot put the file on disk"), "{reason}");
        assert!(!into.path().join("d/a").exists());
    }
}

/// Several files are put on disk by one call, and by one each where that is refused or fails.
#[test]
fn syncs_of_several_files() {
    let arrived = |calls: Calls, count: usize| {
        let into = tempfile::tempdir().unwrap();
        let store = Store::open(into.path(), Guarantees::new(calls, true, Arc::new(()))).unwrap();
        let write = |index: usize| {
            let (mut file, _) = look(&store, &index.to_string(), 1).unwrap();
            // A mode of either kind: set before the file is put on disk, and behind.
            file.start(0, meta([0o640, 0o444][index % 2]), &store.guarantees).unwrap();
            file.write(b"x").unwrap();
            file.verify(blake3::hash(b"x").into()).unwrap();
            file
        };
        let done = store.finish((0..count).map(write).collect());
        let names = fs::read_dir(into.path()).unwrap().count();
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), names, "a file that failed leaves nothing");
        for index in 0..names {
            let mode = fs::metadata(into.path().join(index.to_string())).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, [0o640, 0o444][index % 2]);
        }
        names
    };
    let together = Calls { sync: |_| failed::<{ libc::EIO }>(), sync_all: |_| Ok(()), ..Calls::KERNEL };
    assert_eq!((arrived(together, 40), arrived(together, 3)), (40, 0));
    for sync_all in [|_: &File| failed::<{ libc::ENOSYS }>(), |_: &File| failed::<{ libc::EIO }>()] {
        let alone = Calls { sync: |_| Ok(()), sync_all, ..Calls::KERNEL };
        assert_eq!(arrived(alone, 40), 40);
        let broken = Calls { sync: |_| failed::<{ libc::EIO }>(), ..alone };
        assert_eq!(arrived(broken, 40), 0);
    }
    assert_eq!(arrived(Calls::KERNEL, 40), 40);
}

#[test]
fn refused_modes_are_told_unless_they_fit() {
    for calls in refusing!(set_mode, |_, _|) {
        assert_eq!(stored(calls), [Guarantee::Mode]);
        assert!(refused_strictly(calls).contains("set the file's mode"));
    }
    // As vfat mounted with `quiet`: the call succeeds, and does nothing.
    let silent = Calls { set_mode: |_, _| Ok(()), ..Calls::KERNEL };
    assert_eq!(stored(silent), [Guarantee::Mode]);
    assert!(refused_strictly(silent).contains("set the file's mode: it stays 600"));
    let fitting = Calls { set_mode: set_and_refuse, ..Calls::KERNEL };
    assert_eq!(stored(fitting), []);
}

/// As under `RestrictSUIDSGID=` of systemd.
#[test]
fn refused_set_id_bits_leave_the_other_bits() {
    let set_mode = |file: &File, mode: u32| match mode & 0o6000 {
        0 => (Calls::KERNEL.set_mode)(file, mode),
        _ => failed::<{ libc::EPERM }>(),
    };
    let guarantees = Guarantees::new(Calls { set_mode, ..Calls::KERNEL }, false, Arc::new(()));
    let file = tempfile::tempfile().unwrap();
    guarantees.set_mode(&file, 0o4751, "set the file's mode").unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o751);
    let lacking: Vec<_> = guarantees.lacking().iter().map(|lacking| lacking.guarantee).collect();
    assert_eq!(lacking, [Guarantee::Mode]);
}

/// A file that cannot be given away has no set-id bit of its new owner.
#[test]
fn refused_owners_and_silently_refused_ones() {
    let extras = Extras { user: Some(4711), group: None, ..Extras::default() };
    let meta = Meta { mode: Some(0o4755), extras: Some(Box::new(extras)), ..Meta::default() };
    for (calls, cause) in [
        (Calls { set_owner: |_, _, _| failed::<{ libc::EPERM }>(), ..Calls::KERNEL }, "Operation not permitted"),
        (Calls { set_owner: |_, _, _| Ok(()), ..Calls::KERNEL }, "it stays of user"),
    ] {
        let file = tempfile::tempfile().unwrap();
        let guarantees = Guarantees::new(calls, false, Arc::new(()));
        let given = guarantees.give(&file, &meta).unwrap();
        assert_eq!((given.has_changed, given.set_id_bits), (false, 0));
        let lacking = guarantees.lacking();
        assert!(lacking[0].guarantee == Guarantee::Owners && lacking[0].to_string().contains(cause), "{lacking:?}");
        assert!(Guarantees::new(calls, true, Arc::new(())).give(&file, &meta).is_err());
    }
    let full = Calls { set_owner: |_, _, _| failed::<{ libc::EDQUOT }>(), ..Calls::KERNEL };
    let file = tempfile::tempfile().unwrap();
    assert!(Guarantees::new(full, false, Arc::new(())).give(&file, &meta).is_err());
}

#[test]
fn refused_and_failed_attributes() {
    let record = [&[6][..], b"user.a", &[1, b'x']].concat();
    let extras = Extras { xattrs: Xattrs::parse(&record).ok(), ..Extras::default() };
    let meta = Meta { extras: Some(Box::new(extras)), ..Meta::default() };
    let file = tempfile::tempfile().unwrap();
    let give = |calls, strict| {
        let guarantees = Guarantees::new(calls, strict, Arc::new(()));
        let given = guarantees.give(&file, &meta).map(|given| given.has_changed);
        (given, guarantees.lacking().iter().map(|lacking| lacking.guarantee).collect::<Vec<_>>())
    };
    let refused = Calls { set_attribute: |_, _, _| failed::<{ libc::EOPNOTSUPP }>(), ..Calls::KERNEL };
    assert_eq!(give(refused, false), (Ok(false), vec![Guarantee::Xattrs]));
    assert!(give(refused, true).0.is_err());
    let full = Calls { set_attribute: |_, _, _| failed::<{ libc::ENOSPC }>(), ..Calls::KERNEL };
    let reason = give(full, false).0.unwrap_err();
    assert!(reason.as_str().contains("cannot set the attribute user.a: No space left"), "{reason}");
}

#[test]
fn refused_times_are_told() {
    for calls in refusing!(set_modified, |_, _|) {
        assert_eq!(stored(calls), [Guarantee::Times]);
        assert!(refused_strictly(calls).contains("set the file's time"));
    }
}

/// As a file system that denies the change of a mode which is there already.
fn set_and_refuse(file: &File, mode: u32) -> io::Result<()> {
    (Calls::KERNEL.set_mode)(file, mode)?;
    failed::<{ libc::EPERM }>()
}

#[test]
fn refused_locks_give_way_to_record_locks() {
    for calls in refusing!(lock, |_|) {
        assert_eq!(stored(calls), []);
        let calls = Calls { record_lock: |_| failed::<{ libc::ENOLCK }>(), ..calls };
        assert_eq!(stored(calls), [Guarantee::Lock]);
        assert!(refused_strictly(calls).contains("cannot lock the part file"));
    }
}

/// Either kind of lock may be refused to one of two receivers.
#[test]
fn locks_keep_another_receiver_out() {
    let whole = Calls::KERNEL;
    let without_flock = Calls { lock: |_| failed::<{ libc::ENOSYS }>(), ..whole };
    let without_records = Calls { record_lock: |_| failed::<{ libc::EINVAL }>(), ..whole };
    for (one, other) in [
        (without_flock, without_flock),
        (without_records, without_records),
        (whole, without_flock),
        (without_flock, whole),
        (whole, without_records),
        (without_records, whole),
    ] {
        let into = tempfile::tempdir().unwrap();
        let open = |calls| Store::open(into.path(), Guarantees::new(calls, false, Arc::new(()))).unwrap();
        let (first, second) = (open(one), open(other));
        let (mut writing, _) = look(&first, "f", 2).unwrap();
        writing.start(0, Meta::default(), &first.guarantees).unwrap();
        assert_eq!(look(&second, "f", 2).unwrap_err().as_str(), BUSY);
        writing.write(b"x").unwrap();
        writing.park();
        assert!(look(&second, "f", 2).is_ok());
    }
}

/// As CIFS, whose server has one kind of lock: a receiver's own record lock keeps its flock out.
#[test]
fn locks_of_one_kind_are_no_other_receiver() {
    let lock = |file: &File| {
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        (Calls::KERNEL.record_lock)(&File::options().read(true).write(true).open(again)?)
    };
    assert_eq!(stored(Calls { lock, ..Calls::KERNEL }), []);
}

/// As on a mount with `uid=` and `umask=0`: every file is of one user, and open to all.
fn open_to_all(file: &File) -> io::Result<Access> {
    Ok(Access { user: 4711, mode: 0o777, ..(Calls::KERNEL.access)(file)? })
}

#[test]
fn parts_that_everybody_may_write_are_resumed() {
    let shared = Calls { access: open_to_all, set_mode: |_, _| failed::<{ libc::EPERM }>(), ..Calls::KERNEL };
    assert_eq!(stored(shared), [Guarantee::Owner, Guarantee::Mode]);
    let strictly = refused_strictly(shared);
    assert!(strictly.contains("ours alone") && strictly.contains("user 4711, mode 777"), "{strictly}");

    for (calls, resumes) in [(shared, true), (Calls::KERNEL, false)] {
        let into = tempfile::tempdir().unwrap();
        let part = into.path().join(".f.rails-part");
        fs::write(&part, "ab").unwrap();
        fs::set_permissions(&part, fs::Permissions::from_mode(0o666)).unwrap();
        let store = Store::open(into.path(), Guarantees::new(calls, false, Arc::new(()))).unwrap();
        let looked = look(&store, "f", 3);
        match looked {
            Ok((_, held)) => assert_eq!((resumes, held.part.map(|part| part.len)), (true, Some(2))),
            Err(reason) => assert!(!resumes && reason.as_str().contains("not ours alone"), "{reason}"),
        }
        assert_eq!(fs::read_dir(into.path()).unwrap().count(), 1, "the probe is removed");
    }
}

#[test]
fn file_in_the_place_of_a_folder_is_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(make_folder(file.path()).unwrap_err().kind(), io::ErrorKind::NotADirectory);
}

/// The sender's link is never taken for its folder.
#[test]
fn folders_in_the_place_of_links() {
    let into = tempfile::tempdir().unwrap();
    let store = Store::open(into.path(), Guarantees::new(Calls::KERNEL, true, Arc::new(()))).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let before = mode(into.path());
    let target = LinkTarget::try_from(b".".to_vec()).unwrap();
    store.make_link(&path("d"), &target, &Meta::default()).unwrap();
    assert!(store.seal_folder(&path("d"), &meta(0o777)).is_err());
    assert_eq!(mode(into.path()), before);

    store.make_folder(&path("d")).unwrap();
    store.seal_folder(&path("d"), &meta(0o750)).unwrap();
    assert!(fs::symlink_metadata(into.path().join("d")).unwrap().is_dir());
    assert_eq!((mode(&into.path().join("d")), mode(into.path())), (0o750, before));
}

/// A part that had the mode of another file is private while the next one is written.
#[test]
fn parts_gone_on_from_are_private() {
    let into = tempfile::tempdir().unwrap();
    let store = Store::open(into.path(), Guarantees::new(Calls::KERNEL, true, Arc::new(()))).unwrap();
    let part = into.path().join(".f.rails-part");
    fs::write(&part, "ab").unwrap();
    fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
    let (mut file, held) = look(&store, "f", 3).unwrap();
    file.start(held.part.unwrap().len, meta(0o600), &store.guarantees).unwrap();
    assert_eq!(fs::metadata(&part).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn entries_that_cannot_be_removed_are_named() {
    // The kernel lets no user remove a name there, not even root.
    let root = Dir::open_ambient_dir("/proc/self", ambient_authority()).unwrap();
    let mut search = Search::begin(&root, Some(RelPath::parse("ns").unwrap()), false).unwrap();
    let Next::Ask(Some(folder), entries) = search.next(None) else { panic!("there are namespaces") };
    assert_eq!(folder.as_bytes(), b"ns");
    search.choose(&vec![true; entries.len()], |path| panic!("{path} is gone"));
    let Next::Over(0, Some(reason)) = search.next(None) else { panic!("it has no other entries") };
    let others = format!("; and {} others", entries.len() - 1);
    assert!(
        reason.as_str().starts_with("receiver: cannot remove ns/") && reason.as_str().ends_with(&others),
        "{reason}"
    );
}

/// A file that shrinks while it is read, or that the disk does not give back, can still be
/// replaced.
#[test]
fn a_file_that_cannot_be_read_is_compared_no_more() {
    let into = tempfile::tempdir().unwrap();
    let store = Store::open(into.path(), Guarantees::new(Calls::KERNEL, true, Arc::new(()))).unwrap();
    let there = into.path().join("f");
    fs::write(&there, vec![1; 2 * BLOCK]).unwrap();
    let shrinks = || fs::write(&there, "").is_ok();
    let found = store.look(&offer("f", 2 * BLOCK as u64), &shrinks);
    let Ok(Found::Other(_, held)) = found else { panic!("{found:?}") };
    assert_eq!(held, Held::default());
}
