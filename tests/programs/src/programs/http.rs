//! nginx, and the programs that fetch a file from it.

use crate::{
    file,
    passage::{Means, Passage},
    program::{Ceiling, FILE, Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Result, ensure};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// The programs that fetch it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fetch {
    Curl,
    /// The package `requests`.
    Python,
    /// Written in Go.
    Rclone,
}

impl Program for Fetch {
    fn name(&self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Python => "python-requests",
            Self::Rclone => "rclone",
        }
    }

    fn executables(&self) -> &'static [&'static str] {
        match self {
            Self::Curl => &["nginx", "curl"],
            Self::Python => &["nginx", "python3"],
            Self::Rclone => &["nginx", "rclone"],
        }
    }

    fn lacks(&self) -> Option<String> {
        match self {
            Self::Python if !has_requests() => Some("Python has no package `requests`".to_owned()),
            _ => None,
        }
    }

    fn means(&self) -> &'static [Means] {
        match self {
            // SOCKS takes a package that Python has not by itself.
            Self::Python => &[Means::Command, Means::Destination],
            Self::Curl | Self::Rclone => &[Means::Command, Means::Destination, Means::Socks],
        }
    }

    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::Send)
    }

    fn writes_files(&self) -> bool {
        true
    }

    fn serve(&self, room: &Room, passage: &Passage, size: Size) -> Result<Service> {
        let address = room.service_address();
        let folder = room.folder(&format!("nginx-{}", address.port()))?;
        file::make(&folder.join(FILE), size.bytes, "nginx")?;
        let conf = folder.join("nginx.conf");
        fs::write(&conf, configuration(&folder, address.port()))?;
        let mut command = room.service(passage, "nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(&conf).args(["-e", "stderr"]);
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        Ok(Service { address, folder, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let into = this.into.join(FILE);
        let from = format!("http://{}/{FILE}", this.destination());
        let command = match self {
            Self::Curl => {
                let mut command = this.room.client(this.passage, "curl");
                command.args(["--silent", "--show-error", "--fail", "--output"]).arg(&into).arg(&from);
                if let Some(socks) = this.passage.socks {
                    command.args(["--socks5", &socks.to_string()]);
                }
                command
            }
            Self::Python => {
                let mut command = this.room.client(this.passage, "python3");
                command.args(["-c", PYTHON, &from]).arg(&into);
                command
            }
            Self::Rclone => {
                let mut command = this.room.client(this.passage, "rclone");
                let home = this.room.folder("rclone")?;
                command.args(["copyurl", &from]).arg(&into);
                command.args(["--retries", "1", "--low-level-retries", "1", "--multi-thread-streams", "0"]);
                command.arg("--config").arg(home.join("rclone.conf")).arg("--cache-dir").arg(&home);
                if let Some(socks) = this.passage.socks {
                    command.env("HTTP_PROXY", format!("socks5://{socks}"));
                }
                command
            }
        };
        let sample = this.fetch(command, &into)?;
        ensure!(fs::metadata(&into)?.len() == this.size.bytes, "the file has another length");
        Ok(sample)
    }
}

fn has_requests() -> bool {
    let mut command = Command::new("python3");
    command.args(["-c", "import requests"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// One process, whose files are all in the folder.
fn configuration(folder: &Path, listen: u16) -> String {
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: Vec<String> = temporary.map(|name| format!("{name}_temp_path {name};")).to_vec();
    format!(
        "daemon off;\nmaster_process off;\nuser root;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n\
         access_log off;\nsendfile on;\ntcp_nopush on;\n{}\nserver {{\nlisten {listen};\nroot {};\n}}\n}}\n",
        temporary.join("\n"),
        folder.display()
    )
}

/// A download as the package's own documentation has it.
const PYTHON: &str = "
import sys, requests
with requests.get(sys.argv[1], stream=True) as answer:
    answer.raise_for_status()
    with open(sys.argv[2], 'wb') as file:
        for chunk in answer.iter_content(1 << 20):
            file.write(chunk)
";
