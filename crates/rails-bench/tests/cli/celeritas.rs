//! Lanes of Celeritas, and `probe`, each end a process.

use crate::util::{finish, interrupt, pattern, rails_bench, run, secret, start, stderr, stdout, text, wait_for};
use std::{fs, process::Child, sync::mpsc};

/// Starts a command that listens; gives the addresses that it prints.
fn listening<'a>(args: impl IntoIterator<Item = &'a str>) -> (Child, mpsc::Receiver<String>, String) {
    let (child, lines) = start(rails_bench(args));
    let line = wait_for(&lines, "listening on ");
    let addresses = line.trim_start_matches("listening on ").replace(", ", ",");
    (child, lines, addresses)
}

#[test]
fn file_over_celeritas_and_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let (file, inbox) = (folder.path().join("file"), folder.path().join("inbox"));
    fs::write(&file, pattern(20_000_000, 3)).unwrap();
    let secret = secret(folder.path(), "a secret of the tests");
    let (both, one) = ("celeritas://127.0.0.1:0,celeritas://127.0.0.2:0", "127.0.0.1:0,celeritas://127.0.0.2:0");
    let secret = ["--secret-file", text(&secret)];
    for (listen, rate) in [(both, &["--rate", "400mbit"][..]), (one, &["--rate", "400mbit"]), (both, &[])] {
        let join = || secret.into_iter().chain(rate.iter().copied());
        let recv = ["recv", "--listen", listen, "--once", "--into", text(&inbox)];
        let (receiver, lines, to) = listening(recv.into_iter().chain(join()));
        assert!(to.contains("celeritas://127.0.0.2:"), "{to}");
        let sent = run(["send", text(&file), "--to", &to, "--quiet"].into_iter().chain(join()));
        assert!(sent.status.success(), "{}", stderr(&sent));
        let (code, out, err) = finish(receiver, &lines);
        assert_eq!(code, 0, "{out} {err}");
        assert!(fs::read(&file).unwrap() == fs::read(inbox.join("file")).unwrap());
        fs::remove_dir_all(&inbox).unwrap();
    }
}

#[test]
fn wrong_rates_are_refused() {
    let args = ["stream", "--insecure", "--seconds", "1", "--to", "celeritas://127.0.0.1:1"];
    for wrong in ["0mbit", "fast", "500", "host=1gbit", "10.0.0.1=0kbit"] {
        let output = run(args.into_iter().chain(["--rate", wrong]));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains("--rate"), "{}", stderr(&output));
    }
}

#[test]
fn path_is_probed() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path(), "a secret of the tests");
    let join = ["--secret-file", text(&secret)];
    let (child, lines, to) = listening(["serve", "--listen", "127.0.0.1:0"].into_iter().chain(join));
    let probe = ["probe", "--to", &to, "--max-rate", "20mbit"];
    let output = run(probe.into_iter().chain(join).chain(["--json"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(report["capacity_bits_per_second"].as_u64() > Some(1_000_000), "{report}");
    assert!(report["min_rtt_ms"].as_f64() > Some(0.0) && report["mtu_bytes"].as_u64() > Some(1279), "{report}");
    let mut rates: Vec<u64> = report["trials"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|trial| trial["rate_bits_per_second"].as_u64())
        .collect();
    // A busy machine loses some of a rate, which is then tried again.
    rates.dedup();
    assert!(rates == [12_000_000, 20_000_000] || rates == [12_000_000], "{rates:?}");

    let told = run(probe.into_iter().chain(join));
    assert!(stdout(&told).contains("capacity") && stdout(&told).contains("MTU"), "{}", stdout(&told));
    let other = run(probe.into_iter().chain(["--insecure"]));
    assert_eq!(other.status.code(), Some(1));
    interrupt(child.id());
    assert_eq!(finish(child, &lines).0, 130);
    let gone = run(probe.into_iter().chain(join));
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("start `rails-bench serve` there first"), "{}", stderr(&gone));
    let flood = run(["probe", "--to", &to, "--insecure"]);
    assert_eq!(flood.status.code(), Some(2), "a path is not filled without a limit");
}
