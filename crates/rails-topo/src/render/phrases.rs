//! Facts in a few words, for the tree and for the picture alike.

use crate::{
    Cache, CacheKind, Core, CoreKind, CpuSet, DataSize, Gpu, Hugepages, MemoryPerformance, Nic, NicKind, NumaNode,
    Origin, PciDevice, PciLink, Topology,
};
use std::borrow::Cow;

/// A name that is safe to show. Names come from outside; characters that move a cursor, end a line
/// or turn the direction of writing must not reach a terminal, and most of them not XML (XML 1.0,
/// production 2).
pub(super) fn plain(name: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fffe}' | '\u{ffff}')
    };
    match name.contains(harmful) {
        true => Cow::Owned(name.replace(harmful, "\u{fffd}")),
        false => Cow::Borrowed(name),
    }
}

/// The names of the machine.
pub(super) fn machine(topology: &Topology) -> String {
    let machine = topology.machine();
    let kernel = machine.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
    let known = [machine.host.clone(), machine.product.clone(), machine.cpu_model.clone(), kernel];
    let known: Vec<String> = known.into_iter().flatten().map(|name| plain(&name).into_owned()).collect();
    if known.is_empty() { "of unknown make".to_owned() } else { known.join(", ") }
}

/// The origin of the facts.
pub(super) fn origin(topology: &Topology) -> String {
    let origin = match topology.origin() {
        Origin::ThisMachine { reader } => format!("this machine, read by {reader}"),
        Origin::Xml { path } => format!("hwloc XML {}", path.display()),
        Origin::Capture { path } => format!("capture {}", path.display()),
        Origin::Sysfs { path } => format!("files below {}", path.display()),
        Origin::Synthetic { description } => format!("described as `{description}`"),
    };
    plain(&origin).into_owned()
}

/// CPUs in the kernel's list syntax. Every second one of many is `0-190:1/2` (one out of each two:
/// "CPU lists" in the kernel's `admin-guide/kernel-parameters.rst`). A text that is still too long
/// is cut, with the number of CPUs.
pub(super) fn cpus(set: &CpuSet) -> String {
    if set.is_empty() {
        return "none".to_owned();
    }
    let full = set.to_string();
    if full.len() <= LONGEST_SET {
        return full;
    }
    repeating(set).unwrap_or_else(|| {
        let end = full[..LONGEST_SET / 2].rfind(',').unwrap_or(0);
        format!("{},... ({} CPUs)", &full[..end], set.len())
    })
}

/// `CPUs 0-3`, or `no CPUs`.
pub(super) fn named_cpus(set: &CpuSet) -> String {
    if set.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", cpus(set)) }
}

/// `first-last:used/group`, if the set has that form.
fn repeating(set: &CpuSet) -> Option<String> {
    let (first, last) = (set.first()?.0, set.last()?.0);
    let used = (first..).take_while(|cpu| set.contains(crate::CpuId(*cpu))).count() as u32;
    let next = set.iter().map(|cpu| cpu.0).find(|cpu| *cpu >= first + used)?;
    let group = next - first;
    let is_used = |cpu: &u32| (cpu - first) % group < used;
    let same = (first..=last).all(|cpu| set.contains(crate::CpuId(cpu)) == is_used(&cpu));
    same.then(|| format!("{first}-{last}:{used}/{group}"))
}

pub(super) fn cache(cache: &Cache) -> String {
    let kind = match (cache.level, cache.kind) {
        (_, CacheKind::Data) => "d",
        (_, CacheKind::Instruction) => "i",
        (_, CacheKind::Unified) => "",
    };
    let size = cache.size.map_or("of unknown size".to_owned(), |size| size.to_string());
    format!("L{}{kind} {size}", cache.level)
}

/// The private caches of a core; empty if no size is known.
pub(super) fn private_caches(caches: &[&Cache]) -> String {
    let known = caches.iter().filter(|one| one.size.is_some()).take(MAX_CACHES);
    known.map(|one| cache(one)).collect::<Vec<_>>().join(", ")
}

/// A node's memory, and its other facts.
pub(super) fn memory(node: &NumaNode) -> Vec<String> {
    let size = node.memory.map_or("memory unknown".to_owned(), |memory| memory.to_string());
    let mut facts = vec![size];
    facts.extend(node.tier.map(|tier| format!("tier {tier}")));
    facts.extend(node.hugepages.iter().filter_map(hugepages));
    facts.extend(node.performance.first().and_then(performance));
    facts
}

/// A pool without pages is left out.
fn hugepages(pool: &Hugepages) -> Option<String> {
    let free = pool.free.map_or(String::new(), |free| format!(" ({free} free)"));
    match pool.total {
        Some(0) => None,
        Some(total) => Some(format!("{total} pages of {}{free}", pool.size)),
        None => Some(format!("unknown number of pages of {}", pool.size)),
    }
}

fn performance(seen: &MemoryPerformance) -> Option<String> {
    let reads = seen.read_bandwidth.map(|bandwidth| format!("reads {bandwidth}"));
    let latency = seen.read_latency.map(|ns| format!("latency {ns} ns"));
    let known: Vec<String> = reads.into_iter().chain(latency).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

pub(super) fn core_kind(kind: &CoreKind) -> Vec<String> {
    let mhz = |khz: u64| format!("{:.1} GHz", khz as f64 / 1e6);
    let mut facts = Vec::new();
    facts.extend(kind.efficiency.map(|rank| format!("speed rank {rank}")));
    facts.extend(kind.capacity.map(|capacity| format!("capacity {capacity}")));
    facts.extend(kind.base_frequency.map(|khz| format!("base {}", mhz(khz))));
    facts.extend(kind.max_frequency.map(|khz| format!("up to {}", mhz(khz))));
    facts
}

/// The name of a core's kind, where it has a name or a rank.
pub(super) fn name_of_kind(kind: &CoreKind) -> String {
    match (&kind.name, kind.efficiency) {
        (Some(name), _) => plain(name).into_owned(),
        (None, Some(rank)) => format!("kind {rank}"),
        (None, None) => "kind".to_owned(),
    }
}

/// The state of the interface: up, or the reason why it carries no packets.
pub(super) fn state(nic: &Nic) -> &'static str {
    match (nic.up, nic.carrier) {
        (Some(true), _) => "up",
        (Some(false) | None, Some(false)) => "no carrier",
        (Some(false), _) => "down",
        (None, Some(true)) => "carrier",
        (None, None) => "state unknown",
    }
}

/// The speed of a NIC; an unknown one is stated only for a device whose link is not down.
pub(super) fn speed(nic: &Nic) -> String {
    match (nic.speed, nic.kind) {
        (Some(speed), _) => speed.to_string(),
        (None, NicKind::Device) if nic.up != Some(false) && nic.carrier != Some(false) => "speed unknown".to_owned(),
        (None, _) => String::new(),
    }
}

/// The PCI link of a device, and the link that it could have if that is more.
pub(super) fn link(device: &PciDevice) -> Option<String> {
    let is = match (device.link, device.bandwidth) {
        (Some(link), _) => lanes(link),
        (None, Some(bandwidth)) => bandwidth.to_string(),
        (None, None) => return None,
    };
    let wider = narrowed(device).map_or(String::new(), |most| format!(", could be {}", lanes(most)));
    Some(format!("PCIe {is}{wider}"))
}

/// The fastest possible link of the device, if the present one is slower.
pub(super) fn narrowed(device: &PciDevice) -> Option<PciLink> {
    let (link, most) = (device.link?, device.max_link?);
    (link.bandwidth() < most.bandwidth()).then_some(most)
}

fn lanes(link: PciLink) -> String {
    let speed = f64::from(link.speed) / 1000.0;
    format!("{speed} GT/s x{} ({:.0} Gbit/s)", link.width, link.bandwidth().as_bits_per_second() as f64 / 1e9)
}

/// The facts of a GPU: its model and its driver, or without a driver the kind of its PCI function.
pub(super) fn gpu(topology: &Topology, gpu: &Gpu) -> Vec<String> {
    let mut facts: Vec<String> = Vec::new();
    let function = gpu.pci.and_then(|pci| topology.pci_device(pci)).filter(|_| gpu.is_unnamed());
    facts.extend(function.and_then(display_controller).map(str::to_owned));
    let known = [gpu.model.as_deref(), gpu.driver.as_deref()].into_iter().flatten();
    facts.extend(known.map(|known| plain(known.trim()).into_owned()));
    if function.is_some() && gpu.driver.is_none() {
        // hwloc's files name no drivers.
        let driver = if matches!(topology.origin(), Origin::Xml { .. }) { "driver unknown" } else { "no driver" };
        facts.push(driver.to_owned());
    }
    facts
}

/// The sub-classes of display controllers (PCI Code and ID Assignment Specification, base class
/// 03h).
fn display_controller(device: &PciDevice) -> Option<&'static str> {
    match device.class? >> 8 {
        0x0300 => Some("VGA controller"),
        0x0301 => Some("XGA controller"),
        0x0302 => Some("3D controller"),
        0x0303..=0x03ff => Some("display controller"),
        _ => None,
    }
}

/// A count and a noun, in the plural unless the count is 1.
pub(super) fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// The first cores' number to the last's, where the kernel numbers them in a row.
pub(super) fn cores(cores: &[&Core]) -> String {
    let number = |core: &&Core| core.id.filter(|id| *id <= LARGEST_SHOWN).map(crate::CpuId);
    let numbers: Option<CpuSet> = cores.iter().map(number).collect();
    // The kernel numbers cores within a package: below something that spans packages numbers repeat.
    match (numbers.filter(|numbers| numbers.len() == cores.len()), cores.len()) {
        (Some(numbers), 1) => format!("core {numbers}"),
        (Some(numbers), _) if numbers.to_string().len() <= LONGEST_SET => format!("cores {numbers}"),
        (_, 1) => "a core of unknown number".to_owned(),
        (_, count) => format!("{count} cores"),
    }
}

/// The size of a disk, in words.
pub(super) fn size(size: Option<DataSize>) -> String {
    size.map_or("size unknown".to_owned(), |size| size.to_string())
}

/// The longest set in characters; longer texts break lines.
const LONGEST_SET: usize = 44;
/// A core of a real machine has fewer caches.
const MAX_CACHES: usize = 8;
/// A set's memory and time grow with its largest number, and firmware may number cores as it likes.
const LARGEST_SHOWN: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_sets_are_cut_but_none_is_mistaken_for_another() {
        let text = |set: &str| cpus(&set.parse().unwrap());
        assert_eq!(text("0-7,96-103"), "0-7,96-103");
        let even: CpuSet = (0..96).map(|cpu| crate::CpuId(cpu * 2)).collect();
        assert_eq!(cpus(&even), "0-190:1/2");
        let mut odd = even.clone();
        odd.insert(crate::CpuId(1001));
        assert_eq!(cpus(&odd), "0,2,4,6,8,10,12,14,16,... (97 CPUs)");
        assert_eq!(cpus(&CpuSet::new()), "none");
    }

    #[test]
    fn link_that_could_be_wider_says_so() {
        let link = |speed, width| Some(PciLink { speed, width });
        let mut device = PciDevice::at("0000:3b:00.0".parse().unwrap());
        assert_eq!(super::link(&device), None);
        (device.link, device.max_link) = (link(16_000, 16), link(16_000, 16));
        assert_eq!(super::link(&device).unwrap(), "PCIe 16 GT/s x16 (252 Gbit/s)");
        device.link = link(2_500, 8);
        assert_eq!(super::link(&device).unwrap(), "PCIe 2.5 GT/s x8 (16 Gbit/s), could be 16 GT/s x16 (252 Gbit/s)");
    }

    proptest! {
        #[test]
        fn no_name_moves_the_cursor(name in "\\PC{0,20}|.{0,20}|[\\x00-\\x1f\\x7f-\\x9f]{0,9}") {
            let shown = plain(&name);
            prop_assert_eq!(shown.chars().count(), name.chars().count());
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
