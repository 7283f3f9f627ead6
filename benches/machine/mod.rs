//! A large machine, written as the files that its kernel would show: two packages of 48 cores, and
//! one NIC of 64 queues.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::{fmt::Write, fs, path::Path};

/// `/proc/interrupts` with this many interrupts on 192 CPUs, each of which was served on one of
/// them, and the lines that are no interrupts of devices after them. They are numbered from
/// [`FIRST`], and the first [`VECTORS`] are the NIC's.
pub(crate) fn interrupts(count: u32) -> String {
    let mut text = " ".repeat(11);
    (0..CPUS).for_each(|cpu| write!(text, "{:<11}", format!("CPU{cpu}")).expect("memory"));
    text.push('\n');
    let mut line = |label: &str, on: Option<u32>, name: &str| {
        write!(text, "{label:>4}:").expect("memory");
        for cpu in 0..CPUS {
            let served = if on.is_none_or(|on| on == cpu) { 1_000_000 + u64::from(cpu) } else { 0 };
            write!(text, " {served:>10}").expect("memory");
        }
        writeln!(text, "  {name}").expect("memory");
    };
    for index in 0..count {
        let name = format!("IR-PCI-MSIX-0000:81:00.0 {index:>4}-edge      {}", vector(index));
        line(&(FIRST + index).to_string(), Some(index % CPUS), &name);
    }
    for (label, name) in [
        ("NMI", "Non-maskable interrupts"),
        ("LOC", "Local timer interrupts"),
        ("RES", "Rescheduling interrupts"),
        ("CAL", "Function call interrupts"),
        ("TLB", "TLB shootdowns"),
    ] {
        line(label, None, name);
    }
    text
}

/// The driver's name of an interrupt: the first is the adapter's own, then come those of the
/// queues, receiving and sending by turns.
fn vector(index: u32) -> String {
    match index.checked_sub(1) {
        None => "eth0".to_owned(),
        Some(queue) => format!("eth0-{}-{}", if queue % 2 == 0 { "rx" } else { "tx" }, queue / 2),
    }
}

/// Writes the machine's `/proc` and `/sys` below `root`. Each interrupt is served on the CPU that
/// [`interrupts`] counts it on.
pub(crate) fn write(root: &Path) {
    let file = |path: String, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it is below the root")).expect("there is room");
        fs::write(path, format!("{text}\n")).expect("there is room");
    };
    file("proc/interrupts".to_owned(), &interrupts(VECTORS));
    file("sys/devices/system/cpu/online".to_owned(), &format!("0-{}", CPUS - 1));
    for cpu in 0..CPUS {
        let of = |path: &str| format!("sys/devices/system/cpu/cpu{cpu}/{path}");
        // As Linux numbers them: the second hardware threads after all the first ones.
        let core = cpu % CORES;
        let pairs = |first: u32, count: u32| {
            let (last, second) = (first + count - 1, first + CORES);
            format!("{first}-{last},{second}-{}", second + count - 1)
        };
        file(of("topology/physical_package_id"), &(core / PER_PACKAGE).to_string());
        file(of("topology/core_id"), &(core % PER_PACKAGE).to_string());
        file(of("topology/core_cpus_list"), &format!("{core},{}", core + CORES));
        file(of("topology/package_cpus_list"), &pairs(core / PER_PACKAGE * PER_PACKAGE, PER_PACKAGE));
        let pair = format!("{core},{}", core + CORES);
        let shared = pairs(core / PER_CACHE * PER_CACHE, PER_CACHE);
        let caches =
            [("1", "Data", "32K", &pair), ("1", "Instruction", "32K", &pair), ("2", "Unified", "1024K", &pair)];
        let caches = caches.into_iter().chain([("3", "Unified", "32768K", &shared)]);
        for (index, (level, kind, size, shared)) in caches.enumerate() {
            for (name, text) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)] {
                file(of(&format!("cache/index{index}/{name}")), text);
            }
        }
    }
    for node in 0..2 {
        let of = |name: &str| format!("sys/devices/system/node/node{node}/{name}");
        file(of("cpulist"), &cpus_of_node(node));
        file(of("meminfo"), &format!("Node {node} MemTotal:  395836416 kB"));
        file(of("distance"), if node == 0 { "10 32" } else { "32 10" });
    }
    let function = "sys/devices/pci0000:80/0000:80:01.1/0000:81:00.0";
    let of_function = |name: &str| format!("{function}/{name}");
    file(of_function("numa_node"), "1");
    file(of_function("local_cpulist"), &cpus_of_node(1));
    for index in 0..VECTORS {
        let number = FIRST + index;
        file(of_function(&format!("msi_irqs/{number}")), "msix");
        file(format!("proc/irq/{number}/smp_affinity_list"), &format!("0-{}", CPUS - 1));
        file(format!("proc/irq/{number}/effective_affinity_list"), &(index % CPUS).to_string());
    }
    let of_nic = |name: &str| of_function(&format!("net/eth0/{name}"));
    for (name, text) in [("type", "1"), ("speed", "200000"), ("operstate", "up"), ("mtu", "9000"), ("threaded", "0")] {
        file(of_nic(name), text);
    }
    let off = ["00000000"; CPUS as usize / 32].join(",");
    for queue in 0..QUEUES {
        file(of_nic(&format!("queues/rx-{queue}/rps_cpus")), &off);
        file(of_nic(&format!("queues/tx-{queue}/xps_cpus")), &off);
    }
    let link = |target: &str, path: &str| std::os::unix::fs::symlink(target, root.join(path)).expect("there is room");
    link("../..", &of_nic("device"));
    fs::create_dir_all(root.join("sys/class/net")).expect("there is room");
    link(&format!("../../../{function}/net/eth0"), "sys/class/net/eth0");
}

fn cpus_of_node(node: u32) -> String {
    let (first, second) = (node * PER_PACKAGE, CORES + node * PER_PACKAGE);
    format!("{first}-{},{second}-{}", first + PER_PACKAGE - 1, second + PER_PACKAGE - 1)
}

/// CPUs of the machine.
const CPUS: u32 = 192;
const CORES: u32 = CPUS / 2;
const PER_PACKAGE: u32 = CORES / 2;
/// Cores that share a last-level cache.
const PER_CACHE: u32 = 8;

/// The number of the first interrupt.
pub(crate) const FIRST: u32 = 100;
/// Queues of the NIC.
pub(crate) const QUEUES: u32 = 64;
/// Interrupts of the NIC: its own, and two for each queue.
pub(crate) const VECTORS: u32 = 1 + 2 * QUEUES;
