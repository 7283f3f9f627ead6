//! `cargo xtask package-static`.

use crate::{ONE_FILE, Receiver, done, file, said};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// The program in a folder that holds it and a secret alone, as its root.
fn inside<'a>(root: &Path, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--root"]).arg(root).arg("/rails-bench").args(args).env_clear();
    command
}

#[test]
#[ignore = "needs minutes, and user namespaces"]
fn packaged_file_in_an_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    let [near, far] = ["near", "far"].map(|end| folder.path().join(end));
    for root in [&near, &far] {
        fs::create_dir(root).unwrap();
        fs::copy(&*ONE_FILE, root.join("rails-bench")).unwrap();
        fs::write(root.join("secret"), "a secret of both of them").unwrap();
        fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let version = done(&mut inside(&near, ["--version"]));
    assert_eq!(version.trim_end(), format!("rails-bench {}", env!("CARGO_PKG_VERSION")));
    assert!(done(&mut inside(&near, ["topo"])).contains("allowed CPUs"));
    assert!(done(&mut inside(&near, ["plan", "--rails", "loopback"])).contains("127.0.0.1"));

    let bytes = file(&near.join("file"));
    let recv = ["recv", "--into", "/inbox", "--secret-file", "/secret", "--listen", "127.0.0.1:0,127.0.0.2:0"];
    let receiver = Receiver::start(&mut inside(&far, recv.into_iter().chain(["--once"])));
    done(&mut inside(&near, ["send", "/file", "--to", &receiver.addresses, "--secret-file", "/secret"]));
    receiver.finish();
    assert!(fs::read(far.join("inbox/file")).unwrap() == bytes);
}

#[test]
#[ignore = "needs minutes, and user namespaces"]
fn packaged_file_looks_names_up() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(&*ONE_FILE, folder.path().join("rails-bench")).unwrap();
    let probe = ["stream", "--to", "storage:1", "--insecure", "--bytes", "1"];
    let unknown = inside(folder.path(), probe).output().unwrap();
    assert!(said(&unknown).contains("cannot resolve the host name `storage`"), "{}", said(&unknown));
    // The program finds that no peer listens there only after it has looked up the name.
    let etc = folder.path().join("etc");
    fs::create_dir(&etc).unwrap();
    fs::write(etc.join("hosts"), "127.0.0.1 storage\n").unwrap();
    for switch in ["", "hosts: files dns\n", "hosts: files resolve [!UNAVAIL=return] dns\n"] {
        fs::write(etc.join("nsswitch.conf"), switch).unwrap();
        let known = inside(folder.path(), probe).output().unwrap();
        assert!(said(&known).contains("nobody listens") || said(&known).contains("refused"), "{}", said(&known));
    }
}
