use super::*;
use crate::Cli;
use clap::CommandFactory;
use std::{fs, os::unix::fs::PermissionsExt};
use tempfile::TempDir;

/// The user's file and the system's, in a folder of a test.
struct Files(TempDir);

impl Files {
    fn new(user: &str, system: &str) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        fs::write(files.user(), user).unwrap();
        fs::write(files.0.path().join("system"), system).unwrap();
        files
    }

    fn user(&self) -> PathBuf {
        self.0.path().join("user")
    }

    /// The values of the flags that a command line sees, as a text of `FLAG=VALUE`s; nothing of
    /// flags that no place gives.
    fn seen(&self, has_secret: bool, line: &str) -> Result<String> {
        let files = [self.user(), self.0.path().join("system"), self.0.path().join("missing")];
        let args = std::iter::once("rails-bench").chain(line.split(' ')).map(OsString::from).collect();
        let (command, args) = named_in(&files, has_secret, Cli::command(), args)?;
        let (name, matches) = command.try_get_matches_from(args)?.remove_subcommand().unwrap();
        let usual = Cli::command();
        let mut seen: Vec<String> = Vec::new();
        for arg in usual.find_subcommand(name).unwrap().get_arguments() {
            let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten().into_iter().flatten();
            let values: Vec<_> = values.map(|value| value.to_str().unwrap()).collect();
            if arg.get_default_values().iter().map(|value| value.to_str().unwrap()).ne(values.iter().copied()) {
                let values = values.join(",").replace(&format!("{}/", self.0.path().display()), "DIR/");
                seen.push(format!("{}={values}", arg.get_id()));
            }
        }
        seen.retain(|seen| !seen.ends_with("=false"));
        seen.sort();
        Ok(seen.join(" "))
    }
}

#[test]
fn one_order_for_all_flags() {
    let user = "[peer.storage]\nto = [\"10.0.1.9\", \"10.0.2.9:80\"]\nwindow = \"1MiB\"\nnear = \"package\"\n";
    let system = "[peer.storage]\nto = \"10.9.9.9\"\nwindow = \"2MiB\"\nparallel = 4\nsecret-file = \"secret\"\n";
    let files = Files::new(user, system);
    for line in ["send x --to storage:", "send --to=storage: x", "send x storage:", "send -- x storage:"] {
        assert_eq!(
            files.seen(false, line).unwrap(),
            "files=x near=package parallel=4 secret_file=DIR/secret to=10.0.1.9,10.0.2.9:80 window=1MiB",
            "{line}"
        );
    }
    let seen = files.seen(false, "send x storage: --window 3MiB --parallel 2 --exclude storage:").unwrap();
    let values = "near=package parallel=2 secret_file=DIR/secret to=10.0.1.9,10.0.2.9:80 window=3MiB";
    assert_eq!(seen, format!("exclude=storage: files=x {values}"));
    // A flag that a command lacks is of other commands.
    let seen = files.seen(false, "probe --to storage: --max-rate 1gbit --secret-file other").unwrap();
    assert!(seen.contains("secret_file=other") && !seen.contains("parallel"), "{seen}");
}

#[test]
fn who_may_join_is_answered_by_one_place() {
    let files = Files::new(
        "[peer.a]\ntls-pin = \"00000000000000000000000000000000000000000000000000000000000000ff\"\n[peer.b]\n",
        "[peer.a]\nsecret-file = \"s\"\nno-encryption = true\n[peer.b]\nsecret-file = \"s\"\nno-encryption = true\n",
    );
    let seen = |has_secret, line: &str| files.seen(has_secret, line).unwrap();
    let pin = "tls_pin=00000000000000000000000000000000000000000000000000000000000000ff";
    assert_eq!(seen(false, "send x a:"), format!("files=x {pin} to=a"));
    assert_eq!(seen(false, "send x b:"), "files=x no_encryption=true secret_file=DIR/s to=b");
    assert_eq!(seen(true, "send x a:"), "files=x to=a");
    assert_eq!(seen(true, "send x b:"), "files=x to=b");
    assert_eq!(seen(false, "send x b: --secret-file t"), "files=x secret_file=t to=b");
    assert_eq!(seen(false, "send x b: --insecure"), "files=x insecure=true to=b");
    assert_eq!(seen(false, "send x a: --no-encryption"), "files=x no_encryption=true secret_file=DIR/s to=a");
}

#[test]
fn flags_that_exclude_each_other_across_places() {
    let files = Files::new("[peer.a]\nno-follow = false\n", "[peer.a]\nno-follow = true\npolicy = \"static\"\n");
    assert_eq!(files.seen(false, "stream --to a:").unwrap(), "policy=static to=a");
    let plain = files.seen(false, "stream --to a: --plain").unwrap();
    assert!(plain.contains("plain=true") && !plain.contains("policy=static"), "{plain}");
}

#[test]
fn faults_of_files_name_file_line_and_key() {
    for (text, said) in [
        ("x = 1\n", "user:1: x: there is no such key"),
        ("\n[peers.a]\n", "user:2: peers: there is no such key"),
        ("peer.a = 1\n", "user:1: peer.a: a peer is a table"),
        ("[peer.a]\n\nportt = 1\n", "user:3: peer.a.portt: there is no such key"),
        ("[peer.a]\nsecret = \"0123456789abcdef\"\n", "user:2: peer.a.secret: a secret has a file of its own"),
        ("[peer.a]\njson = true\n", "user:2: peer.a.json: there is no such key"),
        ("[peer.a]\ninsecure = 1\n", "user:2: peer.a.insecure: it is true or false"),
        ("[peer.a]\nwindow = true\n", "user:2: peer.a.window: a flag's value is a text or a number"),
        ("[peer.a]\nwindow = [\"1\"]\n", "user:2: peer.a.window: a flag's value is a text or a number"),
        ("[peer.a]\nto = \"a\"\nparallel = 99\n", "user:3: peer.a.parallel: invalid value '99' for '--parallel <N>'"),
        ("[peer.a]\nnear = \"moon\"\n", "user:2: peer.a.near: invalid value 'moon' for '--near <PLACE>' [possible"),
        ("[peer.a]\nto = [\"a\", \"b:x\"]\n", "user:2: peer.a.to: invalid value 'b:x'"),
        ("[peer.a]\ninsecure = true\nsecret-file = \"s\"\n", ": peer.a.insecure: the argument '--insecure' cannot be"),
        ("[peer.a]\ntls-name = \"b\"\n", "user:1: peer.a: the following required arguments were not provided"),
        ("[peer.b]\nto = 1.5.\n", "user:2: "),
    ] {
        let files = Files::new(text, "");
        let error = format!("{:#}", files.seen(false, "send x a:").unwrap_err());
        assert!(error.contains(said), "{text}: {error}");
        assert!(!error.contains("0123456789abcdef"), "{error}");
    }
}

#[test]
fn peers_that_are_none_or_have_a_path() {
    let files = Files::new("[peer.a]\n", "");
    for (line, said) in [
        ("send x b:", "`b:` names a peer, and there is no table [peer.b]"),
        ("send x --to b:", "`b:` names a peer, and there is no table [peer.b]"),
        ("send x a: --no-config", "--no-config leaves out"),
        ("send x a:folder", "a:folder: the receiver alone chooses the folder"),
        ("send x --to a:/folder", "--to a:/folder: the receiver alone chooses the folder"),
        ("send x --to a:,10.0.0.1", "`a:` names a peer, which stands alone"),
    ] {
        let error = format!("{:#}", files.seen(false, line).unwrap_err());
        assert!(error.contains(said), "{line}: {error}");
    }
    // These name none.
    for (line, to) in [
        ("send ./a: --to 10.0.0.1", "to=10.0.0.1"),
        ("send a: --to fd00::1", "to=fd00::1"),
        ("send x --to a", "to=a"),
        ("send x --to a:80", "to=a:80"),
        ("send x --to tcp://a", "to=tcp://a"),
        ("send x --to [fe80::1%eth0]:80", "to=[fe80::1%eth0]:80"),
    ] {
        let seen = files.seen(false, line).unwrap();
        assert!(seen.split(' ').any(|seen| seen == to), "{line}: {seen}");
    }
    assert!(files.seen(false, "send ./a:").is_err(), "a file, and no peer");
}

#[test]
fn files_that_others_may_write_are_refused() {
    let files = Files::new("[peer.a]\n", "");
    fs::set_permissions(files.user(), fs::Permissions::from_mode(0o664)).unwrap();
    let error = files.seen(false, "send x a:").unwrap_err();
    assert!(format!("{error:#}").contains("others than its owner may write it (mode 664)"), "{error:#}");
    // A command line without a peer reads no file.
    assert!(files.seen(false, "send x --to a").is_ok());
}
