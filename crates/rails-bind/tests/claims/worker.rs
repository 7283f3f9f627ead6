//! Another process, which makes the claims that a test names.
//!
//! The test program runs itself again: the test [`worker`] is that process where it finds its
//! folder in the environment.

use rails_bind::claims::{Claim, Claims, Resource};
use rails_topo::CpuId;
use std::{
    env, fs,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

pub(crate) struct Worker {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_as(folder, None)
    }

    /// Starts a worker as this user, which takes user 0.
    pub(crate) fn start_as(folder: &Path, user: Option<u32>) -> Self {
        Self::start_by(Command::new(env::current_exe().expect("it is running")), folder, user)
    }

    /// Starts a worker as user 0 of a user namespace that has no other.
    pub(crate) fn start_in_user_namespace(folder: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(env::current_exe().expect("it is running"));
        Self::start_by(command, folder, None)
    }

    fn start_by(mut command: Command, folder: &Path, user: Option<u32>) -> Self {
        // The name is seen in the command line of the process.
        command.args(["--exact", "worker::worker", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
        if let Some(user) = user {
            command.env(USER, user.to_string());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut worker = Self { child, said };
        worker.answer();
        worker
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `claim 0 1`, `move 1 0` (to CPU 1 from 0), `limit 2` (of CPUs for a user), `release`,
    /// `list`, `taken`, `lock-all`, `lock-file`, `lease`, `execute PATH`, `fork`; the answer is
    /// `ok ...` or `error ...`.
    pub(crate) fn tell(&mut self, what: &str) -> String {
        self.say(what);
        self.answer()
    }

    pub(crate) fn say(&mut self, what: &str) {
        let mut to = self.child.stdin.as_ref().expect("it is piped");
        writeln!(to, "{what}").expect("it lives");
    }

    pub(crate) fn answer(&mut self) -> String {
        // The test harness says something too, also in the line of the first answer.
        let mut lines = self.said.by_ref().map(|line| line.expect("it is text"));
        let line = lines.find(|line| line.contains(MARK)).expect("it lives");
        line.split_once(MARK).expect("it was found").1.to_owned()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that has ended cannot be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that every user can reach, with the place of the claims in it.
pub(crate) fn folder() -> (tempfile::TempDir, Claims) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let claims = Claims::at(folder.path().join("rails"));
    (folder, claims)
}

pub(crate) fn cpus(numbers: impl IntoIterator<Item = u32>) -> Vec<Resource> {
    numbers.into_iter().map(|number| Resource::Cpu(CpuId(number))).collect()
}

pub(crate) fn say(answer: impl std::fmt::Display) {
    println!("{MARK}{answer}");
    std::io::stdout().flush().expect("somebody listens");
}

/// Does nothing where no test has started it.
#[test]
fn worker() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    if let Some(user) = env::var(USER).ok().map(|user| user.parse().expect("a number")) {
        crate::users::become_user(user);
    }
    let mut claims = Claims::at(folder);
    let mut held: Vec<Claim> = Vec::new();
    say("ready");
    let mut told = std::io::stdin().lines().map_while(Result::ok);
    while let Some(line) = told.next() {
        let mut words = line.split_whitespace();
        match words.next().expect("a line has a command") {
            "claim" => match claims.claim(cpus(words.map(|word| word.parse().expect("a number")))) {
                Ok(claim) => {
                    say(format_args!("ok {}", claim.resources()));
                    held.push(claim);
                }
                Err(error) => say(format_args!("error {error}")),
            },
            // The first CPU in the place of the second, which goes on being held.
            "move" => {
                let [to, from] = [(); 2].map(|()| words.next().and_then(|word| word.parse().ok()).expect("a number"));
                match claims.claim_instead(cpus([to]), &rails_topo::CpuSet::single(CpuId(from))) {
                    Ok(claim) => {
                        say(format_args!("ok {}", claim.resources()));
                        held.push(claim);
                    }
                    Err(error) => say(format_args!("error {error}")),
                }
            }
            "limit" => {
                let max = words.next().and_then(|word| word.parse().ok()).expect("a number");
                claims = claims.max_cpus_per_user(max);
                say("ok");
            }
            "release" => {
                held.drain(..).for_each(|claim| claim.release().expect("the kernel lets go"));
                say("ok");
            }
            "list" => match claims.list() {
                Ok(list) => {
                    say(format_args!("ok {}", list.iter().map(|h| h.to_string()).collect::<Vec<_>>().join("; ")))
                }
                Err(error) => say(format_args!("error {error}")),
            },
            "lock-all" => say(format_args!("ok {}", crate::files::lock_to_the_end(&claims))),
            "lock-file" => {
                crate::files::lock_for_an_open_file(&claims);
                say("ok");
            }
            "lease" => {
                crate::files::lease(&claims);
                say("ok");
            }
            "execute" => crate::files::lock_and_execute(&claims, words.next().expect("a path")),
            "fork" => crate::fork::fork_and_look(&claims, &mut held, &mut told),
            other => panic!("no such command: `{other}`"),
        }
    }
    // The test has closed its end of the pipe. The claims end with this process.
    std::process::exit(0);
}

const FOLDER: &str = "RAILS_BIND_TEST_CLAIMS";
const USER: &str = "RAILS_BIND_TEST_CLAIMS_USER";
/// The beginning of an answer.
const MARK: &str = "worker: ";
