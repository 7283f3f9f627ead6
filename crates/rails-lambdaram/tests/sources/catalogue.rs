//! Datasets that are found, named and described.

use crate::written::{self, open};
use rails_array::{Region, Shape};
use rails_formats::{dataset::Principal, manifest::AttributeValue};
use rails_lambdaram::catalogue::{Catalogue, CatalogueError, OpenLimits, PublishedDataset, SourceFormat};
use std::{
    error::Error,
    fs::{self, File},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A folder with a dataset of each format, and files of other kinds.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.nc"), written::netcdf(1)).unwrap();
    fs::write(path.join("b.map"), written::map_binary(2)).unwrap();
    written::zarr(&path.join("c.zarr"), 3);
    written::raw(path, "d", 4);
    fs::write(path.join("README"), "nothing").unwrap();
    fs::write(path.join(".hidden.nc"), "nothing").unwrap();
    fs::create_dir(path.join("deeper")).unwrap();
    fs::write(path.join("deeper/e.nc"), written::netcdf(5)).unwrap();
    folder
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.names().collect()
}

fn one(path: &Path) -> Arc<PublishedDataset> {
    let catalogue = open(path).unwrap();
    let dataset = catalogue.datasets().next().unwrap();
    Arc::clone(dataset)
}

fn error(result: Result<Catalogue, CatalogueError>) -> String {
    let error = result.unwrap_err();
    let causes = std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[test]
fn a_folder_has_a_dataset_of_each_file() {
    let folder = folder();
    let catalogue = open(folder.path()).unwrap();
    assert_eq!(names(&catalogue), ["a", "b", "c", "d"]);
    assert!(catalogue.refused().is_empty());
    let formats: Vec<_> = catalogue.datasets().map(|dataset| dataset.format()).collect();
    use SourceFormat::*;
    assert_eq!(formats, [NetCdf3, MapBinary, Zarr, DatasetFile]);
    assert_eq!(catalogue.folders().into_iter().collect::<Vec<_>>(), [folder.path().canonicalize().unwrap()]);
    assert!(catalogue.dataset("e").is_none());
}

#[test]
fn each_file_can_be_named() {
    let folder = folder();
    for (file, name) in [("a.nc", "a"), ("b.map", "b"), ("c.zarr", "c"), ("d.toml", "d")] {
        let catalogue = open(&folder.path().join(file)).unwrap();
        assert_eq!(names(&catalogue), [name]);
        let array = catalogue.dataset(name).unwrap();
        assert_eq!(array.manifest().array("wind").unwrap().description().shape.extents(), written::EXTENTS);
    }
    let array = one(&folder.path().join("c.zarr/wind"));
    assert_eq!(array.name(), "wind");
}

#[test]
fn a_pattern_means_files() {
    let folder = folder();
    fs::write(folder.path().join("f.nc"), written::netcdf(6)).unwrap();
    assert_eq!(names(&open(&folder.path().join("*.nc")).unwrap()), ["a", "f"]);
    assert_eq!(names(&open(&folder.path().join("*/*.nc")).unwrap()), ["e"]);
    // A file of that very name goes first.
    fs::write(folder.path().join("[a].nc"), written::netcdf(7)).unwrap();
    assert_eq!(names(&open(&folder.path().join("[a].nc")).unwrap()), ["[a]"]);
    let none = open(&folder.path().join("*.map2"));
    assert!(matches!(none, Err(CatalogueError::Nothing { .. })), "{none:?}");
    let wrong = open(&folder.path().join("a[.nc"));
    assert!(matches!(wrong, Err(CatalogueError::Pattern { .. })), "{wrong:?}");
}

#[test]
fn files_of_a_dataset_file_are_none_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in ["a.nc", "b.nc", "c.nc"].iter().enumerate() {
        fs::write(folder.path().join(name), written::netcdf(number as u32)).unwrap();
    }
    let text = "[dataset]\nname = \"two\"\n[[array]]\nname = \"wind\"\nformat = \"netcdf3\"\nfiles = [\"a.nc\", \"b.nc\"]\nalong = \"time\"\n";
    fs::write(folder.path().join("two.toml"), text).unwrap();
    assert_eq!(names(&open(folder.path()).unwrap()), ["c", "two"]);
    // One that is named itself is one.
    let both = [folder.path().to_owned(), folder.path().join("a.nc")];
    assert_eq!(names(&Catalogue::open(&both, &OpenLimits::default()).unwrap()), ["a", "c", "two"]);
}

#[test]
fn two_datasets_of_one_name_are_an_error() {
    let folder = folder();
    let deeper = folder.path().join("deeper");
    fs::write(deeper.join("a.nc"), written::netcdf(1)).unwrap();
    let data = [folder.path().join("a.nc"), deeper.join("*.nc")];
    let text = error(Catalogue::open(&data, &OpenLimits::default()));
    assert!(text.contains("deeper/a.nc` both are the dataset `a`"), "{text}");
    // The same file twice is one dataset.
    let data = [folder.path().join("a.nc"), folder.path().to_owned(), folder.path().join("a.nc")];
    assert_eq!(names(&Catalogue::open(&data, &OpenLimits::default()).unwrap()), ["a", "b", "c", "d"]);
}

#[test]
fn a_broken_file_is_refused_alone() {
    let folder = folder();
    let mut broken = written::netcdf(1);
    broken.truncate(100);
    fs::write(folder.path().join("broken.nc"), broken).unwrap();
    fs::write(folder.path().join("new.nc"), b"\x89HDF\r\n\x1a\nmore").unwrap();
    fs::write(folder.path().join("old.hdf"), b"\x0e\x03\x13\x01more").unwrap();
    fs::write(folder.path().join("broken.toml"), "nothing").unwrap();
    fs::write(folder.path().join("c.zarr/.zgroup"), "nothing").unwrap();
    let catalogue = open(folder.path()).unwrap();
    assert_eq!(names(&catalogue), ["a", "b", "d"]);
    let mut refused: Vec<String> = catalogue.refused().iter().map(|refused| refused.error.to_string()).collect();
    refused.sort();
    let path = |name| format!("`{}`", folder.path().join(name).display());
    let mut expected = vec![
        format!("cannot open the Zarr folder {}", path("c.zarr")),
        format!("cannot open the dataset of {}", path("broken.toml")),
        format!("cannot read {}", path("broken.nc")),
        format!(
            "{} is not read: it is a file of HDF5 or NetCDF-4 (`nccopy -k cdf5` makes one of NetCDF-3)",
            path("new.nc")
        ),
        format!("{} is not read: it is a file of HDF4", path("old.hdf")),
    ];
    expected.sort();
    assert_eq!(refused, expected);
    for name in ["broken.nc", "new.nc", "old.hdf", "broken.toml", "c.zarr"] {
        let text = error(open(&folder.path().join(name)));
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn arguments_that_mean_nothing_are_errors() {
    let folder = folder();
    let text = error(open(&folder.path().join("README")));
    assert!(text.contains("a dataset file (TOML) can describe it as raw"), "{text}");
    assert!(error(open(&folder.path().join("none"))).starts_with("cannot find"));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(open(empty.path()), Err(CatalogueError::Nothing { .. })));
    let limits = OpenLimits::default().max_entries(3);
    let many = Catalogue::open(&[folder.path().to_owned()], &limits);
    assert!(matches!(many, Err(CatalogueError::TooMany { max_entries: 3, .. })));
}

#[test]
fn links_lead_to_files_elsewhere() {
    let (here, there) = (tempfile::tempdir().unwrap(), folder());
    for name in ["a.nc", "c.zarr", "d.toml"] {
        std::os::unix::fs::symlink(there.path().join(name), here.path().join(name)).unwrap();
    }
    assert_eq!(names(&open(here.path()).unwrap()), ["a", "c", "d"]);
}

#[test]
fn small_arrays_are_described_whole() {
    let folder = folder();
    let dataset = one(&folder.path().join("a.nc"));
    let description = dataset.description();
    assert_eq!(description.name, "a");
    let [time, wind] = &description.arrays[..] else { panic!("{description:?}") };
    let times: Vec<u8> = [0.0_f64, 6.0, 12.0].iter().flat_map(|time| time.to_le_bytes()).collect();
    assert_eq!(time.inline, Some(times));
    assert_eq!((wind.inline.as_ref(), wind.block_shape.extents()), (None, &written::EXTENTS[..]));
    assert_eq!(dataset.source_bytes(), Some(written::netcdf(1).len() as u64));
    let zarr = one(&folder.path().join("c.zarr"));
    assert_eq!((zarr.source_bytes(), zarr.readers()), (None, &[][..]));
}

#[test]
fn large_lines_are_not_described_whole() {
    let folder = tempfile::tempdir().unwrap();
    let text = |count: usize, extent: u64| {
        let array = |number| {
            format!(
                "[[array]]\nname = \"a{number}\"\nformat = \"raw\"\nfiles = \"a.bin\"\n\
                 raw = {{ dtype = \"uint8\", endianness = \"big\", shape = [{extent}] }}\n"
            )
        };
        let arrays: String = (0..count).map(array).collect();
        format!("[dataset]\nname = \"lines\"\n{arrays}")
    };
    fs::write(folder.path().join("a.bin"), vec![7; (64 << 10) + 1]).unwrap();
    let inlined = |text: String| {
        let file = folder.path().join("lines.toml");
        fs::write(&file, text).unwrap();
        let dataset = one(&file);
        dataset.description().arrays.iter().filter(|array| array.inline.is_some()).count()
    };
    assert_eq!(inlined(text(1, 64 << 10)), 1);
    assert_eq!(inlined(text(1, (64 << 10) + 1)), 0);
    assert_eq!(inlined(text(17, 64 << 10)), 16);
}

#[test]
fn copies_have_one_digest() {
    let (one_folder, other) = (folder(), folder());
    let digest = |path: &Path| one(path).description().digest;
    fs::rename(other.path().join("a.nc"), other.path().join("copy.nc")).unwrap();
    let a = digest(&one_folder.path().join("a.nc"));
    assert_eq!(a, digest(&other.path().join("copy.nc")));
    assert_ne!(a, digest(&one_folder.path().join("b.map")));
    // Two files of one record, written at the same time.
    let steps = [0.0, 18.0].map(|first| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nc");
        fs::write(&path, written::netcdf_from(1, first)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        digest(&path)
    });
    assert_ne!(steps[0], steps[1]);
}

#[test]
fn a_dataset_file_is_heeded() {
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in ["wind-0.nc", "wind-18.nc"].iter().enumerate() {
        fs::write(folder.path().join(name), written::netcdf(number as u32)).unwrap();
    }
    let text = |block: &str| {
        format!(
            "[dataset]\nname = \"wind\"\nreaders = [\"user:ada\"]\n[[array]]\nname = \"wind\"\nformat = \"netcdf3\"\n\
             files = \"wind-*.nc\"\nalong = \"time\"\norder = \"listed\"\n\
             coordinate = {{ from = \"file-name\", pattern = \"wind-{{}}.nc\", step = 6 }}\n\
             block_shape = {block}\npartition_shape = [1, 2, 3]\nreplicas = [\"lram://far/wind\"]\n\
             [[array.view]]\nname = \"corner\"\nstart = [0, 1, 1]\nshape = [6, 2, 2]\n"
        )
        .replace("order = \"listed\"\n", "")
        .replace("files = \"wind-*.nc\"", "files = [\"wind-0.nc\", \"wind-18.nc\"]")
    };
    let file = folder.path().join("any.toml");
    fs::write(&file, text("[2, 100, 5]")).unwrap();
    let dataset = one(&file);
    assert_eq!(dataset.name(), "wind");
    assert_eq!(dataset.readers(), [Principal::User("ada".into())]);
    let [wind, time] = &dataset.description().arrays[..] else { panic!("{dataset:?}") };
    assert_eq!(wind.description.shape.extents(), [6, 4, 5]);
    // Blocks are cut to their array.
    assert_eq!(wind.block_shape.extents(), [2, 4, 5]);
    assert_eq!((&time.description.name[..], time.description.shape.extents()), ("time", &[6][..]));
    let times: Vec<u8> = (0..6).flat_map(|step| (f64::from(step) * 6.0).to_le_bytes()).collect();
    assert_eq!(time.inline, Some(times));
    assert_eq!(dataset.partition_shape(0), Some(&Shape::new([1, 2, 3]).unwrap()));
    assert_eq!((dataset.partition_shape(1), dataset.replicas(1)), (None, &[][..]));
    assert_eq!(dataset.replicas(0), ["lram://far/wind"]);
    let [view] = dataset.views() else { panic!("{:?}", dataset.views()) };
    let region = Region::new([0, 1, 1], Shape::new([6, 2, 2]).unwrap()).unwrap();
    assert_eq!((view.array, &view.view.name[..], &view.view.region), (0, "corner", &region));
    let limits = OpenLimits::default().max_block_bytes(2 * 4 * 5 * 4);
    assert!(Catalogue::open(std::slice::from_ref(&file), &limits).is_ok());
    let limits = limits.max_block_bytes(2 * 4 * 5 * 4 - 1);
    let large = Catalogue::open(&[file], &limits);
    assert!(matches!(large, Err(CatalogueError::BlockBytes { bytes: 160, .. })), "{large:?}");
}

#[test]
fn the_attributes_of_a_coordinate_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.map"), written::map_binary(1)).unwrap();
    let text = "[dataset]\nname = \"wind\"\n[[array]]\nname = \"wind\"\nformat = \"map-binary\"\nfiles = \"a.map\"\n\
                along = \"time\"\ncoordinate = { from = \"variable\" }\n";
    fs::write(folder.path().join("wind.toml"), text).unwrap();
    let dataset = one(&folder.path().join("wind.toml"));
    let time = dataset.manifest().array("time").unwrap().description();
    assert_eq!(time.attributes.get("units").and_then(AttributeValue::as_text), Some("steps"));
}

#[test]
fn a_zarr_folder_of_refused_arrays_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("a.zarr");
    written::zarr(&store, 1);
    let file = store.join("wind/.zarray");
    let text = fs::read_to_string(&file).unwrap().replace("<f4", "<c8");
    fs::write(&file, text).unwrap();
    let refused = open(&store);
    assert!(matches!(refused, Err(CatalogueError::NoArray { refused: 1, .. })), "{refused:?}");
}

#[test]
fn zarr_folders_are_stitched() {
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in ["a.zarr", "b.zarr", "c.zarr"].iter().enumerate() {
        written::zarr(&folder.path().join(name), number as u32 + 1);
    }
    let text = |files: &str| {
        format!(
            "[dataset]\nname = \"two\"\n[[array]]\nname = \"wind\"\nformat = \"zarr\"\nfiles = {files}\nalong = \"time\"\n"
        )
    };
    let file = folder.path().join("two.toml");
    fs::write(&file, text("\"[ab].zarr\"")).unwrap();
    let catalogue = open(folder.path()).unwrap();
    assert_eq!(names(&catalogue), ["c", "two"]);
    let (dataset, storage) = (catalogue.dataset("two").unwrap(), written::storage(2));
    for (time, seed) in [(0, 1), (3, 2)] {
        let half = Region::new([time, 0, 0], Shape::new(written::EXTENTS).unwrap()).unwrap();
        let elements = written::read(&storage, &dataset, &half).unwrap();
        assert_eq!(elements, written::native(&written::wind(seed)));
    }
    dataset.check().unwrap();
    fs::write(folder.path().join("b.zarr/wind/.zattrs"), "{}").unwrap();
    dataset.check().unwrap_err();
    // A file is no folder, and a folder no file.
    fs::write(&file, text("\"*.toml\"")).unwrap();
    assert!(matches!(open(&file), Err(CatalogueError::Dataset { .. })));
    let metadata = folder.path().join("a.zarr/wind/.zarray");
    fs::write(&metadata, fs::read_to_string(&metadata).unwrap().replace("<f4", "<c8")).unwrap();
    fs::write(&file, text("\"a.zarr\"")).unwrap();
    assert!(error(open(&file)).contains("the array `wind` of `a.zarr/wind/.zarray` cannot be read"));
}
