//! Disks, from `/sys/class/block` (Documentation/ABI/stable/sysfs-block in the kernel's sources).

use super::{
    attachment::{Attachment, Surroundings, entry_path, is_virtual},
    root::Root,
};
use crate::{BlockDevice, DataSize};

/// The disks, by name.
pub(super) fn devices(root: &Root, machine: &Surroundings<'_>) -> Vec<BlockDevice> {
    let names = root.names(BLOCK);
    let device = |name: &String| {
        let file = |file: &str| root.text(&format!("{BLOCK}/{name}/{file}"));
        let path = entry_path(root, &format!("{BLOCK}/{name}"))?;
        // A partition lies in the folder of its disk.
        let disk = path.rsplit('/').nth(1)?;
        let is_partition =
            names.binary_search_by(|known| known.as_str().cmp(disk)).is_ok() || file("partition").is_some();
        // One of several ways to a disk: the kernel hides it and shows the disk.
        let is_hidden = file("hidden").is_some_and(|hidden| hidden != "0");
        if is_partition || is_hidden {
            return None;
        }
        let attachment = match path.strip_prefix(NVME_SUBSYSTEMS) {
            Some(disk) => of_controllers(root, machine, disk)?,
            None if is_virtual(&path) => return None,
            None => of_device(root, machine, name, &path),
        };
        Some(BlockDevice {
            name: name.clone(),
            pci: attachment.pci,
            size: file("size")
                .and_then(|sectors| sectors.parse::<u64>().ok()?.checked_mul(SECTOR))
                .map(DataSize::bytes),
            model: file("device/model"),
            node: attachment.node,
            local_cpus: attachment.local_cpus,
        })
    };
    names.iter().filter_map(device).collect()
}

/// Without a PCI function (persistent memory) the device states the locality, and not the disk on it.
fn of_device(root: &Root, machine: &Surroundings<'_>, name: &str, path: &str) -> Attachment {
    let attachment = machine.attachment(root, path);
    match attachment.pci {
        Some(_) => attachment,
        None => machine.attachment(root, &format!("{BLOCK}/{name}/device")),
    }
}

/// The attachment of an NVMe disk that may have several controllers (`nvme-subsys0/nvme0n1`, `nvme_core.multipath`):
/// the common part of theirs.
fn of_controllers(root: &Root, machine: &Surroundings<'_>, disk: &str) -> Option<Attachment> {
    let (subsystem, _) = disk.split_once('/')?;
    let folder = format!("{NVME_SUBSYSTEMS}{subsystem}");
    let is_controller = |name: &String| root.link(&format!("{folder}/{name}")).is_some() && name.starts_with("nvme");
    let controllers = root.names(&folder).into_iter().filter(is_controller);
    let attachments = controllers.filter_map(|name| entry_path(root, &format!("{folder}/{name}")));
    let common = attachments.map(|path| machine.attachment(root, &path)).reduce(|one, other| Attachment {
        pci: one.pci.filter(|pci| other.pci == Some(*pci)),
        node: one.node.filter(|node| other.node == Some(*node)),
        local_cpus: one.local_cpus.filter(|cpus| other.local_cpus.as_ref() == Some(cpus)),
    });
    Some(common.unwrap_or_default())
}

/// The folder of the disks.
const BLOCK: &str = "sys/class/block";

/// The folder of the subsystems of NVMe controllers.
const NVME_SUBSYSTEMS: &str = "sys/devices/virtual/nvme-subsystem/";

/// `size` counts sectors of this length for every disk.
const SECTOR: u64 = 512;
