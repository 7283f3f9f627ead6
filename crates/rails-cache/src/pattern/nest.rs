//! Nested loops over boxes: one pattern, and the place in it.

use crate::pattern::{
    prediction::Pattern,
    window::{Edges, Vector, Window},
};
use smallvec::{SmallVec, smallvec};

/// One to four nested loops, the innermost first, of which a single one is a stride.
///
/// Every loop has a step, which is the distance of two of its iterations, and a count, which is
/// known after it has ended once. Nothing says that a program has such loops: the nest grows by one
/// each time that its outermost loop ends and goes on elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Nest {
    /// The extents of the box where no edge cuts it.
    extents: Vector,
    loops: SmallVec<[Loop; MAX_LOOPS]>,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Loop {
    step: Vector,
    /// How many iterations a run of the loop has, if one has ended.
    count: Option<u64>,
    /// How many runs in a row had that count.
    runs: u32,
    /// Where the iteration before the current one began, whichever run had it. The innermost loop
    /// keeps none.
    before: Option<Vector>,
}

/// A place in a nest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Where the current iteration of each loop began. For the innermost loop this is the box that
    /// was read last; for each other loop it is where the loop within began its run. The last entry
    /// is where the outermost loop began.
    at: SmallVec<[Vector; MAX_LOOPS + 1]>,
    /// The current iteration of each loop, from 0.
    index: SmallVec<[u64; MAX_LOOPS]>,
}

impl Nest {
    /// A single loop that began at `first` and is in its iteration `index` now.
    pub(crate) fn line(extents: Vector, first: Vector, step: Vector, index: u64) -> Self {
        let passed = step.iter().map(|step| step.saturating_mul(index.min(i64::MAX as u64) as i64)).collect();
        let at = smallvec![first.plus(&passed), first];
        let loops = smallvec![Loop { step, count: None, runs: 0, before: None }];
        Self { extents, loops, place: Place { at, index: smallvec![index] } }
    }

    /// Two loops of which the inner one has two iterations, at the end of the second run of it.
    pub(crate) fn pairs(extents: Vector, first: Vector, inner: Vector, outer: Vector) -> Self {
        let second = first.plus(&outer);
        let at = smallvec![second.plus(&inner), second, first.clone()];
        let inner = Loop { step: inner, count: Some(2), runs: 2, before: None };
        let outer = Loop { step: outer, count: None, runs: 0, before: Some(first) };
        Self { extents, loops: smallvec![inner, outer], place: Place { at, index: smallvec![1, 1] } }
    }

    pub(crate) fn pattern(&self) -> Pattern {
        match &self.loops[..] {
            [single] if self.adjoining_axis(&single.step).is_some() => Pattern::Sequential,
            [_] => Pattern::Stride,
            _ => Pattern::Nest,
        }
    }

    pub(crate) fn extents(&self) -> &Vector {
        &self.extents
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Where the box that was read last begins; an edge may cut it.
    pub(crate) fn current(&self) -> &Vector {
        &self.place.at[0]
    }

    /// Whether that read is the one that was read last.
    fn shows_current(&self, read: &Window, edges: &Edges) -> bool {
        edges.shows(self.current(), &self.extents, read)
    }

    /// Goes to the next box of the nest. `false` at its end, which is also where the array ends and
    /// no further loop is known.
    pub(crate) fn advance(&self, place: &mut Place, edges: &Edges) -> bool {
        let Some((turned, start)) = self.next(place, edges) else { return false };
        place.turn(turned, start);
        true
    }

    /// Takes the read for the next box, if it is that.
    pub(crate) fn follow(&mut self, read: &Window, edges: &Edges) -> bool {
        let Some((turned, start)) = self.next(&self.place, edges) else { return false };
        let follows = edges.shows(&start, &self.extents, read);
        if follows {
            self.turn(turned, start);
        }
        follows
    }

    /// Takes the read for a box of the nest that is not next, if it is that: a loop ended early or
    /// goes on, the size of adjoining boxes changes, or a few boxes were skipped.
    pub(crate) fn follow_irregular(&mut self, read: &Window, edges: &Edges) -> bool {
        self.follow_turn(read, edges) || self.follow_adjoining(read) || self.follow_skipped(read, edges)
    }

    /// The nest after its outermost loop ended, went on at `wrapped`, and then read `read`; `None`
    /// if the two do not follow each other as two boxes of the innermost loop do.
    pub(crate) fn wrap(&self, wrapped: &Window, read: &Window, edges: &Edges) -> Option<Self> {
        // All boxes that were seen so far may have been cut by the same edge.
        let extents = self.extents.larger(&wrapped.extents).larger(&read.extents);
        // Where an edge cuts the first box of each run, the box begins before the edge.
        let began = &self.place.at[1];
        let uncut = |(start, began): (&i64, &i64)| if *start == 0 { *began.min(start) } else { *start };
        let first: Vector = wrapped.start.iter().zip(began.iter()).map(uncut).collect();
        let second = first.plus(&self.loops[0].step);
        let follows = edges.shows(&first, &extents, wrapped) && edges.shows(&second, &extents, read);
        if !follows || self.is_changed_by(&extents, edges) {
            return None;
        }
        let mut nest = self.clone();
        nest.extents = extents;
        nest.learn(first);
        nest.turn(0, second);
        Some(nest)
    }

    /// The nest without its outermost loop, whose step was a mistake.
    pub(crate) fn without_outermost(&mut self) {
        if self.loops.len() > 1 {
            self.loops.pop();
            self.place.at.pop();
            self.place.index.pop();
            self.loops.last_mut().expect("a nest has a loop").count = None;
        }
    }

    /// The loop that turns next, and where its iteration begins. The innermost loop has the say
    /// until its count is reached, or the array ends.
    fn next(&self, place: &Place, edges: &Edges) -> Option<(usize, Vector)> {
        self.loops.iter().enumerate().find_map(|(number, each)| {
            if self.is_last(place, number) {
                return None;
            }
            let start = place.at[number].plus(&each.step);
            edges.reaches(&start, &self.extents).then_some((number, start))
        })
    }

    /// Whether a loop is in its last iteration, as far as its count is known.
    fn is_last(&self, place: &Place, number: usize) -> bool {
        self.loops[number].count.is_some_and(|count| place.index[number] + 1 >= count)
    }

    /// Goes to the next iteration of a loop, and learns the counts of those within, whose runs
    /// ended.
    fn turn(&mut self, turned: usize, start: Vector) {
        for number in 0..turned {
            let count = Some(self.place.index[number] + 1);
            let each = &mut self.loops[number];
            each.runs = if each.count == count { each.runs.saturating_add(1) } else { 1 };
            each.count = count;
            if number > 0 {
                self.loops[number].before = Some(self.place.at[number].clone());
            }
        }
        if turned > 0 {
            self.loops[turned].before = Some(self.place.at[turned].clone());
        }
        if self.is_last(&self.place, turned) {
            self.loops[turned].count = None;
        }
        self.place.turn(turned, start);
    }

    fn follow_turn(&mut self, read: &Window, edges: &Edges) -> bool {
        let turned = (0..self.loops.len()).find_map(|number| {
            let start = self.place.at[number].plus(&self.loops[number].step);
            // Where a step of zero leads the nest stands already.
            let moves = start != self.place.at[0];
            // A loop that always ended here more likely does again, and goes on by chance where its
            // next iteration would have been.
            let is_steady = self.loops[number].runs >= STEADY_RUNS && self.is_last(&self.place, number);
            (moves && !is_steady && edges.shows(&start, &self.extents, read)).then_some((number, start))
        });
        let Some((turned, start)) = turned else { return false };
        self.turn(turned, start);
        true
    }

    fn follow_adjoining(&mut self, read: &Window) -> bool {
        let Some(axis) = self.adjoining_axis(&self.loops[0].step) else { return false };
        // A box of the same size is no other than the next one of the loop.
        if self.loops[0].step[axis] < 0 || read.extents[axis] == self.extents[axis] {
            return false;
        }
        let adjoins = (0..read.start.len()).all(|each| {
            if each == axis {
                read.start[axis] == self.place.at[0][axis].saturating_add(self.extents[axis])
            } else {
                read.start[each] == self.place.at[0][each] && read.extents[each] == self.extents[each]
            }
        });
        if adjoins {
            self.extents[axis] = read.extents[axis];
            self.loops[0].step[axis] = read.extents[axis];
            self.loops[0].count = None;
            self.place.turn(0, read.start.clone());
        }
        adjoins
    }

    fn follow_skipped(&mut self, read: &Window, edges: &Edges) -> bool {
        let mut skipping = self.clone();
        for _ in 0..=MAX_SKIPPED {
            let Some((turned, start)) = skipping.next(&skipping.place, edges) else { return false };
            // Where a loop has not ended yet, a gap is more likely the place where it does.
            if skipping.loops[turned].count.is_none() {
                return false;
            }
            skipping.turn(turned, start);
            if skipping.shows_current(read, edges) {
                *self = skipping;
                return true;
            }
        }
        false
    }

    /// Learns that a loop goes on at `start`, where none was expected.
    fn learn(&mut self, start: Vector) {
        let mistaken = (1..self.loops.len()).find(|number| self.advances_evenly(*number, &start));
        if let Some(number) = mistaken {
            self.learn_step_again(number, start);
        } else if self.loops.len() < MAX_LOOPS {
            self.learn_loop(start);
        } else {
            // More loops than a nest has: these are others, and only the innermost one is certain.
            self.loops.truncate(1);
            self.place.at.truncate(2);
            self.place.index.truncate(1);
            self.learn_loop(start);
        }
    }

    /// Whether the last two iterations of a loop and one at `start` are equally far from each
    /// other, other than its step says. That is so where the step was learned at an edge that cut
    /// the box, or from a run whose beginning was not seen.
    fn advances_evenly(&self, number: usize, start: &Vector) -> bool {
        let at = &self.place.at[number];
        self.loops[number].before.as_ref().is_some_and(|before| {
            let step = start.minus(at);
            !step.is_zero() && step == at.minus(before)
        })
    }

    fn learn_step_again(&mut self, number: usize, start: Vector) {
        let before = self.loops[number].before.clone().expect("an even advance has an iteration before");
        self.loops.truncate(number + 1);
        self.place.index.truncate(number + 1);
        self.place.at.truncate(number + 1);
        self.place.at.push(before);
        self.loops[number].step = start.minus(&self.place.at[number]);
        self.loops[number].count = None;
        self.place.index[number] = 1;
        self.turn(number, start);
    }

    fn learn_loop(&mut self, start: Vector) {
        let began = self.place.at.last().expect("a nest began somewhere").clone();
        self.loops.push(Loop { step: start.minus(&began), count: None, runs: 0, before: None });
        self.place.index.push(0);
        self.place.at.push(began);
        self.turn(self.loops.len() - 1, start);
    }

    /// Whether larger extents would contradict the read that was read last.
    fn is_changed_by(&self, extents: &Vector, edges: &Edges) -> bool {
        *extents != self.extents && edges.cut(self.current(), extents) != edges.cut(self.current(), &self.extents)
    }

    /// The only axis along which a step goes, if it goes by the box's own extent.
    fn adjoining_axis(&self, step: &Vector) -> Option<usize> {
        let axis = step.iter().position(|step| *step != 0)?;
        let is_only = step.iter().skip(axis + 1).all(|step| *step == 0);
        (is_only && step[axis].unsigned_abs() == self.extents[axis].unsigned_abs()).then_some(axis)
    }
}

impl Place {
    /// Where the box begins.
    pub(crate) fn current(&self) -> &Vector {
        &self.at[0]
    }

    /// Goes to the next iteration of a loop, which begins at `start`, as do the loops within.
    fn turn(&mut self, turned: usize, start: Vector) {
        self.index[turned] += 1;
        for number in 0..turned {
            self.index[number] = 0;
            self.at[number].clone_from(&start);
        }
        self.at[turned] = start;
    }
}

/// As many as there are axes in the thesis' arrays.
pub(crate) const MAX_LOOPS: usize = 4;
/// As many equal runs are no chance. A triangular nest, each of whose runs is longer than the one
/// before, has none.
const STEADY_RUNS: u32 = 2;
const MAX_SKIPPED: usize = 2;
