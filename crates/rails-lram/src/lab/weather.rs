//! The measured array: a field that compresses as weather does, and can be computed again.

use rails_formats::data_type::DataType;
use serde::{Deserialize, Serialize};
use std::{array, f32::consts::TAU, ops::Range};

/// The type of an element.
pub(crate) const DTYPE: DataType = DataType::Float32;
/// Steps of time, levels, rows of latitude, columns of longitude: 1.8 GB.
pub(crate) const SHAPE: [u64; 4] = [STEPS as u64, LEVELS as u64, ROWS as u64, COLUMNS as u64];
pub(crate) const STEPS: usize = 64;
pub(crate) const LEVELS: usize = 36;
pub(crate) const ROWS: usize = 361;
pub(crate) const COLUMNS: usize = 540;
/// The two levels between which the wind shears.
pub(crate) const SHEAR_LEVELS: [usize; 2] = [10, 30];

/// The elements of an array, each a function of the seed and of its place.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    seed: u64,
    waves: [f32; COLUMNS],
}

/// The rows and columns that are read of each plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// The rows.
    pub(crate) rows: Range<usize>,
    /// The columns.
    pub(crate) columns: Range<usize>,
}

/// A sum over elements that depends on the row, level and step of each. Addition wraps, so that it
/// may be formed in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digest(u64);

impl Weather {
    /// The weather of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, waves: array::from_fn(|column| (column as f32 / COLUMNS as f32 * TAU * 3.0).sin()) }
    }

    /// The elements of a row.
    pub(crate) fn row(&self, step: usize, level: usize, row: usize) -> [f32; COLUMNS] {
        let place = ((step * LEVELS + level) * ROWS + row) as u64;
        let mut state = mix(self.seed ^ mix(place.wrapping_add(1)));
        let latitude = (row as f32 / ROWS as f32 - 0.5) * TAU / 2.0;
        let (mean, swing) = (step as f32 * 0.25 + level as f32 * 0.5, 12.0 * latitude.cos());
        array::from_fn(|column| {
            // Xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let noise = (state >> 48) as f32 / 65536.0 - 0.5;
            ((mean + swing * self.waves[column] + noise * NOISE) * 100.0).round() / 100.0
        })
    }

    /// A plane in C order.
    pub(crate) fn plane(&self, step: usize, level: usize) -> Vec<f32> {
        (0..ROWS).flat_map(|row| self.row(step, level, row)).collect()
    }

    /// The digest of these levels of these steps of a window.
    pub(crate) fn digest(&self, window: &Window, steps: &[usize], levels: &[usize]) -> Digest {
        let mut digest = Digest::default();
        for (count, step) in steps.iter().enumerate() {
            for (number, level) in levels.iter().enumerate() {
                for (place, row) in window.rows.clone().enumerate() {
                    digest.add_row(count, number, place, &self.row(*step, *level, row)[window.columns.clone()]);
                }
            }
        }
        digest
    }
}

impl Window {
    /// All of a plane.
    pub(crate) fn globe() -> Self {
        Self { rows: 0..ROWS, columns: 0..COLUMNS }
    }

    /// A column of air: every row and column of a place.
    pub(crate) fn column() -> Self {
        Self { rows: 160..198, columns: 240..290 }
    }

    /// The Atlantic basin.
    pub(crate) fn basin() -> Self {
        Self { rows: 200..300, columns: 150..300 }
    }

    /// The size of a plane's part in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() * self.columns.len() * size_of::<f32>()
    }
}

impl Digest {
    /// Adds a window of a plane, the `number`-th of a step.
    pub(crate) fn add(&mut self, step: usize, number: usize, columns: usize, elements: &[f32]) {
        for (place, row) in elements.chunks_exact(columns).enumerate() {
            self.add_row(step, number, place, row);
        }
    }

    fn add_row(&mut self, step: usize, number: usize, place: usize, row: &[f32]) {
        let weight = 1 + place + number * 1000 + step * 10_000;
        let sum: u64 = row.iter().map(|element| u64::from(element.to_bits())).sum();
        self.0 = self.0.wrapping_add(sum.wrapping_mul(weight as u64));
    }

    /// The number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// The finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The range of the noise, with which Zstandard makes 1.6 bytes one.
const NOISE: f32 = 32.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weather_is_a_function_of_its_seed_and_place() {
        let weather = Weather::new(7);
        assert_eq!(weather.row(3, 10, 5), Weather::new(7).row(3, 10, 5));
        assert_ne!(weather.row(3, 10, 5), weather.row(4, 10, 5));
        assert_ne!(weather.row(3, 10, 5), Weather::new(8).row(3, 10, 5));
        assert_eq!(weather.plane(1, 2)[COLUMNS..2 * COLUMNS], weather.row(1, 2, 1));
    }

    #[test]
    fn zstandard_makes_weather_smaller_by_1_6() {
        let bytes: Vec<u8> = Weather::new(7).plane(9, 30).iter().flat_map(|element| element.to_le_bytes()).collect();
        let packed = zstd::bulk::compress(&bytes, 3).unwrap();
        let ratio = bytes.len() as f64 / packed.len() as f64;
        assert!((1.5..1.7).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_digest_depends_on_values_rows_and_steps() {
        let weather = Weather::new(7);
        let window = Window { rows: 2..4, columns: 5..9 };
        let digest = |steps: &[usize], levels: &[usize]| weather.digest(&window, steps, levels);
        let whole = digest(&[0, 1], &SHEAR_LEVELS);
        assert_eq!(whole, digest(&[0, 1], &SHEAR_LEVELS));
        assert_ne!(whole, digest(&[1, 0], &SHEAR_LEVELS));
        assert_ne!(whole, digest(&[0, 1], &[10, 31]));
        let (mut a, mut b) = (Digest::default(), Digest::default());
        a.add(0, 0, 2, &[1.0, 2.0, 3.0, 4.0]);
        b.add(0, 0, 2, &[3.0, 4.0, 1.0, 2.0]);
        assert_ne!(a, b);
    }
}
