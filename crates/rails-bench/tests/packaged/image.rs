//! `packaging/Containerfile`.

use crate::{ONE_FILE, ROOT, Receiver, done, file};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// podman with all of its files in a folder, which takes no registry: the image is built of
/// nothing.
///
/// Here it runs without control groups, whose hierarchy it may not know, and with limits that any
/// process may set.
struct Podman(PathBuf);

impl Podman {
    fn command(&self, args: &[&str]) -> Command {
        let script = "mount --make-rprivate / && mount -t tmpfs none /sys/fs/cgroup && exec podman \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script, "sh", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]);
        for (flag, folder) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            command.arg(flag).arg(self.0.join(folder));
        }
        command.args(args);
        command
    }

    /// Runs the image over this host's links, with a folder of the host.
    fn run(&self, folder: &Path, args: &[&str]) -> Command {
        let limits = ["--cgroups", "disabled", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"];
        let mut command = self.command(&["run", "--rm", "--network", "host"]);
        command.args(limits).arg("--volume").arg(format!("{}:/data", folder.display())).arg(NAME).args(args);
        command
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command(&["rmi", "--force", NAME]).output();
    }
}

const NAME: &str = "localhost/rails-bench-tested";

#[test]
#[ignore = "needs minutes, root and podman with crun"]
fn packaged_image_receives() {
    let folder = tempfile::tempdir().unwrap();
    let [context, data] = ["context", "data"].map(|name| folder.path().join(name));
    fs::create_dir(&context).unwrap();
    fs::create_dir(&data).unwrap();
    fs::copy(&*ONE_FILE, context.join("rails-bench")).unwrap();
    fs::write(data.join("secret"), "a secret of both of them").unwrap();
    // The user of the image.
    done(Command::new("chown").args(["-R", "65534:65534"]).arg(&data));
    fs::set_permissions(data.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();

    let podman = Podman(folder.path().join("podman"));
    let containerfile = format!("{ROOT}/packaging/Containerfile");
    done(podman.command(&["build", "--file", &containerfile, "--tag", NAME]).arg(&context));
    assert!(done(&mut podman.run(&data, &[])).contains("Usage: rails-bench"));
    let recv = ["recv", "--into", "/data/inbox", "--secret-file", "/data/secret", "--once"];
    let listen = ["--listen", "127.0.0.1:0,127.0.0.2:0"];
    let receiver = Receiver::start(&mut podman.run(&data, &[&recv[..], &listen].concat()));
    let sent = folder.path().join("file");
    let bytes = file(&sent);
    let mut send = Command::new(&*ONE_FILE);
    send.arg("send").arg(&sent).args(["--to", &receiver.addresses, "--secret-file"]).arg(data.join("secret"));
    done(&mut send);
    receiver.finish();
    assert!(fs::read(data.join("inbox/file")).unwrap() == bytes);
}
