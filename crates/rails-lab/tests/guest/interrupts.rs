//! Interrupts go where they are sent.

use std::fs;
use std::process::Command;

use rails_lab::guest::require;

use crate::machine::{interface, read};

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_moves_every_nics_interrupts() {
    require();
    for (near, far, namespace) in [(1, 3, "cable0"), (2, 4, "cable1")] {
        let cable = Cable::plug(near, far, namespace);
        for number in [near, far] {
            let interrupts = cable.interrupts(number);
            assert!(interrupts.len() >= 2, "NIC {number}: {interrupts:?}");
            for cpu in [3, 0, 2, 1] {
                counted_only_on(&cable, &interrupts, cpu);
            }
        }
    }
}

/// Two NICs of one node with a cable between them, the far one in a namespace, so that traffic takes the cable.
struct Cable {
    near: u8,
    near_name: String,
    far_name: String,
    namespace: &'static str,
}

impl Cable {
    fn plug(near: u8, far: u8, namespace: &'static str) -> Self {
        let cable = Self { near, near_name: interface(near), far_name: interface(far), namespace };
        let Self { near_name, far_name, .. } = &cable;
        ip(&format!("netns add {namespace}"));
        ip(&format!("link set {far_name} netns {namespace}"));
        for (prefix, name, host) in [(String::new(), near_name, 1), (format!("-n {namespace} "), far_name, 2)] {
            ip(&format!("{prefix}addr add 10.9.{near}.{host}/24 dev {name}"));
            ip(&format!("{prefix}link set {name} up"));
        }
        cable.ping(1);
        cable
    }

    /// Small packets there and back, each an interrupt or two at both ends.
    fn ping(&self, count: u32) {
        let to = format!("10.9.{}.2", self.near);
        let answer =
            Command::new("busybox").args(["ping", "-q", "-A", "-c", &count.to_string(), &to]).output().unwrap();
        let text = String::from_utf8_lossy(&answer.stdout);
        assert!(answer.status.success() && text.contains(" 0% packet loss"), "{text}");
    }

    /// The numbers of the queues' interrupts, which virtio names after the virtio device.
    fn interrupts(&self, number: u8) -> Vec<u32> {
        let name = if number == self.near { &self.near_name } else { &self.far_name };
        let device = virtio_device(self, name);
        let lines = read("/proc/interrupts");
        lines
            .lines()
            .filter(|line| line.contains(&format!("{device}-input")) || line.contains(&format!("{device}-output")))
            .map(|line| line.split(':').next().unwrap().trim().parse().unwrap())
            .collect()
    }
}

/// The NICs go back to where the program's other tests look for them.
impl Drop for Cable {
    fn drop(&mut self) {
        let Self { near_name, far_name, namespace, .. } = self;
        let undo = [
            format!("-n {namespace} link set {far_name} netns 1"),
            format!("netns del {namespace}"),
            format!("addr flush dev {near_name}"),
        ];
        for arguments in undo {
            // A test that fails already shall be heard with its own reason.
            let _ = Command::new("ip").args(arguments.split(' ')).status();
        }
    }
}

/// `virtio3`: the device's folder. An interface in a namespace is seen in that namespace's `/sys` only.
fn virtio_device(cable: &Cable, interface: &str) -> String {
    let path = format!("/sys/class/net/{interface}/device");
    let answer = if interface == cable.near_name {
        Command::new("readlink").arg(path).output()
    } else {
        Command::new("ip").args(["netns", "exec", cable.namespace, "readlink", &path]).output()
    };
    let answer = answer.unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap().trim_end().rsplit('/').next().unwrap().to_owned()
}

fn counted_only_on(cable: &Cable, interrupts: &[u32], cpu: usize) {
    for irq in interrupts {
        fs::write(format!("/proc/irq/{irq}/smp_affinity_list"), cpu.to_string()).unwrap();
    }
    // An interrupt moves when it next occurs, which may still be counted on the CPU it leaves.
    cable.ping(3);
    let before = counts(interrupts);
    cable.ping(20);
    let after = counts(interrupts);
    for (irq, (before, after)) in interrupts.iter().zip(before.iter().zip(&after)) {
        assert_eq!(read(format!("/proc/irq/{irq}/effective_affinity_list")), cpu.to_string());
        for other in (0..after.len()).filter(|other| *other != cpu) {
            assert_eq!(before[other], after[other], "interrupt {irq} was counted on CPU {other}, not only on {cpu}");
        }
    }
    let sum = |counts: &[Vec<u64>]| counts.iter().map(|counts| counts[cpu]).sum::<u64>();
    assert!(sum(&after) >= sum(&before) + 10, "20 pings made {} interrupts", sum(&after) - sum(&before));
}

/// By interrupt, its count on each CPU.
fn counts(interrupts: &[u32]) -> Vec<Vec<u64>> {
    let text = read("/proc/interrupts");
    let cpus = text.lines().next().unwrap().split_whitespace().count();
    let line = |irq: &u32| {
        let label = format!("{irq}:");
        let line = text.lines().find(|line| line.trim_start().starts_with(&label)).unwrap();
        line.split_whitespace().skip(1).take(cpus).map(|count| count.parse().unwrap()).collect()
    };
    interrupts.iter().map(line).collect()
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
