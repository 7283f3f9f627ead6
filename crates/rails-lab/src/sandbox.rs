//! Programs and tests that run where calls are refused, files are hidden and resources are limited.

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use seccompiler::{apply_filter, compile_from_json};
use serde_json::{Value, json};
use std::{
    env::{self, consts::ARCH},
    fs::Permissions,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio, exit},
    thread,
};
use tempfile::Builder;

/// Restrictions of a process, as those of containers and service managers.
///
/// # Privileges
///
/// None to refuse calls and to set limits (the process gets `no_new_privs`). Root for another user
/// and for files that are hidden, which takes a mount namespace.
///
/// # References
///
/// seccomp(2), mount_namespaces(7), prlimit(1)
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    filters: Vec<Filter>,
    covers: Vec<Cover>,
    limits: Vec<String>,
    user: Option<u32>,
}

/// Refused calls, in the form of seccompiler's JSON.
#[derive(Debug, Clone)]
struct Filter {
    errno: Errno,
    calls: Vec<Value>,
}

/// A mount that covers files.
#[derive(Debug, Clone)]
enum Cover {
    /// An empty folder or file covers this one.
    Empty(PathBuf),
    /// `/proc` shows only processes.
    Processes,
}

impl Sandbox {
    /// A sandbox without restrictions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers these calls with `errno`. Filters against `prctl` and `seccomp` are installed last.
    pub fn deny(mut self, errno: Errno, calls: &[&str]) -> Self {
        self.filters.push(Filter { errno, calls: calls.iter().map(|call| json!({ "syscall": call })).collect() });
        self
    }

    /// Answers a call with `errno` where the lower 32 bits of its argument `index` (from 0) are
    /// `value`.
    pub fn deny_where(mut self, errno: Errno, call: &str, index: u8, value: i32) -> Self {
        let value = value.cast_unsigned();
        let condition = json!({ "index": index, "type": "dword", "op": "eq", "val": value });
        self.filters.push(Filter { errno, calls: vec![json!({ "syscall": call, "args": [condition] })] });
        self
    }

    /// Covers a folder with an empty folder, or a file with an empty file, in the order of the
    /// calls of this method.
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.covers.push(Cover::Empty(path.into()));
        self
    }

    /// Shows only processes in `/proc`, as systemd's `ProcSubset=pid` does.
    pub fn only_processes(mut self) -> Self {
        self.covers.push(Cover::Processes);
        self
    }

    /// Runs as this user and group, without privileges.
    pub fn user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    /// Limits the processes and threads of the user (`RLIMIT_NPROC`, which does not limit root).
    pub fn max_processes(mut self, count: u64) -> Self {
        self.limits.push(format!("--nproc={count}"));
        self
    }

    /// Limits the size of files in bytes (`RLIMIT_FSIZE`).
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.limits.push(format!("--fsize={bytes}"));
        self
    }

    /// Limits the numbers of descriptors: all are below `count` (`RLIMIT_NOFILE`).
    pub fn max_descriptors(mut self, count: u64) -> Self {
        self.limits.push(format!("--nofile={count}"));
        self
    }

    /// Starts a program inside, without standard input and with both outputs piped. Of `command`,
    /// only the program, its arguments, its folder, and the changes of variables are used.
    ///
    /// # Panics
    ///
    /// If the kernel refuses the sandbox, or the program cannot be started.
    pub fn spawn(&self, command: &Command) -> Child {
        let mut command = self.limited(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        // Mounts and filters belong to the thread, which passes them on to its children, and end
        // with it.
        let inside = || {
            self.enter();
            command.spawn().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
        };
        thread::scope(|scope| scope.spawn(inside).join()).expect("the sandbox is as it was asked for")
    }

    /// Runs a program inside, as [`spawn`](Self::spawn) does, to its end.
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    pub fn output(&self, command: &Command) -> Output {
        self.spawn(command).wait_with_output().expect("its outputs are piped")
    }

    /// Runs `test` inside: the test binary starts itself again inside, with only the test `name`,
    /// which must be the caller. That second run calls `test`, and ends here. A test may call
    /// `rerun` with several sandboxes, one after the other.
    ///
    /// # Panics
    ///
    /// If the test fails, with its output, and as [`spawn`](Self::spawn).
    pub fn rerun(&self, name: &str, test: impl FnOnce()) {
        let this = format!("{self:?}");
        match env::var(INSIDE) {
            Ok(inside) if inside == this => {
                test();
                exit(PASSED);
            }
            // The second run is for another sandbox.
            Ok(_) => return,
            Err(_) => {}
        }
        let mut command = Command::new(env::current_exe().expect("a test knows its program"));
        command.args(["--exact", name, "--include-ignored", "--nocapture"]).env(INSIDE, this);
        let output = self.output(&command);
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(PASSED), "`{name}` in {self:?}: {}: {said}", output.status);
    }

    /// The command under its limits, which `prlimit` sets: a thread has none of its own.
    fn limited(&self, command: &Command) -> Command {
        let mut limited = Command::new(if self.limits.is_empty() { command.get_program() } else { "prlimit".as_ref() });
        if !self.limits.is_empty() {
            limited.args(&self.limits).arg(command.get_program());
        }
        limited.args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            limited.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        limited
    }

    /// Moves the calling thread inside, permanently.
    fn enter(&self) {
        if !self.covers.is_empty() {
            unshare(CloneFlags::CLONE_NEWNS).expect("root may make a mount namespace");
            attach(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        }
        self.covers.iter().for_each(Cover::lay);
        for Filter { errno, calls } in &self.filters {
            let refused = json!({ "errno": *errno as i32 });
            let filter = json!({ "mismatch_action": "allow", "match_action": refused, "filter": calls });
            let text = json!({ "filter": filter }).to_string();
            let architecture = ARCH.try_into().expect("seccompiler knows this architecture");
            let programs = compile_from_json(text.as_bytes(), architecture).expect("seccompiler knows these calls");
            apply_filter(&programs["filter"]).expect("every process may refuse itself calls");
        }
    }
}

impl Cover {
    fn lay(&self) {
        match self {
            Self::Processes => {
                attach(Some(Path::new("proc")), Path::new("/proc"), Some("subset=pid"), MsFlags::empty())
            }
            Self::Empty(path) if path.is_dir() => {
                attach(Some(Path::new("tmpfs")), path, Some("mode=755"), MsFlags::empty())
            }
            Self::Empty(path) => {
                // The mount keeps the file after it is unlinked.
                let readable = Permissions::from_mode(0o444);
                let empty = Builder::new().permissions(readable).tempfile().expect("there is a temporary folder");
                attach(Some(empty.path()), path, None, MsFlags::MS_BIND);
            }
        }
    }
}

/// Mounts a file, or the file system of that name.
fn attach(source: Option<&Path>, target: &Path, options: Option<&str>, flags: MsFlags) {
    mount(source, target, source, flags, options).unwrap_or_else(|errno| panic!("mount over {target:?}: {errno}"));
}

/// Names the sandbox in which a test runs.
const INSIDE: &str = "RAILS_TEST_SANDBOX";
/// The exit code of a test that has passed inside; a test binary without a test of that name exits
/// with 0.
const PASSED: i32 = 86;
