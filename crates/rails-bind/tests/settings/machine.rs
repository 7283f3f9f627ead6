//! A tree with two interrupts, one interface, and a journal beside it.

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
use rails_bind::{
    claims::Claims,
    settings::{Change, Host, Journal, Setting, Value},
};
use rails_topo::CpuSet;
use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, BufRead, BufReader, Lines, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

pub(crate) struct Machine {
    root: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Self { root: folder.path().to_owned(), _folder: Some(folder) };
        for interrupt in [24, 25] {
            machine.write(&format!("proc/irq/{interrupt}/smp_affinity_list"), "0-3\n");
            machine.write(&format!("proc/irq/{interrupt}/effective_affinity_list"), "0\n");
        }
        machine.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000000\n");
        machine.write("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "0\n");
        machine.write("sys/class/net/eth0/threaded", "0\n");
        machine.write("proc/sys/net/core/rps_sock_flow_entries", "0\n");
        machine
    }

    /// The machine that another process made there.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), _folder: None }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn host(&self) -> Host {
        Host::under(&self.root)
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::at(self.root.join("run/rails")).expect("a journal")
    }

    pub(crate) fn claims(&self) -> Claims {
        Claims::at(self.root.join("run/lock/rails"))
    }

    /// Another process, which may claim in these files.
    pub(crate) fn claims_of_another_process(&self, files: &[&str]) -> Other {
        let folder = self.claims().folder().to_owned();
        fs::create_dir_all(&folder).expect("a folder");
        for name in files {
            let path = folder.join(name);
            fs::write(&path, "").expect("a file");
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("it is ours");
        }
        Other::start(&folder)
    }

    /// The number of records in the journal.
    pub(crate) fn records(&self) -> usize {
        self.journal().records().expect("the journal can be read").len()
    }

    /// Makes the journal's only record one of a process that was killed when the changes had come
    /// so far.
    pub(crate) fn came_to(&self, progress: &[&str]) {
        self.rewrite_record(|record| {
            for (entry, progress) in progress.iter().enumerate() {
                record["entries"][entry]["progress"] = (*progress).into();
            }
        });
    }

    /// Writes the journal's only record anew.
    pub(crate) fn rewrite_record(&self, change: impl FnOnce(&mut serde_json::Value)) {
        let path = self.root.join("run/rails/0000000001.json");
        let mut record = serde_json::from_slice(&fs::read(&path).expect("the record")).expect("it is JSON");
        change(&mut record);
        fs::write(&path, record.to_string()).expect("it can be written");
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Makes the affinity of an interrupt one that can be read and not be written, also by root.
    pub(crate) fn cannot_be_moved(&self, interrupt: u32) {
        let path = self.root.join(format!("proc/irq/{interrupt}/smp_affinity_list"));
        fs::remove_file(&path).expect("it was there");
        symlink("/sys/devices/system/cpu/online", path).expect("a link");
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_dir_all(self.root.join(path)).expect("it was there");
    }

    pub(crate) fn affinity(&self, interrupt: u32) -> String {
        let path = self.root.join(format!("proc/irq/{interrupt}/smp_affinity_list"));
        fs::read_to_string(path).expect("a file").trim().to_owned()
    }
}

/// Another process that holds claims: this test program once more, as the test [`other`]. Dropping
/// it ends it.
pub(crate) struct Other {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env::current_exe().expect("it is running"));
        command.args(["--exact", "machine::other", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, said }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Claims a number in that file.
    pub(crate) fn lock(&mut self, file: &str, number: i64) {
        let mut to = self.child.stdin.as_ref().expect("it is piped");
        writeln!(to, "{file} {number}").expect("it lives");
        // The test harness says something too, also in the line of the first answer.
        assert!(self.said.by_ref().map_while(Result::ok).any(|line| line.contains(LOCKED)), "{file} {number}");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // A process that has ended cannot be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does nothing where no test has started it.
#[test]
fn other() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let mut held = BTreeMap::new();
    for line in io::stdin().lines().map_while(Result::ok) {
        let (name, number) = line.split_once(' ').expect("a file and a number");
        let open = || fs::File::options().write(true).open(folder.join(name)).expect("it is there");
        let lock = libc::flock {
            l_type: libc::F_WRLCK as _,
            l_whence: libc::SEEK_SET as _,
            l_start: number.parse().expect("a number"),
            l_len: 1,
            l_pid: 0,
        };
        fcntl(held.entry(name.to_owned()).or_insert_with(open), FcntlArg::F_SETLK(&lock)).expect("it is free");
        println!("{LOCKED}");
    }
    // The test has closed its end of the pipe. The locks end with this process.
    std::process::exit(0);
}

const FOLDER: &str = "RAILS_BIND_TEST_SETTINGS";
/// The answer to each line.
const LOCKED: &str = "other: locked";

pub(crate) fn cpus(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

/// Interrupt `interrupt` to these CPUs.
pub(crate) fn moved(interrupt: u32, to: &str) -> Change {
    Change::interrupt(interrupt, cpus(to))
}

/// Packets of `eth0` to these CPUs.
pub(crate) fn steered(to: &str) -> Change {
    let setting = Setting::ReceiveSteering { interface: "eth0".parse().expect("a name"), queue: 0 };
    Change { setting, value: Value::Cpus(cpus(to)) }
}
