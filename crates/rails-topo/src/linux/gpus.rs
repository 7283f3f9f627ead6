//! Graphics and computing devices, from the classes of their drivers.

use super::{
    attachment::{Surroundings, entry_path, is_virtual},
    root::Root,
};
use crate::Gpu;
use std::collections::BTreeMap;

/// The devices, each once, also if it has several names.
pub(super) fn gpus(root: &Root, machine: &Surroundings<'_>) -> Vec<Gpu> {
    // The path of a device ends above the name of the class: `.../0000:3b:00.0/drm/card0`.
    let mut devices: BTreeMap<String, String> = BTreeMap::new();
    for (class, prefix) in CLASSES {
        for number in root.numbered(&format!("sys/class/{class}"), prefix) {
            let name = format!("{prefix}{number}");
            let path = entry_path(root, &format!("sys/class/{class}/{name}")).filter(|path| !is_virtual(path));
            if let Some(device) = path.as_deref().and_then(|path| path.strip_suffix(&format!("/{class}/{name}"))) {
                devices.entry(device.to_owned()).or_insert(name);
            }
        }
    }
    let gpu = |(device, name): (String, String)| {
        let attachment = machine.attachment(root, &device);
        let driver = root.link_name(&format!("{device}/driver"));
        Gpu { name, pci: attachment.pci, model: None, driver, node: attachment.node, local_cpus: attachment.local_cpus }
    };
    devices.into_iter().map(gpu).collect()
}

/// The classes, each with how its devices' names begin; a device of several names has the first.
///
/// `card0-DP-1` is a socket for a screen. `accel` is the class of computing devices since Linux
/// 6.2, `ve` that of NEC's vector engines.
const CLASSES: [(&str, &str); 4] = [("drm", "card"), ("drm", "renderD"), ("accel", "accel"), ("ve", "ve")];
