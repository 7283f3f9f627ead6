//! sshd with keys of its own, and the programs that copy a file through it.

use crate::{
    file,
    passage::{Means, Passage},
    process::find,
    program::{Ceiling, FILE, Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// The programs that copy.
#[derive(Debug, Clone, Copy)]
pub(super) enum Copy {
    /// `rsync -e ssh`.
    Rsync,
    Scp,
}

impl Program for Copy {
    fn name(&self) -> &'static str {
        match self {
            Self::Rsync => "rsync-ssh",
            Self::Scp => "scp",
        }
    }

    fn executables(&self) -> &'static [&'static str] {
        match self {
            Self::Rsync => &["sshd", "ssh", "ssh-keygen", "rsync"],
            Self::Scp => &["sshd", "ssh", "ssh-keygen", "scp"],
        }
    }

    fn means(&self) -> &'static [Means] {
        &[Means::Command, Means::Destination, Means::ProxyCommand]
    }

    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::Send)
    }

    fn writes_files(&self) -> bool {
        true
    }

    fn serve(&self, room: &Room, passage: &Passage, size: Size) -> Result<Service> {
        let address = room.service_address();
        let folder = room.folder(&format!("sshd-{}", address.port()))?;
        file::make(&folder.join(FILE), size.bytes, "ssh")?;
        for key in [HOST_KEY, USER_KEY] {
            make_key(&folder.join(key))?;
        }
        let of = |name: &str| folder.join(name).display().to_string();
        let conf = format!(
            "ListenAddress 0.0.0.0\nPort {}\nHostKey {}\nAuthorizedKeysFile {}.pub\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
             UseDNS no\nSubsystem sftp internal-sftp\n",
            address.port(),
            of(HOST_KEY),
            of(USER_KEY),
        );
        fs::write(folder.join("sshd_config"), conf)?;
        let sshd = find("sshd").context("sshd is not installed")?;
        // `ip netns exec` gives the program mounts of its own, so that this /run is no one else's.
        let mut command = room.service(passage, "sh");
        command.args(["-c", WITH_RUN, "sh"]).arg(sshd).args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        Ok(Service { address, folder, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let to = this.destination();
        let options = options(this);
        let from = format!("root@{}:{}", to.ip(), this.service.file().display());
        let command = match self {
            Self::Rsync => {
                let mut command = this.room.client(this.passage, "rsync");
                let words: Vec<String> = options.iter().map(|option| quoted(option)).collect();
                command.args(["--whole-file", "-e", &format!("ssh {} -p {}", words.join(" "), to.port())]);
                command.arg(from).arg(this.into.join(FILE));
                command
            }
            Self::Scp => {
                let mut command = this.room.client(this.passage, "scp");
                command.arg("-q").args(&options).args(["-P", &to.port().to_string()]);
                command.arg(from).arg(this.into.join(FILE));
                command
            }
        };
        this.fetch(command, &this.into.join(FILE))
    }
}

/// The client's options: nothing of the user's own is read or written.
fn options(this: &Use<'_>) -> Vec<String> {
    let key = this.service.folder.join(USER_KEY).display().to_string();
    let mut options = ["-F", "none", "-i", &key].map(str::to_owned).to_vec();
    let mut option = |text: &str| options.extend(["-o".to_owned(), text.to_owned()]);
    for text in ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"] {
        option(text);
    }
    if let Some(words) = &this.passage.proxy_command {
        option(&format!("ProxyCommand={} %h %p", words.join(" ")));
    }
    options
}

/// A word as rsync takes it apart: it knows quotes of both kinds, and no escapes.
fn quoted(word: &str) -> String {
    format!("'{word}'")
}

fn make_key(path: &Path) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "rails", "-f"]).arg(path).stdin(Stdio::null());
    let status = command.status().context("ssh-keygen cannot be run")?;
    ensure!(status.success(), "ssh-keygen failed ({status})");
    Ok(())
}

const HOST_KEY: &str = "host_key";
const USER_KEY: &str = "user_key";
/// sshd takes an empty folder of root's below /run.
const WITH_RUN: &str = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$@\"";
