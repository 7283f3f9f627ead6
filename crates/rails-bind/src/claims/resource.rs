//! The resources that can be claimed, one by one and as a set.

use crate::settings::InterfaceName;
use rails_topo::{CpuId, CpuSet, Id, IdSet};
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// A resource that one process at a time can have for itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Resource {
    /// A CPU; numbers below 8,192, the maximum of Linux (`CONFIG_NR_CPUS`).
    Cpu(CpuId),
    /// An interrupt by its number in `/proc/interrupts`, below 65,536.
    Interrupt(u32),
    /// A receive queue of a NIC.
    Queue {
        /// The interface.
        interface: InterfaceName,
        /// The queue's index, below 4,096, the maximum of Linux for an interface
        /// (`rtnl_create_link`).
        index: u32,
    },
}

/// The number of an interrupt or of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u32);

/// Numbers of interrupts or of queues, written as `0-3,8`.
pub type Numbers = IdSet<Number>;

/// A set of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resources {
    /// The CPUs.
    cpus: CpuSet,
    /// The numbers of the interrupts.
    interrupts: Numbers,
    /// The indices of the receive queues of each interface.
    queues: BTreeMap<InterfaceName, Numbers>,
}

/// The resources of one kind, which share a file. The order is the order in which claims are made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Cpus,
    Interrupts,
    Queues(InterfaceName),
}

/// A file of claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClaimFile {
    pub(super) kind: Kind,
    /// Whether the file has the claims by which root overrides those of other users. Only a file
    /// that root owns counts.
    pub(super) overrides: bool,
}

/// Numbers without a gap: `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Resource {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Cpu(_) => Kind::Cpus,
            Self::Interrupt(_) => Kind::Interrupts,
            Self::Queue { interface, .. } => Kind::Queues(interface.clone()),
        }
    }

    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Cpu(cpu) => cpu.0,
            Self::Interrupt(number) => *number,
            Self::Queue { index, .. } => *index,
        }
    }
}

impl Resources {
    /// The CPUs.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// The numbers of the interrupts.
    pub fn interrupts(&self) -> &Numbers {
        &self.interrupts
    }

    /// The indices of the receive queues of each interface.
    pub fn queues(&self) -> &BTreeMap<InterfaceName, Numbers> {
        &self.queues
    }

    /// Whether the resource is in the set.
    pub fn contains(&self, resource: &Resource) -> bool {
        match resource {
            Resource::Cpu(cpu) => self.cpus.contains(*cpu),
            Resource::Interrupt(number) => self.interrupts.contains(Number(*number)),
            Resource::Queue { interface, index } => {
                self.queues.get(interface).is_some_and(|queues| queues.contains(Number(*index)))
            }
        }
    }

    /// Whether the set has no resources.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.interrupts.is_empty() && self.queues.is_empty()
    }

    /// The resources one after the other: CPUs, interrupts, queues, each in rising order.
    pub fn iter(&self) -> impl Iterator<Item = Resource> + '_ {
        let queues = self.queues.iter().flat_map(|(interface, indices)| {
            indices.iter().map(|index| Resource::Queue { interface: interface.clone(), index: index.0 })
        });
        self.cpus
            .iter()
            .map(Resource::Cpu)
            .chain(self.interrupts.iter().map(|n| Resource::Interrupt(n.0)))
            .chain(queues)
    }

    /// The numbers of each kind, in the order in which claims are made.
    pub(super) fn by_kind(&self) -> Vec<(Kind, Numbers)> {
        let cpus = (Kind::Cpus, Numbers::from_words(self.cpus.as_words()));
        let interrupts = (Kind::Interrupts, self.interrupts.clone());
        let queues = self.queues.iter().map(|(interface, indices)| (Kind::Queues(interface.clone()), indices.clone()));
        [cpus, interrupts].into_iter().chain(queues).filter(|(_, numbers)| !numbers.is_empty()).collect()
    }

    pub(super) fn insert(&mut self, resource: Resource) {
        match resource {
            Resource::Cpu(cpu) => self.cpus.insert(cpu),
            Resource::Interrupt(number) => self.interrupts.insert(Number(number)),
            Resource::Queue { interface, index } => self.queues.entry(interface).or_default().insert(Number(index)),
        }
    }

    pub(super) fn insert_span(&mut self, kind: &Kind, span: Span) {
        let numbers = span.first..=span.last;
        match kind {
            Kind::Cpus => self.cpus.extend(numbers.map(CpuId)),
            Kind::Interrupts => self.interrupts.extend(numbers.map(Number)),
            Kind::Queues(interface) => self.queues.entry(interface.clone()).or_default().extend(numbers.map(Number)),
        }
    }

    pub(super) fn insert_all(&mut self, other: &Self) {
        self.cpus = self.cpus.union(&other.cpus);
        self.interrupts = self.interrupts.union(&other.interrupts);
        for (interface, indices) in &other.queues {
            let all = self.queues.entry(interface.clone()).or_default();
            *all = all.union(indices);
        }
    }
}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut set = Self::default();
        resources.into_iter().for_each(|resource| set.insert(resource));
        set
    }
}

impl From<CpuSet> for Resources {
    fn from(cpus: CpuSet) -> Self {
        Self { cpus, ..Self::default() }
    }
}

impl ClaimFile {
    /// The file of claims of this name; `None` for any other name.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let (name, overrides) = name.strip_prefix(OVERRIDES).map_or((name, false), |name| (name, true));
        let kind = match name {
            CPUS => Kind::Cpus,
            INTERRUPTS => Kind::Interrupts,
            _ => Kind::Queues(name.strip_prefix(QUEUES)?.parse().ok()?),
        };
        Some(Self { kind, overrides })
    }

    pub(super) fn file_name(&self) -> String {
        let before = if self.overrides { OVERRIDES } else { "" };
        match &self.kind {
            Kind::Cpus => format!("{before}{CPUS}"),
            Kind::Interrupts => format!("{before}{INTERRUPTS}"),
            Kind::Queues(interface) => format!("{before}{QUEUES}{interface}"),
        }
    }
}

impl Kind {
    /// The file of all claims but those that override others.
    pub(super) fn claim_file(&self) -> ClaimFile {
        ClaimFile { kind: self.clone(), overrides: false }
    }

    /// The file of root's claims that override others.
    pub(super) fn overrides(&self) -> ClaimFile {
        ClaimFile { kind: self.clone(), overrides: true }
    }

    pub(super) fn resource(&self, number: u32) -> Resource {
        match self {
            Self::Cpus => Resource::Cpu(CpuId(number)),
            Self::Interrupts => Resource::Interrupt(number),
            Self::Queues(interface) => Resource::Queue { interface: interface.clone(), index: number },
        }
    }

    /// The highest number that can be claimed. The limit bounds the work and the memory for a file
    /// that a user has locked from end to end.
    pub(super) fn highest(&self) -> u32 {
        match self {
            Self::Cpus => 8192 - 1,
            // A guess with room: Linux gives the lowest free number to an interrupt, and large machines have some
            // 10,000.
            Self::Interrupts => 65_536 - 1,
            Self::Queues(_) => 4096 - 1,
        }
    }

    /// All numbers that can be claimed.
    pub(super) fn whole(&self) -> Span {
        Span { first: 0, last: self.highest() }
    }
}

/// The runs of numbers without a gap, in rising order.
pub(super) fn spans(numbers: &Numbers) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for Number(number) in numbers.iter() {
        match spans.last_mut() {
            Some(span) if span.last + 1 == number => span.last = number,
            _ => spans.push(Span { first: number, last: number }),
        }
    }
    spans
}

impl Id for Number {
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::Interrupt(number) => write!(f, "interrupt {number}"),
            Self::Queue { interface, index } => write!(f, "rx queue {index} of {interface}"),
        }
    }
}

/// `CPUs 0-3, interrupt 24, rx queues 0-1 of eth0`; `nothing` if it is empty.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let plural = |count| if count == 1 { "" } else { "s" };
        if !self.cpus.is_empty() {
            parts.push(format!("CPU{} {}", plural(self.cpus.len()), self.cpus));
        }
        if !self.interrupts.is_empty() {
            parts.push(format!("interrupt{} {}", plural(self.interrupts.len()), self.interrupts));
        }
        for (interface, indices) in &self.queues {
            parts.push(format!("rx queue{} {indices} of {interface}", plural(indices.len())));
        }
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

const CPUS: &str = "cpus";
const INTERRUPTS: &str = "interrupts";
const QUEUES: &str = "queues.";
const OVERRIDES: &str = "root.";

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(interface: &str, index: u32) -> Resource {
        Resource::Queue { interface: interface.parse().expect("a name"), index }
    }

    #[test]
    fn shown_in_ranges() {
        let cpus = (0..4).map(|cpu| Resource::Cpu(CpuId(cpu)));
        let all: Resources =
            cpus.chain([Resource::Interrupt(24), queue("eth1", 3), queue("eth0", 1), queue("eth0", 0)]).collect();
        assert_eq!(all.to_string(), "CPUs 0-3, interrupt 24, rx queues 0-1 of eth0, rx queue 3 of eth1");
        assert_eq!(Resources::default().to_string(), "nothing");
        assert_eq!(queue("eth0", 7).to_string(), "rx queue 7 of eth0");
        assert_eq!(all.iter().collect::<Resources>(), all);
        assert!(all.iter().all(|resource| all.contains(&resource)));
        assert!(!all.contains(&queue("eth2", 0)) && !all.contains(&queue("eth0", 2)));
        let json = serde_json::to_value(&all).expect("it has no map whose keys are not strings");
        assert_eq!(
            json,
            serde_json::json!({
                "cpus": "0-3", "interrupts": "24", "queues": { "eth0": "0-1", "eth1": "3" }
            })
        );
    }

    #[test]
    fn spans_of_numbers() {
        let of = |list: &str| {
            let spans = spans(&list.parse().expect("a list"));
            spans.into_iter().map(|span| (span.first, span.last)).collect::<Vec<_>>()
        };
        assert_eq!(of("0,2-4,63-64,70"), [(0, 0), (2, 4), (63, 64), (70, 70)]);
        assert_eq!(of(""), []);
    }

    #[test]
    fn names_of_files_and_back() {
        for resource in [Resource::Cpu(CpuId(1)), Resource::Interrupt(1), queue("eth0.7", 1)] {
            for claim_file in [resource.kind().claim_file(), resource.kind().overrides()] {
                assert_eq!(ClaimFile::of_file(&claim_file.file_name()), Some(claim_file));
            }
        }
        for name in ["", "cpu", "queues", "queues.", "queues.a/b", "queues.a-name-too-long-", "root.", ".new.1.0"] {
            assert_eq!(ClaimFile::of_file(name), None, "{name}");
        }
    }
}
