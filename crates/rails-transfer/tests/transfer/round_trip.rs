//! Files arrive as they were sent.

use super::support::{
    Node, Notes, Tree, bytes, harvest, in_a_process, plant, transfer, transfer_cut, transfer_with, watched,
};
use proptest::prelude::*;
use rails_transfer::{Compare, Filter, How, SendOptions};
use std::{
    fs,
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::Path,
    time::{Duration, UNIX_EPOCH},
};
use tempfile::tempdir;

/// Trees of up to two levels with odd names; every entry's parent is in the tree.
fn trees() -> impl Strategy<Value = Tree> {
    // Any bytes that are not `/` or NUL, among them newlines and bytes that are not UTF-8.
    let name =
        proptest::collection::vec(any::<u8>().prop_filter("no slash, no NUL", |byte| ![0, b'/'].contains(byte)), 1..12)
            .prop_filter("no dots", |name| ![&b"."[..], b".."].contains(&name.as_slice()));
    let file = (0..4_u32, 0..40_000_usize, any::<u64>())
        .prop_map(|(mode, len, seed)| Node::File([0o644, 0o400, 0o755, 0o600][mode as usize], bytes(seed, len)));
    let empty = Just(Node::File(0o640, Vec::new()));
    let link = prop_oneof![Just(b"/etc/passwd".to_vec()), Just(b"..".to_vec()), name.clone()].prop_map(Node::Link);
    let leaf = prop_oneof![3 => file, 1 => empty, 1 => link];
    let mode = prop_oneof![Just(0o755_u32), Just(0o700), Just(0o555)];
    let folder = (mode, proptest::collection::btree_map(name.clone(), leaf.clone(), 0..4));
    let top =
        prop_oneof![leaf.prop_map(|leaf| (leaf, None)), folder.prop_map(|(m, inner)| (Node::Folder(m), Some(inner)))];
    proptest::collection::btree_map(name, top, 0..6).prop_map(|tops| {
        let mut tree = Tree::new();
        for (name, (node, inner)) in tops {
            for (leaf, node) in inner.into_iter().flatten() {
                tree.insert([&name[..], b"/", &leaf[..]].concat(), node);
            }
            tree.insert(name, node);
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_tree_arrives_as_it_was_and_is_not_sent_twice(
        tree in trees(),
        capacity in prop_oneof![Just(1_usize), Just(64), Just(65536)],
    ) {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        plant(from.path(), &tree);
        let sources = [from.path().join(".")];
        let files = tree.values().filter(|node| matches!(node, Node::File(..))).count();
        let links = tree.values().filter(|node| matches!(node, Node::Link(_))).count();

        let (sent, received) = transfer(&sources, into.path(), capacity);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        prop_assert!(sent.is_complete() && received.is_complete());
        prop_assert_eq!(harvest(into.path()), tree.clone());
        prop_assert_eq!(sent.files.len(), files);
        prop_assert_eq!(received.stored, files as u64);
        prop_assert_eq!((sent.links, received.links), (links as u64, links as u64));
        prop_assert_eq!(sent.folders + received.folders, 2 * (tree.len() - files - links) as u64);
        for file in &sent.files {
            let Some(Node::File(_, bytes)) = tree.get(file.path.as_bytes()) else { panic!("{:?}", file.path) };
            prop_assert_eq!(file.digest, Some(blake3::hash(bytes).into()));
        }

        let (again, received) = transfer(&sources, into.path(), capacity);
        let (again, received) = (again.unwrap(), received.unwrap());
        prop_assert!(again.files.iter().all(|file| file.how == How::AlreadyThere));
        prop_assert_eq!((again.bytes_sent, received.already_there), (0, files as u64));
        prop_assert_eq!(harvest(into.path()), tree);
    }
}

#[test]
fn many_small_files_pass_a_pipe_of_64_bytes() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let mut tree = Tree::new();
    for folder in 0..5 {
        tree.insert(format!("{folder}").into_bytes(), Node::Folder(0o755));
        for file in 0..60 {
            let seed = folder * 100 + file;
            tree.insert(format!("{folder}/{file}").into_bytes(), Node::File(0o644, bytes(seed, file as usize)));
        }
    }
    plant(from.path(), &tree);
    let (sent, received) = transfer(&[from.path().join(".")], into.path(), 64);
    assert!(sent.unwrap().is_complete() && received.unwrap().is_complete());
    assert_eq!(harvest(into.path()), tree);
}

#[test]
fn files_of_awkward_sizes_and_their_observer() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let block = 256 * 1024;
    let sizes = [0, 1, block - 1, block, block + 1, 3 * block];
    let sources: Vec<_> = sizes.iter().map(|size| from.path().join(size.to_string())).collect();
    for (source, size) in sources.iter().zip(sizes) {
        fs::write(source, bytes(size as u64, size)).unwrap();
    }
    let notes = Notes::new(|_| {});
    let (sent, _) = watched(&sources, into.path(), tokio::io::duplex(8192), notes.clone());
    let total: usize = sizes.iter().sum();
    assert_eq!(sent.unwrap().bytes_sent, total as u64);
    for size in sizes {
        assert_eq!(fs::read(into.path().join(size.to_string())).unwrap(), bytes(size as u64, size));
    }
    let notes = notes.notes.lock().unwrap();
    assert_eq!(notes[0], format!("totals 6 0 {total}"));
    let moved = notes.iter().filter_map(|note| note.strip_prefix("moved ")?.split(' ').nth(1));
    assert_eq!(moved.map(|bytes| bytes.parse::<usize>().unwrap()).sum::<usize>(), total);
    for what in ["started", "stored"] {
        assert_eq!(notes.iter().filter(|note| note.starts_with(what)).count(), sizes.len());
    }
}

#[test]
fn changed_file_without_its_set_id_bits() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let (source, target) = (from.path().join("f"), into.path().join("f"));
    fs::write(&source, "new!").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o4751)).unwrap();
    // A link in the place of the final name is replaced, not followed.
    fs::write(from.path().join("victim"), "old!").unwrap();
    std::os::unix::fs::symlink(from.path().join("victim"), &target).unwrap();
    for old in [None, Some("old!"), Some("longer than new")] {
        if let Some(old) = old {
            fs::write(&target, old).unwrap();
        }
        let (sent, received) = transfer(std::slice::from_ref(&source), into.path(), 64);
        assert!(sent.unwrap().is_complete());
        assert_eq!(received.unwrap().stored, 1);
        let expected = Tree::from([(b"f".to_vec(), Node::File(0o751, b"new!".to_vec()))]);
        assert_eq!(harvest(into.path()), expected);
    }
    assert_eq!(fs::read(from.path().join("victim")).unwrap(), b"old!");
}

#[test]
fn a_file_that_is_there_gets_the_new_mode() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("f");
    fs::write(&source, "same").unwrap();
    fs::write(into.path().join("f"), "same").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o700)).unwrap();
    let (sent, _) = transfer(&[source], into.path(), 64);
    assert_eq!(sent.unwrap().files[0].how, How::AlreadyThere);
    assert_eq!(harvest(into.path()), Tree::from([(b"f".to_vec(), Node::File(0o700, b"same".to_vec()))]));
}

/// A file of the same size and time is not read, unless its digest is asked for.
#[test]
fn files_of_equal_size_and_time() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let (source, target) = (from.path().join("f"), into.path().join("f"));
    fs::write(&source, "new!").unwrap();
    let time = fs::metadata(&source).unwrap().modified().unwrap();
    fs::write(&target, "old!").unwrap();
    let of_time = |time| fs::File::open(&target).unwrap().set_modified(time).unwrap();
    let send = |compare| {
        let (sent, _) = transfer_with(SendOptions::new().compare(compare), std::slice::from_ref(&source), into.path());
        sent.unwrap().files.remove(0)
    };

    of_time(time);
    let kept = send(Compare::Times);
    assert_eq!((kept.how, kept.digest), (How::AlreadyThere, None));
    assert_eq!(fs::read(&target).unwrap(), b"old!");

    let sent = send(Compare::Digests);
    assert_eq!((sent.how, sent.digest), (How::Sent { resumed_at: 0 }, Some(blake3::hash(b"new!").into())));
    assert_eq!(send(Compare::Digests).how, How::AlreadyThere);

    // One nanosecond makes the difference.
    of_time(time + Duration::from_nanos(1));
    let kept = send(Compare::Times);
    assert_eq!((kept.how, kept.digest), (How::AlreadyThere, sent.digest));
    assert_eq!(fs::metadata(&target).unwrap().modified().unwrap(), time);
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(send(Compare::Times).digest, None);
    assert_eq!(fs::metadata(&target).unwrap().permissions(), fs::metadata(&source).unwrap().permissions());
}

/// Times that a file may have: before 1970, to the nanosecond, and in the future.
#[test]
fn times_and_a_sticky_folder_arrive() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let folder = from.path().join("d");
    fs::create_dir_all(folder.join("drop-box")).unwrap();
    let time = |seconds: i64, nanos| match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::new(seconds, nanos),
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + Duration::from_nanos(nanos.into()),
    };
    let times = [
        ("d/old", time(-86_400, 1)),
        ("d/recent", time(1_700_000_000, 123_456_789)),
        ("d/later", time(4_000_000_000, 999_999_999)),
        ("d/drop-box", time(1_000_000_000, 5)),
        ("d", time(1_100_000_000, 7)),
    ];
    for (name, _) in &times[..3] {
        fs::write(from.path().join(name), name).unwrap();
    }
    fs::set_permissions(folder.join("drop-box"), fs::Permissions::from_mode(0o1777)).unwrap();
    for (name, time) in times {
        fs::File::open(from.path().join(name)).unwrap().set_modified(time).unwrap();
    }
    // The second run finds the files, whose times were lost, and mends them.
    for how in [How::Sent { resumed_at: 0 }, How::AlreadyThere] {
        let (sent, received) = transfer(std::slice::from_ref(&folder), into.path(), 4096);
        assert!(sent.unwrap().files.iter().all(|file| file.how == how));
        assert!(received.unwrap().lacking.is_empty());
        for (name, time) in times {
            let arrived = into.path().join(name);
            assert_eq!(fs::metadata(&arrived).unwrap().modified().unwrap(), time, "{name}");
            fs::File::open(arrived).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
        assert_eq!(fs::metadata(into.path().join("d/drop-box")).unwrap().permissions().mode() & 0o7777, 0o1777);
    }
}

#[test]
fn sources_are_removed_once_they_have_arrived() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let tree = Tree::from([
        (b"d".to_vec(), Node::Folder(0o755)),
        (b"d/file".to_vec(), Node::File(0o644, b"x".to_vec())),
        (b"d/link".to_vec(), Node::Link(b"file".to_vec())),
        (b"d/stays".to_vec(), Node::File(0o644, b"y".to_vec())),
        (b"followed".to_vec(), Node::Link(b"d/stays".to_vec())),
    ]);
    plant(from.path(), &tree);
    let options = SendOptions::new().remove_sources(true).filter(Filter::new().exclude("/d/stays").unwrap());
    let sources = ["d", "followed"].map(|name| from.path().join(name));
    let (sent, received) = transfer_with(options, &sources, into.path());
    let sent = sent.unwrap();
    assert!(received.unwrap().is_complete());
    assert_eq!(sent.failures.len(), 1, "{:?}", sent.failures);
    assert_eq!(sent.failures[0].path.as_deref(), Some(Path::new("followed")));
    assert!(sent.failures[0].reason.as_str().contains("the copy arrived, and the source stays"));
    let left: Vec<_> = harvest(from.path()).into_keys().collect();
    assert_eq!(left, [&b"d"[..], b"d/stays", b"followed"]);
    let arrived: Vec<_> = harvest(into.path()).into_keys().collect();
    assert_eq!(arrived, [&b"d"[..], b"d/file", b"d/link", b"followed"]);
}

/// The receiver writes where the files are: they are their own copies.
#[test]
fn sources_that_are_their_own_copies_stay() {
    let folder = tempdir().unwrap();
    let tree = Tree::from([
        (b"d".to_vec(), Node::Folder(0o755)),
        (b"d/file".to_vec(), Node::File(0o644, b"x".to_vec())),
        (b"file".to_vec(), Node::File(0o644, b"y".to_vec())),
    ]);
    plant(folder.path(), &tree);
    let other = tempdir().unwrap();
    for compare in [Compare::Times, Compare::Digests] {
        for sources in [vec![folder.path().join("d"), folder.path().join("file")], vec![folder.path().join(".")]] {
            let options = SendOptions::new().remove_sources(true).compare(compare);
            let (sent, received) = transfer_with(options, &sources, folder.path());
            assert!(received.unwrap().is_complete());
            let failures = sent.unwrap().failures;
            assert!(failures.len() == 1 && failures[0].reason.as_str().contains("the sources stay"), "{failures:?}");
            assert_eq!(harvest(folder.path()), tree);
        }
    }
    let (sent, _) = transfer_with(SendOptions::new().remove_sources(true), &[folder.path().join("file")], other.path());
    assert!(sent.unwrap().is_complete() && !folder.path().join("file").exists());
}

#[test]
fn special_files_are_skipped_and_told() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir(from.path().join("d")).unwrap();
    let _socket = UnixListener::bind(from.path().join("d/socket")).unwrap();
    let notes = Notes::new(|_| {});
    let (sent, _) = watched(&[from.path().join("d")], into.path(), tokio::io::duplex(64), notes.clone());
    let sent = sent.unwrap();
    assert!(sent.is_complete() && sent.skipped.len() == 1);
    assert!(notes.notes.lock().unwrap().contains(&"skipped socket a special file".to_owned()));
    assert_eq!(harvest(into.path()).len(), 1);
}

/// A link takes the place of a file and of another link, and a file that of a link; nothing is
/// written through one.
#[test]
fn links_in_the_place_of_files_and_back() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let victim = from.path().join("victim");
    fs::write(&victim, "old").unwrap();
    let link = |target: &str| Node::Link(target.as_bytes().to_vec());
    let trees = [
        ("a", Node::File(0o644, b"x".to_vec())),
        ("b", link("nowhere")),
        ("c", link(victim.to_str().unwrap())),
        ("d", Node::File(0o600, b"y".to_vec())),
    ];
    let long = "n".repeat(4095);
    for (name, node) in trees.into_iter().chain([("e", link(&long)), ("f", link("x"))]) {
        let tree = Tree::from([(b"n".to_vec(), node)]);
        let source = from.path().join(name);
        fs::create_dir(&source).unwrap();
        plant(&source, &tree);
        for _ in 0..2 {
            let (sent, received) = transfer(&[source.join(".")], into.path(), 4096);
            assert!(sent.unwrap().is_complete() && received.unwrap().is_complete(), "{name}");
            assert_eq!(harvest(into.path()), tree, "{name}");
        }
        let modified = |at: &Path| fs::symlink_metadata(at).unwrap().modified().unwrap();
        assert_eq!(modified(&source.join("n")), modified(&into.path().join("n")));
    }
    assert_eq!(fs::read(victim).unwrap(), b"old");

    // A link that became a folder does not lead its files into another one.
    let tree = |link_is_folder: bool| {
        let d = if link_is_folder { Node::Folder(0o755) } else { link("e") };
        let mut tree = Tree::from([
            (b"d".to_vec(), d),
            (b"e".to_vec(), Node::Folder(0o755)),
            (b"e/f".to_vec(), Node::File(0o644, b"target".to_vec())),
        ]);
        if link_is_folder {
            tree.insert(b"d/f".to_vec(), Node::File(0o644, b"other!".to_vec()));
        }
        tree
    };
    let other = tempdir().unwrap();
    for link_is_folder in [false, true] {
        let source = tempdir().unwrap();
        plant(source.path(), &tree(link_is_folder));
        let (sent, _) = transfer(&[source.path().join(".")], other.path(), 4096);
        assert!(sent.unwrap().is_complete());
        assert_eq!(harvest(other.path()), tree(link_is_folder));
    }

    // A folder is no file, and stays.
    fs::remove_file(into.path().join("n")).unwrap();
    fs::create_dir(into.path().join("n")).unwrap();
    let (sent, _) = transfer(&[from.path().join("b/.")], into.path(), 4096);
    assert!(sent.unwrap().failures[0].reason.as_str().contains("a folder of this name is there"));
}

/// Files with holes at the beginning, in the middle and at the end.
#[test]
fn holes_arrive_as_holes() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let size = 20 << 20;
    let sparse = |name: &str, data: &[u64]| {
        let file = fs::File::create(from.path().join(name)).unwrap();
        file.set_len(size).unwrap();
        data.iter().for_each(|&at| file.write_all_at(&bytes(at, 4096), at).unwrap());
        file.sync_all().unwrap();
        assert!(file.metadata().unwrap().blocks() < 1000, "the file system has holes");
    };
    sparse("ends", &[0, size - 4096]);
    sparse("middle", &[size / 2]);
    sparse("empty", &[]);
    let (sent, received) = transfer(&[from.path().join(".")], into.path(), 1 << 16);
    let sent = sent.unwrap();
    assert!(sent.is_complete() && received.unwrap().is_complete());
    assert!(sent.bytes_sent < 1 << 20, "{} bytes were sent", sent.bytes_sent);
    for file in &sent.files {
        let (source, target) = (from.path().join(file.path.as_path()), into.path().join(file.path.as_path()));
        assert!(fs::metadata(&target).unwrap().blocks() < 1000, "{}", file.path);
        let source = fs::read(source).unwrap();
        assert_eq!(file.digest, Some(blake3::hash(&source).into()));
        assert!(source == fs::read(&target).unwrap());
    }

    // A part that ends within a hole is gone on from.
    let (target, part) = (into.path().join("middle"), into.path().join(".middle.rails-part"));
    fs::rename(&target, &part).unwrap();
    fs::File::options().write(true).open(&part).unwrap().set_len(size - 1000).unwrap();
    let (sent, _) = transfer(&[from.path().join("middle")], into.path(), 1 << 16);
    assert_eq!(sent.unwrap().files[0].how, How::Sent { resumed_at: size - 1000 });
    assert!(fs::read(from.path().join("middle")).unwrap() == fs::read(target).unwrap());
}

#[test]
fn names_of_255_bytes_arrive() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let tree: Tree =
        (0..3_u8).map(|n| (vec![b'a' + n; 255 - usize::from(n) * 6], Node::File(0o644, vec![n; 10]))).collect();
    plant(from.path(), &tree);
    let (sent, _) = transfer(&[from.path().join(".")], into.path(), 4096);
    assert!(sent.unwrap().is_complete());
    assert_eq!(harvest(into.path()), tree);
}

#[test]
fn read_only_folders_of_ours_take_what_is_new() {
    // Root without capabilities is an owner of files like others.
    let is_root = nix::unistd::geteuid().is_root();
    let through: &[&str] = if is_root { &["setpriv", "--bounding-set=-all", "--inh-caps=-all"] } else { &[] };
    in_a_process("round_trip::read_only_folders_of_ours_take_what_is_new", through, || {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        let source = [from.path().join("d")];
        let file = |seed| Node::File(0o444, bytes(seed, 300_000));
        let mut tree = Tree::from([
            (b"d".to_vec(), Node::Folder(0o755)),
            (b"d/sub".to_vec(), Node::Folder(0o555)),
            (b"d/sub/a".to_vec(), file(1)),
        ]);
        plant(from.path(), &tree);
        assert!(transfer(&source, into.path(), 4096).0.unwrap().is_complete());

        // A new file, a changed one, and a new folder with a file in it.
        let set_mode = |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        set_mode(&source[0].join("sub"), 0o755);
        fs::remove_dir_all(&source[0]).unwrap();
        tree.insert(b"d/sub/a".to_vec(), file(2));
        tree.insert(b"d/sub/b".to_vec(), file(3));
        tree.insert(b"d/sub/new".to_vec(), Node::Folder(0o555));
        tree.insert(b"d/sub/new/c".to_vec(), file(4));
        plant(from.path(), &tree);
        // A cut leaves the mode as it was.
        let there = into.path().join("d/sub");
        assert!(transfer_cut(&source, into.path(), 400_000).0.0.is_err());
        assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o7777, 0o555);
        // Nor may its owner list it.
        set_mode(&there, 0o111);
        let (sent, received) = transfer(&source, into.path(), 4096);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert!(sent.is_complete() && received.is_complete(), "{:?}", sent.failures);
        assert_eq!(harvest(into.path()), tree);
        // A folder that takes files, and that its owner may not list.
        set_mode(into.path(), 0o333);
        let (sent, received) = transfer(&source, into.path(), 4096);
        assert!(sent.unwrap().is_complete() && received.unwrap().is_complete());
        assert_eq!(fs::metadata(into.path()).unwrap().permissions().mode() & 0o7777, 0o333);
        set_mode(into.path(), 0o755);
        // Their owner could not remove what is in them.
        for folder in [source[0].join("sub"), there] {
            set_mode(&folder, 0o755);
            set_mode(&folder.join("new"), 0o755);
        }
    });
}
