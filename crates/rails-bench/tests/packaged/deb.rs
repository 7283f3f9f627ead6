//! `cargo xtask package-deb`.

use crate::{built, done, said};
use std::{fs, path::Path, process::Command};

#[test]
#[ignore = "needs minutes, cargo-deb, dpkg-deb and systemd 250 or newer"]
fn packaged_deb_holds_what_runs() {
    let folder = built("package-deb");
    let package = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let depends = done(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends"));
    assert!(depends.contains("libc6") && depends.contains("libhwloc"), "{depends}");

    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    done(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(root));
    for file in [
        "usr/share/man/man1/rails-bench-send.1.gz",
        "usr/share/bash-completion/completions/rails-bench.bash",
        "usr/share/zsh/vendor-completions/_rails-bench",
        "usr/share/fish/vendor_completions.d/rails-bench.fish",
        "usr/share/doc/rails-bench/services.md",
        "usr/share/doc/rails-bench/LICENSE-MIT",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let program = root.join("usr/bin/rails-bench");
    assert!(done(Command::new(&program).arg("--version")).starts_with("rails-bench "));
    assert!(done(Command::new(&program).args(["topo", "--no-config"])).contains("allowed CPUs"));
    installs_beside_systemd(root);
    units_are_accepted(root);
}

/// The user and the folder that the script makes after the package is unpacked.
fn installs_beside_systemd(root: &Path) {
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
    done(Command::new("systemd-sysusers").arg("--root").arg(root).arg("rails.conf"));
    assert!(fs::read_to_string(root.join("etc/passwd")).unwrap().contains("rails:x:"));
    done(Command::new("systemd-tmpfiles").arg("--root").arg(root).args(["--create", "rails.conf"]));
    assert!(root.join("run/lock/rails").is_dir());
}

fn units_are_accepted(root: &Path) {
    let units = root.join("usr/lib/systemd/system");
    let ours: Vec<_> = fs::read_dir(&units).unwrap().map(|unit| unit.unwrap().file_name()).collect();
    assert_eq!(ours.len(), 3, "{ours:?}");
    // The units that ours name, and the program of one, are of the system.
    done(Command::new("cp").args(["-rn", "/usr/lib/systemd/system"]).arg(root.join("usr/lib/systemd")));
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy("/bin/kill", root.join("bin/kill")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--root"]).arg(root);
    let output = verify.args(["rails-recv@x.service", "rails-serve@x.service", "rails-gate.service"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
}
