//! QEMU's arguments for the machine.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The files of one boot.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: PathBuf,
    pub(crate) console: PathBuf,
    pub(crate) status: PathBuf,
    pub(crate) disk: PathBuf,
}

/// The size of a guest's two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cores_per_node: u32,
    pub(crate) memory_per_node_mib: u32,
}

/// The arguments for a machine with these nodes. The command's output is the emulator's own
/// standard output.
pub(crate) fn arguments(name: &str, size: Size, files: &Files<'_>) -> Vec<OsString> {
    let Size { cores_per_node: cores, memory_per_node_mib: memory } = size;
    let mut line = Line::default();
    line.add("-name", name).add("-machine", "q35").add("-accel", "tcg,thread=multi").add("-cpu", "max");
    line.add("-smp", format!("{},sockets=2,cores={cores},threads=1", 2 * cores)).add("-m", format!("{}M", 2 * memory));
    for flag in ["-no-user-config", "-nodefaults", "-no-reboot"] {
        line.0.push(flag.into());
    }
    line.add("-display", "none").add("-monitor", "none");

    for node in 0..2 {
        let (first, last) = (node * cores, (node + 1) * cores - 1);
        line.add("-object", format!("memory-backend-ram,id=memory{node},size={memory}M"));
        line.add("-numa", format!("node,nodeid={node},cpus={first}-{last},memdev=memory{node}"));
    }
    line.add("-numa", format!("dist,src=0,dst=1,val={DISTANCE}"));

    // A bus of its own for each node tells the guest's kernel on which node a device is.
    for node in 0..2 {
        let number = 64 * (node + 1);
        line.add("-device", format!("pxb-pcie,id=bus{node},bus_nr={number},numa_node={node},bus=pcie.0"));
    }
    for (number, nic) in (1..).zip(NICS) {
        let Nic { node, cable } = nic;
        line.add("-device", format!("pcie-root-port,id=port{number},bus=bus{node},chassis={number}"));
        line.add("-netdev", format!("hubport,id=end{number},hubid={cable}"));
        line.add(
            "-device",
            format!("virtio-net-pci,netdev=end{number},bus=port{number},romfile=,mac=52:54:00:00:00:{number:02x}"),
        );
    }

    line.add("-blockdev", of_file("file", "node-name=disk", "filename", &files.disk));
    line.add("-device", format!("pcie-root-port,id=port{DISK_PORT},bus=bus{DISK_NODE},chassis={DISK_PORT}"));
    line.add("-device", format!("nvme,drive=disk,serial=rails,bus=port{DISK_PORT}"));

    line.add("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap");
    line.add("-device", "virtio-9p-pci,fsdev=host,mount_tag=host,bus=pcie.0");

    line.add("-chardev", file("console", &files.console)).add("-serial", "chardev:console");
    line.add("-device", "virtio-serial-pci,bus=pcie.0");
    for (port, path) in [("output", Path::new("/dev/fd/1")), ("status", &files.status)] {
        line.add("-chardev", file(port, path))
            .add("-device", format!("virtserialport,chardev={port},name=rails.{port}"));
    }

    line.add("-kernel", files.kernel).add("-initrd", &files.initrd);
    // A panic reboots at once, and a reboot ends the emulator. Mitigations cost time and protect
    // nothing here.
    line.add("-append", "console=ttyS0 quiet panic=-1 mitigations=off");
    line.0
}

#[derive(Debug, Default)]
struct Line(Vec<OsString>);

impl Line {
    fn add(&mut self, option: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.extend([option.into(), value.into()]);
        self
    }
}

/// A character device that writes to a file.
fn file(id: &str, path: &Path) -> OsString {
    of_file("file", &format!("id={id}"), "path", path)
}

/// A device backed by a file. A comma in a value is doubled (qemu(1), "-object").
fn of_file(driver: &str, name: &str, key: &str, path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut value = format!("{driver},{name},{key}=").into_bytes();
    for byte in OsStr::as_bytes(path.as_os_str()) {
        value.extend(std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 }));
    }
    OsString::from_vec(value)
}

/// A NIC's node and cable; its index in [`NICS`], from 1, is the last byte of its hardware address.
#[derive(Debug, Clone, Copy)]
struct Nic {
    node: u32,
    cable: u32,
}

const NICS: [Nic; 4] =
    [Nic { node: 0, cable: 0 }, Nic { node: 1, cable: 1 }, Nic { node: 0, cable: 0 }, Nic { node: 1, cable: 1 }];
/// The node of the disk.
const DISK_NODE: u32 = 1;
/// The root port of the disk, after those of the NICs.
const DISK_PORT: usize = NICS.len() + 1;
/// The distances that two-socket servers commonly state, where 10 is a node to itself (ACPI, SLIT).
const DISTANCE: u32 = 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_processors_memory_and_devices() {
        let files = Files {
            kernel: Path::new("/k"),
            initrd: "/i".into(),
            console: "/a,b/console".into(),
            status: "/status".into(),
            disk: "/a,b/disk".into(),
        };
        let arguments = arguments("guest", Size { cores_per_node: 3, memory_per_node_mib: 512 }, &files);
        let line: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap()).collect();
        let line = line.join(" ");
        for part in [
            "-smp 6,sockets=2,cores=3,threads=1 -m 1024M",
            "-numa node,nodeid=0,cpus=0-2,memdev=memory0",
            "-numa node,nodeid=1,cpus=3-5,memdev=memory1",
            "-chardev file,id=console,path=/a,,b/console",
            "pcie-root-port,id=port4,bus=bus1,chassis=4 -netdev hubport,id=end4,hubid=1",
            "-blockdev file,node-name=disk,filename=/a,,b/disk -device pcie-root-port,id=port5,bus=bus1,chassis=5",
            "virtio-net-pci,netdev=end3,bus=port3,romfile=,mac=52:54:00:00:00:03",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
}
