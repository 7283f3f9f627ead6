//! Finds missing packages and installs them where that is allowed.

use crate::{
    plan::{Manager, Need, Plan, Privilege, plan},
    shell::{is_root, succeeds},
};
use anyhow::{Result, bail};
use rails_lab::guest::Tool;
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The purpose of setting the system up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To build and run.
    Build,
    /// To build the fuzz targets.
    Fuzz,
    /// To run tests as root: to make network namespaces, and to be compared with lstopo.
    Namespaces,
    /// To check proofs.
    Proofs,
    /// To run other people's programs.
    Programs,
    /// To boot the two-socket guest and make namespaces in it.
    Guest,
}

/// Installs missing packages, and fails if one is still missing.
pub(crate) fn setup(purpose: Purpose) -> Result<()> {
    let missing = missing(purpose);
    if missing.is_empty() {
        return Ok(());
    }
    println!("missing: {}", names(&missing));
    if purpose == Purpose::Programs && Path::new(SYSTEMD).exists() {
        // It starts the services of a package, whose ports would then be open to everyone.
        bail!("missing: {}; to install them would start services on this system", names(&missing));
    }
    match plan(&missing, manager(), privilege()?) {
        Plan::Nothing => Ok(()),
        Plan::Install(commands) => {
            commands.iter().for_each(|command| install(command));
            verify(purpose)
        }
        Plan::Advise(lines) => {
            bail!(
                "it cannot be installed from here (neither root nor a sudo without password, or an unknown package \
                 manager); run the one of these that fits the system:\n    {}",
                lines.join("\n    ")
            )
        }
    }
}

/// Only the result counts: a failed refresh of the package lists does no harm when the install
/// works.
fn verify(purpose: Purpose) -> Result<()> {
    let missing = missing(purpose);
    if missing.is_empty() {
        println!("all is there now");
        return Ok(());
    }
    bail!("still missing after the installation: {} (the distribution may hold an older version only)", names(&missing))
}

fn install(command: &[&str]) {
    println!("running: {}", command.join(" "));
    match Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("`{}` failed ({status})", command.join(" ")),
        Err(error) => eprintln!("cannot run `{}`: {error}", command.join(" ")),
    }
}

fn missing(purpose: Purpose) -> Vec<Need> {
    let needs: &[Need] = match purpose {
        Purpose::Build => &BUILD,
        Purpose::Fuzz => &FUZZ,
        Purpose::Namespaces => &NAMESPACES,
        Purpose::Proofs => &PROOFS,
        Purpose::Programs => &PROGRAMS,
        Purpose::Guest => &GUEST,
    };
    needs.iter().copied().filter(|need| !is_there(*need)).collect()
}

fn is_there(need: Need) -> bool {
    match need {
        Need::PkgConfig => succeeds("pkg-config", &["--version"]),
        Need::Hwloc => succeeds("pkg-config", &["--exists", "hwloc >= 2.8"]),
        Need::Libudev => succeeds("pkg-config", &["--exists", "libudev"]),
        Need::Compiler => succeeds("cc", &["--version"]),
        Need::CxxCompiler => succeeds("c++", &["--version"]),
        Need::Iproute => succeeds("ip", &["-V"]) && succeeds("tc", &["-V"]),
        Need::Lstopo => succeeds("lstopo", &["--version"]),
        Need::Z3 => succeeds("z3", &["--version"]),
        Need::Qemu => Tool::Qemu.find().is_some(),
        Need::Busybox => Tool::StaticBusybox.find().is_some(),
        Need::Kmod => Tool::Depmod.find().is_some() && Tool::Modprobe.find().is_some(),
        Need::Curl => has_program("curl"),
        Need::Git => has_program("git") && has_program("git-daemon"),
        Need::Iperf3 => has_program("iperf3"),
        Need::Nginx => has_program("nginx"),
        Need::Redis => has_program("redis-server") && has_program("redis-benchmark"),
        Need::Rsync => has_program("rsync"),
        Need::Sshd => ["sshd", "ssh", "scp", "ssh-keygen"].into_iter().all(has_program),
    }
}

/// Whether a program is in a folder of `PATH`, or in one of the system's services. Some of them
/// cannot be asked: they would start.
fn has_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders =
        env::split_paths(&path).chain(["/usr/sbin", "/usr/lib/git-core", "/usr/libexec/git-core"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).any(|file| file.is_file())
}

fn manager() -> Option<Manager> {
    Manager::ALL.into_iter().find(|manager| succeeds(manager.program(), &["--version"]))
}

fn privilege() -> Result<Privilege> {
    Ok(if is_root()? {
        Privilege::Root
    } else if succeeds("sudo", &["-n", "true"]) {
        Privilege::Sudo
    } else {
        Privilege::None
    })
}

fn names(needs: &[Need]) -> String {
    needs.iter().map(|need| need.name()).collect::<Vec<_>>().join(", ")
}

/// The tests of rails-formats build Blosc, a part of which is C++.
const BUILD: [Need; 5] = [Need::PkgConfig, Need::Hwloc, Need::Libudev, Need::Compiler, Need::CxxCompiler];
const FUZZ: [Need; 5] = [Need::PkgConfig, Need::Hwloc, Need::Libudev, Need::Compiler, Need::CxxCompiler];
const NAMESPACES: [Need; 7] =
    [Need::PkgConfig, Need::Hwloc, Need::Libudev, Need::Compiler, Need::CxxCompiler, Need::Iproute, Need::Lstopo];
const PROOFS: [Need; 1] = [Need::Z3];
const PROGRAMS: [Need; 7] = [Need::Curl, Need::Git, Need::Iperf3, Need::Nginx, Need::Redis, Need::Rsync, Need::Sshd];
/// Where systemd is the first process (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
const GUEST: [Need; 10] = [
    Need::PkgConfig,
    Need::Hwloc,
    Need::Libudev,
    Need::Compiler,
    Need::CxxCompiler,
    Need::Iproute,
    Need::Lstopo,
    Need::Qemu,
    Need::Busybox,
    Need::Kmod,
];
