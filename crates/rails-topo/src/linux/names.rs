//! What the machine calls itself.

use super::root::Root;
use crate::Machine;

pub(super) fn machine(root: &Root) -> Machine {
    Machine {
        host: root.text("proc/sys/kernel/hostname"),
        cpu_model: root.text("proc/cpuinfo").as_deref().and_then(cpu_model),
        product: product(|name| root.text(&format!("sys/class/dmi/id/{name}"))),
        kernel: root.text("proc/sys/kernel/osrelease"),
    }
}

/// `model name` on x86, `cpu` on POWER, `Model Name` on LoongArch.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim().eq_ignore_ascii_case(wanted) && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| value("cpu"))
}

/// Vendor and product of the system, or of its board where the system has none.
pub(crate) fn product(field: impl Fn(&str) -> Option<String>) -> Option<String> {
    let named = |vendor, product| {
        let product = field(product)?;
        Some(match field(vendor) {
            Some(vendor) if !product.starts_with(&vendor) => format!("{vendor} {product}"),
            _ => product,
        })
    };
    named("sys_vendor", "product_name").or_else(|| named("board_vendor", "board_name"))
}
