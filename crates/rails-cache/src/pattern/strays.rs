//! The latest reads that no stream foretold, and the streams that they turn out to be.

use crate::pattern::{
    nest::Nest,
    window::{Edges, Vector, Window},
};
use std::collections::VecDeque;

/// The latest reads that no stream foretold, the latest one last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Strays(VecDeque<Stray>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stray {
    read: Window,
    /// Which of all reads it was.
    number: u64,
}

/// A nest that strays turned out to be.
pub(crate) struct Formed {
    pub(crate) nest: Nest,
    /// Whether the reads came one after another, so that they are evidence enough.
    pub(crate) is_certain: bool,
}

impl Strays {
    pub(crate) fn push(&mut self, read: Window, number: u64) {
        if self.0.len() == MAX_STRAYS {
            self.0.pop_front();
        }
        self.0.push_back(Stray { read, number });
    }

    /// Keeps a read that repeats read number `number`: a loop may go on where another one ended.
    pub(crate) fn push_repeated(&mut self, read: Window, number: u64) {
        if self.0.back().is_none_or(|latest| latest.read != read) {
            self.push(read, number);
        }
    }

    /// The strays that came after a read or repeat it, the latest first.
    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = &Window> {
        self.0.iter().rev().take_while(move |stray| stray.number >= number).map(|stray| &stray.read)
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn forget(&mut self, read: &Window) {
        self.0.retain(|stray| stray.read != *read);
    }

    /// The nest that these reads are together with another one, which is read number `now`, if they
    /// are one. The reads that belong to it are strays no longer.
    pub(crate) fn form(&mut self, read: &Window, now: u64, edges: &Edges) -> Option<Formed> {
        self.form_line(read, now, edges)
            .or_else(|| self.form_adjoining(read, now))
            .or_else(|| self.form_pairs(read, now, edges))
    }

    /// Three boxes at equal distances. Other reads may lie between.
    fn form_line(&mut self, read: &Window, now: u64, edges: &Edges) -> Option<Formed> {
        for middle in (0..self.0.len()).rev() {
            if !self.has_first(middle, read) {
                continue;
            }
            let line = Line::through(&self.0[middle].read, read, edges);
            let Some(line) = line else { continue };
            let mut start = self.0[middle].read.start.minus(&line.step);
            let Some(first) = (0..middle).rev().find(|each| line.shows(&start, &self.0[*each], edges)) else {
                continue;
            };
            let is_certain = self.0[first].number + 2 == now;
            let mut index = 2;
            let mut members = vec![middle, first];
            for earlier in (0..first).rev() {
                let before = start.minus(&line.step);
                if line.shows(&before, &self.0[earlier], edges) {
                    (start, index) = (before, index + 1);
                    members.push(earlier);
                }
            }
            // They are in descending order.
            members.into_iter().for_each(|member| drop(self.0.remove(member)));
            return Some(Formed { nest: Nest::line(line.extents, start, line.step, index), is_certain });
        }
        None
    }

    /// Three boxes one after another, each of which begins where the one before ends. Their sizes
    /// may differ.
    fn form_adjoining(&mut self, read: &Window, now: u64) -> Option<Formed> {
        let [first, second] = self.latest(now)?;
        let axis = adjoining_axis(&second.read, read)?;
        if adjoining_axis(&first.read, &second.read) != Some(axis) {
            return None;
        }
        let mut step = Vector::zero(read.start.len());
        step[axis] = read.extents[axis];
        let first = read.start.minus(&step).minus(&step);
        self.0.truncate(self.0.len() - 2);
        Some(Formed { nest: Nest::line(read.extents.clone(), first, step, 2), is_certain: true })
    }

    /// Four boxes one after another, of which the last two lie to each other as the first two do.
    fn form_pairs(&mut self, read: &Window, now: u64, edges: &Edges) -> Option<Formed> {
        let [first, second, third] = self.latest(now)?;
        let inner = second.read.start.minus(&first.read.start);
        let outer = third.read.start.minus(&first.read.start);
        if inner.is_zero() || outer.is_zero() || read.start.minus(&third.read.start) != inner {
            return None;
        }
        let extents = [&second.read, &third.read, read]
            .iter()
            .fold(first.read.extents.clone(), |extents, each| extents.larger(&each.extents));
        let reads = [&first.read, &second.read, &third.read, read];
        if !reads.iter().all(|each| edges.shows(&each.start, &extents, each)) {
            return None;
        }
        let nest = Nest::pairs(extents, first.read.start.clone(), inner, outer);
        self.0.truncate(self.0.len() - 3);
        Some(Formed { nest, is_certain: true })
    }

    /// Whether a stray before `middle` begins where a line to `read` does, on the first axis alone:
    /// this is soon seen, and mostly not so.
    fn has_first(&self, middle: usize, read: &Window) -> bool {
        let start = self.0[middle].read.start[0].saturating_mul(2).saturating_sub(read.start[0]).max(0);
        self.0.iter().take(middle).any(|stray| stray.read.start[0] == start)
    }

    /// The latest strays, if they were the reads just before `now`.
    fn latest<const N: usize>(&self, now: u64) -> Option<[&Stray; N]> {
        let first = self.0.len().checked_sub(N)?;
        (self.0[first].number + N as u64 == now).then(|| std::array::from_fn(|number| &self.0[first + number]))
    }
}

/// Boxes at equal distances.
struct Line {
    step: Vector,
    extents: Vector,
}

impl Line {
    fn through(one: &Window, next: &Window, edges: &Edges) -> Option<Self> {
        if one.start == next.start {
            return None;
        }
        let extents = one.extents.larger(&next.extents);
        let fits = edges.shows(&one.start, &extents, one) && edges.shows(&next.start, &extents, next);
        fits.then(|| Self { step: next.start.minus(&one.start), extents })
    }

    fn shows(&self, start: &Vector, stray: &Stray, edges: &Edges) -> bool {
        edges.shows(start, &self.extents, &stray.read)
    }
}

/// The axis along which `next` begins where `one` ends, while they agree along all others.
fn adjoining_axis(one: &Window, next: &Window) -> Option<usize> {
    let end = one.start.plus(&one.extents);
    let axis = (0..end.len()).find(|axis| one.start[*axis] != next.start[*axis])?;
    let agree = |each: usize| one.start[each] == next.start[each] && one.extents[each] == next.extents[each];
    (end[axis] == next.start[axis] && (0..end.len()).all(|each| each == axis || agree(each))).then_some(axis)
}

/// Three reads of each of four streams that take turns, less the last one.
const MAX_STRAYS: usize = 11;
