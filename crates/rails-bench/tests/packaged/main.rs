//! The packages that `cargo xtask` makes: each is built and started, which takes minutes.

mod deb;
mod image;
mod one_file;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
};

/// The root of the checkout.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The program in one file.
static ONE_FILE: LazyLock<PathBuf> = LazyLock::new(|| built("package-static").join("rails-bench"));

/// The folder to which a command of `cargo xtask` has written.
fn built(command: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(command);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let mut xtask = Command::new(env!("CARGO"));
    let status = xtask.args(["xtask", command]).arg(&folder).current_dir(ROOT).status().unwrap();
    assert!(status.success(), "cargo xtask {command}: {status}");
    folder
}

/// Runs a command to its end, which has to be a good one.
fn done(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A receiver, which ends with the test.
struct Receiver {
    child: Child,
    /// Where it listens, as `--to` takes it.
    addresses: String,
}

impl Receiver {
    /// Starts it, and waits until it listens.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let addresses = lines.by_ref().find_map(|line| {
            said.push(line.clone());
            line.strip_prefix("listening on ").map(|addresses| addresses.replace(", ", ","))
        });
        // The program goes on writing.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("receiver: {line}")));
        Self { child, addresses: addresses.unwrap_or_else(|| panic!("it does not listen: {said:?}")) }
    }

    /// Waits for its end, which has to be a good one.
    fn finish(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file of a length that is no multiple of anything.
fn file(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 5_000_003];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    fs::write(path, &bytes).unwrap();
    bytes
}
