//! git, from a daemon of its own.

use crate::{
    file,
    passage::{Means, Passage},
    process::find,
    program::{Ceiling, Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

pub(super) struct Clone;

impl Program for Clone {
    fn name(&self) -> &'static str {
        "git-clone"
    }

    fn executables(&self) -> &'static [&'static str] {
        &["git", "git-daemon"]
    }

    fn means(&self) -> &'static [Means] {
        &[Means::Command, Means::Destination, Means::ProxyCommand]
    }

    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::Send)
    }

    fn serve(&self, room: &Room, passage: &Passage, size: Size) -> Result<Service> {
        let address = room.service_address();
        let folder = room.folder(&format!("git-{}", address.port()))?;
        let repository = folder.join(REPOSITORY);
        fs::create_dir_all(&repository)?;
        for arguments in [&["init", "-q", "-b", "main"][..], &["config", "core.compression", "0"]] {
            git(&repository, arguments)?;
        }
        for number in 0..FILES {
            file::make(&repository.join(format!("file-{number}")), size.bytes / FILES, &format!("git {number}"))?;
        }
        for arguments in [&["add", "."][..], &["commit", "-q", "-m", "Files"], &["repack", "-adq"]] {
            git(&repository, arguments)?;
        }
        // `git daemon` would start it as a child, which would be left behind.
        let mut command = room.service(passage, find("git-daemon").context("git-daemon is not installed")?);
        command.args(["--export-all", "--reuseaddr", &format!("--base-path={}", folder.display())]);
        command.arg(format!("--port={}", address.port()));
        for (name, value) in ENVIRONMENT {
            command.env(name, value);
        }
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        Ok(Service { address, folder, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let to = this.destination();
        let clone = this.into.join("clone.git");
        let mut command = this.room.client(this.passage, "git");
        command.args(["clone", "-q", "--bare", &format!("git://{to}/{REPOSITORY}")]).arg(&clone);
        for (name, value) in ENVIRONMENT {
            command.env(name, value);
        }
        if let Some(words) = &this.passage.proxy_command {
            // git names a program, which gets host and port.
            let program = this.into.join("proxy");
            fs::write(&program, format!("#!/bin/sh\nexec {} \"$1\" \"$2\"\n", words.join(" ")))?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
            command.env("GIT_PROXY_COMMAND", program);
        }
        let elapsed = this.finish(command)?.elapsed;
        let head = |folder: &Path| git(folder, &["rev-parse", "HEAD"]);
        ensure!(head(&clone)? == head(&this.service.folder.join(REPOSITORY))?, "another commit arrived");
        git(&clone, &["fsck", "--no-progress"])?;
        Ok(Sample::of(this.size.bytes / FILES * FILES, elapsed))
    }
}

/// Runs git outside the room, and returns what it printed.
fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(folder).envs(ENVIRONMENT).stdin(Stdio::null());
    let output = command.output().context("git cannot be run")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "git {arguments:?} failed: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}

/// Nothing of the user's or the system's own configuration is read.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_AUTHOR_NAME", "rails"),
    ("GIT_AUTHOR_EMAIL", "rails@localhost"),
    ("GIT_COMMITTER_NAME", "rails"),
    ("GIT_COMMITTER_EMAIL", "rails@localhost"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
const REPOSITORY: &str = "repository";
const FILES: u64 = 8;
