//! From a region to the chunks that have it.

use super::{
    array::ArrayManifest,
    codec::Codec,
    section::{PieceSource, Section},
};
use rails_array::{Region, Shape};

/// A chunk, and its part of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece<'a> {
    /// The place of the chunk's bytes.
    pub source: PieceSource<'a>,
    /// The steps from its elements to its bytes.
    pub codecs: &'a [Codec],
    /// The chunk's place in the grid of its section.
    pub index: Vec<u64>,
    /// The chunk, of which a part may lie behind its section.
    pub chunk: Region,
    /// The wanted part of it.
    pub wanted: Region,
}

/// The chunks that have elements of a region, one after the other.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    array: &'a ArrayManifest,
    region: Region,
    sections: std::ops::Range<usize>,
    walk: Option<Walk<'a>>,
}

/// A region that reaches out of its array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the region {region} is not within the array `{name}` of shape {shape}")]
#[non_exhaustive]
pub struct RegionOutside {
    /// The name of the array.
    pub name: String,
    /// The shape of the array.
    pub shape: Shape,
    /// The region.
    pub region: Box<Region>,
}

/// The chunks of one section.
#[derive(Debug, Clone)]
struct Walk<'a> {
    section: &'a Section,
    place: Region,
    wanted: Region,
    grid: Vec<u64>,
    /// The first and the last chunk on each axis, and the next one.
    first: Vec<u64>,
    last: Vec<u64>,
    next: Vec<u64>,
}

impl ArrayManifest {
    /// The chunks that have elements of a region, each with its part of the region, in the order of
    /// the sections and of their grids. The pieces are made one after the other.
    ///
    /// # Errors
    /// [`RegionOutside`], if the array has not all of the region.
    pub fn chunks_of(&self, region: &Region) -> Result<Pieces<'_>, RegionOutside> {
        let description = self.description();
        if !region.is_within(&description.shape) {
            let (name, shape) = (description.name.clone(), description.shape.clone());
            return Err(RegionOutside { name, shape, region: Box::new(region.clone()) });
        }
        Ok(Pieces { array: self, region: region.clone(), sections: self.sections_of(region), walk: None })
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            if let Some(walk) = &mut self.walk {
                let piece = walk.piece();
                if !walk.step() {
                    self.walk = None;
                }
                return Some(piece);
            }
            let number = self.sections.next()?;
            let place = self.array.place(number);
            // Sections without extent have nothing of the region.
            self.walk =
                self.region.intersection(&place).map(|wanted| Walk::new(&self.array.sections()[number], place, wanted));
        }
    }
}

impl<'a> Walk<'a> {
    fn new(section: &'a Section, place: Region, wanted: Region) -> Self {
        let grid = section.grid(place.shape());
        let within = wanted.relative_to(place.start()).expect("an intersection lies in both");
        let chunks = section.chunk_shape.extents().iter().enumerate();
        let first: Vec<u64> = chunks.clone().map(|(axis, chunk)| within.start()[axis] / chunk).collect();
        let last = chunks.map(|(axis, chunk)| (within.end(axis) - 1) / chunk).collect();
        Self { section, place, wanted, grid, next: first.clone(), first, last }
    }

    fn piece(&self) -> Piece<'a> {
        let chunk_shape = &self.section.chunk_shape;
        let axes = self.next.iter().zip(chunk_shape.extents()).zip(self.place.start());
        let start = axes.map(|((index, chunk), origin)| origin + index * chunk);
        let chunk = Region::new(start, chunk_shape.clone()).expect("the ends of chunks fit 64 bits, which was checked");
        Piece {
            source: self.section.source(&self.grid, &self.next),
            codecs: &self.section.codecs,
            index: self.next.clone(),
            wanted: self.wanted.intersection(&chunk).expect("chunks between first and last have wanted elements"),
            chunk,
        }
    }

    /// Goes to the next chunk in C order; `false` behind the last one.
    fn step(&mut self) -> bool {
        for axis in (0..self.next.len()).rev() {
            if self.next[axis] < self.last[axis] {
                self.next[axis] += 1;
                return true;
            }
            self.next[axis] = self.first[axis];
        }
        false
    }
}
