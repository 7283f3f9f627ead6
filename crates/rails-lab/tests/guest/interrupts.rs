//! Interrupts go where they are sent.

use crate::machine::read;
use rails_lab::guest::{Cable, require};
use std::{fs, process::Command};

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_moves_every_nics_interrupts() {
    require();
    for node in [0, 1] {
        let cable = Cable::plug(node).unwrap();
        for device in [near_device(&cable), far_device(&cable)] {
            let interrupts = interrupts(&device);
            assert!(interrupts.len() >= 2, "{device}: {interrupts:?}");
            for cpu in [3, 0, 2, 1] {
                counted_only_on(&cable, &interrupts, cpu);
            }
        }
    }
}

/// The numbers of the queues' interrupts of a virtio device, which names them after itself.
fn interrupts(device: &str) -> Vec<u32> {
    let text = read("/proc/interrupts");
    text.lines()
        .filter(|line| line.contains(&format!("{device}-input")) || line.contains(&format!("{device}-output")))
        .map(|line| line.split(':').next().unwrap().trim().parse().unwrap())
        .collect()
}

/// `virtio3`: the device's folder.
fn near_device(cable: &Cable) -> String {
    device(Command::new("readlink").arg(format!("/sys/class/net/{}/device", cable.near())))
}

/// The far NIC is shown by the `/sys` of its namespace alone.
fn far_device(cable: &Cable) -> String {
    device(cable.namespace().command("readlink").arg(format!("/sys/class/net/{}/device", cable.far())))
}

fn device(readlink: &mut Command) -> String {
    let answer = readlink.output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap().trim_end().rsplit('/').next().unwrap().to_owned()
}

fn counted_only_on(cable: &Cable, interrupts: &[u32], cpu: usize) {
    for irq in interrupts {
        fs::write(format!("/proc/irq/{irq}/smp_affinity_list"), cpu.to_string()).unwrap();
    }
    // An interrupt moves when it next occurs, which may still be counted on the CPU it leaves.
    cable.ping(3).unwrap();
    let before = counts(interrupts);
    cable.ping(20).unwrap();
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
