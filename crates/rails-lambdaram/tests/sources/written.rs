//! Files of each format, written for tests.

use rails_array::{Region, Shape};
use rails_formats::{
    data_type::DataType,
    map_binary::{Layout, Writer},
};
use rails_lambdaram::{
    catalogue::{Catalogue, CatalogueError, OpenLimits, PublishedDataset},
    storage::{Storage, StorageError, StorageOptions, Urgency},
};
use std::{
    fs,
    num::NonZeroUsize,
    path::Path,
    sync::{Arc, mpsc},
};

/// The extents of every array `wind`: time, latitude, longitude.
pub(crate) const EXTENTS: [u64; 3] = [3, 4, 5];

/// The elements of the array `wind`, which differ from each other and from those of another seed.
pub(crate) fn wind(seed: u32) -> Vec<f32> {
    (0..EXTENTS.iter().product::<u64>() as u32).map(|number| (seed * 1000 + number) as f32).collect()
}

pub(crate) fn native(elements: &[f32]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_ne_bytes()).collect()
}

pub(crate) fn whole() -> Region {
    Region::whole(&Shape::new(EXTENTS).unwrap())
}

/// A file of NetCDF-3 with the arrays `time`, in records, and `wind`.
pub(crate) fn netcdf(seed: u32) -> Vec<u8> {
    netcdf_from(seed, 0.0)
}

/// The file with another first time.
pub(crate) fn netcdf_from(seed: u32, start: f64) -> Vec<u8> {
    let name = |name: &str| {
        let mut bytes = be(name.len());
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let [times, rows, columns] = EXTENTS.map(|extent| extent as usize);
    let header = |begins: [usize; 2]| {
        let mut bytes = b"CDF\x01".to_vec();
        bytes.extend([be(times), be(0x0a), be(3)].concat());
        for (axis, extent) in [("time", 0), ("lat", rows), ("lon", columns)] {
            bytes.extend([name(axis), be(extent)].concat());
        }
        bytes.extend([be(0), be(0), be(0x0b), be(2)].concat());
        bytes.extend([name("time"), be(1), be(0), be(0), be(0), be(6), be(8), be(begins[0])].concat());
        let axes = [be(3), be(0), be(1), be(2)].concat();
        bytes.extend([name("wind"), axes, be(0), be(0), be(5), be(rows * columns * 4), be(begins[1])].concat());
        bytes
    };
    let begin = header([0, 0]).len();
    let mut bytes = header([begin, begin + 8]);
    for (time, plane) in wind(seed).chunks(rows * columns).enumerate() {
        bytes.extend((start + time as f64 * 6.0).to_be_bytes());
        bytes.extend(plane.iter().flat_map(|element| element.to_be_bytes()));
    }
    bytes
}

/// A file of MAP-Binary with the array `wind`.
pub(crate) fn map_binary(seed: u32) -> Vec<u8> {
    let mut writer = Writer::new(Layout::VariableByVariable);
    let axes = [("time", EXTENTS[0]), ("lat", EXTENTS[1]), ("lon", EXTENTS[2])].map(|(name, extent)| {
        let steps: Vec<f64> = (0..extent).map(|step| step as f64).collect();
        writer.dimension(name, "steps", &steps).unwrap()
    });
    let variable = writer.variable("wind", "m/s", DataType::Float32, &axes, None).unwrap();
    let mut file = writer.header().unwrap();
    for plane in wind(seed).chunks((EXTENTS[1] * EXTENTS[2]) as usize) {
        file.extend(writer.record(variable, &native(plane)).unwrap());
    }
    file
}

/// A Zarr folder with the array `wind`, a chunk for each time.
pub(crate) fn zarr(folder: &Path, seed: u32) {
    let array = folder.join("wind");
    fs::create_dir_all(&array).unwrap();
    fs::write(folder.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    let [times, rows, columns] = EXTENTS;
    let metadata = format!(
        r#"{{"zarr_format": 2, "shape": [{times}, {rows}, {columns}], "chunks": [1, {rows}, {columns}],
            "dtype": "<f4", "compressor": null, "filters": null, "fill_value": 0, "order": "C"}}"#
    );
    fs::write(array.join(".zarray"), metadata).unwrap();
    fs::write(array.join(".zattrs"), r#"{"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]}"#).unwrap();
    for time in 0..times {
        write_zarr_chunk(folder, time, seed);
    }
}

pub(crate) fn write_zarr_chunk(folder: &Path, time: u64, seed: u32) {
    let plane = (EXTENTS[1] * EXTENTS[2]) as usize;
    let elements = &wind(seed)[time as usize * plane..][..plane];
    let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
    replace(&folder.join("wind").join(format!("{time}.0.0")), &bytes);
}

/// A raw file with the array `wind`, and a dataset file that describes it.
pub(crate) fn raw(folder: &Path, name: &str, seed: u32) {
    let bytes: Vec<u8> = wind(seed).iter().flat_map(|element| element.to_be_bytes()).collect();
    fs::write(folder.join(format!("{name}.bin")), bytes).unwrap();
    let text = format!(
        "[dataset]\nname = \"{name}\"\n\n[[array]]\nname = \"wind\"\nformat = \"raw\"\nfiles = \"{name}.bin\"\n\
         raw = {{ dtype = \"float32\", endianness = \"big\", shape = {EXTENTS:?}, dimensions = [\"time\", \"lat\", \"lon\"] }}\n"
    );
    fs::write(folder.join(format!("{name}.toml")), text).unwrap();
}

/// Writes a file beside another one, and gives it the other one's name.
pub(crate) fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, path).unwrap();
}

pub(crate) fn open(path: &Path) -> Result<Catalogue, CatalogueError> {
    Catalogue::open(&[path.into()], &OpenLimits::default())
}

pub(crate) fn storage(threads: usize) -> Storage {
    Storage::new(StorageOptions::default().threads(NonZeroUsize::new(threads).unwrap())).unwrap()
}

/// Reads a region of the array `wind`, and waits for it.
pub(crate) fn read(
    storage: &Storage,
    dataset: &Arc<PublishedDataset>,
    region: &Region,
) -> Result<Vec<u8>, StorageError> {
    let arrays = dataset.manifest().arrays().iter();
    let array = arrays.map(|array| &array.description().name).position(|name| name == "wind").unwrap();
    let (sender, receiver) = mpsc::channel();
    let _ticket = storage.read(dataset, array, region, Urgency::Demand, move |result| sender.send(result).unwrap());
    receiver.recv().unwrap()
}

fn be(number: usize) -> Vec<u8> {
    u32::try_from(number).unwrap().to_be_bytes().to_vec()
}
