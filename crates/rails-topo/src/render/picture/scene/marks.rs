//! Marks on PUs, NICs and nodes: rails, and the interrupts that a PU serves.

use super::super::{
    Overlay, RailMark,
    block::{Cell, Tone, cut},
};
use crate::{CpuId, Nic, NodeId, Topology, render::phrases::plain};
use std::collections::{BTreeMap, BTreeSet};

/// The marks of a picture.
pub(super) struct Marks<'a> {
    overlay: &'a Overlay,
    /// The letters of NICs whose serving CPUs are known, by the NICs' names.
    letters: BTreeMap<String, String>,
    /// The interrupts served on each PU.
    served: BTreeMap<CpuId, Vec<Served>>,
}

/// Interrupts of one NIC on one PU.
struct Served {
    nic: String,
    letter: String,
    count: usize,
    /// The rail of one of these interrupts.
    rail: Option<usize>,
}

impl<'a> Marks<'a> {
    pub(super) fn of(topology: &Topology, overlay: &'a Overlay) -> Self {
        let mut marks = Self { overlay, letters: BTreeMap::new(), served: BTreeMap::new() };
        topology.nics().iter().for_each(|nic| marks.add_interrupts(nic));
        marks
    }

    fn add_interrupts(&mut self, nic: &Nic) {
        let mut counts: BTreeMap<CpuId, (usize, Option<usize>)> = BTreeMap::new();
        for interrupt in &nic.interrupts {
            let Some(cpus) = interrupt.effective.as_ref().filter(|cpus| cpus.len() <= MAX_CPUS) else { continue };
            let owner = self.rails(|rail| rail.interrupts.contains(&interrupt.number)).first().copied();
            for cpu in cpus.iter() {
                let (count, rail) = counts.entry(cpu).or_default();
                *count += 1;
                *rail = rail.or(owner);
            }
        }
        if counts.is_empty() {
            return;
        }
        let next = letter(self.letters.len());
        let letter = self.letters.entry(nic.name.clone()).or_insert(next).clone();
        for (cpu, (count, rail)) in counts {
            self.served.entry(cpu).or_default().push(Served {
                nic: nic.name.clone(),
                letter: letter.clone(),
                count,
                rail,
            });
        }
    }

    /// The letter of a NIC's interrupts.
    pub(super) fn letter(&self, nic: &Nic) -> Option<&str> {
        self.letters.get(&nic.name).map(String::as_str)
    }

    /// Whether any PU is marked with an interrupt.
    pub(super) fn has_letters(&self) -> bool {
        !self.letters.is_empty()
    }

    pub(super) fn rails_of_cpu(&self, cpu: CpuId) -> Vec<usize> {
        self.rails(|rail| rail.cpus.contains(cpu))
    }

    pub(super) fn rails_of_nic(&self, nic: &str) -> Vec<usize> {
        self.rails(|rail| rail.nic.as_deref() == Some(nic))
    }

    pub(super) fn rails_of_node(&self, node: NodeId) -> Vec<usize> {
        self.rails(|rail| rail.node == Some(node))
    }

    fn rails(&self, is_one: impl Fn(&RailMark) -> bool) -> Vec<usize> {
        (0..).zip(&self.overlay.rails).filter(|(_, rail)| is_one(rail)).map(|(index, _)| index).collect()
    }

    fn name(&self, rail: usize) -> String {
        cut(&plain(&self.overlay.rails[rail].name), LONGEST_NAME)
    }

    /// The names of rails, each in a frame: the first ones, and the number of the rest.
    pub(super) fn frames(&self, rails: &[usize], most: usize) -> Vec<Cell> {
        let shown = if rails.len() <= most { most } else { most.saturating_sub(1) };
        let mut cells: Vec<Cell> =
            rails.iter().take(shown).map(|rail| Cell::new(&self.name(*rail), Tone::Rail(*rail))).collect();
        if rails.len() > shown {
            cells.push(Cell::new(&format!("+{}", rails.len() - shown), Tone::Bold));
        }
        cells
    }

    /// The letters of the interrupts that a PU serves, with their number if there are several, in
    /// at most that many columns; those of rails come first, in their colour.
    pub(super) fn letters_of(&self, cpu: CpuId, columns: usize) -> Vec<Cell> {
        let served = self.served.get(&cpu).map_or(&[][..], Vec::as_slice);
        let (of_rails, others): (Vec<&Served>, Vec<&Served>) = served.iter().partition(|served| served.rail.is_some());
        let mut cells = Vec::new();
        let mut left = columns;
        let mut missing = 0;
        for served in of_rails.into_iter().chain(others) {
            let text = served.text();
            let (width, tone) = match served.rail {
                Some(rail) => (text.len() + 2, Tone::Rail(rail)),
                None => (text.len() + 1, Tone::Dim),
            };
            match left.checked_sub(width) {
                Some(rest) if missing == 0 => {
                    left = rest;
                    cells.push(Cell::new(&text, tone));
                }
                _ => missing += 1,
            }
        }
        if missing > 0 {
            cells.push(Cell::new(&format!("+{missing}"), Tone::Dim));
        }
        cells
    }

    /// The interrupts that a PU serves, in words.
    pub(super) fn interrupts_in_words(&self, cpu: CpuId) -> Option<String> {
        let served = self.served.get(&cpu)?;
        let words = served.iter().map(|served| format!("{} of {}", served.count, plain(&served.nic)));
        Some(format!("interrupts served here: {}", words.collect::<Vec<_>>().join(", ")))
    }

    /// The names of some rails, for a hint.
    pub(super) fn names(&self, rails: &[usize]) -> String {
        rails.iter().map(|rail| self.name(*rail)).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn has_rails_on_cpus(&self) -> bool {
        self.overlay.rails.iter().any(|rail| !rail.cpus.is_empty())
    }

    /// The letters that are in use, with the names of their NICs.
    pub(super) fn letters(&self) -> Vec<(&str, &str)> {
        let mut letters: Vec<(&str, &str)> =
            self.letters.iter().map(|(nic, letter)| (letter.as_str(), nic.as_str())).collect();
        letters.sort_by_key(|(letter, _)| (letter.len(), *letter));
        letters
    }

    /// Every interface that a rail or a letter belongs to.
    pub(super) fn nics(&self) -> BTreeSet<&str> {
        self.letters
            .keys()
            .chain(self.overlay.rails.iter().filter_map(|rail| rail.nic.as_ref()))
            .map(String::as_str)
            .collect()
    }
}

impl Served {
    fn text(&self) -> String {
        if self.count == 1 { self.letter.clone() } else { format!("{}{}", self.letter, self.count) }
    }
}

/// `a` to `z`, `aa`, `ab` and so on.
fn letter(index: usize) -> String {
    let last = char::from(b'a' + (index % 26) as u8);
    match index / 26 {
        0 => last.to_string(),
        more => format!("{}{last}", letter(more - 1)),
    }
}

/// An interrupt that more CPUs than these may serve gets no mark.
const MAX_CPUS: usize = 8;
/// The longest name in columns.
const LONGEST_NAME: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_go_on_after_the_alphabet() {
        assert_eq!([0, 25, 26, 27, 701, 702].map(letter), ["a", "z", "aa", "ab", "zz", "aaa"]);
    }
}
