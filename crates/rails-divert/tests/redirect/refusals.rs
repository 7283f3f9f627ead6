//! Redirects that are refused, with the reason.

use crate::{
    ground::{CGROUP, Ground, lines, net, run},
    parts::READY,
};
use nix::errno::Errno;
use rails_divert::redirect::{Redirect, RedirectError};
use rails_lab::Sandbox;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

/// What a part says of its error.
fn said(command: &mut Command) -> String {
    part_line(run(command))
}

fn part_line(output: Output) -> String {
    let lines = lines(output);
    let said = lines.iter().find_map(|line| Some(line.split_once(READY)?.1)).expect("the part says a line");
    said.to_owned()
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_carriers_are_not_redirected() {
    let ground = Ground::new();
    let folder = ground.cgroup.folder.display();
    let inside = said(&mut ground.cgroup.part("redirector"));
    assert!(inside.starts_with("process ") && inside.contains(&format!("in the cgroup {folder}")), "{inside}");

    // Another carrier, in a cgroup below.
    let below = ground.cgroup.below("gate");
    let mut gate = below.command("cat").stdin(Stdio::piped()).spawn().unwrap();
    let is_there = || fs::read_to_string(below.folder.join("cgroup.procs")).unwrap().contains(&gate.id().to_string());
    while !is_there() {
        thread::yield_now();
    }
    let networks = [net("192.0.2.0/24")];
    let refused = Redirect::install(&ground.cgroup.folder, &networks, &[gate.id()]).unwrap_err();
    let RedirectError::CarrierInside { pid, ref cgroup, .. } = refused else { panic!("{refused}") };
    assert_eq!((pid, cgroup), (gate.id(), &below.folder));
    assert!(refused.remedy().is_some());
    drop(gate.stdin.take());
    gate.wait().unwrap();
    let _redirect = Redirect::install(&ground.cgroup.folder, &networks, &[gate.id()]).unwrap();
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_folders_that_are_no_cgroups_of_version_2_are_refused() {
    let ground = Ground::new();
    let networks = [net("192.0.2.0/24")];
    let install = |path: &Path| Redirect::install(path, &networks, &[]).unwrap_err();
    let missing = ground.cgroup.folder.join("missing");
    assert!(matches!(install(&missing), RedirectError::NoSuchCgroup { cgroup } if cgroup == missing));
    let file = ground.cgroup.folder.join("cgroup.procs");
    assert!(matches!(install(&file), RedirectError::NotACgroup { path } if path == file));

    // A hierarchy without controllers, in a mount namespace of its own.
    let folder = tempfile::tempdir().unwrap();
    let part = ground.part("redirector");
    let mut version_1 = Command::new("unshare");
    version_1.args(["--mount", "sh", "-ec"]);
    version_1.arg("mount -t cgroup -o none,name=rails-divert none \"$RAILS_DIVERT_TEST_CGROUP\"; \"$0\" \"$@\"");
    version_1.arg(part.get_program()).args(part.get_args());
    version_1.envs(part.get_envs().filter_map(|(name, value)| Some((name, value?))));
    version_1.env(CGROUP, folder.path());
    assert_eq!(said(&mut version_1), format!("the cgroup {} is of version 1", folder.path().display()));
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_missing_privileges_and_features_are_named() {
    let ground = Ground::new();
    let said = |sandbox: Sandbox| {
        let output = sandbox.output(&ground.part("redirector"));
        assert!(output.status.success(), "{output:?}");
        part_line(output)
    };
    let user = said(Sandbox::new().user(65534));
    assert_eq!(user, "BPF_MAP_CREATE was refused: this process lacks CAP_BPF and CAP_NET_ADMIN");
    let container = said(Sandbox::new().deny(Errno::EPERM, &["bpf"]));
    let expected = "BPF_MAP_CREATE was refused, although this process has the capabilities (kernel lockdown: ";
    assert!(container.starts_with(expected), "{container}");
    let without = said(Sandbox::new().deny(Errno::ENOSYS, &["bpf"]));
    assert_eq!(without, "BPF_MAP_CREATE failed: this kernel lacks CONFIG_BPF_SYSCALL");
}

/// A program that somebody attached without `BPF_F_ALLOW_MULTI`.
#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_program_that_allows_no_other_is_named() {
    let ground = Ground::new();
    let alone = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attribute):
    answer = libc.syscall(ctypes.c_long(int(sys.argv[2])), command, ctypes.create_string_buffer(attribute, 128), 128)
    assert answer >= 0, os.strerror(ctypes.get_errno())
    return answer
code = ctypes.create_string_buffer(struct.pack('=BBhiBBhi', 0xb7, 0, 0, 1, 0x95, 0, 0, 0))
license = ctypes.create_string_buffer(b'MIT')
program = bpf(5, struct.pack('=IIQQIIQII16sII', 18, 2, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0,
    b'alone', 0, 10))
bpf(8, struct.pack('=IIII', os.open(sys.argv[1], os.O_RDONLY), program, 10, 0))
";
    let mut python = Command::new("python3");
    python.args(["-c", alone]).arg(&ground.cgroup.folder).arg(nix::libc::SYS_bpf.to_string());
    run(&mut python);
    let refused = Redirect::install(&ground.cgroup.folder, &[net("192.0.2.0/24")], &[]).unwrap_err();
    let RedirectError::AttachedAlone { program, ref cgroup, .. } = refused else { panic!("{refused}") };
    assert_eq!((program, cgroup), ("connect4", &ground.cgroup.folder));
}

#[test]
#[ignore = "needs root, network namespaces and cgroup2"]
fn netns_namespaces_without_loopback_or_ipv6_are_refused() {
    let ground = Ground::new();
    run(Command::new("sysctl").args(["-qw", "net.ipv6.conf.all.disable_ipv6=1"]));
    let install = |networks: &str| Redirect::install(&ground.cgroup.folder, &[net(networks)], &[]);
    assert!(matches!(install("2001:db8::/32"), Err(RedirectError::NoIpv6 { .. })));
    let ipv4 = ground.answered(&[net("192.0.2.0/24")]);
    assert!(matches!(ipv4.set_networks(&[net("2001:db8::/32")]), Err(RedirectError::NoIpv6 { .. })));
    let mapped = "s = socket(AF_INET6); s.connect(('::ffff:192.0.2.1', 7)); print(peer(s), heard(s))";
    assert_eq!(ground.cgroup.python(mapped), ["[::ffff:192.0.2.1]:7 through 192.0.2.1:7"]);
    drop(ipv4);

    run(Command::new("ip").args(["link", "set", "lo", "down"]));
    let Err(RedirectError::Listen { address, .. }) = install("192.0.2.0/24") else { panic!("there is no loopback") };
    assert_eq!(address.to_string(), "127.0.0.1");
}
