//! Encryption, as two processes, and the flags that contradict each other.

use crate::util::{Receiver, finish, rails_bench, run, secret, signal, start, stderr, stdout, text, wait_for};
use nix::sys::signal::Signal;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A certificate for `rails.example` that it signed itself, and its key, in files.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    certificate_with(folder, name, |_| {})
}

/// As [`certificate`], but for this change.
fn certificate_with(
    folder: &Path,
    name: &str,
    change: impl FnOnce(&mut rcgen::CertificateParams),
) -> (PathBuf, PathBuf) {
    let mut params = rcgen::CertificateParams::new(["rails.example".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    change(&mut params);
    let signing_key = rcgen::KeyPair::generate().unwrap();
    let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    fs::write(&certificate, params.self_signed(&signing_key).unwrap().pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
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
    let (pin, key_pin) = ("0".repeat(64), pin(&certificate_file, &key));
    for (wrong, cause, help) in [
        (
            vec!["--tls-ca", text(&other), "--tls-name", "rails.example"],
            "no authority that this end trusts has signed it",
            "help: --tls-ca takes the authority that signed the peer's certificate",
        ),
        (
            vec!["--tls-ca", text(&certificate_file), "--tls-name", "other.example"],
            "it is not for `other.example`, but for rails.example",
            "help: give one of these names by --tls-name",
        ),
        // The name is that of the first host.
        (
            vec!["--tls-ca", text(&certificate_file)],
            "it is not for `127.0.0.1`, but for rails.example",
            "help: give one of these names by --tls-name",
        ),
        (vec!["--tls-pin", &pin], &format!("its key is {key_pin}, and not the pinned {pin}"), "help: the peer prints"),
    ] {
        let output = send(&wrong);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(&format!("this end refuses the peer's certificate: {cause}")), "{said}");
        assert!(said.contains(help), "{said}");
        assert!(!inbox.join("file").exists());
    }
    let unencrypted = send(&["--insecure"]);
    assert!(stderr(&unencrypted).contains("this end has `insecure`, the peer `tls`"), "{}", stderr(&unencrypted));

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
    let pin = pin(&certificate_file, &key);
    let asks =
        ["--tls-cert", text(&certificate_file), "--tls-key", text(&key), "--tls-client-ca", text(&client), "--once"];
    let receiver = Receiver::start(&inbox, asks);
    let send = ["send", text(&file), "--to", &receiver.addresses, "--tls-pin", &pin];
    let expired =
        certificate_with(folder.path(), "expired", |params| params.not_after = rcgen::date_time_ymd(2000, 1, 2));
    let other = certificate(folder.path(), "other");
    for (shown, said, help) in [
        (None, "the peer asks for a certificate, and this end has shown none", "help: give --tls-cert and --tls-key"),
        (Some(&other), "no authority that the peer trusts has signed it", "help: the peer's --tls-client-ca has"),
        (
            Some(&expired),
            "it has expired or is not valid yet, by the peer's clock",
            "help: have the certificate of --tls-cert",
        ),
    ] {
        let shown = shown.map(|(certificate, key)| ["--tls-cert", text(certificate), "--tls-key", text(key)]);
        let stranger = run(send.into_iter().chain(shown.into_iter().flatten()));
        assert_eq!(stranger.status.code(), Some(1), "{}", stderr(&stranger));
        let told = stderr(&stranger);
        assert!(told.contains(said) && told.contains(help), "{told}");
        assert_eq!(told.matches("the TLS handshake failed").count(), 2, "each of two lanes says so once: {told}");
    }
    let known = run(send.into_iter().chain(["--tls-cert", text(&client), "--tls-key", text(&client_key)]));
    assert!(known.status.success(), "{}", stderr(&known));
    assert_eq!(receiver.finish().0, 0);

    let listening = ["recv", "--listen", "203.0.113.77", "--into", text(&inbox), "--tls-cert", text(&certificate_file)];
    let said = stderr(&run(listening.into_iter().chain(["--tls-key", text(&key)])));
    assert!(said.contains(&format!("its key, for --tls-pin: {pin}")), "{said}");
    assert!(said.contains("warning: no --tls-client-ca"), "{said}");
}

/// Each end by itself is right, and the two together are not.
#[test]
fn a_secret_encrypts_where_no_end_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, "for whom it is meant").unwrap();
    let secret = secret(folder.path(), "a secret of the tests");
    let (by_secret, authenticated) = (["--secret-file", text(&secret)], "--no-encryption");
    for (there, here, said, help) in [
        (
            None,
            Some(authenticated),
            "this end has `psk, not encrypted`, the peer `psk, encrypted`",
            "help: leave --no-encryption out here",
        ),
        (
            Some(authenticated),
            None,
            "this end has `psk, encrypted`, the peer `psk, not encrypted`",
            "help: start the peer without --no-encryption",
        ),
    ] {
        let receiver = Receiver::start(&inbox, by_secret.into_iter().chain(there).chain(["--once"]));
        let send = ["send", text(&file), "--to", &receiver.addresses].into_iter().chain(by_secret);
        let wrong = run(send.clone().chain(here));
        assert_eq!(wrong.status.code(), Some(1));
        let told = stderr(&wrong);
        assert!(told.contains(said) && told.contains(help), "{told}");
        let insecure = run(["send", text(&file), "--to", &receiver.addresses, "--insecure"]);
        assert!(stderr(&insecure).contains("give --secret-file"), "{}", stderr(&insecure));
        let right = run(send.chain(there));
        assert!(right.status.success(), "{}", stderr(&right));
        let how = if there.is_some() { "security: psk, not encrypted\n" } else { "security: psk, encrypted\n" };
        assert!(stdout(&right).contains(how), "{}", stdout(&right));
        let (code, received, _) = receiver.finish();
        assert!(code == 0 && received.contains(how), "{received}");
    }
}

/// Both ends of a measurement say how the stream was kept.
#[test]
fn security_of_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path(), "a secret of the tests");
    let by_secret = vec!["--secret-file", text(&secret)];
    for (join, carrier, said) in [
        (by_secret.clone(), vec![], "security: psk, encrypted\n"),
        (by_secret.clone(), vec!["--plain"], "security: insecure\n"),
        ([&by_secret[..], &["--no-encryption"]].concat(), vec![], "security: psk, not encrypted\n"),
        (vec!["--insecure"], vec!["--ping", "64", "--round-trips", "9"], "security: insecure\n"),
    ] {
        let serve = ["serve", "--once", "--listen", "127.0.0.1:0"].into_iter().chain(join.clone());
        let (child, lines) = start(rails_bench(serve));
        let to = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
        let amount = if carrier.contains(&"--ping") { vec![] } else { vec!["--bytes", "1MiB"] };
        let output = run(["stream", "--to", &to].into_iter().chain(join).chain(carrier.clone()).chain(amount));
        assert!(stdout(&output).contains(said), "{}{}", stdout(&output), stderr(&output));
        let (_, served, _) = finish(child, &lines);
        assert!(served.contains(said) || carrier.contains(&"--ping"), "{served}");
    }
}

/// The pin of a certificate's key.
fn pin(certificate: &Path, key: &Path) -> String {
    let identity = rails_multirail::Identity::from_pem(&fs::read(certificate).unwrap(), &fs::read(key).unwrap());
    identity.unwrap().pin().unwrap().to_string()
}

/// As `openssl req -x509` makes one: an authority without names.
#[test]
fn certificates_of_openssl_get_advice() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, "for whom it is meant").unwrap();
    let nameless = |params: &mut rcgen::CertificateParams| params.subject_alt_names.clear();
    let of_authority = |params: &mut rcgen::CertificateParams| {
        nameless(params);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    };
    for (made, cause) in [
        (certificate_with(folder.path(), "authority", of_authority), "it is an authority's certificate (CA:TRUE)"),
        (certificate_with(folder.path(), "nameless", nameless), "but for no name at all (it has no subjectAltName)"),
    ] {
        let (certificate, key) = (text(&made.0), text(&made.1));
        let receiver = Receiver::start(&inbox, ["--tls-cert", certificate, "--tls-key", key, "--once"]);
        let send = ["send", text(&file), "--to", &receiver.addresses];
        let said = stderr(&run(send.into_iter().chain(["--tls-ca", certificate])));
        assert!(said.contains(cause) && said.contains("help: `openssl req -x509` alone makes"), "{said}");
        let pinned = run(send.into_iter().chain(["--tls-pin", &pin(&made.0, &made.1)]));
        assert!(pinned.status.success(), "{}", stderr(&pinned));
    }
}

#[test]
fn certificates_that_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("file"));
    fs::write(&file, "for whom it is meant").unwrap();
    let for_address = |params: &mut rcgen::CertificateParams| {
        params.subject_alt_names.push(rcgen::SanType::IpAddress([127, 0, 0, 1].into()));
    };
    let (old, new) = (certificate(folder.path(), "old"), certificate_with(folder.path(), "new", for_address));
    let (used, used_key) = (folder.path().join("used.pem"), folder.path().join("used.key"));
    let put = |(certificate, key): &(PathBuf, PathBuf)| {
        fs::copy(certificate, &used).unwrap();
        fs::copy(key, &used_key).unwrap();
    };
    put(&old);
    let receiver = Receiver::start(&inbox, ["--tls-cert", text(&used), "--tls-key", text(&used_key)]);
    let send =
        |trusted: &str| run(["send", text(&file), "--to", &receiver.addresses, "--tls-ca", trusted, "--checksum"]);
    fs::write(&used, "no certificate").unwrap();
    signal(receiver.id(), Signal::SIGHUP);
    let warning = receiver.wait_for("warning: the certificate stays as it was: --tls-cert");
    assert!(warning.contains("there is no certificate in it"), "{warning}");
    let named = ["send", text(&file), "--to", &receiver.addresses, "--tls-ca", text(&old.0)];
    let before = run(named.into_iter().chain(["--tls-name", "rails.example"]));
    assert!(before.status.success(), "{}", stderr(&before));
    put(&new);
    signal(receiver.id(), Signal::SIGHUP);
    let renewed = receiver.wait_for("the certificate was read again; its key, for --tls-pin: ");
    assert!(renewed.ends_with(&pin(&new.0, &new.1)), "{renewed}");
    // The name is that of the first host.
    let after = send(text(&new.0));
    assert!(after.status.success(), "{}", stderr(&after));
    assert!(stderr(&send(text(&old.0))).contains("no authority that this end trusts has signed it"));
}

#[test]
fn flags_that_contradict_each_other_are_both_named() {
    let pin = "0".repeat(64);
    let send = ["send", "x", "--to", "127.0.0.1:1"];
    for (flags, said) in [
        (vec!["--insecure", "--no-encryption"], ["--insecure", "--no-encryption"]),
        (vec!["--no-encryption"], ["--no-encryption goes with a secret", "--secret-file"]),
        (vec!["--insecure", "--tls-pin", &pin], ["--insecure", "--tls-pin"]),
        (vec!["--no-encryption", "--tls-pin", &pin], ["--no-encryption", "--tls-pin"]),
        (vec!["--secret-file", "x", "--tls-ca", "y", "--tls-name", "z"], ["--secret-file", "--tls-ca"]),
        (vec!["--tls-pin", &pin, "--tls-ca", "y", "--tls-name", "z"], ["--tls-pin", "--tls-ca"]),
        (vec!["--tls-name", "y"], ["--tls-name", "--tls-ca"]),
        (vec!["--tls-cert", "y", "--tls-key", "z"], ["--tls-cert", "--tls-pin"]),
        (vec!["--tls-pin", "y"], ["--tls-pin", "is no pin"]),
    ] {
        let output = run(send.into_iter().chain(flags.iter().copied()));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        said.iter().for_each(|said| assert!(stderr(&output).contains(said), "{flags:?}: {}", stderr(&output)));
    }
    let recv = ["recv", "--listen", "127.0.0.1:0", "--into", "x"];
    for other in ["--insecure", "--no-encryption"] {
        let flags = ["--tls-cert", "x", "--tls-key", "y", other];
        let output = run(recv.into_iter().chain(flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--tls-cert") && stderr(&output).contains(flags[4]), "{}", stderr(&output));
    }
    // A flag goes before the variable.
    let both = rails_bench(send.into_iter().chain(["--tls-pin", &pin])).env("RAILS_SECRET", "short").output();
    let said = stderr(&both.unwrap());
    assert!(said.contains("nothing was sent") && !said.contains("RAILS_SECRET"), "{said}");
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
