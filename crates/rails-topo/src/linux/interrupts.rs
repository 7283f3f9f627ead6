//! Interrupts of a device: which, named how, served where.

use super::root::Root;
use crate::{CpuSet, Interrupt};
use std::collections::BTreeMap;

/// The names that drivers gave their interrupts, by number, from `/proc/interrupts`.
pub(super) struct InterruptNames(BTreeMap<u32, String>);

impl InterruptNames {
    pub(super) fn read(root: &Root) -> Self {
        Self::parse(&root.text("proc/interrupts").unwrap_or_default())
    }

    /// The format is that of `show_interrupts` (kernel/irq/proc.c, Linux 6.12): a head that names the online CPUs, then
    /// per interrupt its number, a count for each of them, the chip, the chip's own number, the kind of trigger, and
    /// two spaces before the names of the handlers, separated by commas.
    fn parse(text: &str) -> Self {
        let cpus = text.lines().next().unwrap_or_default().split_whitespace().filter(|word| is_cpu(word)).count();
        let named = |line: &str| {
            let (number, rest) = line.split_once(':')?;
            Some((number.trim().parse().ok()?, handlers(rest, cpus)?.to_owned()))
        };
        Self(text.lines().skip(1).filter_map(named).collect())
    }
}

/// The interrupts of the device in `folder` (a PCI function): its MSI vectors, or its one legacy interrupt.
pub(super) fn of_device(root: &Root, folder: &str, names: &InterruptNames) -> Vec<Interrupt> {
    let vectors = root.numbered(&format!("{folder}/msi_irqs"), "");
    let legacy = || root.value::<u32>(&format!("{folder}/irq")).filter(|number| *number > 0);
    let numbers = if vectors.is_empty() { legacy().into_iter().collect() } else { vectors };
    let cpus = |number, name| {
        let file = format!("proc/irq/{number}/{name}");
        root.set(&format!("{file}_list"), &file).filter(|cpus: &CpuSet| !cpus.is_empty())
    };
    let interrupt = |number| Interrupt {
        number,
        name: names.0.get(&number).cloned(),
        affinity: cpus(number, "smp_affinity"),
        effective: cpus(number, "effective_affinity"),
    };
    numbers.into_iter().map(interrupt).collect()
}

/// What follows the counts, the chip and the trigger; nothing where no handler is registered.
fn handlers(line: &str, counts: usize) -> Option<&str> {
    let mut rest = line.trim_start();
    for _ in 0..counts {
        let (count, after) = rest.split_once(char::is_whitespace)?;
        count.parse::<u64>().ok()?;
        rest = after.trim_start();
    }
    let (_, last) = rest.trim_end().rsplit_once("  ")?;
    let last = last.trim();
    (!last.is_empty() && !is_trigger(last)).then_some(last)
}

fn is_cpu(word: &str) -> bool {
    word.strip_prefix("CPU").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The chip's own number with the kind of trigger (`1-edge`, `16-fasteoi`, `27`), or its level (`Level`, `Edge`).
fn is_trigger(word: &str) -> bool {
    let number = word.split_once('-').map_or(word, |(number, _)| number);
    let number = number.strip_suffix("Level").or(number.strip_suffix("Edge")).unwrap_or(number).trim();
    number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_as_kernels_write_them() {
        let text = "           CPU0       CPU1       
 16:          3          0   IO-APIC  16-fasteoi   ehci_hcd:usb1, i915
 28:          0          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config
 30:          7          0  IR-PCI-MSI-edge      eth0-TxRx-0
 31:          7          0  IR-PCI-MSI 524288-edge      mlx5_comp0@pci:0000:3b:00.0
 32:          0          0   IO-APIC   9-edge      
 33:          0          0     GICv3  27 Level     arch_timer
 34:          0          0     GICv3  28 Level
NMI:          0          0   Non-maskable interrupts
ERR:          0
";
        let names = InterruptNames::parse(text).0;
        let names: Vec<(u32, &str)> = names.iter().map(|(number, name)| (*number, name.as_str())).collect();
        assert_eq!(
            names,
            [
                (16, "ehci_hcd:usb1, i915"),
                (28, "virtio0-config"),
                (30, "eth0-TxRx-0"),
                (31, "mlx5_comp0@pci:0000:3b:00.0"),
                (33, "arch_timer"),
            ]
        );
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in "([ 0-9A-Z:\\-é,\n]|CPU[0-9]| ){0,200}|.{0,80}") {
            InterruptNames::parse(&text);
        }
    }
}
