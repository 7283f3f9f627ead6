//! `send` and `recv`, each a process.

use crate::util::{
    Receiver, finish, interrupt, json, pattern, rails_bench, run, secret, start, stderr, stdout, text, wait_for,
    watch_stderr,
};
use nix::errno::Errno;
use rails_lab::Sandbox;
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

const SECRET: &str = "a secret of the tests";

/// A small tree: a file of several chunks, an empty one, one below a folder.
fn tree(folder: &Path) {
    fs::create_dir_all(folder.join("below")).unwrap();
    fs::write(folder.join("large"), pattern(5_000_000, 1)).unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join("below/small"), "a few bytes").unwrap();
}

fn assert_same(a: &Path, b: &Path) {
    for name in ["large", "empty", "below/small"] {
        assert!(fs::read(a.join(name)).unwrap() == fs::read(b.join(name)).unwrap(), "{name} differs");
    }
}

#[test]
fn documents_of_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    UnixListener::bind(source.join("special")).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure", "--json", "--once"]);
    let sent = run(["send", text(&source), "--to", &receiver.addresses, "--insecure", "--json"]);
    assert_eq!(sent.status.code(), Some(3), "{}", stderr(&sent));
    let sent = json(&sent);
    assert_eq!((&sent["schema"], &sent["version"]), (&"rails-bench.send".into(), &1.into()), "{sent}");
    assert_eq!(
        (&sent["complete"], &sent["bytes"], &sent["security"]),
        (&true.into(), &5_000_011.into(), &"insecure".into())
    );
    let files = sent["files"].as_array().unwrap();
    let small = files.iter().find(|file| file["path"] == "tree/below/small").unwrap();
    assert_eq!((&small["size_bytes"], &small["how"], &small["resumed_at"]), (&11.into(), &"sent".into(), &0.into()));
    assert_eq!(small["blake3"].as_str().unwrap().len(), 64);
    assert_eq!((files.len(), sent["failures"].as_array().unwrap().len()), (3, 0));
    assert!(sent["left_out"][0]["path"].as_str().unwrap().ends_with("tree/special"), "{sent}");
    let lanes = sent["sender"]["rails"].as_array().unwrap().iter().map(|rail| &rail["lanes"][0]["bytes_sent"]);
    assert!(lanes.map(|bytes| bytes.as_u64().unwrap()).sum::<u64>() > 5_000_000, "{sent}");

    let (code, received, _) = receiver.finish();
    let received: serde_json::Value = serde_json::from_str(&received).expect("one object");
    assert_eq!((code, &received["schema"]), (0, &"rails-bench.recv".into()), "{received}");
    assert_eq!((&received["stored"], &received["bytes"]), (&3.into(), &5_000_011.into()), "{received}");
    assert!(received["peer"].as_str().unwrap().starts_with("127.0.0."), "{received}");
}

#[test]
fn tree_over_two_rails_and_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let secret = secret(folder.path(), SECRET);
    let receiver = Receiver::start(&inbox, ["-v", "--secret-file", text(&secret)]);
    let send = ["send", text(&source), "--to", &receiver.addresses, "--secret-file", text(&secret)];

    let first = run(send);
    assert!(first.status.success(), "{}", stderr(&first));
    assert_same(&source, &inbox.join("tree"));
    let told = stdout(&first);
    assert!(told.contains("files: 3 sent, 0 unchanged, 0 left out, 0 failed"), "{told}");
    assert!(told.contains("goodput") && told.contains("bit/s (") && told.contains("B/s)"), "{told}");
    for (rail, address) in receiver.addresses.split(',').enumerate() {
        let line = told.lines().find(|line| line.contains(&format!("> {address}"))).expect("each lane has a line");
        assert_eq!(line.split_whitespace().next(), Some(rail.to_string().as_str()), "{told}");
    }

    let second = run(send);
    assert!(second.status.success(), "{}", stderr(&second));
    assert!(stdout(&second).contains("files: 0 sent, 3 unchanged"), "{}", stdout(&second));

    // Only --checksum finds other bytes under the same size and time.
    let small = inbox.join("tree/below/small");
    let time = fs::metadata(&small).unwrap().modified().unwrap();
    let spoilt = fs::read(&small).unwrap().iter().map(|byte| !byte).collect::<Vec<_>>();
    fs::write(&small, spoilt).unwrap();
    fs::File::open(&small).unwrap().set_modified(time).unwrap();
    let third = run(send);
    assert!(stdout(&third).contains("files: 0 sent, 3 unchanged"), "{}", stdout(&third));
    let checked = run(send.into_iter().chain(["--checksum"]));
    assert!(stdout(&checked).contains("files: 1 sent, 2 unchanged"), "{}", stdout(&checked));
    assert_same(&source, &inbox.join("tree"));

    // Without --once the receiver listens until a signal ends it.
    receiver.wait_for("unchanged");
    interrupt(receiver.id());
    let (code, out, _) = receiver.finish();
    assert_eq!(code, 130);
    assert!(out.contains("files: 3 stored, 0 unchanged, 0 failed"), "{out}");
}

#[test]
fn changed_blocks_alone_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("big"), folder.path().join("inbox"));
    let mut bytes = pattern(4 << 20, 1);
    fs::write(&source, &bytes).unwrap();
    let secret = secret(folder.path(), SECRET);
    let receiver = Receiver::start(&inbox, ["--secret-file", text(&secret)]);
    let send = ["send", text(&source), "--to", &receiver.addresses, "--secret-file", text(&secret)];
    assert!(run(send).status.success());

    bytes[3_000_000] ^= 1;
    bytes.extend([7; 10]);
    fs::write(&source, &bytes).unwrap();
    let told = run(send);
    assert!(told.status.success(), "{}", stderr(&told));
    let told = stdout(&told);
    assert!(told.starts_with("sent 256.0 KiB in "), "{told}");
    assert!(
        told.contains("files: 1 sent") && told.contains("changed files: the receiver had 3.8 MiB of them"),
        "{told}"
    );
    assert!(fs::read(inbox.join("big")).unwrap() == bytes);
}

#[test]
fn lanes_leave_from_where_they_are_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = folder.path().join("inbox");
    fs::write(folder.path().join("file"), pattern(2_000_000, 2)).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure", "--once", "--strict", "--congestion", "reno"]);
    let file = folder.path().join("file");
    let sent =
        run(["-v", "send", text(&file), "--to", &receiver.addresses, "--from", "127.0.0.5,127.0.0.6", "--insecure"]);
    assert!(sent.status.success(), "{}", stderr(&sent));
    let told = stdout(&sent);
    assert!(told.contains("127.0.0.5 > 127.0.0.1:") && told.contains("127.0.0.6 > 127.0.0.2:"), "{told}");
    assert!(told.contains("interrupt affine") && told.contains("lo raises no interrupts"), "details with -v: {told}");
    let (code, out, _) = receiver.finish();
    assert_eq!(code, 0, "--once ends with the batch");
    assert!(out.contains("< 127.0.0.5") && out.contains("< 127.0.0.6"), "{out}");
}

/// Runs the program with a host's name that has these addresses.
fn knowing<'a>(host: &str, addresses: &[&str], args: impl IntoIterator<Item = &'a str>) -> Output {
    crate::util::knowing(host, addresses, &rails_bench(args)).output().expect("unshare can be started")
}

#[test]
#[ignore = "needs root: it makes mount namespaces"]
fn netns_a_name_is_called_at_all_its_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, pattern(2_000_000, 2)).unwrap();
    let receiver = Receiver::start_at("0.0.0.0:0,127.0.0.2:0", &inbox, ["--insecure"]);
    for (address, lanes) in receiver.addresses.split(',').zip(["2 of 2 lanes up", "1 of 2 lanes up"]) {
        let to = format!("two.example:{}", address.rsplit_once(':').expect("an address has a port").1);
        for scheme in ["", "tcp://"] {
            let to = format!("{scheme}{to}");
            let send = ["send", text(&file), "--to", &to, "--insecure", "--explain"];
            let sent = knowing("two.example", &["127.0.0.3", "127.0.0.2"], send);
            assert!(sent.status.success() && stderr(&sent).contains(lanes), "{}", stderr(&sent));
        }
    }
    let to = format!("none.example:{}", receiver.addresses.rsplit_once(':').expect("an address has a port").1);
    let send = ["send", text(&file), "--to", &to, "--insecure"];
    let failed = knowing("none.example", &["127.0.0.3", "127.0.0.4"], send);
    let said = stderr(&failed);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(["127.0.0.3", "127.0.0.4"].iter().all(|address| said.contains(&format!("to {address}:"))), "{said}");
}

#[test]
#[ignore = "needs root: it makes mount namespaces"]
fn netns_a_name_of_many_addresses_fills_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, pattern(2_000_000, 2)).unwrap();
    let receiver = Receiver::start_at("0.0.0.0:0,127.0.0.2:0", &inbox, ["--insecure"]);
    let port = receiver.addresses.split(',').next().and_then(|first| first.rsplit_once(':')).expect("a port").1;
    let addresses: Vec<String> = (1..=70).map(|last| format!("127.0.1.{last}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let to = format!("many.example:{port}");
    let send = ["-v", "send", text(&file), "--to", &to, "--insecure", "--explain"];
    for (count, more, said) in [
        (70, ["--parallel", "1"], "a name has so many addresses that 64 are called"),
        (20, ["--parallel", "4"], "--to: 4 addresses of names are left out: a stream calls at most 16"),
    ] {
        let sent = knowing("many.example", &addresses[..count], send.into_iter().chain(more));
        let told = stderr(&sent);
        assert!(sent.status.success() && told.contains(said), "{told}");
        assert_eq!(told.matches("a rail runs").count(), 1, "all addresses are on one NIC: {told}");
    }
}

#[test]
#[ignore = "needs root: it makes network namespaces"]
fn netns_link_local_addresses_name_their_interface() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, pattern(2_000_000, 2)).unwrap();
    // The receiver is listening after some attempts, each of which is refused at once.
    let script = r#"ip link set lo up && ip addr add fe80::1/64 dev lo nodad
        "$1" recv --listen '[fe80::1%lo]:7575' --into "$3" --once --insecure &
        for attempt in $(seq 100); do
            "$1" send "$2" --to "$4" $5 --insecure && break
            sleep 0.1
        done
        wait $!"#;
    let program = rails_bench([]).get_args().last().expect("the program").to_owned();
    for (to, from) in [
        ("fe80::1%lo", ""),
        ("celeritas://[fe80::1%lo]:7575", "--from fe80::1%lo"),
        ("[fe80::1%1]", "--from [fe80::1%lo]"),
        ("fe80::1%1", "--from fe80::1%1"),
    ] {
        let scheme = if to.starts_with("celeritas") { "celeritas://" } else { "" };
        let script = script.replace("'[fe80", &format!("'{scheme}[fe80"));
        let mut alone = Command::new("unshare");
        alone.args(["--net", "sh", "-ec", &script, "sh"]).arg(&program).args([&file, &inbox]).args([to, from]);
        let ended = alone.env("XDG_CONFIG_HOME", "/nonexistent").output().expect("unshare can be started");
        assert!(ended.status.success(), "{}", stderr(&ended));
        assert!(fs::read(inbox.join("file")).unwrap() == fs::read(&file).unwrap());
        fs::remove_file(inbox.join("file")).unwrap();
    }
    let unknown = run(["send", text(&file), "--to", "fe80::1%no-such-one", "--insecure"]);
    assert!(stderr(&unknown).contains("there is no interface `no-such-one`"), "{}", stderr(&unknown));
}

#[test]
fn secret_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let inbox = folder.path().join("inbox");
    let file = folder.path().join("file");
    fs::write(&file, "for those who may").unwrap();
    let secret = secret(folder.path(), SECRET);
    let receiver = Receiver::start(&inbox, ["--secret-file", text(&secret), "--once"]);
    let send = ["send", text(&file), "--to", &receiver.addresses];

    let wrong = rails_bench(send).env("RAILS_SECRET", "another secret, no less long").output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("error: --to 127.0.0.1:"), "{}", stderr(&wrong));
    assert!(stderr(&wrong).contains("help: give both ends the same secret"), "{}", stderr(&wrong));
    let none = run(send.into_iter().chain(["--insecure"]));
    assert_eq!(none.status.code(), Some(1));
    assert!(
        stderr(&none).contains("help: give --secret-file here, or start the peer with --insecure"),
        "{}",
        stderr(&none)
    );
    assert!(!inbox.join("file").exists());

    let right = rails_bench(send).env("RAILS_SECRET", SECRET).output().unwrap();
    assert!(right.status.success(), "{}", stderr(&right));
    let (code, _, said) = receiver.finish();
    assert_eq!(code, 0);
    assert!(said.contains("a lane was refused"), "the receiver says that someone tried: {said}");
    assert_eq!(fs::read(inbox.join("file")).unwrap(), b"for those who may");
}

#[test]
fn bytes_of_a_killed_receiver_are_not_resent() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    let bytes = pattern(256 << 20, 3);
    fs::write(&file, &bytes).unwrap();
    let part = inbox.join(".large.rails-part");

    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let send = ["send", text(&file), "--to", &receiver.addresses, "--insecure", "--retry", "0"];
    let (sender, lines) = start(rails_bench(send));
    wait_for_size(&part, 1 << 20);
    receiver.kill();
    let (code, _, said) = finish(sender, &lines);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("error: the batch was not sent"), "{said}");
    assert!(!inbox.join("large").exists() && part.exists(), "a part is not a file");

    let receiver = Receiver::start(&inbox, ["--insecure", "--once"]);
    let (sender, lines) = start(rails_bench(["send", text(&file), "--to", &receiver.addresses, "--insecure"]));
    let resumed = wait_for(&lines, "resuming ");
    assert!(resumed.contains("large at"), "{resumed}");
    let (code, out, said) = finish(sender, &lines);
    assert_eq!(code, 0, "{said}");
    assert!(!out.starts_with("sent 256 MiB "), "less than all of it was sent again: {out}");
    assert_eq!(receiver.finish().0, 0);
    assert!(fs::read(inbox.join("large")).unwrap() == bytes, "it is whole");
    assert!(!part.exists());
}

/// A transfer of two files to a receiver whose system refuses calls: all of it arrives, and the
/// receiver warns once. A strict receiver fails them instead.
fn arrives_without(sandbox: &Sandbox, warning: Option<&str>, failure: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("below"), folder.path().join("inbox"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "1").unwrap();
    fs::write(source.join("two"), "2").unwrap();
    let listen = ["recv", "--insecure", "--once", "--listen", "127.0.0.1:0", "--into", text(&inbox)];
    for strict in [&[][..], &["--strict"]] {
        let _ = fs::remove_dir_all(&inbox);
        let mut receiver = sandbox.spawn(&rails_bench(listen.iter().chain(strict).copied()));
        let lines = watch_stderr(&mut receiver);
        let line = wait_for(&lines, "listening on ");
        let sent = run(["send", "--insecure", text(&source), "--to", line.trim_start_matches("listening on ")]);
        let (code, out, said) = finish(receiver, &lines);
        if strict.is_empty() || warning.is_none() {
            assert_eq!((sent.status.code(), code), (Some(0), 0), "{} {said}", stderr(&sent));
            assert!(out.contains("files: 2 stored, 0 unchanged, 0 failed"), "{out}");
            let warned = said.lines().filter(|line| line.starts_with("warning: this file system"));
            assert_eq!(warned.clone().count(), usize::from(warning.is_some()), "{said}");
            assert!(warned.zip(warning).all(|(line, warning)| line.contains(warning)), "{said}");
            assert_eq!(stderr(&sent).contains("warning: receiver: this file system"), warning.is_some());
        } else {
            assert_eq!((sent.status.code(), code), (Some(1), 1), "{} {said}", stderr(&sent));
            assert!(said.contains(failure) && !said.contains("warning: this"), "{said}");
        }
    }
}

#[test]
fn files_arrive_where_files_cannot_be_locked() {
    let without_flock = Sandbox::new().deny(Errno::ENOSYS, &["flock"]);
    arrives_without(&without_flock, None, "");
    let without_locks = without_flock.deny_where(Errno::EINVAL, "fcntl", 1, nix::libc::F_OFD_SETLK);
    let failure = "receiver: cannot lock the part file: Function not implemented";
    arrives_without(&without_locks, Some("cannot lock: two receivers may collide"), failure);
}

#[test]
fn files_arrive_where_modes_cannot_be_set() {
    let without_modes = Sandbox::new().deny(Errno::EPERM, &["fchmod"]);
    arrives_without(&without_modes, Some("does not keep the sender's modes"), "cannot set the file's mode");
}

#[test]
fn patterns_leave_entries_out() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let receiver = Receiver::start(&inbox, ["--insecure", "--once"]);
    let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses];
    let wrong = run(send.into_iter().chain(["--exclude", "[a"]));
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    assert!(stderr(&wrong).contains("the pattern `[a` is wrong"), "{}", stderr(&wrong));

    let sent = run(send.into_iter().chain([
        "--include",
        "small",
        "--exclude",
        "below/*",
        "--exclude",
        "/tree/l*",
        "--remove-source-files",
    ]));
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    assert!(stdout(&sent).contains("files: 2 sent, 0 unchanged, 0 left out"), "{}", stdout(&sent));
    assert!(inbox.join("tree/below/small").exists() && inbox.join("tree/empty").exists());
    assert!(!inbox.join("tree/large").exists());
    assert!(source.join("large").exists() && source.join("below").exists());
    assert!(!source.join("empty").exists() && !source.join("below/small").exists());
    assert_eq!(receiver.finish().0, 0);
}

#[test]
fn a_dry_run_names_what_a_run_would_send() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses];
    let tried = run(send.into_iter().chain(["--dry-run", "--remove-source-files"]));
    assert_eq!(tried.status.code(), Some(0), "{}", stderr(&tried));
    let told = stdout(&tried);
    assert!(told.contains("would send 3 files (4.8 MiB), make 2 folders and links, and remove 0 entries"), "{told}");
    assert!(told.contains("files: 3 to send, 0 to update, 0 unchanged, 0 left out, 0 failed"), "{told}");
    for line in ["would make    tree", "would make    tree/below", "would send    tree/large (4.8 MiB)"] {
        assert!(stderr(&tried).lines().any(|said| said == line), "{line}: {}", stderr(&tried));
    }
    assert_eq!(fs::read_dir(&inbox).unwrap().count(), 0, "nothing is made");
    assert!(source.join("empty").exists(), "nothing is removed");

    assert!(run(send).status.success());
    fs::write(source.join("below/small"), "other bytes").unwrap();
    for more in [&["-n"][..], &["-n", "--checksum"]] {
        let tried = run(send.iter().chain(more).copied());
        assert!(stdout(&tried).contains("would send 1 files (11 B)"), "{}", stdout(&tried));
        assert!(stdout(&tried).contains("0 to update, 2 unchanged"), "{}", stdout(&tried));
    }
    assert_eq!(fs::read(inbox.join("tree/below/small")).unwrap(), b"a few bytes");
    interrupt(receiver.id());
    let (_, out, _) = receiver.finish();
    assert!(out.contains("files: 3 to store, 0 unchanged, 0 failed\na dry run: nothing was changed"), "{out}");
}

#[test]
fn entries_that_the_sender_has_not_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let plant = || {
        fs::create_dir_all(inbox.join("tree/old/cache")).unwrap();
        for name in ["tree/old/file", "tree/old/cache/kept", "tree/gone", "beside"] {
            fs::write(inbox.join(name), "x").unwrap();
        }
    };
    plant();
    let send = |to: &str, more: &[&str]| {
        let send = ["send", "--insecure", text(&source), "--to", to, "--delete", "--exclude", "cache"];
        run(send.iter().chain(more).copied())
    };
    // A second run would remove the copies of the files that the first has removed here.
    let lossy = send("127.0.0.1", &["--remove-source-files"]);
    assert_eq!(lossy.status.code(), Some(2), "{}", stderr(&lossy));
    let refusing = Receiver::start(&inbox, ["--insecure", "--once"]);
    let refused = send(&refusing.addresses, &["--dry-run"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("`recv --allow-delete` allows it"), "{}", stderr(&refused));
    assert_eq!(refusing.finish().0, 1);

    let receiver = Receiver::start(&inbox, ["--insecure", "--allow-delete"]);
    let tried = send(&receiver.addresses, &["--dry-run"]);
    assert!(stdout(&tried).contains("and remove 2 entries"), "{}", stdout(&tried));
    for line in ["would remove  tree/old/file", "would remove  tree/gone"] {
        assert!(stderr(&tried).lines().any(|said| said == line), "{}", stderr(&tried));
    }
    assert!(inbox.join("tree/gone").exists());

    // Of a file that fails the copy may be any of those that are there.
    fs::create_dir(inbox.join("tree/large")).unwrap();
    let failed = send(&receiver.addresses, &[]);
    assert_eq!(failed.status.code(), Some(1));
    let said = "--delete: nothing further is removed at the receiver, because 1 entries failed";
    assert!(stderr(&failed).contains(said) && inbox.join("tree/gone").exists(), "{}", stderr(&failed));
    fs::remove_dir(inbox.join("tree/large")).unwrap();

    let sent = send(&receiver.addresses, &[]);
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    assert!(stdout(&sent).contains("removed at the receiver: 2 entries"), "{}", stdout(&sent));
    assert_same(&source, &inbox.join("tree"));
    assert!(!inbox.join("tree/gone").exists() && !inbox.join("tree/old/file").exists());
    assert!(inbox.join("tree/old/cache/kept").exists() && inbox.join("beside").exists());
    receiver.kill();
}

#[test]
fn listed_entries_are_sent_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let list = folder.path().join("list");
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let send = |more: &[&str], stdin: &str| {
        let send = ["send", "--insecure", "--to", &receiver.addresses, text(&source)];
        let mut command = rails_bench(send.iter().chain(more).copied());
        fs::write(folder.path().join("stdin"), stdin).unwrap();
        command.stdin(fs::File::open(folder.path().join("stdin")).unwrap()).output().unwrap()
    };
    let files = || {
        let there = ["large", "empty", "below/small"].into_iter();
        there.filter(|name| inbox.join("tree").join(name).exists()).collect::<Vec<_>>()
    };
    for (wrong, said) in [("empty\n/etc/x\n", "line 2: `/etc/x` is absolute"), ("a/../..", "line 1: `a/../..` has")] {
        let refused = send(&["--files-from", "-"], wrong);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(&format!("--files-from -: {said}")), "{}", stderr(&refused));
    }
    let clash = send(&["--files-from", "-", "--delete"], "");
    assert_eq!(clash.status.code(), Some(2), "{}", stderr(&clash));
    let two = send(&["--files-from", "-", text(&source)], "");
    assert!(!two.status.success());
    assert!(!inbox.join("tree").exists());

    fs::write(&list, "below/small\n").unwrap();
    let sent = send(&["--files-from", text(&list)], "");
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    assert_eq!(files(), ["below/small"]);

    let missing = send(&["--files-from=-", "-0"], "empty\0none\0");
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("tree/none: No such file"), "{}", stderr(&missing));
    assert_eq!(files(), ["empty", "below/small"]);
    receiver.kill();
}

/// A lower limit on the time is all that tells that a rate holds.
#[test]
fn files_go_at_the_rate_of_all_lanes() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("tree"), folder.path().join("inbox"));
    tree(&source);
    let receiver = Receiver::start(&inbox, ["--insecure", "--once"]);
    let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses, "--bwlimit"];
    let wrong = run(send.into_iter().chain(["fast"]));
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let begin = Instant::now();
    let sent = run(send.into_iter().chain(["40mbit"]));
    // A limit of rate shows in time alone; this bound is a lower one, and a busy machine only takes
    // longer.
    assert!(begin.elapsed() >= Duration::from_millis(900), "5 MB, but for 100 ms: {:?}", begin.elapsed());
    assert!(sent.status.success(), "{}", stderr(&sent));
    assert_same(&source, &inbox.join("tree"));
    assert_eq!(receiver.finish().0, 0);
}

#[test]
fn left_out_entries_and_their_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let (source, inbox) = (folder.path().join("below"), folder.path().join("inbox"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "1").unwrap();
    symlink("file", source.join("link")).unwrap();
    let _socket = UnixListener::bind(source.join("txt.\u{202e}knil")).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    for (allowed, code) in [(&[][..], 3), (&["--allow-skipped"], 0)] {
        let send = ["send", "--insecure", text(&source), "--to", &receiver.addresses];
        let sent = run(send.iter().chain(allowed).copied());
        let said = stderr(&sent);
        assert_eq!(sent.status.code(), Some(code), "{said}");
        assert!(said.contains("txt.\\u{202e}knil: a special file"), "{said}");
        assert_eq!(fs::read_link(inbox.join("below/link")).unwrap(), Path::new("file"));
        assert!(stdout(&sent).contains("1 left out, 0 failed"), "{}", stdout(&sent));
    }
    receiver.kill();
}

#[test]
fn files_arrive_where_times_cannot_be_set() {
    let without_times = Sandbox::new().deny(Errno::EPERM, &["utimensat"]);
    arrives_without(&without_times, Some("does not keep the sender's times"), "cannot set the file's time");
}

#[test]
fn files_arrive_where_nothing_is_put_on_disk() {
    let without_syncs = Sandbox::new().deny(Errno::EINVAL, &["fsync", "fdatasync"]);
    arrives_without(&without_syncs, Some("a crash may lose what arrived"), "cannot put the file on disk");
}

/// Waits until a file is there with at least that many bytes.
pub(crate) fn wait_for_size(path: &Path, bytes: u64) {
    for _ in 0..6000 {
        if fs::metadata(path).is_ok_and(|about| about.len() >= bytes) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} does not grow to {bytes} bytes", path.display());
}
