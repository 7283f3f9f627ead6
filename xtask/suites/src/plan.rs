//! Decides which packages to install and how, from the findings; it runs nothing.

/// Something the system must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    PkgConfig,
    Hwloc,
    Libudev,
    Compiler,
    CxxCompiler,
    Iproute,
    Lstopo,
    Z3,
    Qemu,
    Busybox,
    Kmod,
    Curl,
    Git,
    Iperf3,
    Nginx,
    Redis,
    Rsync,
    Sshd,
}

impl Need {
    /// The need's name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PkgConfig => "pkg-config",
            Self::Hwloc => "hwloc 2.8 or newer with its headers",
            Self::Libudev => "libudev with its headers",
            Self::Compiler => "a C compiler",
            Self::CxxCompiler => "a C++ compiler",
            Self::Iproute => "iproute2 (ip and tc)",
            Self::Lstopo => "lstopo, hwloc's program",
            Self::Z3 => "z3, which checks proofs",
            Self::Qemu => "QEMU for x86_64",
            Self::Busybox => "busybox, statically linked",
            Self::Kmod => "kmod (depmod and modprobe)",
            Self::Curl => "curl",
            Self::Git => "git with its daemon",
            Self::Iperf3 => "iperf3",
            Self::Nginx => "nginx",
            Self::Redis => "redis with its benchmark",
            Self::Rsync => "rsync",
            Self::Sshd => "OpenSSH's server and client",
        }
    }
}

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manager {
    Apt,
    Dnf,
    Pacman,
    Zypper,
}

impl Manager {
    pub(crate) const ALL: [Self; 4] = [Self::Apt, Self::Dnf, Self::Pacman, Self::Zypper];

    /// The program, which also tells whether this is the system's manager.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
            Self::Zypper => "zypper",
        }
    }

    fn packages(self, need: Need) -> &'static [&'static str] {
        match (self, need) {
            (Self::Dnf, Need::PkgConfig) => &["pkgconf-pkg-config"],
            (Self::Pacman, Need::PkgConfig) => &["pkgconf"],
            (Self::Apt | Self::Zypper, Need::PkgConfig) => &["pkg-config"],
            (Self::Apt, Need::Hwloc) => &["libhwloc-dev"],
            (Self::Pacman, Need::Hwloc) => &["hwloc"],
            (Self::Dnf | Self::Zypper, Need::Hwloc) => &["hwloc-devel"],
            (Self::Apt, Need::Libudev) => &["libudev-dev"],
            (Self::Dnf, Need::Libudev) => &["systemd-devel"],
            (Self::Pacman, Need::Libudev) => &["systemd-libs"],
            (Self::Zypper, Need::Libudev) => &["libudev-devel"],
            (Self::Apt, Need::Compiler) => &["gcc", "libc6-dev"],
            (_, Need::Compiler) => &["gcc"],
            (Self::Apt, Need::CxxCompiler) => &["g++"],
            (Self::Pacman, Need::CxxCompiler) => &["gcc"],
            (Self::Dnf | Self::Zypper, Need::CxxCompiler) => &["gcc-c++"],
            (Self::Dnf, Need::Iproute) => &["iproute", "iproute-tc"],
            (_, Need::Iproute) => &["iproute2"],
            (Self::Apt, Need::Lstopo) => &["hwloc-nox"],
            (_, Need::Lstopo) => &["hwloc"],
            (_, Need::Z3) => &["z3"],
            (Self::Zypper, Need::Qemu) => &["qemu-x86"],
            (_, Need::Qemu) => &["qemu-system-x86"],
            (Self::Apt | Self::Zypper, Need::Busybox) => &["busybox-static"],
            (_, Need::Busybox) => &["busybox"],
            (_, Need::Kmod) => &["kmod"],
            (_, Need::Curl) => &["curl"],
            (Self::Dnf | Self::Zypper, Need::Git) => &["git", "git-daemon"],
            (_, Need::Git) => &["git"],
            (Self::Zypper, Need::Iperf3) => &["iperf"],
            (_, Need::Iperf3) => &["iperf3"],
            (Self::Apt, Need::Nginx) => &["nginx-light"],
            (_, Need::Nginx) => &["nginx"],
            (Self::Apt, Need::Redis) => &["redis-server"],
            (_, Need::Redis) => &["redis"],
            (_, Need::Rsync) => &["rsync"],
            (Self::Apt, Need::Sshd) => &["openssh-server", "openssh-client"],
            (Self::Dnf, Need::Sshd) => &["openssh-server", "openssh-clients"],
            (_, Need::Sshd) => &["openssh"],
        }
    }

    /// The commands that install the packages for these needs. None of them asks anything.
    fn commands(self, needs: &[Need]) -> Vec<Vec<&'static str>> {
        let (refresh, mut install): (Option<Vec<_>>, Vec<_>) = match self {
            Self::Apt => {
                // The run level of one user: no package starts a service (invoke-rc.d(8)).
                let apt = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get"];
                (
                    Some([&apt[..], &["update"]].concat()),
                    [&apt[..], &["install", "-y", "--no-install-recommends"]].concat(),
                )
            }
            Self::Dnf => (None, vec!["dnf", "install", "-y"]),
            // A fresh image has no package database yet, hence the y.
            Self::Pacman => (None, vec!["pacman", "-Sy", "--noconfirm", "--needed"]),
            Self::Zypper => (None, vec!["zypper", "--non-interactive", "install"]),
        };
        install.extend(needs.iter().flat_map(|need| self.packages(*need)));
        refresh.into_iter().chain([install]).collect()
    }
}

/// The way to become root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// This process is root.
    Root,
    /// sudo asks for no password.
    Sudo,
    /// There is no way.
    None,
}

/// The advice for missing parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing is missing.
    Nothing,
    /// Run these commands in this order.
    Install(Vec<Vec<&'static str>>),
    /// Nothing can be installed from here; a person has to, by one of these lines.
    Advise(Vec<String>),
}

/// The advice for missing parts.
pub(crate) fn plan(missing: &[Need], manager: Option<Manager>, privilege: Privilege) -> Plan {
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let prefix: &[&str] = match privilege {
        Privilege::Root => &[],
        Privilege::Sudo => &["sudo", "-n"],
        Privilege::None => return advise(missing),
    };
    let Some(manager) = manager else { return advise(missing) };
    Plan::Install(manager.commands(missing).iter().map(|command| [prefix, command].concat()).collect())
}

/// One line for each manager, to be typed by a person.
fn advise(missing: &[Need]) -> Plan {
    let line = |manager: Manager| {
        let commands = manager.commands(missing);
        commands.iter().map(|command| format!("sudo {}", command.join(" "))).collect::<Vec<_>>().join(" && ")
    };
    Plan::Advise(Manager::ALL.into_iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARIES: [Need; 3] = [Need::PkgConfig, Need::Hwloc, Need::Libudev];

    /// The plan for all three libraries, one line per command.
    fn lines(manager: Manager, privilege: Privilege) -> Vec<String> {
        let Plan::Install(commands) = plan(&LIBRARIES, Some(manager), privilege) else { panic!("nothing to install") };
        commands.iter().map(|command| command.join(" ")).collect()
    }

    #[test]
    fn nothing_missing_is_nothing_to_do() {
        for privilege in [Privilege::Root, Privilege::Sudo, Privilege::None] {
            assert_eq!(plan(&[], Some(Manager::Apt), privilege), Plan::Nothing);
            assert_eq!(plan(&[], None, privilege), Plan::Nothing);
        }
    }

    #[test]
    fn apt_refreshes_first() {
        assert_eq!(
            lines(Manager::Apt, Privilege::Root),
            [
                "env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get update",
                "env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends \
                 pkg-config libhwloc-dev libudev-dev",
            ]
        );
    }

    #[test]
    fn the_other_managers_take_one_command() {
        assert_eq!(
            lines(Manager::Dnf, Privilege::Root),
            ["dnf install -y pkgconf-pkg-config hwloc-devel systemd-devel"]
        );
        assert_eq!(
            lines(Manager::Pacman, Privilege::Root),
            ["pacman -Sy --noconfirm --needed pkgconf hwloc systemd-libs"]
        );
        assert_eq!(
            lines(Manager::Zypper, Privilege::Root),
            ["zypper --non-interactive install pkg-config hwloc-devel libudev-devel"]
        );
    }

    #[test]
    fn sudo_stands_before_every_command_and_asks_nothing() {
        for manager in Manager::ALL {
            let with_sudo: Vec<_> = lines(manager, Privilege::Sudo);
            let as_root = lines(manager, Privilege::Root);
            assert_eq!(with_sudo, as_root.iter().map(|line| format!("sudo -n {line}")).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_what_is_missing_is_installed() {
        let compiler = plan(&[Need::Compiler], Some(Manager::Zypper), Privilege::Root);
        assert_eq!(compiler, Plan::Install(vec![vec!["zypper", "--non-interactive", "install", "gcc"]]));
        let iproute = plan(&[Need::Iproute], Some(Manager::Dnf), Privilege::Root);
        assert_eq!(iproute, Plan::Install(vec![vec!["dnf", "install", "-y", "iproute", "iproute-tc"]]));
        let proofs = plan(&[Need::Z3], Some(Manager::Pacman), Privilege::Root);
        assert_eq!(proofs, Plan::Install(vec![vec!["pacman", "-Sy", "--noconfirm", "--needed", "z3"]]));
        let guest = plan(&[Need::Qemu, Need::Busybox, Need::Kmod], Some(Manager::Pacman), Privilege::Root);
        let Plan::Install(commands) = guest else { panic!("{guest:?}") };
        assert!(commands[0].ends_with(&["qemu-system-x86", "busybox", "kmod"]), "{commands:?}");
    }

    #[test]
    fn line_to_type_without_privilege() {
        let plan = plan(&LIBRARIES, Some(Manager::Dnf), Privilege::None);
        let Plan::Advise(lines) = plan else { panic!("{plan:?}") };
        assert_eq!(lines.len(), 4);
        for (manager, line) in Manager::ALL.into_iter().zip(&lines) {
            assert!(line.starts_with("sudo ") && line.contains(manager.program()), "{line}");
        }
        assert!(lines[0].contains("apt-get update && sudo env"), "{}", lines[0]);
    }

    #[test]
    fn advice_for_an_unknown_manager() {
        assert_eq!(plan(&LIBRARIES, None, Privilege::Root), plan(&LIBRARIES, None, Privilege::None));
    }
}
