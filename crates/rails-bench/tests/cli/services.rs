//! `recv` and `serve` as services: the manager is told, and the units of `packaging/` fit.

use crate::util::{Killed, Manager, rails_bench, signal, start, text};
use nix::sys::signal::Signal;
use std::{fs, path::Path, process::Command};

/// The folder of the units.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");

/// The words of a unit's settings of this name, with the variables of its instance replaced.
fn commands_of(unit: &str, setting: &str) -> Vec<Vec<String>> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
    let replaced = |line: &str| {
        let words = line.replace("${LISTEN}", "127.0.0.1:0").replace("${INTO}", "/proc/inbox");
        words.replace("$OPTIONS", "--insecure").split_whitespace().map(str::to_owned).collect()
    };
    lines.map(replaced).collect()
}

#[test]
fn manager_hears_of_readiness_life_and_end() {
    let inbox = tempfile::tempdir().unwrap();
    let recv = ["recv", "--into", text(inbox.path())];
    for listening in [&recv[..], &["serve"]] {
        let manager = Manager::start();
        let mut command = rails_bench(listening.iter().copied().chain(["--listen", "127.0.0.1:0", "--insecure"]));
        command.env("NOTIFY_SOCKET", manager.socket()).env("WATCHDOG_USEC", "100000");
        let (child, _lines) = start(command);
        let mut child = Killed(child);
        assert_eq!(manager.hears(), "READY=1", "{listening:?}");
        for _ in 0..3 {
            assert_eq!(manager.hears(), "WATCHDOG=1", "{listening:?}");
        }
        signal(child.0.id(), Signal::SIGTERM);
        let last = std::iter::repeat_with(|| manager.hears()).find(|told| told != "WATCHDOG=1");
        assert_eq!(last.as_deref(), Some("STOPPING=1"), "{listening:?}");
        assert_eq!(child.0.wait().unwrap().code(), Some(143), "{listening:?}");
    }
}

#[test]
fn units_start_commands_that_there_are() {
    for (name, missing) in [
        ("rails-recv@.service", "--into /proc/inbox"),
        ("rails-serve@.service", "no interface has the address 192.0.2.1"),
        ("rails-gate.service", "/etc/rails/gate.toml"),
    ] {
        let unit = fs::read_to_string(Path::new(UNITS).join(name)).unwrap();
        let commands = commands_of(&unit, "ExecStart");
        let [command] = &commands[..] else { panic!("{name}: {commands:?}") };
        let [program, args @ ..] = &command[..] else { panic!("{name}: no command") };
        assert_eq!(program, "/usr/bin/rails-bench", "{name}");
        // The arguments are understood: what fails is an address or a file that is not there.
        let args = args
            .iter()
            .map(|arg| if name.contains("serve") { arg.replace("127.0.0.1", "192.0.2.1") } else { arg.clone() });
        let args: Vec<String> = args.collect();
        let output = rails_bench(args.iter().map(String::as_str)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(missing), "{name}: {said}");
    }
}

#[test]
#[ignore = "needs systemd-analyze of systemd 250 or newer"]
fn systemd_accepts_the_units() {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("usr/lib/systemd");
    for folder in [&units, &root.path().join("usr/bin"), &root.path().join("bin")] {
        fs::create_dir_all(folder).unwrap();
    }
    let copied = Command::new("cp").args(["-r", "/usr/lib/systemd/system"]).arg(&units).status().unwrap();
    assert!(copied.success());
    for unit in fs::read_dir(UNITS).unwrap().flatten() {
        fs::copy(unit.path(), units.join("system").join(unit.file_name())).unwrap();
    }
    fs::copy("/bin/true", root.path().join("usr/bin/rails-bench")).unwrap();
    fs::copy("/bin/kill", root.path().join("bin/kill")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--root"]).arg(root.path());
    let output = verify.args(["rails-recv@x.service", "rails-serve@x.service", "rails-gate.service"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
