//! Runs the program, and waits for its output.

use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::Signal;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// The option of env(1) for tests under nohup(1), or in the background of a shell: these hand on
/// the signals that they ignore.
pub(crate) const DEFAULT_SIGNALS: &str = "--default-signal=HUP,INT,QUIT,TERM";

/// A command with a clean environment as far as the program looks at it.
pub(crate) fn rails_bench<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("env");
    command.arg(DEFAULT_SIGNALS).arg(cargo_bin("rails-bench"));
    command.args(args).env_remove("RAILS_SECRET").env_remove("COLUMNS").stdin(Stdio::null());
    // The configuration of this machine's user is no part of a test.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// The command in a mount namespace of its own, where a host's name is known that has these
/// addresses.
pub(crate) fn knowing(host: &str, addresses: &[&str], command: &Command) -> Command {
    let script = r#"mount --make-rprivate / && mount -t tmpfs none /mnt && cp /etc/hosts /mnt/hosts &&
        for address in $2; do echo "$address $1"; done >> /mnt/hosts && mount --bind /mnt/hosts /etc/hosts &&
        shift 2 && exec "$@""#;
    let mut knowing = Command::new("unshare");
    knowing.args(["--mount", "sh", "-ec", script, "sh", host, &addresses.join(" ")]);
    knowing.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => knowing.env(name, value),
            None => knowing.env_remove(name),
        };
    }
    knowing
}

/// Runs the program to its end.
pub(crate) fn run<'a>(args: impl IntoIterator<Item = &'a str>) -> Output {
    rails_bench(args).output().expect("it can be started")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it is text")
}

/// The JSON document on stdout.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it is text")
}

/// A receiver on two loopback rails, which ends with the test.
pub(crate) struct Receiver {
    /// `None` once the test has waited for the receiver's end.
    child: Option<Child>,
    /// Where it listens, as `--to` takes it.
    pub(crate) addresses: String,
    lines: mpsc::Receiver<String>,
}

impl Receiver {
    /// Starts it, and waits until it listens.
    pub(crate) fn start<'a>(into: &'a Path, more: impl IntoIterator<Item = &'a str>) -> Self {
        Self::start_at("127.0.0.1:0,127.0.0.2:0", into, more)
    }

    /// Starts it at two addresses, and waits until it listens.
    pub(crate) fn start_at<'a>(listen: &'a str, into: &'a Path, more: impl IntoIterator<Item = &'a str>) -> Self {
        let listen = ["recv", "--listen", listen, "--into", text(into)];
        let command = rails_bench(listen.into_iter().chain(more));
        let (child, lines) = start(command);
        let mut receiver = Self { child: Some(child), addresses: String::new(), lines };
        let line = receiver.wait_for("listening on ");
        let addresses: Vec<&str> = line.trim_start_matches("listening on ").split(", ").collect();
        assert_eq!(addresses.len(), 2, "{line}");
        for address in &addresses {
            let (_, address) = address.split_once("://").unwrap_or(("tcp", address));
            let address: SocketAddr = address.parse().expect("it prints addresses");
            assert_ne!(address.port(), 0, "the port that was found is shown");
        }
        receiver.addresses = addresses.join(",");
        receiver
    }

    /// Waits for a line on stderr.
    pub(crate) fn wait_for(&self, what: &str) -> String {
        wait_for(&self.lines, what)
    }

    /// Whether the receiver says, within that time, a line with this in it.
    pub(crate) fn says_within(&self, what: &str, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(what) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends the receiver without a chance to clean up (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.child.as_mut().expect(NOBODY_WAITED).kill().expect("it runs");
    }

    /// Waits for the receiver's end; gives its exit code, its stdout, and the rest of its stderr.
    pub(crate) fn finish(mut self) -> (i32, String, String) {
        finish(self.child.take().expect(NOBODY_WAITED), &self.lines)
    }

    /// As [`finish`](Self::finish), but it must end within that time.
    pub(crate) fn finish_within(mut self, time: Duration) -> (i32, String, String) {
        finish_within(self.child.take().expect(NOBODY_WAITED), &self.lines, time)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect(NOBODY_WAITED).id()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that has ended is not there to be ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const NOBODY_WAITED: &str = "who waits for its end takes all of it";

/// A process that is killed when this is dropped, also by a failed assertion: its claims would be
/// in the way of other tests.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service manager, to the extent that a service sees one.
pub(crate) struct Manager {
    folder: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Manager {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { folder, socket }
    }

    /// The value of `NOTIFY_SOCKET`.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("notify")
    }

    /// The next word of a service.
    pub(crate) fn hears(&self) -> String {
        let mut bytes = [0; 256];
        let length = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
    }
}

/// Starts a command; the lines of its stderr come through the channel.
pub(crate) fn start(mut command: Command) -> (Child, mpsc::Receiver<String>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let lines = watch_stderr(&mut child);
    (child, lines)
}

/// The lines of the stderr of a process, as they come.
pub(crate) fn watch_stderr(child: &mut Child) -> mpsc::Receiver<String> {
    lines_of(child.stderr.take().expect("it is piped"))
}

/// Waits for a line that begins so.
pub(crate) fn wait_for(lines: &mpsc::Receiver<String>, beginning: &str) -> String {
    let mut seen = String::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if line.starts_with(beginning) => return line,
            Ok(line) => seen += &format!("{line}\n"),
            Err(_) => panic!("no line begins with `{beginning}` in:\n{seen}"),
        }
    }
}

/// Waits for the end of a process; gives its exit code, its stdout, and the rest of its stderr.
pub(crate) fn finish(mut child: Child, lines: &mpsc::Receiver<String>) -> (i32, String, String) {
    let mut out = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it is text");
    let code = child.wait().expect("it ends").code().expect("no signal ended it");
    (code, out, lines.iter().collect::<Vec<_>>().join("\n"))
}

/// As [`finish`], but it must end within that time; where it does not, it is killed and the test
/// fails.
pub(crate) fn finish_within(mut child: Child, lines: &mpsc::Receiver<String>, time: Duration) -> (i32, String, String) {
    let until = Instant::now() + time;
    while child.try_wait().expect("it is ours").is_none() {
        if Instant::now() >= until {
            child.kill().expect("it runs");
            panic!("it has not ended within {time:?}; it said:\n{}", lines.iter().collect::<Vec<_>>().join("\n"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    finish(child, lines)
}

/// Sends Ctrl-C's signal to a process that a test has started.
pub(crate) fn interrupt(id: u32) {
    signal(id, Signal::SIGINT);
}

/// Sends a signal to a process that a test has started.
pub(crate) fn signal(id: u32, what: Signal) {
    use nix::unistd::Pid;
    let id = Pid::from_raw(i32::try_from(id).expect("process numbers are small"));
    nix::sys::signal::kill(id, what).expect("it runs");
}

/// A file with a secret, which only its owner can read.
pub(crate) fn secret(folder: &Path, secret: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(format!("secret-{}", secret.len()));
    fs::write(&path, format!("{secret}\n")).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    path
}

/// Bytes that differ from their neighbours near and far: BLAKE3's output stream, which is fast
/// without optimization too.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

fn lines_of(stderr: ChildStderr) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // A test that no longer listens has ended.
            let _ = sender.send(line);
        }
    });
    lines
}

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
