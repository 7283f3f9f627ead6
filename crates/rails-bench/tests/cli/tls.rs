//! Encryption, as two processes, and the flags that contradict each other.

use crate::util::{Receiver, rails_bench, run, secret, stderr, stdout, text};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A certificate for `rails.example` that it signed itself, and its key, in files.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()]).unwrap();
    let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    (certificate, key)
}

#[test]
fn file_by_tls_to_trusted_peers_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, "for whom it is meant").unwrap();
    let (certificate_file, key) = certificate(folder.path(), "server");
    let receiver = Receiver::start(&inbox, ["--tls-cert", text(&certificate_file), "--tls-key", text(&key)]);
    let send =
        |more: &[&str]| run(["send", text(&file), "--to", &receiver.addresses].into_iter().chain(more.iter().copied()));

    let (other, _) = certificate(folder.path(), "other");
    let pin = "0".repeat(64);
    for wrong in [
        vec!["--tls-ca", text(&other), "--tls-name", "rails.example"],
        vec!["--tls-ca", text(&certificate_file), "--tls-name", "other.example"],
        vec!["--tls-pin", &pin],
    ] {
        let output = send(&wrong);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains("the TLS handshake failed") && said.contains("help: ") && said.contains("--tls-pin"),
            "{said}"
        );
        assert!(!inbox.join("file").exists());
    }
    let unencrypted = send(&["--insecure"]);
    assert!(stderr(&unencrypted).contains("in mode insecure"), "{}", stderr(&unencrypted));

    let output = send(&["--tls-ca", text(&certificate_file), "--tls-name", "rails.example"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("security: tls"), "{}", stdout(&output));
    assert_eq!(fs::read(inbox.join("file")).unwrap(), b"for whom it is meant");
}

#[test]
fn receiver_prints_its_pin_and_asks_for_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, "for whom it is meant").unwrap();
    let (certificate_file, key) = certificate(folder.path(), "server");
    let (client, client_key) = certificate(folder.path(), "client");
    let pin = rails_multirail::Identity::from_pem(&fs::read(&certificate_file).unwrap(), &fs::read(&key).unwrap());
    let pin = pin.unwrap().pin().unwrap().to_string();
    let asks =
        ["--tls-cert", text(&certificate_file), "--tls-key", text(&key), "--tls-client-ca", text(&client), "--once"];
    let receiver = Receiver::start(&inbox, asks);
    let send = ["send", text(&file), "--to", &receiver.addresses, "--tls-pin", &pin];
    let nobody = run(send);
    assert_eq!(nobody.status.code(), Some(1), "{}", stderr(&nobody));
    let known = run(send.into_iter().chain(["--tls-cert", text(&client), "--tls-key", text(&client_key)]));
    assert!(known.status.success(), "{}", stderr(&known));
    assert_eq!(receiver.finish().0, 0);

    let listening = ["recv", "--listen", "203.0.113.77", "--into", text(&inbox), "--tls-cert", text(&certificate_file)];
    let said = stderr(&run(listening.into_iter().chain(["--tls-key", text(&key)])));
    assert!(said.contains(&format!("its key, for --tls-pin: {pin}")), "{said}");
    assert!(said.contains("warning: no --tls-client-ca"), "{said}");
}

#[test]
fn a_secret_may_encrypt_as_well_when_both_ends_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, "for whom it is meant").unwrap();
    let secret = secret(folder.path(), "a secret of the tests");
    let receiver = Receiver::start(&inbox, ["--secret-file", text(&secret), "--encrypt", "--once"]);
    let send = ["send", text(&file), "--to", &receiver.addresses, "--secret-file", text(&secret)];
    let lesser = run(send);
    assert_eq!(lesser.status.code(), Some(1));
    assert!(
        stderr(&lesser).contains("help: give both ends a secret, with --encrypt or without"),
        "{}",
        stderr(&lesser)
    );
    let output = run(send.into_iter().chain(["--encrypt"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("security: psk encrypted"), "{}", stdout(&output));
    assert_eq!(receiver.finish().0, 0);
}

#[test]
fn flags_that_contradict_each_other_are_both_named() {
    let pin = "0".repeat(64);
    let send = ["send", "x", "--to", "127.0.0.1:1"];
    for (flags, said) in [
        (vec!["--insecure", "--encrypt"], ["--insecure", "--encrypt"]),
        (vec!["--encrypt"], ["--encrypt takes a secret", "--secret-file"]),
        (vec!["--insecure", "--tls-pin", &pin], ["--insecure", "--tls-pin"]),
        (vec!["--encrypt", "--tls-pin", &pin], ["--encrypt", "--tls-pin"]),
        (vec!["--secret-file", "x", "--tls-ca", "y", "--tls-name", "z"], ["--secret-file", "--tls-ca"]),
        (vec!["--tls-pin", &pin, "--tls-ca", "y", "--tls-name", "z"], ["--tls-pin", "--tls-ca"]),
        (vec!["--tls-ca", "y"], ["--tls-name", "--tls-ca"]),
        (vec!["--tls-cert", "y", "--tls-key", "z"], ["--tls-cert", "--tls-pin"]),
        (vec!["--tls-pin", "y"], ["--tls-pin", "is no pin"]),
    ] {
        let output = run(send.into_iter().chain(flags.iter().copied()));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        said.iter().for_each(|said| assert!(stderr(&output).contains(said), "{flags:?}: {}", stderr(&output)));
    }
    let recv = ["recv", "--listen", "127.0.0.1:0", "--into", "x"];
    for flags in
        [["--tls-cert", "x", "--tls-key", "y", "--insecure"], ["--tls-cert", "x", "--tls-key", "y", "--encrypt"]]
    {
        let output = run(recv.into_iter().chain(flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--tls-cert") && stderr(&output).contains(flags[4]), "{}", stderr(&output));
    }
    let both =
        rails_bench(send.into_iter().chain(["--tls-pin", &pin])).env("RAILS_SECRET", "0123456789abcdef").output();
    let said = stderr(&both.unwrap());
    assert!(said.contains("RAILS_SECRET is set, and --tls-pin is given"), "{said}");
}

#[test]
fn files_that_cannot_be_read_name_their_flag() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate_file, key) = certificate(folder.path(), "server");
    let recv = |certificate: &str, key: &str| {
        let output =
            run(["recv", "--listen", "127.0.0.1:0", "--into", "x", "--tls-cert", certificate, "--tls-key", key]);
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    assert!(recv("/no/such", text(&key)).contains("error: --tls-cert /no/such: "));
    assert!(recv(text(&certificate_file), "/no/such").contains("error: --tls-key /no/such: "));
    assert!(recv(text(&key), text(&key)).contains("there is no certificate in it"));
    let (_, other) = certificate(folder.path(), "other");
    let said = recv(text(&certificate_file), text(&other));
    assert!(said.contains("error: --tls-cert") && said.contains("they cannot be used"), "{said}");
}
