//! The emulator's process, which ends with its owner at the latest.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

/// A program that a keeper runs, and kills when the owner ends it, drops this value, or dies.
///
/// The keeper is a shell that waits on a pipe whose other end only the owner holds, so the kernel
/// itself reports the owner's end. The shell is the program's parent, so its signal hits no other
/// process. `PR_SET_PDEATHSIG` would not do: it would have to be set between fork and exec, which
/// takes unsafe code, and it fires when the owning *thread* ends.
#[derive(Debug)]
pub(crate) struct GuardedProcess {
    keeper: Child,
}

impl GuardedProcess {
    /// Starts the program with its standard error in a file. `scratch` is removed should the owner
    /// not live to do so.
    pub(crate) fn start(program: &Path, arguments: &[OsString], scratch: &Path, stderr: File) -> io::Result<Self> {
        let keeper = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "rails-guest-keeper"])
            .arg(scratch)
            .arg(program)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            // Ctrl-C signals the whole group of the terminal's foreground.
            .process_group(0)
            .spawn()?;
        Ok(Self { keeper })
    }

    /// The program's output, which ends with the program. Can be taken once.
    pub(crate) fn output(&mut self) -> ChildStdout {
        self.keeper.stdout.take().expect("the output is taken once")
    }

    /// Ends the program, if it has not ended by itself, and waits for it.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(mut pipe) = self.keeper.stdin.take() {
            // The write fails only if the keeper has ended.
            let _ = pipe.write_all(b"end\n");
        }
        self.keeper.wait()
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// `read` succeeds on a line and fails at the end of the pipe. The keeper closes its copy of the
/// output, so that the owner sees its end when the program ends.
const SCRIPT: &str = r#"
scratch=$1; shift
"$@" </dev/null &
program=$!
exec >/dev/null
read -r _; orderly=$?
kill -KILL "$program" 2>/dev/null
wait "$program"; status=$?
[ "$orderly" = 0 ] || rm -rf -- "$scratch"
exit "$status"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        env,
        io::{BufRead, BufReader, Read},
        time::{Duration, Instant},
    };

    fn shell(script: &str, scratch: &Path) -> GuardedProcess {
        let stderr = File::create(scratch.join("stderr")).unwrap();
        GuardedProcess::start(Path::new("/bin/sh"), &["-c".into(), script.into()], scratch, stderr).unwrap()
    }

    #[test]
    fn end_of_a_process_by_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let mut process = shell("echo out; echo err >&2; exit 7", scratch.path());
        let mut text = String::new();
        process.output().read_to_string(&mut text).unwrap();
        assert_eq!(text, "out\n");
        // The shell may still be about to exit when its output ends, hence 128 + 9.
        assert!([Some(7), Some(137)].contains(&process.end().unwrap().code()));
        assert_eq!(std::fs::read_to_string(scratch.path().join("stderr")).unwrap(), "err\n");
    }

    #[test]
    fn a_dropped_program_is_dead() {
        let scratch = tempfile::tempdir().unwrap();
        let mut process = shell("echo $$; exec sleep 1000", scratch.path());
        let pid = first_line(process.output());
        assert!(is_alive(&pid));
        drop(process);
        assert!(!is_alive(&pid));
        assert!(scratch.path().is_dir());
    }

    /// The test runs its own binary again for the owner that is to be killed.
    #[test]
    fn a_killed_owners_program_dies_and_its_scratch_goes() {
        if let Some(scratch) = env::var_os(SCRATCH) {
            let mut process = shell("echo $$; exec sleep 1000", Path::new(&scratch));
            println!("\npid {}", first_line(process.output()));
            std::thread::sleep(PATIENCE);
            panic!("nobody killed the owner");
        }
        for signal in ["-INT", "-KILL"] {
            let scratch = tempfile::tempdir().unwrap();
            // A shell's background jobs ignore SIGINT, and so would their children.
            let mut owner = Command::new("env")
                .arg("--default-signal=INT")
                .arg(env::current_exe().unwrap())
                .args(["--exact", "--nocapture"])
                .arg("guest::process::tests::a_killed_owners_program_dies_and_its_scratch_goes")
                .env(SCRATCH, scratch.path())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
            let pid = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("pid ").map(str::to_owned)).unwrap();
            assert!(is_alive(&pid));
            assert!(Command::new("kill").args([signal, &owner.id().to_string()]).status().unwrap().success());
            owner.wait().unwrap();
            let start = Instant::now();
            while is_alive(&pid) || scratch.path().exists() {
                assert!(start.elapsed() < PATIENCE, "it did not happen within {PATIENCE:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn first_line(output: ChildStdout) -> String {
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn is_alive(pid: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        status.is_ok_and(|status| !status.contains(") Z "))
    }

    const SCRATCH: &str = "RAILS_LAB_TEST_SCRATCH";
    /// A bound against hanging, far above the duration of any step here.
    const PATIENCE: Duration = Duration::from_secs(60);
}
