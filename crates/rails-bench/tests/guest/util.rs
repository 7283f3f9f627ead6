//! The program, run in the guest, and its cables.

use assert_cmd::cargo::cargo_bin;
use rails_lab::{Namespace, guest::Cable};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
};

/// The program here, or in a namespace.
pub(crate) fn rails_bench(inside: Option<&Namespace>, args: &[&str]) -> Command {
    let program = cargo_bin("rails-bench");
    let mut command = match inside {
        Some(namespace) => namespace.command(program),
        None => Command::new(program),
    };
    command.args(args).stdin(Stdio::null());
    command
}

pub(crate) fn output(mut command: Command) -> Output {
    command.output().expect("it can be started")
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        panic!("{error}: {out}{err}")
    })
}

/// A server for one measurement.
pub(crate) struct Server(Child);

impl Server {
    /// Starts `serve --once` with these arguments and waits until it listens.
    pub(crate) fn start(inside: &Namespace, args: &[&str]) -> Self {
        let mut command = rails_bench(Some(inside), &[&["serve", "--once"], args].concat());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it can be started");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let mut said = Vec::new();
        while let Some(line) = lines.next() {
            if line.starts_with("listening on ") {
                // The program's further output must not fill the pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return Self(child);
            }
            said.push(line);
        }
        let _ = child.wait();
        panic!("`serve {args:?}` does not listen: {said:?}");
    }

    /// Waits for it to end by itself.
    pub(crate) fn finish(mut self) {
        let status = self.0.wait().expect("it was started");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has ended is not there to be ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both cables, with their far ends in one namespace.
pub(crate) fn two_cables() -> (Cable, Cable) {
    let first = Cable::plug(0).expect("the cable is free");
    let second = Cable::plug_beside(1, &first).expect("the cable is free");
    // The namespace is the first one's, so that one is dropped last.
    (first, second)
}

pub(crate) fn ip(inside: Option<&Namespace>, arguments: &str) {
    let mut command = match inside {
        Some(namespace) => namespace.command("ip"),
        None => Command::new("ip"),
    };
    let output = command.args(arguments.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
