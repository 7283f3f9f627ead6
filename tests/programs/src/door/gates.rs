//! Doors of rails: a gate on each host, and the ways to the clients' one.

use crate::{
    passage::Passage,
    process::{Running, sibling},
    room::Room,
};
use anyhow::{Context, Result};
use rails_lab::Side;
use serde::Deserialize;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU16, Ordering},
};

/// A gate on each host, with a session between them.
pub(super) struct Gates {
    program: String,
    /// The socket of the clients' gate.
    socket: PathBuf,
    /// A folder for what doors need.
    folder: PathBuf,
    running: Vec<Running>,
}

/// Starts the gates, which do not encrypt. The service's gate lets the other one reach every port
/// of its host.
pub(super) fn open(room: &Room) -> Result<Gates> {
    let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
    let folder = room.folder(&format!("gates-{port}"))?;
    let secret = folder.join("secret");
    fs::write(&secret, "a secret of the room, no longer than it lives")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let listen = |side| quoted(&lanes(room, side, port));
    let service = room.lab.address(Side::B, 0);
    let far = format!(
        "listen = [{}]\nencrypt = false\nsocket = \"{}\"\n[[peer]]\nname = \"clients\"\nsecret_file = \"secret\"\nreach = [\"{service}:*\"]\n",
        listen(Side::B),
        folder.join("far.sock").display()
    );
    let socket = folder.join("near.sock");
    // Answers within any time: a busy machine is no reason to go plain here.
    let near = format!(
        "listen = [{}]\nencrypt = false\nsocket = \"{}\"\n[[peer]]\nname = \"services\"\nsecret_file = \"secret\"\ndial = [{}]\nnetworks = [\"{service}\"]\nanswer_within = \"20s\"\n",
        listen(Side::A),
        socket.display(),
        listen(Side::B),
    );
    let program = sibling(RAILS_BENCH)?;
    let mut running = Vec::new();
    for (side, name, policy) in [(Side::B, "far.toml", far), (Side::A, "near.toml", near)] {
        let path = folder.join(name);
        fs::write(&path, policy)?;
        let mut gate = room.helper(side, &program);
        gate.args(["gate", "--no-config", "--congestion", &room.congestion, "--policy"]).arg(&path);
        let mut gate = room.start(gate)?;
        gate.wait_for("listening on")?;
        running.push(gate);
    }
    let program = program.to_str().context("the program's path is no text")?.to_owned();
    let mut gates = Gates { program, socket, folder, running };
    gates.wait_for_session(room)?;
    Ok(gates)
}

impl Gates {
    fn wait_for_session(&mut self, room: &Room) -> Result<()> {
        let near = self.running.last_mut().expect("two gates were started");
        let (program, socket) = (&self.program, &self.socket);
        near.wait_until("it has a session", || {
            let mut status = room.helper(Side::A, program);
            status.args(["gate", "--status", "--json", "--gate"]).arg(socket);
            let status = status.output()?;
            let status: Status = match serde_json::from_slice(&status.stdout) {
                Ok(status) => status,
                Err(_) => return Ok(false),
            };
            Ok(status.peers.iter().all(|peer| peer.lanes == room.lab.link_count()))
        })
    }

    fn door(&self, words: &[&str]) -> Vec<String> {
        let gate = format!("--gate={}", self.socket.display());
        // A busy machine is no reason to go plain here.
        [&self.program, words[0], &gate, "--gate-within=20s"]
            .into_iter()
            .chain(words[1..].iter().copied())
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn pipe(self) -> Result<Passage> {
        let proxy_command = Some(self.door(&["pipe"]));
        Ok(Passage { proxy_command, helpers: self.running, ..Passage::default() })
    }

    pub(super) fn stripe(self) -> Result<Passage> {
        let client_prefix = self.door(&["run", "--quiet", "--no-follow", "--stripe", "--"]);
        Ok(Passage { client_prefix, helpers: self.running, ..Passage::default() })
    }

    /// A port for each service that the room may yet start, by the service's own number.
    pub(super) fn forward(mut self, room: &Room) -> Result<Passage> {
        let first = room.service_address();
        let ports = first.port()..first.port() + FORWARDED;
        let forwards = ports.clone().map(|port| format!("{port}={}:{port}", first.ip()));
        let words: Vec<_> = self.door(&["forward"]).into_iter().chain(forwards).collect();
        self.start(room, &words, "listening on")?;
        let told = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let destinations = ports.map(|port| (SocketAddr::new(first.ip(), port), told(port))).collect();
        Ok(Passage { destinations, helpers: self.running, ..Passage::default() })
    }

    pub(super) fn socks(mut self, room: &Room) -> Result<Passage> {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), SOCKS_PORT);
        let words = self.door(&["forward", "--socks", &address.to_string()]);
        self.start(room, &words, "listening on")?;
        Ok(Passage { socks: Some(address), helpers: self.running, ..Passage::default() })
    }

    pub(super) fn redirect(mut self, room: &Room) -> Result<Passage> {
        let folder = self.folder.file_name().and_then(|name| name.to_str()).context("the folder has a name")?;
        let name = format!("rails-programs-{}-{folder}", std::process::id());
        let cgroup = cgroups().context("no cgroup2 file system is mounted")?.join(&name);
        fs::create_dir(&cgroup).with_context(|| format!("{} cannot be made", cgroup.display()))?;
        // A namespace has a /sys of its own, which shows no cgroups.
        let mount = "mount -t cgroup2 none /sys/fs/cgroup";
        let inside = format!("/sys/fs/cgroup/{name}");
        let redirect = self.door(&["redirect", "--cgroup", &inside]);
        let shell = |script: String| ["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
        let mounted = shell(format!("{mount} && exec \"$@\""));
        self.start(room, &[&mounted[..], &redirect].concat(), "redirecting")?;
        let client_prefix = shell(format!("{mount} && echo $$ > {inside}/cgroup.procs && exec \"$@\"")).to_vec();
        Ok(Passage { client_prefix, helpers: self.running, cgroup: Some(cgroup.into()), ..Passage::default() })
    }

    /// Starts a door's process, which is ready once it has said so.
    fn start(&mut self, room: &Room, words: &[String], ready: &str) -> Result<()> {
        let mut door = room.helper(Side::A, &words[0]);
        door.args(&words[1..]);
        let mut door = room.start(door)?;
        door.wait_for(ready)?;
        self.running.push(door);
        Ok(())
    }
}

/// The cgroup2 file system.
pub(super) fn cgroups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.into_iter().find(|fields| fields.get(2) == Some(&"cgroup2"));
    found.and_then(|fields| fields.get(1).map(|path| Path::new(path).to_owned()))
}

fn lanes(room: &Room, side: Side, port: u16) -> Vec<String> {
    (0..room.lab.link_count()).map(|link| format!("{}:{port}", room.lab.address(side, link))).collect()
}

fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

/// The parts of a gate's state that are read.
#[derive(Deserialize)]
struct Status {
    peers: Vec<Peer>,
}

#[derive(Deserialize)]
struct Peer {
    lanes: usize,
}

pub(super) const RAILS_BENCH: &str = "rails-bench";
/// Each pair of gates has a port of its own.
static NEXT_PORT: AtomicU16 = AtomicU16::new(7600);
const SOCKS_PORT: u16 = 1080;
/// Far more ports than a room has services.
const FORWARDED: u16 = 400;
