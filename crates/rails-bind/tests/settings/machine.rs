//! A tree with two interrupts, one interface, and a journal beside it.

use nix::fcntl::{FcntlArg, fcntl};
use rails_bind::{
    claims::Claims,
    settings::{Change, Host, Journal, Setting, Value},
};
use rails_topo::CpuSet;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
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

    /// Somebody else, who may claim in these files.
    pub(crate) fn claims_of_another_process(&self, files: &[&str]) -> Other {
        let folder = self.claims().folder().to_owned();
        fs::create_dir_all(&folder).expect("a folder");
        let open = |name: &&str| {
            let path = folder.join(name);
            let file = fs::File::options().write(true).create_new(true).open(&path).expect("it is not there");
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("it is ours");
            ((*name).to_owned(), file)
        };
        Other(files.iter().map(open).collect())
    }

    /// How many records the journal holds.
    pub(crate) fn records(&self) -> usize {
        self.journal().records().expect("the journal can be read").len()
    }

    /// Makes its only record one of a process that was killed when the changes had come so far.
    pub(crate) fn came_to(&self, progress: &[&str]) {
        self.rewrite_record(|record| {
            for (entry, progress) in progress.iter().enumerate() {
                record["entries"][entry]["progress"] = (*progress).into();
            }
        });
    }

    /// Writes its only record anew.
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

/// A holder of claims that the kernel takes for another process: the locks belong to its open files. Dropping it ends
/// them.
pub(crate) struct Other(BTreeMap<String, fs::File>);

impl Other {
    /// Claims a number in that file.
    pub(crate) fn lock(&self, file: &str, number: i64) {
        let lock = nix::libc::flock {
            l_type: nix::libc::F_WRLCK as _,
            l_whence: nix::libc::SEEK_SET as _,
            l_start: number as _,
            l_len: 1,
            l_pid: 0,
        };
        fcntl(&self.0[file], FcntlArg::F_OFD_SETLK(&lock)).expect("it is free");
    }
}

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
