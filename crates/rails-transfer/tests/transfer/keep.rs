//! Owners, set-id bits, extended attributes, access lists and hard links.

use super::support::{Node, Notes, Tree, block_on, bytes, harvest, in_a_process, plant, transfer_cut};
use nix::unistd::{Gid, Uid, chown, geteuid};
use rails_transfer::{
    Compare, Guarantee, How, LackingGuarantee, ReceiveOptions, ReceiveSummary, SendOptions, SendSummary,
};
use rustix::{
    fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::Arc,
};
use tempfile::{TempDir, tempdir};
use tokio::io::duplex;

/// Sends a folder's contents, or a file.
fn run(options: SendOptions, receiver: ReceiveOptions, source: &Path, into: &Path) -> (SendSummary, ReceiveSummary) {
    let (a, b) = duplex(4096);
    let sources = [if source.is_dir() { source.join(".") } else { source.to_owned() }];
    let (sent, received) = block_on(async {
        tokio::join!(options.send(a, &sources, Arc::new(())), receiver.receive(b, into, Arc::new(())))
    });
    (sent.unwrap(), received.unwrap())
}

/// As [`run`]; nothing fails.
fn send(options: SendOptions, receiver: ReceiveOptions, from: &Path, into: &Path) -> (SendSummary, ReceiveSummary) {
    let (sent, received) = run(options, receiver, from, into);
    assert!(sent.is_complete() && received.is_complete(), "{:?} {:?}", sent.failures, received.failures);
    (sent, received)
}

fn all() -> SendOptions {
    SendOptions::new().hard_links(true).owner(true).group(true).xattrs(true).acls(true)
}

fn allowing() -> ReceiveOptions {
    ReceiveOptions::new().allow_owners(true).allow_xattrs(true)
}

fn lacking(lacking: &[LackingGuarantee]) -> Vec<Guarantee> {
    lacking.iter().map(|lacking| lacking.guarantee).collect()
}

fn folders() -> (TempDir, TempDir) {
    (tempdir().unwrap(), tempdir().unwrap())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn owners(path: &Path) -> (u32, u32) {
    let there = fs::symlink_metadata(path).unwrap();
    (there.uid(), there.gid())
}

fn own(path: &Path, user: u32, group: u32) {
    chown(path, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))).unwrap();
}

fn set(path: &Path, name: &str, value: &[u8]) -> Result<(), Errno> {
    setxattr(path, name, value, XattrFlags::empty())
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1 << 16];
    let len = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

/// All attributes of an entry.
fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 1 << 16];
    let len = listxattr(path, &mut names[..]).unwrap();
    let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names = names.map(|name| String::from_utf8(name.to_vec()).unwrap());
    names.map(|name| (name.clone(), get(path, &name).unwrap())).collect()
}

/// Says what is not tested, past the harness, which keeps to itself what passing tests print.
fn tell(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Whether this is root; says so otherwise.
fn is_root(test: &str) -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        tell(format_args!("{test} is not tested: only root gives files away"));
    }
    is_root
}

/// Whether a folder takes an attribute; says so otherwise.
fn takes(folder: &Path, name: &str, value: &[u8]) -> bool {
    let file = folder.join("probe");
    fs::write(&file, "").unwrap();
    let takes = set(&file, name, value);
    fs::remove_file(file).unwrap();
    if let Err(error) = takes {
        tell(format_args!("attributes are not tested: {} takes no {name}: {error}", folder.display()));
    }
    takes.is_ok()
}

/// An access list: a user may read, beside the owner's, group's and others' bits of 0644.
fn access_list(user: u32) -> Vec<u8> {
    let entry = |tag: u16, permission: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permission.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let entries = [entry(1, 6, none), entry(2, 4, user), entry(4, 4, none), entry(16, 4, none), entry(32, 4, none)];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// Inodes by name.
fn inodes(folder: &Path, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| fs::symlink_metadata(folder.join(name)).unwrap().ino()).collect()
}

#[test]
fn owners_with_their_set_id_bits() {
    if !is_root("owners_with_their_set_id_bits") {
        return;
    }
    let (from, into) = folders();
    let tree = Tree::from([
        (b"d".to_vec(), Node::Folder(0o2775)),
        (b"d/program".to_vec(), Node::File(0o4755, bytes(1, 600_000))),
        (b"d/file".to_vec(), Node::File(0o640, bytes(2, 10))),
        (b"l".to_vec(), Node::Link(b"nowhere".to_vec())),
    ]);
    plant(from.path(), &tree);
    own(&from.path().join("d"), 1001, 2001);
    own(&from.path().join("d/program"), 1002, 2002);
    set_mode(&from.path().join("d/program"), 0o6755);
    set_mode(&from.path().join("d"), 0o2775);
    std::os::unix::fs::lchown(from.path().join("l"), Some(1003), Some(2003)).unwrap();
    let names = ["d", "d/program", "d/file", "l"];
    let owned = |folder: &Path| names.map(|name| owners(&folder.join(name)));

    // Without options.
    let (sent, _) = send(SendOptions::new(), allowing(), from.path(), into.path());
    assert_eq!(owned(into.path()), [owners(into.path()); 4]);
    assert_eq!((mode(&into.path().join("d/program")), mode(&into.path().join("d"))), (0o755, 0o775));
    assert_eq!(sent.not_kept.set_id_bits, 2);

    // Files that are there get owners and bits, and a dry run tells.
    let dry = all().dry_run(true);
    let (sent, _) = send(dry.clone(), allowing(), from.path(), into.path());
    let updated = |sent: &SendSummary| sent.files.iter().filter(|file| file.how == How::WouldUpdate).count();
    assert_eq!((updated(&sent), sent.would_make), (1, 1), "the program, and the link");
    for compare in [Compare::Times, Compare::Digests] {
        let (sent, received) = send(all().compare(compare), allowing(), from.path(), into.path());
        assert_eq!((sent.bytes_sent, received.already_there, sent.not_kept.set_id_bits), (0, 2, 0));
        assert_eq!(owned(into.path()), owned(from.path()));
        assert_eq!(harvest(into.path()), harvest(from.path()));
        assert_eq!(sent.lacking, []);
        let (sent, _) = send(dry.clone(), allowing(), from.path(), into.path());
        assert_eq!((updated(&sent), sent.would_make), (0, 0));
        own(&into.path().join("d/program"), 0, 0);
    }

    // Into an empty folder, cut on the way; a part stays ours until it is whole.
    let into = tempdir().unwrap();
    assert!(transfer_cut(&[from.path().join(".")], into.path(), 400_000).0.0.is_err());
    let part = into.path().join("d/.program.rails-part");
    assert_eq!((owners(&part), mode(&part)), (owners(into.path()), 0o600));
    let (sent, _) = send(all(), allowing(), from.path(), into.path());
    assert!(sent.files.iter().any(|file| matches!(file.how, How::Sent { resumed_at: 1.. })));
    assert_eq!((owned(into.path()), harvest(into.path())), (owned(from.path()), harvest(from.path())));

    // A set-id bit without its owner is none.
    let (sent, _) = send(SendOptions::new().group(true), allowing(), from.path(), into.path());
    assert_eq!(sent.not_kept.set_id_bits, 1);
    let into = tempdir().unwrap();
    send(SendOptions::new().group(true), allowing(), from.path(), into.path());
    assert_eq!(mode(&into.path().join("d/program")), 0o2755);
    assert_eq!(owners(&into.path().join("d/program")), (0, 2002));
}

#[test]
fn owners_that_are_not_allowed_or_refused() {
    if !is_root("owners_that_are_not_allowed_or_refused") {
        return;
    }
    let (from, into) = folders();
    let program = from.path().join("program");
    fs::write(&program, "x").unwrap();
    own(&program, 1001, 2001);
    set_mode(&program, 0o6755);
    let arrived = into.path().join("program");
    for _ in 0..2 {
        let (sent, received) = send(all(), ReceiveOptions::new().strict(true), from.path(), into.path());
        assert_eq!((owners(&arrived), mode(&arrived)), ((0, 0), 0o755));
        assert_eq!(lacking(&sent.lacking), [Guarantee::Owners]);
        assert!(sent.lacking[0].to_string().contains("owners are not kept"), "{}", sent.lacking[0]);
        assert_eq!(sent.lacking, received.lacking);
    }
}

/// As a user who may give nothing away, and to whom all files of the system are others'.
#[test]
fn owners_that_the_system_refuses() {
    in_a_process("keep::owners_that_the_system_refuses", &[], || {
        if geteuid().is_root() {
            nix::unistd::setgid(Gid::from_raw(65_534)).unwrap();
            nix::unistd::setuid(Uid::from_raw(65_534)).unwrap();
        }
        let into = tempdir().unwrap();
        let options = || SendOptions::new().owner(true).group(true);
        let run = |receiver| run(options(), receiver, Path::new("/etc/passwd"), into.path());
        for how in ["stored", "kept"] {
            let (sent, received) = run(allowing());
            assert!(sent.is_complete() && received.is_complete(), "{how}: {:?}", sent.failures);
            assert_eq!(lacking(&received.lacking), [Guarantee::Owners], "{how}");
            assert_eq!(owners(&into.path().join("passwd")), (geteuid().as_raw(), nix::unistd::getegid().as_raw()));
        }
        let (sent, _) = run(allowing().strict(true));
        let failures = sent.failures;
        assert!(failures[0].reason.as_str().contains("cannot set the owner"), "{failures:?}");
    });
}

#[test]
fn attributes_of_files_and_folders() {
    let (from, into) = folders();
    if !takes(from.path(), "user.a", b"1") {
        return;
    }
    let tree = Tree::from([
        (b"d".to_vec(), Node::Folder(0o555)),
        (b"d/f".to_vec(), Node::File(0o444, bytes(1, 100_000))),
        (b"plain".to_vec(), Node::File(0o644, bytes(2, 10))),
    ]);
    plant(from.path(), &tree);
    let names = ["d", "d/f", "plain"];
    let all_of = |folder: &Path| names.map(|name| attributes(&folder.join(name)));
    // A user who is not root needs the permission to write for that.
    set_mode(&from.path().join("d/f"), 0o644);
    set(&from.path().join("d/f"), "user.empty", b"").unwrap();
    set(&from.path().join("d/f"), "user.\u{e9}", &bytes(3, 1000)).unwrap();
    set_mode(&from.path().join("d/f"), 0o444);
    set_mode(&from.path().join("d"), 0o755);
    set(&from.path().join("d"), "user.a", b"folder").unwrap();
    set_mode(&from.path().join("d"), 0o555);
    let keeps = || SendOptions::new().xattrs(true);

    send(SendOptions::new(), ReceiveOptions::new(), from.path(), into.path());
    assert_eq!(all_of(into.path()), [const { BTreeMap::new() }; 3]);
    let (sent, _) = send(keeps().dry_run(true), ReceiveOptions::new(), from.path(), into.path());
    assert_eq!(sent.files.iter().filter(|file| file.how == How::WouldUpdate).count(), 1);

    // On files that are there, on which a second run changes nothing, and on new ones.
    let fresh = tempdir().unwrap();
    for (into, compare) in [(&into, Compare::Times), (&into, Compare::Digests), (&fresh, Compare::Times)] {
        send(keeps().compare(compare), ReceiveOptions::new(), from.path(), into.path());
        assert_eq!((all_of(into.path()), harvest(into.path())), (all_of(from.path()), tree.clone()));
        let changed = |name: &str| fs::metadata(into.path().join(name)).unwrap().ctime_nsec();
        let before = changed("d/f");
        let (sent, _) = send(keeps().compare(compare), ReceiveOptions::new(), from.path(), into.path());
        assert_eq!((sent.bytes_sent, changed("d/f")), (0, before));
        assert_eq!(sent.lacking, []);
    }

    // Others that the receiver has go, if they are of `user.`, and changed ones change.
    set(&into.path().join("plain"), "user.other", b"1").unwrap();
    set(&from.path().join("plain"), "user.a", b"longer").unwrap();
    set(&into.path().join("plain"), "user.a", b"long").unwrap();
    let (sent, _) = send(keeps(), ReceiveOptions::new(), from.path(), into.path());
    assert_eq!((all_of(into.path()), sent.bytes_sent), (all_of(from.path()), 0));
    for folder in [from, into, fresh] {
        set_mode(&folder.path().join("d"), 0o755);
    }
}

#[test]
fn attributes_that_have_no_room_are_named() {
    // tmpfs takes much more than ext4, which has a block for the attributes of a file.
    let folder = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempdir()).unwrap();
    let (from, into) = (folder(), folder());
    let file = from.path().join("f");
    fs::write(&file, "x").unwrap();
    let room = |len| set(&file, "user.large", &vec![b'x'; len]);
    if let Err(error) = room(8001) {
        tell(format_args!("large attributes are not tested: {error}"));
        return;
    }
    for (len, fits) in [(8001, false), (60_000, false), (8000, false), (7900, true)] {
        room(len).unwrap();
        set(&file, "user.small", b"1").unwrap();
        let (sent, _) = send(SendOptions::new().xattrs(true), ReceiveOptions::new(), from.path(), into.path());
        let there = attributes(&into.path().join("f"));
        assert_eq!((there.len(), sent.skipped.len()), if fits { (2, 0) } else { (1, 1) }, "{len}: {:?}", sent.skipped);
        if let [skipped] = &sent.skipped[..] {
            assert!(skipped.reason.as_str().contains("its attribute user.large is not kept"), "{skipped:?}");
            assert_eq!(skipped.source.file_name().unwrap(), "f");
        }
        let _ = removexattr(&file, "user.small");
    }
}

#[test]
fn attributes_of_the_privileged_and_access_lists() {
    if !is_root("attributes_of_the_privileged_and_access_lists") {
        return;
    }
    let (from, into) = folders();
    let access = "system.posix_acl_access";
    if !takes(from.path(), "trusted.a", b"1") || !takes(from.path(), access, &access_list(1001)) {
        return;
    }
    let (file, folder) = (from.path().join("f"), from.path().join("d"));
    fs::write(&file, "x").unwrap();
    fs::create_dir(&folder).unwrap();
    set(&file, "trusted.a", b"1").unwrap();
    set(&file, "user.a", b"2").unwrap();
    set(&file, access, &access_list(1001)).unwrap();
    set(&folder, "system.posix_acl_default", &access_list(1002)).unwrap();
    let of = |into: &Path| [attributes(&into.join("f")), attributes(&into.join("d"))];

    for _ in 0..2 {
        let (sent, _) = send(all(), ReceiveOptions::new().allow_owners(true), from.path(), into.path());
        assert_eq!(lacking(&sent.lacking), [Guarantee::AccessLists, Guarantee::PrivilegedXattrs]);
        assert_eq!(of(into.path()), [BTreeMap::from([("user.a".to_owned(), b"2".to_vec())]), BTreeMap::new()]);
    }
    for into in [&into, &tempdir().unwrap()] {
        let (sent, _) = send(all(), allowing(), from.path(), into.path());
        assert_eq!((sent.lacking, of(into.path())), (vec![], of(from.path())));
        assert_eq!(harvest(into.path()), harvest(from.path()));
    }
    // Lists that the sender does not have go, and its modes stay.
    removexattr(&file, access).unwrap();
    removexattr(&folder, "system.posix_acl_default").unwrap();
    set_mode(&file, 0o640);
    let (sent, _) = send(SendOptions::new().xattrs(true), allowing(), from.path(), into.path());
    assert!(get(&into.path().join("f"), access).is_some() && sent.lacking.is_empty(), "without --acls they stay");
    send(all(), allowing(), from.path(), into.path());
    assert_eq!((of(into.path()), harvest(into.path())), (of(from.path()), harvest(from.path())));
}

#[test]
fn hard_links_within_a_batch() {
    let (from, into) = folders();
    let names = ["a", "b", "d/c", "d/other"];
    fs::create_dir(from.path().join("d")).unwrap();
    fs::write(from.path().join("a"), bytes(1, 200_000)).unwrap();
    fs::write(from.path().join("d/other"), "other").unwrap();
    for name in ["b", "d/c", "../elsewhere"] {
        let _ = fs::hard_link(from.path().join("a"), from.path().join(name));
    }
    let sent_with = |options: SendOptions| send(options, ReceiveOptions::new(), from.path(), into.path());
    let keeps = || SendOptions::new().hard_links(true);
    let kinds = |folder: &Path| inodes(folder, &names).into_iter().collect::<BTreeSet<_>>().len();

    let (sent, _) = sent_with(SendOptions::new());
    assert_eq!((sent.not_kept.hard_links, sent.files.len(), kinds(into.path())), (2, 4, 4));
    // The names of files that are there become links.
    let (sent, received) = sent_with(keeps().dry_run(true));
    assert_eq!((sent.would_make, received.already_there, kinds(into.path())), (2, 2, 4));
    for digests in [false, true] {
        let compare = if digests { Compare::Digests } else { Compare::Times };
        let (sent, received) = sent_with(keeps().compare(compare));
        assert_eq!((sent.hard_links, received.hard_links, sent.bytes_sent), (2, 2, 0));
        assert_eq!((sent.not_kept.hard_links, sent.files.len(), kinds(into.path())), (0, 2, 2));
        assert_eq!(harvest(into.path()), harvest(from.path()));
        // Nothing is left to do.
        let before = inodes(into.path(), &names);
        let (sent, _) = sent_with(keeps().dry_run(true));
        assert_eq!((sent.would_make, sent.hard_links), (0, 2));
        sent_with(keeps().compare(compare));
        assert_eq!(inodes(into.path(), &names), before);
        // A link in the place of a name.
        fs::remove_file(into.path().join("b")).unwrap();
        symlink("a", into.path().join("b")).unwrap();
    }
    // A file that has changed takes its names along; into an empty folder as well.
    fs::write(from.path().join("b"), bytes(2, 100)).unwrap();
    sent_with(keeps());
    fs::write(from.path().join("b"), bytes(3, 100)).unwrap();
    let (sent, _) = sent_with(keeps().dry_run(true));
    assert_eq!((sent.would_make, sent.hard_links), (2, 0));
    for into in [&into, &tempdir().unwrap()] {
        let (sent, _) = send(keeps(), ReceiveOptions::new(), from.path(), into.path());
        assert_eq!((sent.bytes_sent >= 100, kinds(into.path())), (true, 2));
        assert_eq!(harvest(into.path()), harvest(from.path()));
    }
    let (sent, _) = sent_with(keeps().remove_sources(true));
    assert_eq!((sent.files.len(), sent.hard_links), (2, 2));
    assert_eq!(harvest(from.path()).len(), 1, "the folder stays");
    let _ = fs::remove_file(from.path().join("../elsewhere"));
}

/// A name whose file fails becomes a file of its own.
#[test]
fn names_that_cannot_be_linked_are_copied() {
    let (from, into) = folders();
    fs::write(from.path().join("a"), "abc").unwrap();
    fs::hard_link(from.path().join("a"), from.path().join("b")).unwrap();
    // A folder has the file's name there.
    fs::create_dir(into.path().join("a")).unwrap();
    let (sent, received) = run(SendOptions::new().hard_links(true), ReceiveOptions::new(), from.path(), into.path());
    assert_eq!((sent.failures.len(), received.failed, sent.not_kept.hard_links), (1, 1, 1));
    assert_eq!(fs::read(into.path().join("b")).unwrap(), b"abc");
}

/// What is in the way of a name's link is in the way of its file.
#[test]
fn a_refused_link_is_told_with_its_cause() {
    let (from, into) = folders();
    fs::write(from.path().join("a"), "abc").unwrap();
    fs::hard_link(from.path().join("a"), from.path().join("b")).unwrap();
    fs::create_dir(into.path().join("b")).unwrap();
    let (sent, received) = run(SendOptions::new().hard_links(true), ReceiveOptions::new(), from.path(), into.path());
    assert_eq!((sent.failures.len(), received.failed, sent.not_kept.hard_links), (1, 1, 1));
    let why = sent.not_kept.why_apart.expect("a link was refused");
    assert!(why.as_str().contains("a folder of this name is there"), "{why}");
}

/// A file that another one replaces after it was listed takes no names along.
#[test]
fn names_of_a_replaced_file_are_copied() {
    let (from, into) = folders();
    let (file, name) = (from.path().join("a"), from.path().join("b"));
    fs::write(&file, "abc").unwrap();
    fs::hard_link(&file, &name).unwrap();
    // The totals come when all is listed, and before anything is read.
    let replace = move |note: &str| {
        if note.starts_with("totals") {
            fs::write(file.with_file_name("new"), "xyz").unwrap();
            fs::rename(file.with_file_name("new"), &file).unwrap();
        }
    };
    let (a, b) = duplex(4096);
    let (options, sources) = (SendOptions::new().hard_links(true), [from.path().join(".")]);
    let (sent, _) = block_on(async {
        let receiver = ReceiveOptions::new();
        tokio::join!(options.send(a, &sources, Notes::new(replace)), receiver.receive(b, into.path(), Arc::new(())))
    });
    let sent = sent.unwrap();
    assert!(sent.is_complete(), "{:?}", sent.failures);
    assert_eq!((sent.hard_links, sent.not_kept.hard_links), (0, 1));
    assert_eq!(["a", "b"].map(|name| fs::read(into.path().join(name)).unwrap()), [*b"xyz", *b"abc"]);
}
