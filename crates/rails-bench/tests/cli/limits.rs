//! Where the process may have few threads, as `pids.max` and RLIMIT_NPROC say, or few descriptors.

use crate::util::{rails_bench, stderr, text};
use rails_lab::Sandbox;
use std::{os::unix::fs::PermissionsExt, path::Path};

/// A user whom no system has.
const UNUSED: u32 = 3_650_000_053;

#[test]
fn few_descriptors_are_an_error_and_no_panic() {
    for descriptors in 4..=14 {
        let sandbox = Sandbox::new().max_descriptors(descriptors);
        for args in [&["plan", "--rails", "loopback"][..], &["demo", "--size", "100KiB", "--rails", "1"]] {
            let output = sandbox.output(&rails_bench(args.iter().copied()));
            let said = stderr(&output);
            assert!(!said.contains("panicked") && output.status.code() < Some(3), "{descriptors}, {args:?}: {said}");
        }
    }
    let said = stderr(&Sandbox::new().max_descriptors(6).output(&rails_bench(["demo"])));
    assert!(said.contains("RLIMIT_NOFILE allows 6; a higher `ulimit -n` allows more"), "{said}");
}

#[test]
fn few_descriptors_have_a_help_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cpus"), "").unwrap();
    let folder = text(folder.path());
    let commands: [&[&str]; 5] = [
        &["topo"],
        &["plan", "--rails", "loopback"],
        &["doctor", "--iface", "lo"],
        &["rails", "--claims", folder],
        &["undo", "--list", "--journal", folder],
    ];
    for command in commands {
        let output = Sandbox::new().max_descriptors(4).output(&rails_bench(command.iter().copied()));
        let said = stderr(&output);
        let helps: Vec<_> = said.lines().filter(|line| line.starts_with("help: ")).collect();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        assert_eq!(helps, ["help: raise the limit on open files: `ulimit -n` is 4"], "{command:?}: {said}");
    }
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_threads_that_cannot_be_had_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut codes = Vec::new();
    for threads in 1..=12 {
        let sandbox = Sandbox::new().user(UNUSED).max_processes(threads);
        let mut demo = rails_bench(["demo", "--size", "100KiB", "--rails", "1"]);
        demo.env("TMPDIR", folder.path());
        let output = sandbox.output(&demo);
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{threads} threads: {said}");
        codes.push(output.status.code());
        if !output.status.success() {
            assert!(said.contains("RLIMIT_NPROC"), "{threads} threads: {said}");
        }
    }
    // Rails take some, and the rest is done with few.
    assert_eq!((codes[0], codes[11]), (Some(1), Some(0)), "{codes:?}");
    let listen = |into: &Path| {
        let recv = ["recv", "--insecure", "--listen", "127.0.0.1:0", "--into", text(into), "--once"];
        Sandbox::new().user(UNUSED).max_processes(1).output(&rails_bench(recv))
    };
    let said = stderr(&listen(folder.path()));
    assert!(said.contains("no thread for `signals`: ") && said.contains("RLIMIT_NPROC allows the user 1"), "{said}");
}
