//! The wind of the demo: a file of NetCDF-3 whose elements are a formula.

use anyhow::Result;
use rails_formats::{data_type::DataType, manifest::Attributes, netcdf3::Writer};

pub(crate) const STEPS: u64 = 48;
pub(crate) const LEVELS: u64 = 4;
pub(crate) const ROWS: u64 = 120;
const COLUMNS: u64 = 360;

/// A wind over time, level, latitude and longitude.
pub(crate) fn wind() -> Result<Vec<u8>> {
    let mut writer = Writer::new(Attributes::new());
    let extents = [("time", STEPS), ("level", LEVELS), ("latitude", ROWS), ("longitude", COLUMNS)];
    let numbers = extents.map(|(name, length)| writer.dimension(name, length));
    let numbers = numbers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let number = writer.variable("u", DataType::Float32, &numbers, Attributes::new())?;
    let mut bytes = writer.header()?;
    bytes.reserve((STEPS * LEVELS * ROWS * COLUMNS * 4) as usize);
    for at in 0..STEPS * LEVELS * ROWS * COLUMNS {
        let (plane, place) = (at / (ROWS * COLUMNS), at % (ROWS * COLUMNS));
        // Stronger with height, and turning with time.
        let speed = (plane % LEVELS * 8) as f32 + ((plane / LEVELS * 31 + place * 7) % 101) as f32 * 0.1;
        bytes.extend(speed.to_be_bytes());
    }
    bytes.resize(bytes.len() + writer.padding(number), 0);
    Ok(bytes)
}
