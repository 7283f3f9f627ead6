//! The names of the machine.

use super::root::Root;
use crate::Machine;

pub(super) fn machine(root: &Root) -> Machine {
    Machine {
        host: root.text("proc/sys/kernel/hostname"),
        cpu_model: root.text_up_to("proc/cpuinfo", FIRST_CPUS).as_deref().and_then(cpu_model),
        product: product(|name| DMI.iter().find_map(|folder| root.text(&format!("{folder}/{name}")))),
        kernel: root.text("proc/sys/kernel/osrelease"),
    }
}

/// `model name` on x86, `cpu` on POWER, `Model Name` on LoongArch, `Processor` on older ARM, where
/// others have the numbers of CPUs.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            (name.trim().eq_ignore_ascii_case(wanted) && !value.is_empty()).then_some(value)
        })
    };
    let is_name = |value: &String| value.parse::<u32>().is_err();
    value("model name").or_else(|| value("cpu")).or_else(|| value("processor").filter(is_name))
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

/// The firmware's names; captured trees may hold the folder and not the class's link to it.
const DMI: [&str; 2] = ["sys/class/dmi/id", "sys/devices/virtual/dmi/id"];

/// Enough of `/proc/cpuinfo` for the first CPU: 1.5 KB on x86. The whole takes milliseconds on a
/// machine of many.
const FIRST_CPUS: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_of_a_processor_and_no_number_of_a_cpu() {
        let arm = "Processor\t: ARMv7 Processor rev 1 (v7l)\nprocessor\t: 0\nBogoMIPS\t: 1595.80\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("ARMv7 Processor rev 1 (v7l)"));
        assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }
}
