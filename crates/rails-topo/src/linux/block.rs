//! Disks, from `/sys/class/block` (Documentation/ABI/stable/sysfs-block in the kernel's sources).

use super::{
    attachment::{Attachment, Surroundings, entry_path, is_virtual},
    root::Root,
};
use crate::{BlockDevice, DataSize};
use std::collections::BTreeSet;

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
        // A path of a multipath disk: the kernel hides the path and shows the disk.
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

/// Without a PCI function (persistent memory) the device below the disk states the locality.
fn of_device(root: &Root, machine: &Surroundings<'_>, name: &str, path: &str) -> Attachment {
    let attachment = machine.attachment(root, path);
    match attachment.pci {
        Some(_) => attachment,
        None => machine.attachment(root, &format!("{BLOCK}/{name}/device")),
    }
}

/// The attachment of an NVMe disk that may have several controllers (`nvme-subsys0/nvme0n1`,
/// `nvme_core.multipath`): the facts that all of them share.
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

/// The reason that no disk is under a block device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoDisks {
    /// There is no such device, or the kernel's files do not show it.
    Unlisted,
    /// The device is made in software, and stands on no disk.
    Software { device: String },
}

/// The name of a block device, and the names of the disks under it: of a partition, of an array, of
/// a mapped device.
pub(crate) fn disks_under(root: &Root, major: u64, minor: u64) -> Result<(String, Vec<String>), NoDisks> {
    let path = entry_path(root, &format!("sys/dev/block/{major}:{minor}")).ok_or(NoDisks::Unlisted)?;
    let name = path.rsplit('/').next().ok_or(NoDisks::Unlisted)?.to_owned();
    let (mut to_visit, mut seen, mut disks) = (vec![path], BTreeSet::new(), BTreeSet::new());
    while let Some(path) = to_visit.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let Some((parent, name)) = path.rsplit_once('/') else { continue };
        let below = root.names(&format!("{path}/slaves"));
        if root.text(&format!("{path}/partition")).is_some() {
            to_visit.push(parent.to_owned());
        } else if !below.is_empty() {
            // Their links lead from folder to folder. Those of the class have the same names.
            to_visit.extend(below.iter().filter_map(|name| entry_path(root, &format!("{BLOCK}/{name}"))));
        } else if !is_virtual(&path) || path.starts_with(NVME_SUBSYSTEMS) {
            disks.insert(name.to_owned());
        }
    }
    if disks.is_empty() { Err(NoDisks::Software { device: name }) } else { Ok((name, disks.into_iter().collect())) }
}

/// The folder of the disks.
const BLOCK: &str = "sys/class/block";

/// The folder of the subsystems of NVMe controllers.
const NVME_SUBSYSTEMS: &str = "sys/devices/virtual/nvme-subsystem/";

/// `size` counts sectors of this length for every disk.
const SECTOR: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, path::Path};

    const CONTROLLERS: [&str; 2] =
        ["sys/devices/pci0000:80/0000:80:02.0/nvme/nvme0", "sys/devices/pci0000:00/0000:00:05.0/nvme/nvme1"];

    /// Two disks with a partition each, an array of these, a mapped device on it, and a device
    /// without a disk.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let device = |number: &str, path: &str| {
            let (name, path) = (path.rsplit('/').next().unwrap(), path.strip_prefix("sys/").unwrap());
            fs::create_dir_all(folder.path().join("sys").join(path)).unwrap();
            for entry in [format!("dev/block/{number}"), format!("class/block/{name}")] {
                let entry = folder.path().join("sys").join(entry);
                fs::create_dir_all(entry.parent().unwrap()).unwrap();
                symlink(Path::new("../..").join(path), entry).unwrap();
            }
        };
        for (index, controller) in CONTROLLERS.into_iter().enumerate() {
            let disk = format!("{controller}/nvme{index}n1");
            device(&format!("259:{}", 2 * index), &disk);
            let partition = format!("{disk}/nvme{index}n1p1");
            device(&format!("259:{}", 2 * index + 1), &partition);
            fs::write(folder.path().join(partition).join("partition"), "1\n").unwrap();
        }
        device("9:0", "sys/devices/virtual/block/md0");
        device("254:3", "sys/devices/virtual/block/dm-3");
        device("253:0", "sys/devices/virtual/block/zram0");
        let stands_on = |name: &str, below: &str, path: &str| {
            let slaves = folder.path().join("sys/devices/virtual/block").join(name).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            symlink(Path::new("../../../..").join(path), slaves.join(below)).unwrap();
        };
        for (index, controller) in CONTROLLERS.into_iter().enumerate() {
            let (disk, partition) = (format!("nvme{index}n1"), format!("nvme{index}n1p1"));
            let path = format!("{}/{disk}/{partition}", controller.strip_prefix("sys/devices/").unwrap());
            stands_on("md0", &partition, &path);
        }
        stands_on("dm-3", "md0", "virtual/block/md0");
        folder
    }

    fn under(folder: &Path, major: u64, minor: u64) -> Result<(String, Vec<String>), NoDisks> {
        disks_under(&Root::open(folder).unwrap(), major, minor)
    }

    #[test]
    fn disks_under_partitions_and_devices_on_them() {
        let folder = machine();
        let found = |device: &str, disks: &[&str]| {
            Ok((device.to_owned(), disks.iter().map(|disk| (*disk).to_owned()).collect::<Vec<_>>()))
        };
        assert_eq!(under(folder.path(), 259, 0), found("nvme0n1", &["nvme0n1"]));
        assert_eq!(under(folder.path(), 259, 3), found("nvme1n1p1", &["nvme1n1"]));
        assert_eq!(under(folder.path(), 9, 0), found("md0", &["nvme0n1", "nvme1n1"]));
        assert_eq!(under(folder.path(), 254, 3), found("dm-3", &["nvme0n1", "nvme1n1"]));
        assert_eq!(under(folder.path(), 253, 0), Err(NoDisks::Software { device: "zram0".to_owned() }));
        assert_eq!(under(folder.path(), 259, 9), Err(NoDisks::Unlisted));
    }

    /// No kernel makes such devices, but a captured machine may.
    #[test]
    fn devices_that_stand_on_each_other_end() {
        let folder = machine();
        let below = folder.path().join("sys/devices/virtual/block/zram0/slaves");
        fs::create_dir_all(&below).unwrap();
        symlink("../../zram0", below.join("zram0")).unwrap();
        assert_eq!(under(folder.path(), 253, 0), Err(NoDisks::Software { device: "zram0".to_owned() }));
    }

    #[test]
    fn a_disk_of_several_controllers_is_a_disk() {
        let folder = machine();
        let disk = "devices/virtual/nvme-subsystem/nvme-subsys0/nvme2n1";
        fs::create_dir_all(folder.path().join("sys").join(disk)).unwrap();
        symlink(Path::new("../..").join(disk), folder.path().join("sys/dev/block/259:7")).unwrap();
        assert_eq!(under(folder.path(), 259, 7), Ok(("nvme2n1".to_owned(), vec!["nvme2n1".to_owned()])));
    }
}
