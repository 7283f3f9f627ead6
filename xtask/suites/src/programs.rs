//! The workspace's test programs, as cargo names them, and the ignored tests that each of them
//! lists.

use crate::shell::{cargo, shown};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A built test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) executable: PathBuf,
    /// Where cargo would run it: the folder of its package.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// The names of its ignored tests; listing runs none.
    pub(crate) fn ignored_tests(&self) -> Result<Vec<String>> {
        let mut command = Command::new(&self.executable);
        command.args(["--list", "--ignored", "--format", "terse"]).current_dir(&self.folder).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot run `{}`", shown(&command)))?;
        if !output.status.success() {
            bail!("`{}` failed ({})", shown(&command), output.status);
        }
        Ok(listed(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs these of its ignored tests, one at a time.
    pub(crate) fn ignored(&self, tests: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments(tests)).current_dir(&self.folder);
        command
    }

    /// Whether it is built from this file or folder of `tests/`.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.stem() == name
    }

    /// The program's name for people: the folder of its package, and the file or folder of
    /// `tests/`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.folder.file_name().unwrap_or_default().display(), self.stem())
    }

    /// The name of the executable, without the hash at its end.
    fn stem(&self) -> String {
        let file = self.executable.file_name().unwrap_or_default().to_string_lossy();
        file.rsplit_once('-').map_or(&*file, |(stem, _)| stem).to_owned()
    }
}

/// The arguments by which a test program runs these of its ignored tests, one at a time.
pub(crate) fn arguments(tests: &[String]) -> impl Iterator<Item = OsString> {
    let flags = ["--ignored", "--exact", "--test-threads=1", "--show-output"].map(str::to_owned);
    flags.into_iter().chain(tests.to_vec()).map(Into::into)
}

/// Builds and names the test programs of a suite.
pub(crate) fn build(suite: &[&str]) -> Result<Vec<Program>> {
    let mut command = cargo(["test", "--no-run", "--tests"]);
    messages(command.args(suite))?.lines().filter_map(|line| program(line).transpose()).collect()
}

/// Builds a program, and says where it lies.
pub(crate) fn executable(command: &mut Command) -> Result<PathBuf> {
    let messages = messages(command)?;
    let built = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok()?.executable).next_back();
    built.with_context(|| format!("`{}` built no program", shown(command)))
}

/// The messages of a cargo that builds.
fn messages(command: &mut Command) -> Result<String> {
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    println!("\n$ {}", shown(command));
    let output = command.output().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The program that a line of cargo's messages names, if it names one.
fn program(line: &str) -> Result<Option<Program>> {
    let message: Message = serde_json::from_str(line).with_context(|| format!("cargo wrote an odd message: {line}"))?;
    let (Some(executable), Some(manifest)) = (message.executable, message.manifest_path) else { return Ok(None) };
    if !message.profile.is_some_and(|profile| profile.test) {
        return Ok(None);
    }
    let folder = manifest.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Some(Program { executable, folder }))
}

/// Lines `NAME: test`.
fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// The parts of a message that are of use here (The Cargo Book, "External tools", "JSON messages").
#[derive(Debug, Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_taken_and_nothing_else() {
        let artifact = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{{"name":"a"}},
                "profile":{{"opt_level":"0","test":{test}}},"executable":{executable}}}"#
            )
        };
        let expected = Program { executable: "/w/target/debug/deps/a-1".into(), folder: "/w/crates/a".into() };
        assert_eq!(program(&artifact(true, r#""/w/target/debug/deps/a-1""#)).unwrap(), Some(expected.clone()));
        assert_eq!(expected.name(), "a a");
        assert!(expected.is_called("a") && !expected.is_called("a-1"));
        assert_eq!(program(&artifact(false, r#""/w/target/debug/a""#)).unwrap(), None);
        assert_eq!(program(&artifact(false, "null")).unwrap(), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#).unwrap(), None);
        assert!(program("Compiling a").is_err());
    }

    #[test]
    fn the_harness_list_is_read() {
        assert_eq!(listed("a::guest_b: test\nbench_c: benchmark\n\n1 test, 0 benchmarks\n"), ["a::guest_b"]);
    }
}
