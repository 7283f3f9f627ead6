//! This machine where a sandbox hides its files or refuses calls.
//!
//! Those that hide files run as root: `cargo test -p rails-topo --test sandboxed -- --ignored
//! netns_`

#[cfg(feature = "monitor")]
mod monitor;

use nix::{
    errno::Errno,
    libc::AF_NETLINK,
    sched::{CpuSet as Affinity, sched_getaffinity},
    unistd::Pid,
};
use rails_lab::Sandbox;
#[cfg(feature = "hwloc")]
use rails_topo::Origin;
use rails_topo::{CpuId, CpuSet, Nic, NicKind, Topology};
use std::{error::Error, fmt::Debug, fs::File, io, iter};

#[test]
#[ignore = "needs root: it makes a mount namespace"]
fn netns_machine_without_its_files_is_read() {
    let name = "netns_machine_without_its_files_is_read";
    for hidden in ["/sys", "/sys/devices", "/sys/devices/system/cpu", "/sys/devices/system/node", "/proc"] {
        Sandbox::new().hide(hidden).rerun(name, || {
            let machine = Topology::detect().unwrap();
            assert_eq!((machine.allowed_cpus(), machine.online_cpus().is_empty()), (&own_cpus(), false));
            assert_eq!(machine.nic("lo").map(|lo| lo.kind), Some(NicKind::Loopback));
        });
    }
}

/// hwloc would end the process.
#[test]
#[cfg(feature = "hwloc")]
#[ignore = "needs root: it makes a mount namespace"]
fn netns_hwloc_is_not_asked_where_nodes_are_hidden() {
    let name = "netns_hwloc_is_not_asked_where_nodes_are_hidden";
    Sandbox::new().hide("/sys/devices/system/node").rerun(name, || {
        let Origin::ThisMachine { reader } = Topology::detect().unwrap().origin().clone() else { panic!() };
        assert!(reader.starts_with("sysfs; hwloc ") && reader.ends_with("node lists no node"), "{reader}");
    });
}

#[test]
#[ignore = "needs root: it makes a mount namespace"]
fn netns_machine_is_read_without_sys_and_proc() {
    Sandbox::new().hide("/sys").hide("/proc").rerun("netns_machine_is_read_without_sys_and_proc", || {
        let machine = Topology::detect().unwrap();
        assert_eq!((machine.online_cpus(), machine.allowed_cpus()), (&own_cpus(), &own_cpus()));
        assert!(machine.nics().iter().all(|nic| nic.kind != NicKind::Device), "{:?}", machine.nics());
    });
}

/// A file below a `HOME` of another user need not be there; one that is there and may not be read
/// is an error.
#[test]
#[cfg(feature = "config")]
#[ignore = "needs root: it becomes another user"]
fn netns_file_in_a_closed_folder_may_be_missing() {
    use rails_topo::config::layers;
    Sandbox::new().user(65534).rerun("netns_file_in_a_closed_folder_may_be_missing", || {
        // The folder of a process is its user's alone.
        assert_eq!(layers(&["/proc/1/cwd/.config/rails/topology.toml".into()], &[]).unwrap().len(), 0);
        assert_eq!(layers(&["/etc/shadow".into()], &[]).unwrap_err().to_string(), "cannot read `/etc/shadow`");
    });
}

#[test]
fn interfaces_from_files_where_netlink_is_refused() {
    let name = "interfaces_from_files_where_netlink_is_refused";
    Sandbox::new().deny_where(Errno::EAFNOSUPPORT, "socket", 0, AF_NETLINK).rerun(name, || {
        let machine = Topology::detect().unwrap();
        let lo = machine.nic("lo").expect("every machine has it");
        assert_eq!((lo.kind, lo.index), (NicKind::Loopback, Some(1)));
        assert!(lo.addresses.iter().any(|address| address.ip.to_string() == "127.0.0.1"), "{lo:?}");
    });
}

#[test]
fn machine_is_read_whole_or_not_at_all() {
    Sandbox::new().max_descriptors(64).rerun("machine_is_read_whole_or_not_at_all", || {
        let whole = Topology::detect().unwrap();
        let mut taken: Vec<File> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
        let mut refused = 0;
        // One more is free each time; the last readings have as many as they need.
        for _ in 0..24 {
            taken.pop();
            match Topology::detect() {
                Ok(machine) => assert_eq!(facts(&machine), facts(&whole)),
                Err(error) => {
                    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
                    assert_eq!(cause.and_then(io::Error::raw_os_error), Some(Errno::EMFILE as i32), "{error:?}");
                    refused += 1;
                }
            }
        }
        assert!((1..24).contains(&refused), "{refused}");
    });
}

/// The facts by which rails are placed.
fn facts(machine: &Topology) -> impl PartialEq + Debug {
    let nic = |nic: &Nic| (nic.name.clone(), nic.pci, nic.addresses.clone(), nic.up);
    let nics: Vec<_> = machine.nics().iter().map(nic).collect();
    let sets = [machine.online_cpus(), machine.allowed_cpus()].map(CpuSet::clone);
    let nodes: Vec<_> = machine.nodes().iter().map(|node| (node.id, node.cpus.clone())).collect();
    let counts = [machine.cores().len(), machine.packages().len(), machine.pci_devices().len()];
    (nics, sets, nodes, machine.allowed_nodes().clone(), counts)
}

/// The CPUs that this process may use, by its own call.
fn own_cpus() -> CpuSet {
    let own = sched_getaffinity(Pid::this()).unwrap();
    (0..Affinity::count()).filter(|cpu| own.is_set(*cpu).unwrap()).map(|cpu| CpuId(cpu as u32)).collect()
}
