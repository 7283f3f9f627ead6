//! The machine that the tests run on: both readers, and the limits of detection.

#[cfg(feature = "hwloc")]
mod redirected;

use rails_topo::{CacheKind, CpuId, CpuSet, NicKind, Origin, Topology};

/// A cache by the facts on which hwloc and the kernel's files must agree.
type Sharing = (u8, CacheKind, CpuSet);

#[test]
fn both_readers_see_the_same_machine() {
    let (detected, files) = (Topology::detect().unwrap(), Topology::from_sysfs_root("/").unwrap());
    assert_eq!(detected.packages(), files.packages());
    assert_eq!(detected.dies(), files.dies());
    assert_eq!(detected.cores(), files.cores());
    assert_eq!(detected.core_kinds(), files.core_kinds());
    assert_eq!(detected.isolated_cpus(), files.isolated_cpus());
    assert_eq!(detected.online_cpus(), files.online_cpus());
    assert_eq!(detected.allowed_cpus(), files.allowed_cpus());
    assert_eq!(detected.allowed_nodes(), files.allowed_nodes());
    assert_eq!(detected.distances(), files.distances());
    // A virtual machine's memory can grow and shrink between the two readings.
    let nodes =
        |machine: &Topology| machine.nodes().iter().map(|node| (node.id, node.cpus.clone())).collect::<Vec<_>>();
    assert_eq!(nodes(&detected), nodes(&files));
    let sharing = |machine: &Topology| -> Vec<Sharing> {
        machine.caches().iter().map(|cache| (cache.level, cache.kind, cache.cpus.clone())).collect()
    };
    assert_eq!(sharing(&detected), sharing(&files));
    let names = |machine: &Topology| machine.nics().iter().map(|nic| nic.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&detected), names(&files));
}

#[test]
fn queues_lead_to_interrupts_that_are_theirs() {
    let machine = Topology::detect().unwrap();
    for nic in machine.nics() {
        let queues = nic.rx_queues.iter().map(|queue| (queue.index, queue.interrupt));
        for (index, number) in queues.chain(nic.tx_queues.iter().map(|queue| (queue.index, queue.interrupt))) {
            let Some(number) = number else { continue };
            let interrupt = nic.interrupt(number).expect("an interrupt of the interface");
            let role = nic.role_of(interrupt);
            assert!(role.serves_queues() && role.queue().is_none_or(|queue| queue == index), "{interrupt:?}");
        }
        let lanes = machine.lanes_of(nic);
        assert!(
            !lanes.devices.is_empty() || !lanes.in_software.is_empty() || !lanes.missing.is_empty(),
            "{}",
            nic.name
        );
    }
}

#[test]
fn this_machine_is_told_from_a_captured_one() {
    let machine = Topology::detect().unwrap();
    let Origin::ThisMachine { reader } = machine.origin() else { panic!("{:?}", machine.origin()) };
    assert_eq!(reader.starts_with("hwloc "), cfg!(feature = "hwloc"), "{reader}");
    assert!(!machine.allowed_cpus().is_empty());
    assert!(machine.allowed_cpus().is_subset(machine.online_cpus()));
    let lo = machine.nics().iter().find(|nic| nic.kind == NicKind::Loopback).expect("a loopback interface");
    assert!(lo.addresses.iter().all(|address| address.ip.is_loopback()), "{:?}", lo.addresses);
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), machine);
}

#[test]
fn allowed_cpus_seen_by_a_pinned_thread() {
    let before = Topology::detect().unwrap();
    let pinned = std::thread::spawn(|| {
        let core = core_affinity::get_core_ids().unwrap()[0];
        assert!(core_affinity::set_for_current(core));
        (CpuId(core.id as u32), Topology::detect().unwrap(), core_affinity::get_core_ids().unwrap().len())
    });
    let (cpu, detected, cpus_of_thread) = pinned.join().unwrap();
    assert_eq!(cpus_of_thread, 1, "the thread is still pinned after detecting");
    assert!(detected.allowed_cpus().contains(cpu));
    assert_eq!(detected.allowed_cpus(), before.allowed_cpus());
}
