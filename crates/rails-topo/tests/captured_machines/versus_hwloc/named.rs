//! The fields in which the two readers may differ, and why.

/// A difference that is known.
pub(super) struct Named {
    /// The field, or the field and all below it with a `*` at its end.
    pub(super) field: &'static str,
    /// The only tree of which it is true; empty where it is hwloc's nature.
    pub(super) tree: &'static str,
    /// The field's object, or the beginning of the object's name with a `*` at the end.
    pub(super) of: &'static str,
    pub(super) how: How,
    pub(super) why: &'static str,
}

/// The way in which the readers differ.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// hwloc says nothing.
    OnlyOurs,
    /// Only hwloc says something.
    OnlyTheirs,
    /// Only hwloc says something, and the tree has no node.
    MadeUp,
    /// Each says something else.
    Differs,
}

impl Named {
    pub(super) fn covers(&self, tree: &str, field: &str, of: &str) -> bool {
        (self.tree.is_empty() || self.is_of(tree)) && fits(self.field, field) && fits(self.of, of)
    }

    /// Whether it is named for this tree alone.
    pub(super) fn is_of(&self, tree: &str) -> bool {
        !self.tree.is_empty() && tree.contains(self.tree)
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

/// The differences on every machine.
const fn always(field: &'static str, of: &'static str, how: How, why: &'static str) -> Named {
    Named { field, tree: "", of, how, why }
}

/// The facts that hwloc has no room for.
const fn unknown_to_hwloc(field: &'static str) -> Named {
    always(field, "*", How::OnlyOurs, "hwloc's model does not have it")
}

const fn on(tree: &'static str, field: &'static str, of: &'static str, how: How, why: &'static str) -> Named {
    Named { field, tree, of, how, why }
}

/// The differences.
pub(super) const NAMED: &[Named] = &[
    unknown_to_hwloc("isolated_cpus"),
    unknown_to_hwloc("nohz_full_cpus"),
    unknown_to_hwloc("nodes.tier"),
    always("nodes.hugepages", "*", How::Differs, "hwloc does not say how many pages are free"),
    unknown_to_hwloc("pci_devices.link"),
    unknown_to_hwloc("pci_devices.max_link"),
    unknown_to_hwloc("pci_devices.driver"),
    unknown_to_hwloc("pci_devices.physical_function"),
    unknown_to_hwloc("pci_devices.virtual_functions"),
    always("nics", "*", How::OnlyOurs, "hwloc leaves out NICs without hardware behind them"),
    unknown_to_hwloc("nics.index"),
    unknown_to_hwloc("nics.kind"),
    unknown_to_hwloc("nics.driver"),
    unknown_to_hwloc("nics.speed_bits_per_second"),
    unknown_to_hwloc("nics.up"),
    unknown_to_hwloc("nics.carrier"),
    unknown_to_hwloc("nics.virtual_kind"),
    unknown_to_hwloc("nics.lowers"),
    unknown_to_hwloc("nics.port"),
    unknown_to_hwloc("nics.physical_port"),
    unknown_to_hwloc("nics.physical_switch"),
    unknown_to_hwloc("nics.threaded_napi"),
    unknown_to_hwloc("nics.mtu_bytes"),
    unknown_to_hwloc("nics.addresses"),
    unknown_to_hwloc("nics.rx_queues"),
    unknown_to_hwloc("nics.tx_queues"),
    unknown_to_hwloc("nics.interrupts"),
    always("rdma_devices", "scif*", How::OnlyOurs, "hwloc leaves out the InfiniBand that Xeon Phi's driver imitates"),
    unknown_to_hwloc("rdma_devices.ports.link_layer"),
    unknown_to_hwloc("rdma_devices.ports.speed_bits_per_second"),
    unknown_to_hwloc("gpus.driver"),
    always(
        "block_devices.model",
        "*",
        How::Differs,
        "hwloc asks udev's database, which a tree may not hold, and not the device",
    ),
    always(
        "block_devices.local_cpus",
        "pmem*",
        How::OnlyTheirs,
        "of a device that is not on PCI the kernel names the node, and hwloc takes that node's CPUs",
    ),
    always("nodes", "0", How::MadeUp, "hwloc makes up a node where the kernel knows none"),
    always("allowed_nodes", "", How::MadeUp, "hwloc makes up a node where the kernel knows none"),
    always("nodes.cpus", "*", How::OnlyTheirs, "hwloc gives a node without CPUs those of the nearest ones"),
    always(
        "machine.host",
        "",
        How::OnlyTheirs,
        "hwloc-gather-topology leaves a note of uname(2)'s answer, which is no file of the kernel",
    ),
    always("machine.kernel", "", How::OnlyTheirs, "from the same note"),
    on("buggynuma", "nodes", "*", How::OnlyOurs, ONE_DISTANCE),
    on("buggynuma", "allowed_nodes", "", How::Differs, ONE_DISTANCE),
    on("buggynuma", "distances", "", How::OnlyOurs, ONE_DISTANCE),
    on("fakeheterocpunuma", "nodes", "*", How::OnlyOurs, TWICE),
    on("fakeheterocpunuma", "allowed_nodes", "", How::Differs, TWICE),
    on("fakeheterocpunuma", "distances", "", How::Differs, TWICE),
    on("fakeheterocpunuma", "core_kinds*", "*", How::Differs, "hwloc tells two makes of the same speed apart"),
    on("nvidiagpunumanodes", "nodes", "25*", How::OnlyOurs, GPU_MEMORY),
    on("nvidiagpunumanodes", "distances", "", How::Differs, GPU_MEMORY),
    on("nvidiagpunumanodes", "gpus.node", "*", How::OnlyTheirs, LOCAL_CPUS),
    on("nvidiagpunumanodes", "pci_devices.node", "*", How::OnlyTheirs, LOCAL_CPUS),
    on("nvidiagpunumanodes", "allowed_cpus", "", How::Differs, LOST_CPUSET),
    on("nvidiagpunumanodes", "allowed_nodes", "", How::Differs, LOST_CPUSET),
    on("pcidomain32bits", "pci_devices", "10000:*", How::OnlyOurs, WIDE_DOMAIN),
    on("pcidomain32bits", "block_devices.pci", "vda", How::OnlyOurs, WIDE_DOMAIN),
    on("pcidomain32bits", "block_devices*", "*", How::OnlyTheirs, ONE_PLACE),
    on("pcidomain32bits", "pci_devices*", "*", How::OnlyTheirs, ONE_PLACE),
    on("pcidomain32bits", "nics*", "*", How::OnlyTheirs, ONE_PLACE),
    on("pcidomain32bits", "gpus*", "*", How::OnlyTheirs, ONE_PLACE),
    on("40intel64-2g2n4c", "nics.node", "ib0", How::OnlyOurs, TWO_NODES),
    on("40intel64-2g2n4c", "pci_devices.node", "0000:43:00.0", How::OnlyOurs, TWO_NODES),
    on("40intel64-2g2n4c", "rdma_devices.node", "qib0", How::OnlyOurs, TWO_NODES),
    on("2ps3", "machine.cpu_model", "", How::OnlyOurs, "hwloc does not read the model of a Cell"),
    on(
        "40intel64-4n10c",
        "packages",
        "*",
        How::OnlyOurs,
        "CPU 2 contradicts its package, and hwloc drops that package",
    ),
    on("40intel64-4n10c", "caches", "*", How::OnlyOurs, "CPU 2 contradicts its cache, and hwloc drops that cache"),
    on("32em64t", "pci_devices", "0000:00:11.0", How::OnlyOurs, "hwloc drops a bridge whose buses are nonsense"),
    on("32em64t", "pci_devices.node", "0000:00:02.0", How::OnlyTheirs, ONE_PLACE),
    on("32em64t", "pci_devices.local_cpus", "0000:00:02.0", How::Differs, ONE_PLACE),
    on("32em64t", "block_devices.node", "nvme0n1", How::OnlyTheirs, ONE_PLACE),
    on("32em64t", "block_devices.local_cpus", "nvme0n1", How::Differs, ONE_PLACE),
];

const ONE_DISTANCE: &str = "all nodes are as far from each other as from themselves, and all CPUs on one: hwloc drops the others, which do have memory";
const TWICE: &str = "hwloc drops a node whose CPUs an earlier one has";
const GPU_MEMORY: &str = "hwloc leaves out nodes that are the memory of GPUs";
const WIDE_DOMAIN: &str = "hwloc leaves out PCI domains of more than 16 bits";
const LOCAL_CPUS: &str = "hwloc takes the node of the local CPUs";
const LOST_CPUSET: &str = "hwloc does not find the cpuset /jjh of the process";
const TWO_NODES: &str = "the file names a node, and the local CPUs are those of several";
const ONE_PLACE: &str = "hwloc puts all that hangs on one root bus where the first function of it is";
