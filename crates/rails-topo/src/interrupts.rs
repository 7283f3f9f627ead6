//! `/proc/interrupts`: the interrupts, their names, and their counts by CPU.

use crate::{CpuId, sets::LARGEST_PARSED};
use std::str::Lines;

/// The lines of `/proc/interrupts` that stand for numbered interrupts.
///
/// The format is that of `show_interrupts` (kernel/irq/proc.c, Linux 6.12): a head that names the
/// online CPUs, then per interrupt its number, a count for each of them, the chip, the chip's own
/// number, the kind of trigger, and two spaces before the names of the handlers, separated by
/// commas.
///
/// ```
/// use rails_topo::{CpuId, InterruptLines};
///
/// let text = "           CPU0       CPU2\n 29:          7          1   PCI-MSI 67633153-edge      eth0-rx-0\n";
/// let lines = InterruptLines::parse(text);
/// assert_eq!(lines.cpus(), [CpuId(0), CpuId(2)]);
/// let line = lines.last().expect("one interrupt");
/// assert_eq!((line.number, line.name), (29, Some("eth0-rx-0")));
/// assert_eq!(line.counts().collect::<Vec<_>>(), [7, 1]);
/// ```
#[derive(Debug, Clone)]
pub struct InterruptLines<'a> {
    cpus: Vec<CpuId>,
    lines: Lines<'a>,
}

/// One interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterruptLine<'a> {
    /// The interrupt's number.
    pub number: u32,
    /// The name its driver gave it; `None` where no handler is registered.
    pub name: Option<&'a str>,
    counts: &'a str,
}

impl<'a> InterruptLines<'a> {
    /// Reads the head; each line is read on demand. Lines of no interrupt are passed over.
    pub fn parse(text: &'a str) -> Self {
        let mut lines = text.lines();
        let cpus = lines.next().unwrap_or_default().split_whitespace().filter_map(cpu).collect();
        Self { cpus, lines }
    }

    /// The online CPUs, in the order of the counts.
    pub fn cpus(&self) -> &[CpuId] {
        &self.cpus
    }
}

impl<'a> Iterator for InterruptLines<'a> {
    type Item = InterruptLine<'a>;

    fn next(&mut self) -> Option<InterruptLine<'a>> {
        let count = self.cpus.len();
        self.lines.find_map(|line| InterruptLine::parse(line, count))
    }
}

impl<'a> InterruptLine<'a> {
    /// The number of times that each CPU has served the interrupt, since the boot or since the
    /// interrupt was made.
    pub fn counts(&self) -> impl Iterator<Item = u64> + 'a {
        // `parse` has seen that they are numbers.
        self.counts.split_ascii_whitespace().filter_map(|count| count.parse().ok())
    }

    fn parse(line: &'a str, cpus: usize) -> Option<Self> {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let start = rest.trim_start();
        let mut rest = start;
        for _ in 0..cpus {
            let (count, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            count.parse::<u64>().ok()?;
            rest = after.trim_start();
        }
        let counts = &start[..start.len() - rest.len()];
        Some(Self { number, name: handlers(rest), counts })
    }
}

/// The text after the chip and the trigger; `None` without a handler.
fn handlers(rest: &str) -> Option<&str> {
    let (_, last) = rest.trim_end().rsplit_once("  ")?;
    let last = last.trim();
    (!last.is_empty() && !is_trigger(last)).then_some(last)
}

/// A CPU of the head. A number that no set takes from text is none, because a set takes memory by
/// its largest number.
fn cpu(word: &str) -> Option<CpuId> {
    word.strip_prefix("CPU")?.parse().ok().filter(|number| *number <= LARGEST_PARSED).map(CpuId)
}

/// The chip's own number with the kind of trigger (`1-edge`, `16-fasteoi`, `27`), or its level
/// (`Level`, `Edge`).
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
    fn cpu_of_any_number_takes_no_memory() {
        assert_eq!(InterruptLines::parse("  CPU0  CPU4294967294\n").cpus(), [CpuId(0)]);
    }

    #[test]
    fn lines_are_read_as_kernels_write_them() {
        let text = "           CPU0       CPU1       
 16:          3          0   IO-APIC  16-fasteoi   ehci_hcd:usb1, i915
 28:          0          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config
 30:          7          0  IR-PCI-MSI-edge      eth0-TxRx-0
 31:          7          2  IR-PCI-MSI 524288-edge      mlx5_comp0@pci:0000:3b:00.0
 32:          0          0   IO-APIC   9-edge      
 33:          0          0     GICv3  27 Level     arch_timer
 34:          0          0     GICv3  28 Level
NMI:          0          0   Non-maskable interrupts
 35:          0
 36:          x          0   IO-APIC  16-fasteoi   i915
ERR:          0
";
        let lines: Vec<InterruptLine<'_>> = InterruptLines::parse(text).collect();
        let names: Vec<(u32, Option<&str>)> = lines.iter().map(|line| (line.number, line.name)).collect();
        assert_eq!(
            names,
            [
                (16, Some("ehci_hcd:usb1, i915")),
                (28, Some("virtio0-config")),
                (30, Some("eth0-TxRx-0")),
                (31, Some("mlx5_comp0@pci:0000:3b:00.0")),
                (32, None),
                (33, Some("arch_timer")),
                (34, None),
            ]
        );
        assert_eq!(lines[3].counts().collect::<Vec<_>>(), [7, 2]);
    }

    proptest! {
        #[test]
        fn counts_belong_to_the_cpus_of_the_head(
            rows in proptest::collection::vec((0..5000_u32, proptest::collection::vec(0..u64::from(u32::MAX), 3)), 0..9),
        ) {
            let mut text = "   CPU0 CPU7 CPU64\n".to_owned();
            for (number, counts) in &rows {
                text += &format!(" {number}: {} {} {}  PCI-MSI 5-edge   eth0-rx-1\n", counts[0], counts[1], counts[2]);
            }
            let lines = InterruptLines::parse(&text);
            prop_assert_eq!(lines.cpus(), [CpuId(0), CpuId(7), CpuId(64)]);
            let read: Vec<(u32, Vec<u64>)> = lines.map(|line| (line.number, line.counts().collect())).collect();
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn hostile_text_never_panics(text in "([ 0-9A-Z:\\-é,\n]|CPU[0-9]| ){0,200}|.{0,80}") {
            for line in InterruptLines::parse(&text) {
                line.counts().count();
            }
        }
    }
}
