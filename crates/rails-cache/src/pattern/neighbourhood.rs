//! Boxes around a moving point of interest, as of a user who looks at a map.

use crate::pattern::window::{Edges, Vector, Window};
use rails_array::Region;

/// Whether the latest reads moved around in a neighbourhood, and which way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Neighbourhood {
    /// How many reads in a row overlapped or touched the one before.
    touches: u32,
    /// How many of them no stream foretold. While streams do, there is no need of rings.
    turns: u32,
    /// How many reads in a row streams foretold.
    foretold: u32,
    /// The movement of late, on each axis in parts of [`WHOLE`] of the box.
    movement: Vector,
    /// The movement without its direction, so that one to and fro counts.
    activity: Vector,
}

impl Neighbourhood {
    pub(crate) fn new(rank: usize) -> Self {
        Self { touches: 0, turns: 0, foretold: 0, movement: Vector::zero(rank), activity: Vector::zero(rank) }
    }

    /// Takes the next read, and the one before. `foretold` says whether a stream expected it.
    pub(crate) fn observe(&mut self, last: Option<&Window>, read: &Window, foretold: bool) {
        if let Some(last) = last.filter(|last| touch(last, read)) {
            self.touches = self.touches.saturating_add(1);
            self.turns = self.turns.saturating_add(u32::from(!foretold));
            self.take_movement(last, read);
        } else if self.touches > 0 {
            self.touches = 0;
            self.turns = 0;
            self.movement.fill(0);
            self.activity.fill(0);
        }
        self.foretold = if foretold { self.foretold.saturating_add(1) } else { 0 };
        if self.foretold >= FORETOLD_THAT_END {
            self.turns = 0;
        }
    }

    /// Whether neighbours may be foretold.
    pub(crate) fn is_live(&self) -> bool {
        self.touches >= MIN_TOUCHES && self.turns >= MIN_TURNS
    }

    /// The boxes around the latest one: its ring of neighbours, and then the ring around that. In a
    /// ring, those in the direction of movement come first. An axis along which nothing moved has
    /// no neighbours.
    pub(crate) fn rings(&self, last: &Window, edges: &Edges) -> Vec<Region> {
        let mut axes: Vec<usize> = (0..self.activity.len()).filter(|axis| self.activity[*axis] != 0).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(self.activity[*axis]));
        axes.truncate(MAX_AXES);
        let mut offsets = offsets(axes.len());
        offsets.sort_by_key(|offset| {
            let ring = offset.iter().map(|step| step.abs()).max();
            (ring, std::cmp::Reverse(self.weight(&axes, offset)))
        });
        let moved = |offset: &Vec<i64>| {
            let mut start = last.start.clone();
            for (axis, step) in axes.iter().zip(offset) {
                start[*axis] = start[*axis].saturating_add(step.saturating_mul(last.extents[*axis]));
            }
            edges.cut(&start, &last.extents)
        };
        offsets.iter().filter_map(moved).collect()
    }

    /// How far an offset leads in the direction of movement, for its own length.
    fn weight(&self, axes: &[usize], offset: &[i64]) -> i64 {
        let along: i64 = axes.iter().zip(offset).map(|(axis, step)| self.movement[*axis] * step).sum();
        let length: i64 = offset.iter().map(|step| step * step).sum();
        // Twice as precise as the smallest movement, for whole numbers stand for a root.
        along * WHOLE / ((length * WHOLE * WHOLE).isqrt()).max(1)
    }

    /// The movement counts for half as much with each further read.
    fn take_movement(&mut self, last: &Window, read: &Window) {
        for axis in 0..read.start.len() {
            let step = read.start[axis] - last.start[axis];
            // Most axes do not move, and a division is slow.
            let parts = if step == 0 { 0 } else { step.saturating_mul(WHOLE) / read.extents[axis] };
            let parts = parts.clamp(-WHOLE * MAX_MOVEMENT, WHOLE * MAX_MOVEMENT);
            self.movement[axis] = self.movement[axis] / 2 + parts;
            self.activity[axis] = self.activity[axis] / 2 + parts.abs();
        }
    }
}

/// Whether two boxes have an element in common, or a face, an edge or a corner.
fn touch(one: &Window, other: &Window) -> bool {
    (0..one.start.len()).all(|axis| {
        one.start[axis] <= other.start[axis] + other.extents[axis]
            && other.start[axis] <= one.start[axis] + one.extents[axis]
    })
}

/// Every offset of at most [`RINGS`] on each of the axes but zero.
fn offsets(axes: usize) -> Vec<Vec<i64>> {
    let mut offsets = vec![Vec::new()];
    for _ in 0..axes {
        let longer =
            |offset: &Vec<i64>| (-RINGS..=RINGS).map(|step| [&offset[..], &[step]].concat()).collect::<Vec<_>>();
        offsets = offsets.iter().flat_map(longer).collect();
    }
    offsets.retain(|offset| offset.iter().any(|step| *step != 0));
    offsets
}

/// Boxes that lie anywhere touch now and then; so many in a row do not.
const MIN_TOUCHES: u32 = 4;
const MIN_TURNS: u32 = 2;
const FORETOLD_THAT_END: u32 = 4;
const RINGS: i64 = 2;
/// A view moves on the two axes of a picture, and from one picture to the next.
const MAX_AXES: usize = 3;
const WHOLE: i64 = 1 << 10;
const MAX_MOVEMENT: i64 = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use rails_array::Shape;

    /// A map of 100 pictures of 1000 x 1000, of which views of 10 x 10 are read.
    fn walk(places: &[(u64, u64)]) -> (Neighbourhood, Vec<Region>) {
        let edges = Edges::new(&Shape::new([100, 1000, 1000]).unwrap());
        let mut neighbourhood = Neighbourhood::new(3);
        let mut last = None;
        for place in places {
            let read = edges.window(&view(*place)).unwrap();
            neighbourhood.observe(last.as_ref(), &read, false);
            last = Some(read);
        }
        let rings = neighbourhood.rings(&last.unwrap(), &edges);
        (neighbourhood, rings)
    }

    fn view((y, x): (u64, u64)) -> Region {
        Region::new([7, y, x], Shape::new([1, 10, 10]).unwrap()).unwrap()
    }

    #[test]
    fn the_direction_of_movement_comes_first() {
        let (neighbourhood, rings) = walk(&[(500, 500), (502, 507), (505, 512), (505, 519), (507, 526)]);
        assert!(neighbourhood.is_live());
        assert_eq!(rings[0], view((507, 536)));
        assert_eq!(rings[1], view((517, 536)));
        let behind = rings.iter().position(|region| *region == view((507, 516))).unwrap();
        assert!(behind >= 5, "{rings:?}");
        // Two axes moved: 8 neighbours, and 16 around them.
        assert_eq!(rings.len(), 24);
        assert!(rings[..8].iter().all(|region| region.start()[1].abs_diff(507) <= 10));
    }

    #[test]
    fn rings_end_at_the_edge() {
        let (_, rings) = walk(&[(3, 3), (1, 4), (2, 1), (0, 2), (1, 0)]);
        assert!(rings.contains(&Region::new([7, 0, 0], Shape::new([1, 1, 10]).unwrap()).unwrap()));
        assert_eq!(rings.len(), 11);
    }

    #[test]
    fn four_touches_make_a_neighbourhood() {
        let places = [(500, 500), (502, 507), (505, 512), (505, 519), (507, 526)];
        assert!(!walk(&places[..4]).0.is_live());
        assert!(walk(&places).0.is_live());
    }

    #[test]
    fn a_leap_ends_a_neighbourhood() {
        let (neighbourhood, _) = walk(&[(0, 0), (2, 7), (5, 12), (5, 19), (7, 26), (7, 37)]);
        assert!(!neighbourhood.is_live());
    }

    #[test]
    fn boxes_touch_at_corners() {
        let edges = Edges::new(&Shape::new([100, 1000, 1000]).unwrap());
        let window = |place| edges.window(&view(place)).unwrap();
        assert!(touch(&window((20, 20)), &window((30, 30))));
        assert!(touch(&window((20, 20)), &window((10, 10))));
        assert!(!touch(&window((20, 20)), &window((31, 30))));
    }
}
