//! Machines that hide their files.

use crate::util::{rails_bench, stderr};
use nix::{errno::Errno, libc::AF_NETLINK};
use rails_lab::Sandbox;

/// Commands that read the machine, and go on without the files that are hidden from them.
const COMMANDS: [&[&str]; 7] = [
    &["topo"],
    &["plan", "--rails", "loopback"],
    &["plan", "--rails", "127.0.0.1"],
    &["doctor", "--seconds", "0.1", "--iface", "lo"],
    &["doctor", "--seconds", "0.1", "--rails", "loopback:1"],
    &["rails"],
    &["undo", "--list"],
];

fn works(sandbox: &Sandbox) {
    for command in COMMANDS {
        let output = sandbox.output(&rails_bench(command.iter().copied()));
        assert!(output.status.success(), "{command:?}: {}: {}", output.status, stderr(&output));
    }
}

#[test]
#[ignore = "needs root: it makes mount namespaces"]
fn netns_commands_work_without_the_machines_files() {
    for hidden in ["/sys", "/sys/class", "/sys/devices/system/cpu", "/sys/devices/system/node", "/proc"] {
        works(&Sandbox::new().hide(hidden));
    }
    works(&Sandbox::new().hide("/sys").only_processes());
}

#[test]
fn commands_work_without_netlink_and_inotify() {
    let sandbox = Sandbox::new().deny_where(Errno::EAFNOSUPPORT, "socket", 0, AF_NETLINK);
    works(&sandbox.deny(Errno::EMFILE, &["inotify_init1"]));
}
