//! Trees of `/sys` and `/proc` that tests write themselves.

use rails_topo::{SysfsError, Topology};
use std::{fs, os::unix::fs::symlink, path::Path};
use tempfile::TempDir;

pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
        self
    }

    pub(crate) fn folder(&self, path: &str) -> &Self {
        fs::create_dir_all(self.path().join(path)).unwrap();
        self
    }

    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    pub(crate) fn bytes(&self, path: &str, bytes: &[u8]) -> &Self {
        self.file(path, "");
        fs::write(self.path().join(path), bytes).unwrap();
        self
    }

    /// A PCI function below `sys/devices`, and its entry on the bus.
    pub(crate) fn function(&self, path: &str, files: &[(&str, &str)]) -> &Self {
        let address = path.rsplit('/').next().unwrap();
        self.folder(&format!("sys/devices/{path}"));
        files.iter().for_each(|(name, text)| _ = self.file(&format!("sys/devices/{path}/{name}"), text));
        self.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../devices/{path}"))
    }

    /// A CPU as kernels since 5.x describe it.
    pub(crate) fn cpu(&self, cpu: u32, package: (u32, &str), core: (u32, &str)) -> &Self {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        self.file(&format!("{folder}/physical_package_id"), &package.0.to_string());
        self.file(&format!("{folder}/package_cpus_list"), package.1);
        self.file(&format!("{folder}/core_id"), &core.0.to_string());
        self.file(&format!("{folder}/core_cpus_list"), core.1)
    }

    pub(crate) fn cache(&self, cpu: u32, index: u32, level: u32, kind: &str, size: &str, shared: &str) -> &Self {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        self.file(&format!("{folder}/level"), &level.to_string());
        self.file(&format!("{folder}/type"), kind);
        self.file(&format!("{folder}/size"), size);
        self.file(&format!("{folder}/shared_cpu_list"), shared)
    }

    pub(crate) fn node(&self, node: u32, cpus: &str, kib: u64, distances: &str) -> &Self {
        let folder = format!("sys/devices/system/node/node{node}");
        self.file(&format!("{folder}/cpulist"), cpus);
        self.file(&format!("{folder}/meminfo"), &format!("Node {node} MemTotal:  {kib} kB"));
        self.file(&format!("{folder}/distance"), distances)
    }

    pub(crate) fn read(&self) -> Result<Topology, SysfsError> {
        Topology::from_sysfs_root(self.path())
    }

    /// Two packages, each a node of two cores with one shared cache and four PUs in all.
    pub(crate) fn two_nodes() -> Self {
        let tree = Self::new();
        tree.file("sys/devices/system/cpu/online", "0-7");
        for cpu in 0..8 {
            let (package, package_cpus) = if cpu % 4 < 2 { (0, "0-1,4-5") } else { (1, "2-3,6-7") };
            let core_cpus = format!("{},{}", cpu % 4, cpu % 4 + 4);
            tree.cpu(cpu, (package, package_cpus), (cpu % 2, &core_cpus));
            tree.cache(cpu, 0, 1, "Data", "32K", &core_cpus);
            tree.cache(cpu, 3, 3, "Unified", "16M", package_cpus);
        }
        tree.node(0, "0-1,4-5", 1 << 20, "10 21").node(1, "2-3,6-7", 2 << 20, "21 10");
        tree
    }

    /// An interface on a PCI function of node 1 with two queues, of which one has no interrupt of
    /// its own.
    pub(crate) fn with_pci_nic(self) -> Self {
        let function = "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0";
        let net = format!("{function}/net/eth0");
        self.link("sys/class/net/eth0", "../../devices/pci0000:80/0000:80:02.0/0000:82:00.0/net/eth0");
        self.link(&format!("{net}/device"), "../../../0000:82:00.0");
        self.link(&format!("{function}/driver"), "../../../../bus/pci/drivers/igb");
        self.file(&format!("{function}/numa_node"), "1").file(&format!("{function}/local_cpulist"), "2-3,6-7");
        self.file(&format!("{function}/irq"), "17");
        self.file(&format!("{function}/msi_irqs/101"), "msix").file(&format!("{function}/msi_irqs/99"), "msix");
        for (name, text) in [
            ("speed", "10000"),
            ("operstate", "up"),
            ("carrier", "1"),
            ("mtu", "9000"),
            ("address", "52:54:00:00:00:01"),
            ("type", "1"),
            ("queues/rx-0/rps_cpus", "00000000,00000000"),
            ("queues/rx-1/rps_cpus", "00000000,000000c0"),
            ("queues/tx-0/xps_cpus", "0000000c"),
        ] {
            self.file(&format!("{net}/{name}"), text);
        }
        self.folder(&format!("{net}/queues/tx-1"));
        self.file(
            "proc/interrupts",
            "        CPU0 CPU1\n  99:  1  0  IR-PCI-MSI 1-edge      eth0\n 101:  0  9  IR-PCI-MSI 2-edge      eth0-TxRx-0",
        );
        self.file("proc/irq/101/smp_affinity_list", "2-3,6-7").file("proc/irq/101/effective_affinity_list", "3");
        self.file("proc/irq/99/smp_affinity", "ff").file("proc/irq/99/effective_affinity_list", "");
        self
    }
}
