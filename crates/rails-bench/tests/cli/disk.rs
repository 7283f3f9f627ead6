//! Disks and pipes that take no more: results that cannot be written.

use crate::util::{interrupt, rails_bench, run, start, stderr, text, wait_for, watch_stderr};
use rails_lab::Sandbox;
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs the program where no file may have more than 256 bytes.
fn run_without_room<'a>(args: impl IntoIterator<Item = &'a str>) -> Output {
    let program = rails_bench(args);
    // As most service managers do: the limit is an error and no signal.
    let mut command = Command::new("env");
    command.arg("--ignore-signal=XFSZ").arg(program.get_program()).args(program.get_args());
    Sandbox::new().max_file_size(256).output(&command)
}

/// The file must be the old one, alone in its folder.
fn assert_old(file: &Path) {
    assert_eq!(fs::read_to_string(file).unwrap(), "OLD");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 1);
}

#[test]
fn old_file_outlives_a_new_one_without_room() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "OLD").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let fails = |args: &[&str], said: &str| {
        let output = run_without_room(args.iter().copied().chain([text(&file)]));
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("File too large"), "{args:?}: {}", stderr(&output));
        assert_old(&file);
    };
    fails(&["topo", "capture"], "error: FILE: cannot write ");
    fails(&["topo", "--svg"], "error: --svg: cannot write ");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--insecure"];
    let (mut serve, lines) = start(rails_bench(serve));
    let address = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
    let stream = ["stream", "--to", &address, "--insecure", "--bytes", "1MiB"];
    let with = |flag| stream.into_iter().chain([flag]).collect::<Vec<_>>();
    fails(&with("--record-decisions"), "error: --record-decisions: cannot write ");
    fails(&with("--prometheus"), "error: --prometheus: cannot write ");
    serve.kill().unwrap();
    serve.wait().unwrap();
    let output = run(["topo", "--svg", text(&file)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read_to_string(&file).unwrap().ends_with("</svg>\n"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn serve_outlives_results_that_cannot_be_written() {
    for (of_serve, how) in [(&[][..], &[][..]), (&[], &["--plain"]), (&["--json"], &["--json"])] {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--insecure"];
        let mut serve = rails_bench(serve.iter().chain(of_serve).copied());
        let mut serve = serve.stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = watch_stderr(&mut serve);
        let address = wait_for(&lines, "listening on ").trim_start_matches("listening on ").to_owned();
        for _ in 0..2 {
            let stream = ["stream", "--to", &address, "--insecure", "--bytes", "1MiB"];
            let output = run(stream.iter().chain(how).copied());
            assert!(output.status.success(), "{how:?}: {}", stderr(&output));
        }
        interrupt(serve.id());
        assert_eq!(serve.wait().unwrap().code(), Some(130));
        let said: Vec<String> = lines.iter().filter(|line| line.starts_with("error: ")).collect();
        assert!(!said.is_empty() && said.iter().all(|line| *line == format!("error: {FULL}")), "{how:?}: {said:?}");
    }
}

#[test]
fn results_that_cannot_be_written_are_an_error() {
    for args in [&["topo"][..], &["topo", "--svg", "-"], &["plan", "--rails", "loopback"], &["undo", "--list"]] {
        let output = rails_bench(args.iter().copied()).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), format!("error: {FULL}\n")), "{args:?}");
    }
}

/// A device that takes nothing (full(4)).
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

const FULL: &str = "cannot write to stdout: No space left on device (os error 28)";
