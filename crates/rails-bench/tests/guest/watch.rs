//! `topo --watch` in a machine whose CPUs and memory can be taken away.

use crate::util::{ip, rails_bench, two_cables};
use rails_lab::guest;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// The program, watching.
struct Watch {
    child: Child,
    /// The program's lines, and when each came.
    lines: mpsc::Receiver<(Instant, Value)>,
}

impl Watch {
    fn start() -> Self {
        let mut command = rails_bench(None, &["topo", "--watch", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("it prints JSON");
                if sender.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        let said = BufReader::new(child.stderr.take().expect("it is piped")).lines().next();
        assert!(said.is_some_and(|line| line.is_ok_and(|line| line.starts_with("watching"))), "it does not watch");
        Self { child, lines }
    }

    /// Does something, and gives how long after that the line with these fields came; other lines
    /// may come before it. How long the kernel takes to empty a block, or a CPU, is not the
    /// monitor's.
    fn tells(&self, act: impl FnOnce(), what: &Value) -> Duration {
        act();
        let done = Instant::now();
        let mut seen = Vec::new();
        let fields = what.as_object().expect("it is an object");
        while let Ok((at, line)) = self.lines.recv_timeout(PATIENCE) {
            if fields.iter().all(|(field, value)| line[field] == *value) {
                let took = at.saturating_duration_since(done);
                println!("{what}: told {took:.1?} after it was done");
                return took;
            }
            seen.push(line);
        }
        panic!("{what} is not told, but {seen:?}");
    }

    /// Drops the lines it has read.
    fn forget(&self) {
        self.lines.try_iter().for_each(drop);
    }

    /// Ends it as Ctrl-C does; its exit code.
    fn interrupt(mut self) -> Option<i32> {
        use nix::{sys::signal, unistd::Pid};
        let id = Pid::from_raw(self.child.id().try_into().expect("process numbers are small"));
        signal::kill(id, signal::Signal::SIGINT).expect("it runs");
        self.child.wait().expect("it was started").code()
    }
}

/// A file that is written to, and written back in the end.
struct Written {
    file: PathBuf,
    before: &'static str,
}

impl Written {
    fn write(&self, value: &str) -> bool {
        fs::write(&self.file, value).is_ok()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // A block that is online already refuses to be put online.
        if fs::read_to_string(&self.file).is_ok_and(|now| now.trim() != self.before) {
            fs::write(&self.file, self.before).expect("it was so before");
        }
    }
}

/// A memory block that can be taken offline: the kernel refuses while there is something in one
/// that cannot be moved.
fn take_a_block_offline() -> (u64, Written) {
    let folder = Path::new("/sys/devices/system/memory");
    let mut blocks: Vec<u64> = fs::read_dir(folder)
        .expect("the kernel has memory blocks")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("memory")?.parse().ok())
        .collect();
    blocks.sort_unstable();
    // A block that cannot be moved now may be free in a moment.
    for block in std::iter::repeat_n(blocks, PASSES).flat_map(|blocks| blocks.into_iter().rev()) {
        let file = folder.join(format!("memory{block}/state"));
        if fs::read_to_string(&file).is_ok_and(|state| state.trim() == "online") && fs::write(&file, "offline").is_ok()
        {
            return (block, Written { file, before: "online" });
        }
    }
    panic!("no memory block can be taken offline");
}

/// Takes things away and gives them back; how long after each the line came.
fn take_and_give_back(watch: &Watch, nic: &str) -> [Duration; 5] {
    watch.forget();
    let cpu = Written { file: "/sys/devices/system/cpu/cpu3/online".into(), before: "1" };
    let offline = || assert!(cpu.write("0"), "CPU 3 can be taken offline");
    let cpu_offline = watch.tells(offline, &json!({"kind": "cpu_offline", "cpu": 3}));
    let (block, written) = take_a_block_offline();
    let block_offline = watch.tells(|| (), &json!({"kind": "memory_block_offline", "block": block}));
    let down = || ip(None, &format!("link set {nic} down"));
    let nic_down = watch.tells(down, &json!({"kind": "nic_link", "nic": nic, "up": false}));
    ip(None, &format!("link set {nic} up"));
    let online = || assert!(written.write("online"), "the block can be given back");
    let block_online = watch.tells(online, &json!({"kind": "memory_block_online", "block": block}));
    let online = || assert!(cpu.write("1"), "so can the CPU");
    let cpu_online = watch.tells(online, &json!({"kind": "cpu_online", "cpu": 3}));
    [cpu_offline, block_offline, nic_down, block_online, cpu_online]
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_changes_are_told_in_order_and_at_once() {
    guest::require();
    let cables = two_cables();
    let watch = Watch::start();
    // An emulated machine stands still for seconds now and then, but not each time.
    let mut least = [Duration::MAX; 5];
    for _ in 0..ROUNDS {
        let took = take_and_give_back(&watch, cables.1.near());
        least = std::array::from_fn(|which| least[which].min(took[which]));
        if least.iter().all(|took| *took < AT_ONCE) {
            break;
        }
    }
    assert_eq!(watch.interrupt(), Some(0), "Ctrl-C is its end, and no failure");
    assert!(least.iter().all(|took| *took < AT_ONCE), "{least:?}");
}

const AT_ONCE: Duration = Duration::from_secs(1);
const ROUNDS: usize = 4;
/// Over all memory blocks.
const PASSES: usize = 10;
/// Longer than the asserted bound, so that a late line differs from none.
const PATIENCE: Duration = Duration::from_secs(30);
