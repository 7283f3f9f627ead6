//! The measured files: written once, and used again while seed and layout are the same.

use super::{
    weather::{COLUMNS, DTYPE, LEVELS, ROWS, STEPS, Weather},
    zarr::Store,
};
use anyhow::{Context, Result};
use rails_cli::print;
use rails_formats::map_binary::{Layout, Writer};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files of a seed.
#[derive(Debug)]
pub(crate) struct Data {
    root: PathBuf,
    pub(crate) weather: Weather,
}

impl Data {
    /// The files below `folder`, which are written if they are not there.
    pub(crate) fn ready(folder: &Path, seed: u64) -> Result<Self> {
        let data = Self { root: folder.join(format!("data-{LAYOUT}-{seed}")), weather: Weather::new(seed) };
        let mark = data.root.join("complete");
        if mark.exists() {
            return Ok(data);
        }
        print::note(format_args!("writing 2.1 GB of data to {}", data.root.display()));
        data.write_maps()?;
        data.write_variables()?;
        for store in Store::ALL {
            store.write(&data.root, &data.weather)?;
        }
        nix::unistd::sync();
        fs::write(&mark, "").with_context(|| format!("write {}", mark.display()))?;
        Ok(data)
    }

    /// The folder of everything.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The dataset file of the weather: 64 files of MAP-Binary, one a step.
    pub(crate) fn wind(&self) -> PathBuf {
        self.root.join("wind/wind.toml")
    }

    /// The dataset file of 64 small files with four variables.
    pub(crate) fn variables(&self) -> PathBuf {
        self.root.join("variables/variables.toml")
    }

    /// A folder of Zarr.
    pub(crate) fn store(&self, store: Store) -> PathBuf {
        self.root.join(store.name())
    }

    /// The number of bytes before the first element of a file of the weather.
    pub(crate) fn wind_offset(&self) -> Result<usize> {
        Ok(wind_writer(0)?.0.header()?.len())
    }

    /// The sum of the coordinates in the dataset that is only opened.
    pub(crate) fn coordinates() -> f64 {
        [STEPS, SMALL_ROWS, SMALL_COLUMNS].into_iter().flat_map(axis).sum()
    }

    /// Takes the files away.
    pub(crate) fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.root).with_context(|| format!("remove {}", self.root.display()))
    }

    fn write_maps(&self) -> Result<()> {
        let folder = self.root.join("wind");
        make(&folder)?;
        for step in 0..STEPS {
            let (writer, wind) = wind_writer(step)?;
            let mut file = writer.header()?;
            let record: Vec<u8> =
                (0..LEVELS).flat_map(|level| self.weather.plane(step, level)).flat_map(f32::to_ne_bytes).collect();
            file.extend(writer.record(wind, &record)?);
            write(&folder.join(format!("wind-{step:02}.mapb")), &file)?;
        }
        write(&self.wind(), dataset_file("wind", ["wind"]).as_bytes())
    }

    /// Four variables with coordinates, as 64 files and as a group of Zarr with consolidated
    /// metadata.
    fn write_variables(&self) -> Result<()> {
        let folder = self.root.join("variables");
        make(&folder)?;
        for step in 0..STEPS {
            let mut writer = Writer::new(Layout::VariableByVariable);
            let axes = [
                writer.dimension("time", "h", &[step as f64])?,
                writer.dimension("lat", "degrees_north", &axis(SMALL_ROWS))?,
                writer.dimension("lon", "degrees_east", &axis(SMALL_COLUMNS))?,
            ];
            let mut numbers = Vec::new();
            for name in VARIABLES {
                numbers.push(writer.variable(name, "1", DTYPE, &axes, None)?);
            }
            let mut file = writer.header()?;
            let record: Vec<u8> = (0..SMALL_ROWS)
                .flat_map(|row| self.weather.row(step, 0, row)[..SMALL_COLUMNS].to_vec())
                .flat_map(f32::to_ne_bytes)
                .collect();
            for number in numbers {
                file.extend(writer.record(number, &record)?);
            }
            write(&folder.join(format!("variables-{step:02}.mapb")), &file)?;
        }
        let mut text = dataset_file("variables", VARIABLES);
        for axis in ["lat", "lon"] {
            text +=
                &format!("\n[[array]]\nname = \"{axis}\"\nformat = \"map-binary\"\nfiles = \"variables-00.mapb\"\n");
        }
        write(&self.variables(), text.as_bytes())?;
        self.write_group()
    }

    /// The group of Zarr. Its variables have no chunks, for nothing but coordinates is read of it.
    fn write_group(&self) -> Result<()> {
        let folder = self.root.join("variables.zarr");
        let little = json!([{ "name": "bytes", "configuration": { "endian": "little" } }]);
        let array = |shape: &[usize], kind: &str, names: &[&str], chunk: &[usize]| {
            json!({
                "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": kind, "fill_value": 0.0,
                "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": chunk } },
                "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
                "codecs": little, "attributes": {}, "dimension_names": names,
            })
        };
        let mut members = serde_json::Map::new();
        for (name, length) in [("time", STEPS), ("lat", SMALL_ROWS), ("lon", SMALL_COLUMNS)] {
            members.insert(name.into(), array(&[length], "float64", &[name], &[length]));
            let bytes: Vec<u8> = axis(length).into_iter().flat_map(f64::to_le_bytes).collect();
            make(&folder.join(name).join("c"))?;
            write(&folder.join(name).join("c/0"), &bytes)?;
        }
        for name in VARIABLES {
            let shape = [STEPS, SMALL_ROWS, SMALL_COLUMNS];
            let chunk = [1, SMALL_ROWS, SMALL_COLUMNS];
            members.insert(name.into(), array(&shape, "float32", &["time", "lat", "lon"], &chunk));
            make(&folder.join(name))?;
        }
        for (name, metadata) in &members {
            write(&folder.join(name).join("zarr.json"), metadata.to_string().as_bytes())?;
        }
        let group = json!({
            "zarr_format": 3, "node_type": "group", "attributes": {},
            "consolidated_metadata": { "kind": "inline", "must_understand": false, "metadata": members },
        });
        write(&folder.join("zarr.json"), group.to_string().as_bytes())
    }
}

fn wind_writer(step: usize) -> Result<(Writer, usize)> {
    let mut writer = Writer::new(Layout::VariableByVariable);
    let axes = [
        writer.dimension("time", "h", &[step as f64])?,
        writer.dimension("level", "hPa", &axis(LEVELS))?,
        writer.dimension("lat", "degrees_north", &axis(ROWS))?,
        writer.dimension("lon", "degrees_east", &axis(COLUMNS))?,
    ];
    let wind = writer.variable("wind", "m/s", DTYPE, &axes, None)?;
    Ok((writer, wind))
}

fn dataset_file<const N: usize>(name: &str, arrays: [&str; N]) -> String {
    let mut text = format!("[dataset]\nname = \"{name}\"\n");
    for array in arrays {
        text += &format!(
            "\n[[array]]\nname = \"{array}\"\nformat = \"map-binary\"\nfiles = \"{name}-*.mapb\"\nalong = \"time\"\n"
        );
        text += "coordinate = { from = \"variable\" }\n";
    }
    text
}

fn axis(length: usize) -> Vec<f64> {
    (0..length).map(|at| at as f64).collect()
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}

/// The names of the variables in the dataset that is only opened.
const VARIABLES: [&str; 4] = ["ozone", "pressure", "temperature", "wind"];
const SMALL_ROWS: usize = 91;
const SMALL_COLUMNS: usize = 144;
/// Counts the changes of the files' layout, so that older files are not taken for these.
const LAYOUT: u32 = 2;
