//! Peers by name: `storage:`, from the user's file.

use crate::util::{Receiver, rails_bench, secret, stderr, text};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Output};

const SECRET: &str = "a secret of both of them";

fn run(config_home: &Path, args: &[&str], variable: Option<&str>) -> Output {
    let mut command = rails_bench(args.iter().copied());
    command.env("XDG_CONFIG_HOME", config_home);
    if let Some(secret) = variable {
        command.env("RAILS_SECRET", secret);
    }
    command.output().unwrap()
}

#[test]
fn files_go_to_a_peer_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, config) = (folder.path().join("inbox"), folder.path().join("rails/config.toml"));
    fs::create_dir(folder.path().join("rails")).unwrap();
    let secret = secret(folder.path(), SECRET);
    let receiver = Receiver::start(&inbox, ["--secret-file", text(&secret)]);
    let to: Vec<_> = receiver.addresses.split(',').map(|address| format!("{address:?}")).collect();
    fs::write(
        &config,
        format!(
            "[peer.storage]\nto = [{}]\nsecret-file = \"../{}\"\n",
            to.join(", "),
            secret.file_name().unwrap().display()
        ),
    )
    .unwrap();
    for name in ["one", "two"] {
        let file = folder.path().join(name);
        fs::write(&file, name).unwrap();
        let args = if name == "one" { vec!["storage:"] } else { vec!["--to", "storage:"] };
        let sent = run(folder.path(), &[&["send", text(&file)], &args[..]].concat(), None);
        assert!(sent.status.success(), "{}", stderr(&sent));
        assert_eq!(fs::read_to_string(inbox.join(name)).unwrap(), name);
    }
    let one = folder.path().join("one");
    // A variable goes before the file, and a flag before the variable.
    let wrong = run(folder.path(), &["send", text(&one), "storage:"], Some("another secret, no less long"));
    assert!(stderr(&wrong).contains("give both ends the same secret"), "{}", stderr(&wrong));
    let by_flag = ["send", text(&one), "storage:", "--secret-file", text(&secret)];
    let right = run(folder.path(), &by_flag, Some("another secret, no less long"));
    assert!(right.status.success(), "{}", stderr(&right));

    fs::set_permissions(&config, fs::Permissions::from_mode(0o666)).unwrap();
    let open = run(folder.path(), &["send", text(&one), "storage:"], None);
    assert_eq!(open.status.code(), Some(1));
    assert!(stderr(&open).contains("help: `chmod go-w "), "{}", stderr(&open));
    let unknown = run(Path::new("/nonexistent"), &["send", text(&one), "storage:"], None);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("/nonexistent/rails/config.toml or /etc/rails/config.toml"), "{unknown:?}");
}
