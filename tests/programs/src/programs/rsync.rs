//! rsync, from a daemon of its own.

use crate::{
    file,
    passage::{Means, Passage},
    program::{Ceiling, FILE, Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::Result;
use std::fs;

pub(super) struct Daemon;

impl Program for Daemon {
    fn name(&self) -> &'static str {
        "rsync-daemon"
    }

    fn executables(&self) -> &'static [&'static str] {
        &["rsync"]
    }

    fn means(&self) -> &'static [Means] {
        // RSYNC_CONNECT_PROG is run instead of connecting.
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
        let folder = room.folder(&format!("rsyncd-{}", address.port()))?;
        file::make(&folder.join(FILE), size.bytes, "rsync")?;
        let conf = folder.join("rsyncd.conf");
        let served = folder.display();
        fs::write(
            &conf,
            format!(
                "use chroot = no\nuid = 0\ngid = 0\nreverse lookup = no\n[data]\npath = {served}\nread only = yes\n"
            ),
        )?;
        let mut command = room.service(passage, "rsync");
        command.args(["--daemon", "--no-detach", "--ipv4"]);
        command.args(["--port", &address.port().to_string()]).arg("--log-file=/dev/null").arg("--config").arg(conf);
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        Ok(Service { address, folder, running: vec![running] })
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        let mut command = this.room.client(this.passage, "rsync");
        let from = this.destination();
        command.args(["--whole-file", &format!("rsync://{from}/data/{FILE}")]).arg(this.into.join(FILE));
        if let Some(words) = &this.passage.proxy_command {
            command.env("RSYNC_CONNECT_PROG", format!("{} {} {}", words.join(" "), from.ip(), from.port()));
        }
        this.fetch(command, &this.into.join(FILE))
    }
}
