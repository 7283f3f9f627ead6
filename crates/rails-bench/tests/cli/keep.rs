//! The properties that `send` keeps on demand, and those that it leaves out and names.

use crate::util::{Receiver, interrupt, json, run, stderr, stdout, text};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

/// A file of two names, one of which is a program with a set-group-id bit.
fn tree(folder: &Path) {
    fs::create_dir_all(folder.join("d")).unwrap();
    fs::write(folder.join("program"), "x").unwrap();
    fs::set_permissions(folder.join("program"), fs::Permissions::from_mode(0o2755)).unwrap();
    fs::write(folder.join("file"), "abc").unwrap();
    fs::hard_link(folder.join("file"), folder.join("d/name")).unwrap();
}

#[test]
fn hard_links_and_set_id_bits_are_not_lost_unsaid() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses];
    let inodes = || ["file", "d/name"].map(|name| fs::metadata(inbox.join("tree").join(name)).unwrap().ino());

    let apart = "not kept: 1 hard links, which became files of their own (-H keeps them)";
    let bits = "not kept: the set-ID bits of 1 entries (-o and -g keep them with their owners)";
    for more in ["--dry-run", "--quiet"] {
        let sent = run(send.into_iter().chain([more]));
        assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
        let told = stdout(&sent);
        assert!(told.lines().any(|line| line == apart) && told.lines().any(|line| line == bits), "{told}");
    }
    assert_ne!(inodes()[0], inodes()[1]);
    let document = json(&run(send.into_iter().chain(["--json"])));
    let not_kept = serde_json::json!({ "hard_links": 1, "why_apart": null, "set_id_bits": 1 });
    assert_eq!(document["not_kept"], not_kept, "{document}");

    let sent = run(send.into_iter().chain(["-H"]));
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    let told = stdout(&sent);
    assert!(told.contains("hard links: 1\n") && !told.contains(apart) && told.contains(bits), "{told}");
    assert_eq!(inodes()[0], inodes()[1]);

    // The receiver does not allow owners: both ends go on, and name the missing properties.
    let lacking = "owners are not kept, nor are set-user-id and set-group-id bits (`recv --allow-owners` allows them)";
    for more in ["-Hogn", "-Hog"] {
        let sent = run(send.into_iter().chain([more]));
        assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
        assert!(stderr(&sent).contains(&format!("warning: receiver: {lacking}")), "{}", stderr(&sent));
    }
    assert_eq!(fs::metadata(inbox.join("tree/program")).unwrap().mode() & 0o7777, 0o755);
    interrupt(receiver.id());
    let (_, out, said) = receiver.finish();
    assert_eq!(said.matches(&format!("warning: {lacking}")).count(), 2, "once for each batch: {said}");
    assert!(out.contains("hard links: 1\n"), "{out}");

    // This receiver allows both, and the copy keeps every property.
    let receiver = Receiver::start(&inbox, ["--insecure", "--once", "--allow-owners", "--allow-xattrs"]);
    let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses, "-HogXA"];
    let sent = run(send);
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    assert!(!stdout(&sent).contains("not kept") && !stderr(&sent).contains("warning: receiver"), "{}", stderr(&sent));
    assert_eq!(fs::metadata(inbox.join("tree/program")).unwrap().mode() & 0o7777, 0o2755);
    assert_eq!(receiver.finish().0, 0);
}

/// A regular file whose name the receiver keeps for itself.
#[test]
fn files_of_reserved_names_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    fs::create_dir_all(source.join(".dir.rails-part")).unwrap();
    for name in ["file", ".x.rails-part", ".0.rails-part-long", ".dir.rails-part/inside"] {
        fs::write(source.join(name), "x").unwrap();
    }
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses];
    let sent = run(send);
    assert_eq!(sent.status.code(), Some(3), "{}", stderr(&sent));
    for name in [".x.rails-part", ".0.rails-part-long", ".dir.rails-part"] {
        let line = format!("left out  {}: the path has a component", source.join(name).display());
        assert!(stderr(&sent).lines().any(|said| said.starts_with(&line)), "{line}: {}", stderr(&sent));
    }
    assert!(stdout(&sent).contains("files: 1 sent, 0 unchanged, 3 left out, 0 failed"), "{}", stdout(&sent));
    let document = run(send.into_iter().chain(["--json", "--allow-skipped"]));
    assert_eq!(document.status.code(), Some(0), "{}", stderr(&document));
    let left_out = json(&document)["left_out"].as_array().unwrap().len();
    assert_eq!((left_out, fs::read_dir(inbox.join("tree")).unwrap().count()), (3, 1));

    // One that is named itself is an error before anything is sent.
    let named = source.join(".x.rails-part");
    let sent = run(["send", "--insecure", text(&named), "--to", &receiver.addresses]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(stderr(&sent).contains("cannot be sent"), "{}", stderr(&sent));
}
