//! A small dataset whose every element says where it is.

use rails_array::{Region, Selection};
use rails_formats::{
    data_type::DataType,
    map_binary::{Layout, Writer},
};
use std::path::Path;

/// Time, level, latitude, longitude.
pub(crate) const SHAPE: [u64; 4] = [16, 6, 91, 135];

/// The value of an element of generation `salt`.
pub(crate) fn value(coordinates: [u64; 4], salt: u32) -> f32 {
    let number = coordinates.iter().zip(SHAPE).fold(0, |number, (at, extent)| number * extent + at);
    number as f32 + salt as f32 * 0.25
}

/// Writes the dataset as one file of MAP-Binary, in the place of an older one.
pub(crate) fn write(path: &Path, salt: u32) {
    let mut writer = Writer::new(Layout::VariableByVariable);
    let axes = ["time", "level", "lat", "lon"].into_iter().zip(SHAPE).map(|(name, extent)| {
        let coordinates: Vec<f64> = (0..extent).map(|at| at as f64 * 0.5).collect();
        writer.dimension(name, "1", &coordinates).unwrap()
    });
    let axes: Vec<usize> = axes.collect();
    let wind = writer.variable("wind", "m/s", DataType::Float32, &axes, None).unwrap();
    let mut file = writer.header().unwrap();
    let [times, levels, rows, columns] = SHAPE;
    for time in 0..times {
        let mut record = Vec::new();
        for level in 0..levels {
            for row in 0..rows {
                record.extend((0..columns).flat_map(|column| value([time, level, row, column], salt).to_ne_bytes()));
            }
        }
        file.extend(writer.record(wind, &record).unwrap());
    }
    let part = path.with_extension("part");
    std::fs::write(&part, file).unwrap();
    std::fs::rename(part, path).unwrap();
}

/// The elements of a selection, as the oracle has them.
pub(crate) fn expected(selection: &Selection, salt: u32) -> Vec<u8> {
    let (bounds, steps) = (selection.bounds(), selection.steps());
    let axis = |axis: usize| (bounds.start()[axis]..bounds.end(axis)).step_by(steps[axis] as usize);
    let mut bytes = Vec::new();
    for time in axis(0) {
        for level in axis(1) {
            for row in axis(2) {
                bytes.extend(axis(3).flat_map(|column| value([time, level, row, column], salt).to_ne_bytes()));
            }
        }
    }
    bytes
}

pub(crate) fn region(start: [u64; 4], extents: [u64; 4]) -> Region {
    Region::new(start, rails_array::Shape::new(extents).unwrap()).unwrap()
}
