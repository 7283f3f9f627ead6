//! Two hosts that are joined by links, and the programs on them.

use crate::{
    part::Part,
    passage::Passage,
    process::{Running, kill_inside},
    usage::Usage,
};
use anyhow::{Context, Result};
use rails_lab::{LinkLab, Shape, Side};
use std::{
    ffi::OsStr,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU16, AtomicU32, Ordering},
};
use tempfile::TempDir;

/// Two hosts, side A with the clients and side B with the services, and a folder for all that the
/// programs write. What still runs inside is killed when the room is dropped.
#[derive(Debug)]
pub struct Room {
    /// The hosts and the links between them.
    pub lab: LinkLab,
    /// The congestion control of every connection.
    pub congestion: String,
    folder: TempDir,
    usage: Usage,
    next_port: AtomicU16,
    next_output: AtomicU32,
}

impl Room {
    /// Builds a room whose files lie below `folder`.
    ///
    /// # Errors
    ///
    /// Those of [`LinkLab`], and of making the folder.
    ///
    /// # Privileges
    ///
    /// Root.
    pub fn build(links: &[Shape], congestion: &str, folder: &Path) -> Result<Self> {
        let lab = LinkLab::builder().links(links.iter().copied()).build()?;
        lab.set_congestion_control(congestion)?;
        let folder = tempfile::Builder::new().prefix("rails-programs-").tempdir_in(folder);
        let folder = folder.context("the room's folder cannot be made")?;
        // Some services run as a user of their own, and have to get to their files.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            lab,
            congestion: congestion.to_owned(),
            folder,
            usage: Usage::new(),
            next_port: AtomicU16::new(FIRST_PORT),
            next_output: AtomicU32::new(0),
        })
    }

    /// A folder of the room's own, made if it is not there.
    ///
    /// # Errors
    ///
    /// The file system's refusal.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(path)
    }

    /// An address of side B's that no other service of the room has.
    pub fn service_address(&self) -> SocketAddr {
        // Two: the programs of the matrix hold the next port as well.
        let port = self.next_port.fetch_add(2, Ordering::Relaxed);
        SocketAddr::new(self.lab.address(Side::B, 0), port)
    }

    /// The address of each link at one side, without ports.
    pub fn addresses(&self, side: Side) -> String {
        let addresses = (0..self.lab.link_count()).map(|link| self.lab.address(side, link).to_string());
        addresses.collect::<Vec<_>>().join(",")
    }

    /// The command of a client, whose connections go through that passage.
    pub fn client(&self, passage: &Passage, program: impl AsRef<OsStr>) -> Command {
        self.behind(Part::Client, Part::Client.side(), &passage.client_prefix, program)
    }

    /// The command of a service.
    pub fn service(&self, passage: &Passage, program: impl AsRef<OsStr>) -> Command {
        self.behind(Part::Service, Part::Service.side(), &passage.service_prefix, program)
    }

    /// The command of a program of a door's own.
    pub fn helper(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        self.behind(Part::Door, side, &[], program)
    }

    fn behind(&self, part: Part, side: Side, prefix: &[String], program: impl AsRef<OsStr>) -> Command {
        // The words that enter the namespace; the first argument of all is the program.
        let entered = self.lab.side(side).command(prefix.first().map_or(program.as_ref(), |first| first.as_ref()));
        let mut command = self.usage.counted(part, &entered);
        if let [_, rest @ ..] = prefix {
            command.args(rest).arg(program);
        }
        command
    }

    /// Starts a command, whose outputs go to files of the room.
    ///
    /// # Errors
    ///
    /// The command cannot be started.
    pub fn start(&self, command: Command) -> Result<Running> {
        let number = self.next_output.fetch_add(1, Ordering::Relaxed);
        Running::start(command, &self.folder("output")?.join(number.to_string()))
    }

    /// Waits until a service listens.
    ///
    /// # Errors
    ///
    /// It ends, or does not listen in time.
    pub fn wait_until_listening(&self, running: &mut Running, address: SocketAddr) -> Result<()> {
        running.wait_until("it listens", || Ok(self.lab.is_listening(Side::B, address.port())?))
    }

    /// The CPU time of each part since the room was built; `None` where the system does not count.
    pub fn usage(&self) -> Option<[f64; 3]> {
        self.usage.seconds()
    }

    /// Brings a link up again, with all that went with it.
    ///
    /// # Errors
    ///
    /// Those of [`LinkLab`].
    pub fn restore_link(&self, link: usize) -> Result<()> {
        self.lab.set_link_up(Side::B, link, true)?;
        // The routes went with the link, and the congestion control with them.
        Ok(self.lab.set_congestion_control(&self.congestion)?)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Services have children that no one else ends. Nothing else is in these namespaces.
        for side in Side::BOTH {
            kill_inside(self.lab.side(side).name());
        }
    }
}

/// Below the kernel's own choices (ip_local_port_range of ip-sysctl).
const FIRST_PORT: u16 = 20_000;
