//! Files with any text: reading them ends, and with a consistent model.

use crate::tree::Tree;
use proptest::prelude::*;
use std::fs;

/// Files of devices, each of which is read.
const FILES: [&str; 22] = [
    "sys/devices/pci0000:80/0000:80:02.0/class",
    "sys/devices/pci0000:80/0000:80:02.0/vendor",
    "sys/devices/pci0000:80/0000:80:02.0/device",
    "sys/devices/pci0000:80/0000:80:02.0/config",
    "sys/devices/pci0000:80/0000:80:02.0/numa_node",
    "sys/devices/pci0000:80/0000:80:02.0/local_cpulist",
    "sys/devices/pci0000:80/0000:80:02.0/local_cpus",
    "sys/devices/pci0000:80/0000:80:02.0/current_link_speed",
    "sys/devices/pci0000:80/0000:80:02.0/current_link_width",
    "sys/devices/pci0000:80/0000:80:02.0/max_link_speed",
    "sys/devices/pci0000:80/0000:80:02.0/max_link_width",
    "sys/devices/pci0000:80/0000:80:02.0/secondary_bus_number",
    "sys/devices/pci0000:80/0000:80:02.0/subordinate_bus_number",
    "sys/devices/pci0000:80/0000:80:02.0/sriov_numvfs",
    "sys/devices/pci0000:80/0000:80:02.0/sriov_totalvfs",
    "sys/devices/pci0000:80/0000:80:02.0/infiniband/mlx5_0/ports/1/state",
    "sys/devices/pci0000:80/0000:80:02.0/infiniband/mlx5_0/ports/1/rate",
    "sys/devices/pci0000:80/0000:80:02.0/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0",
    "sys/devices/pci0000:80/0000:80:02.0/net/eth0/dev_port",
    "sys/devices/pci0000:80/0000:80:02.0/net/eth0/dev_id",
    "sys/devices/pci0000:80/0000:80:02.0/block/sda/size",
    "sys/devices/pci0000:80/0000:80:02.0/block/sda/hidden",
];

fn tree() -> Tree {
    let tree = Tree::two_nodes();
    for file in FILES {
        tree.file(file, "1");
    }
    tree.link("sys/bus/pci/devices/0000:80:02.0", "../../../devices/pci0000:80/0000:80:02.0");
    for (class, name) in [("infiniband", "mlx5_0"), ("net", "eth0"), ("block", "sda")] {
        let device = format!("../../devices/pci0000:80/0000:80:02.0/{class}/{name}");
        tree.link(&format!("sys/class/{class}/{name}"), &device);
    }
    tree
}

/// Bytes of any kind, and texts that look right.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let text = "(0x)?-?[0-9a-f]{0,20}[.:,-]?[0-9]{0,12}( GT/s| Gb/sec|: ACTIVE)?";
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..300), text.prop_map(String::into_bytes)]
}

#[test]
fn files_of_any_content_do_no_harm() {
    let tree = tree();
    let all = proptest::collection::vec(contents(), FILES.len());
    proptest!(ProptestConfig::with_cases(48), |(all in all)| {
        for (file, contents) in FILES.iter().zip(&all) {
            fs::write(tree.path().join(file), contents).unwrap();
        }
        let machine = tree.read().unwrap();
        prop_assert_eq!(machine.pci_devices().len(), 1);
        let nodes = [machine.pci_devices()[0].node, machine.rdma_devices()[0].node];
        prop_assert!(nodes.into_iter().flatten().all(|node| machine.nodes().iter().any(|known| known.id == node)));
        let local = machine.pci_devices()[0].local_cpus.clone().unwrap_or_default();
        prop_assert!(local.is_subset(machine.online_cpus()));
        let json = serde_json::to_string(&machine).unwrap();
        prop_assert_eq!(serde_json::from_str::<rails_topo::Topology>(&json).unwrap(), machine);
    });
}

#[test]
fn files_that_may_not_be_read_are_unknown() {
    let tree = tree();
    // Root may read a file of any mode; a folder in its place cannot be read by any user.
    for file in FILES {
        let path = tree.path().join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
    let machine = tree.read().unwrap();
    let device = &machine.pci_devices()[0];
    assert_eq!(device, &rails_topo::PciDevice::at(device.address));
    assert_eq!(machine.rdma_devices()[0].ports[0].active, None);
    assert_eq!((machine.block_devices()[0].size, machine.block_devices()[0].node), (None, None));
}
