//! Two gates of this host that are peers, and the doors of the near one.

mod forward;
mod gate;
mod ipv6;
mod pipe;
mod redirect;
mod stripe;

use crate::util::{rails_bench, secret, start, text, wait_for};
use nix::sys::signal::Signal;
use rails_lab::{LinkLab, Side};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    sync::mpsc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A process that ends with its test.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) lines: mpsc::Receiver<String>,
}

impl Running {
    pub(super) fn start(command: Command) -> Self {
        let (child, lines) = start(command);
        Self { child, lines }
    }

    pub(super) fn signal(&self, what: Signal) {
        crate::util::signal(self.child.id(), what);
    }

    pub(super) fn wait_for(&self, beginning: &str) -> String {
        wait_for(&self.lines, beginning)
    }

    /// Waits for a line that has these words.
    pub(super) fn wait_for_words(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("no `{words}`"));
            if line.contains(words) {
                return line;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two gates.
pub(super) struct Gates {
    pub(super) near: Running,
    pub(super) far: Running,
    pub(super) folder: TempDir,
}

impl Gates {
    /// Gates on loopback, of which the far one may be asked for all of 127.0.0.0/8.
    pub(super) fn start() -> Self {
        let listen = "'127.0.0.1:0', '127.0.0.2:0'";
        Self::with(listen, "'127.0.0.0/8', '192.0.2.1:1-9'", "'127.0.0.0/8:*'", |_| rails_bench([]))
    }

    /// Gates on the two sides of a lab. The far one lets the near one reach all of its side.
    pub(super) fn of_lab(lab: &LinkLab) -> Self {
        let address = |link| lab.address(Side::B, link);
        let listen = format!("'{}:7600', '{}:7600'", address(0), address(1));
        let networks = format!("'{}', '{}:9000-9999'", address(0), address(1));
        Self::with(&listen, &networks, "'0.0.0.0/0:*'", |side| {
            lab.side(side).command(assert_cmd::cargo::cargo_bin("rails-bench"))
        })
    }

    fn with(listen: &str, networks: &str, reach: &str, command: impl Fn(Side) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = secret(folder.path(), "the secret of both gates");
        let key = text(&key);
        let policy = |name: &str| folder.path().join(format!("{name}.toml"));
        let serve = |side, name: &str| {
            let mut command = command(side);
            command.args(["gate", "--policy", text(&policy(name))]);
            Running::start(command)
        };
        fs::write(
            policy("far"),
            format!(
                "listen = [{listen}]\nsocket = '{}'\n[[peer]]\nname = 'near'\nsecret_file = '{key}'\nreach = [{reach}]\n",
                text(&folder.path().join("far.sock"))
            ),
        )
        .unwrap();
        let far = serve(Side::B, "far");
        let line = far.wait_for("listening on ");
        let address = |word: &str| word.trim_end_matches(',').rsplit('/').next().unwrap().to_owned();
        let dial: Vec<_> = line.split(' ').skip(2).map(|word| format!("'{}'", address(word))).collect();
        fs::write(
            policy("near"),
            format!(
                "socket = '{}'\n[[peer]]\nname = 'far'\nsecret_file = '{key}'\ndial = [{}]\nnetworks = [{networks}]\nanswer_within = '5s'\n",
                text(&folder.path().join("near.sock")),
                dial.join(", ")
            ),
        )
        .unwrap();
        let gates = Self { near: serve(Side::A, "near"), far, folder };
        gates.wait_until("a session", |status| status["peers"][0]["sessions"] == 1);
        gates
    }

    pub(super) fn policy(&self) -> PathBuf {
        self.folder.path().join("near.toml")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("near.sock")
    }

    /// A command that is a door of the near gate.
    pub(super) fn door<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = rails_bench(args);
        command.env("RAILS_GATE", self.socket()).env("RAILS_GATE_WITHIN", "20s");
        command
    }

    /// The state of the near gate.
    pub(super) fn status(&self) -> serde_json::Value {
        status(&self.socket()).expect("a gate answers")
    }

    /// Waits until the near gate is in a state.
    pub(super) fn wait_until(&self, what: &str, holds: impl Fn(&serde_json::Value) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let status = status(&self.socket());
            if status.as_ref().is_some_and(&holds) {
                return;
            }
            assert!(Instant::now() < until, "no {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn status(socket: &Path) -> Option<serde_json::Value> {
    let output = rails_bench(["gate", "--status", "--json", "--gate", text(socket)]).output().unwrap();
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// The exit code, and both streams.
pub(super) fn ended(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), crate::util::stdout(output), crate::util::stderr(output))
}
