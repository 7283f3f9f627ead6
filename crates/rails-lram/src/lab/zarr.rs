//! Zarr 3 folders of the measured array, for the rivals, and one for LambdaRAM too.

use super::weather::{COLUMNS, LEVELS, ROWS, SHAPE, SHEAR_LEVELS, STEPS, Weather};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder with the two levels that are read; the others are empty, and take no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// A chunk is a plane.
    Plane,
    /// A chunk is a plane, compressed by Zstandard at level 3.
    PlaneZstd,
    /// A chunk is a sixteenth of a plane.
    Tile,
}

impl Store {
    pub(crate) const ALL: [Self; 3] = [Self::Plane, Self::PlaneZstd, Self::Tile];

    /// The name of the folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plane => "plane.zarr",
            Self::PlaneZstd => "plane-zstd.zarr",
            Self::Tile => "tile.zarr",
        }
    }

    /// The chunk's rows and columns.
    pub(crate) fn chunk(self) -> [usize; 2] {
        match self {
            Self::Plane | Self::PlaneZstd => [ROWS, COLUMNS],
            Self::Tile => [ROWS.div_ceil(4), COLUMNS / 4],
        }
    }

    /// Writes the folder below `root`.
    pub(crate) fn write(self, root: &Path, weather: &Weather) -> Result<()> {
        let folder = root.join(self.name());
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        write(&folder.join("zarr.json"), self.metadata().to_string().as_bytes())?;
        for step in 0..STEPS {
            for level in SHEAR_LEVELS {
                self.write_plane(&folder.join(format!("c/{step}/{level}")), &weather.plane(step, level))?;
            }
        }
        Ok(())
    }

    fn metadata(self) -> Value {
        let [rows, columns] = self.chunk();
        let mut codecs = vec![json!({ "name": "bytes", "configuration": { "endian": "little" } })];
        if self == Self::PlaneZstd {
            codecs.push(json!({ "name": "zstd", "configuration": { "level": LEVEL, "checksum": false } }));
        }
        json!({
            "zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": "float32", "fill_value": 0.0,
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [1, 1, rows, columns] } },
            "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
            "codecs": codecs, "attributes": {}, "dimension_names": ["time", "level", "lat", "lon"],
        })
    }

    fn write_plane(self, folder: &Path, plane: &[f32]) -> Result<()> {
        let [rows, columns] = self.chunk();
        for (down, top) in (0..ROWS).step_by(rows).enumerate() {
            let folder: PathBuf = folder.join(down.to_string());
            fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
            for (right, left) in (0..COLUMNS).step_by(columns).enumerate() {
                let mut chunk = Vec::with_capacity(rows * columns * size_of::<f32>());
                for row in top..top + rows {
                    // A chunk at the lower edge is as large as the others.
                    let elements = plane.get(row * COLUMNS + left..row * COLUMNS + left + columns);
                    let elements = elements.map_or_else(|| vec![0.0; columns], <[f32]>::to_vec);
                    chunk.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
                }
                if self == Self::PlaneZstd {
                    chunk = zstd::bulk::compress(&chunk, LEVEL).context("compress a chunk")?;
                }
                write(&folder.join(right.to_string()), &chunk)?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}

/// Zstandard's default level.
const LEVEL: i32 = 3;
const _: () = assert!(LEVELS > SHEAR_LEVELS[1]);
