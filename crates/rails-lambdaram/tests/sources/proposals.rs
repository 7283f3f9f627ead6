//! Dataset files that are proposed for folders.

use crate::written::{self, native, open, read, storage, whole, wind};
use rails_array::{Region, Shape};
use rails_lambdaram::catalogue::{CatalogueError, OpenLimits, Proposal, propose};
use std::{fs, path::Path};

fn proposed(folder: &Path) -> Proposal {
    propose(folder, &OpenLimits::default()).unwrap()
}

#[test]
fn files_of_one_record_are_stitched() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("merra");
    fs::create_dir(&folder).unwrap();
    for (number, name) in (0..).zip(["wind-1.nc", "wind-2.nc", "wind-3.nc"]) {
        fs::write(folder.join(name), written::netcdf_from(number, f64::from(number) * 18.0)).unwrap();
    }
    fs::write(folder.join("other.map"), written::map_binary(1)).unwrap();
    fs::write(folder.join("new.nc"), b"\x89HDF\r\n\x1a\n").unwrap();
    written::zarr(&folder.join("c.zarr"), 1);
    let proposal = proposed(&folder);
    let expected = "[dataset]\nname = \"merra\"\n\n[[array]]\nname = \"wind\"\nformat = \"netcdf3\"\n\
                    files = \"wind-*.nc\"\nalong = \"time\"\ncoordinate = { from = \"variable\" }\n";
    assert_eq!(proposal.text, expected);
    assert_eq!(
        proposal.reasons,
        [
            "3 files have the same arrays.",
            "They follow each other along `time`: its coordinates differ from file to file.",
            "The order of their names is that of the coordinates.",
        ]
    );
    let mut left_out: Vec<_> = proposal.left_out.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    left_out.sort();
    assert_eq!(left_out, ["c.zarr", "new.nc", "other.map"]);

    let reason = proposal.left_out.iter().find(|(path, _)| path.ends_with("new.nc")).map(|(_, reason)| &reason[..]);
    assert!(reason.is_some_and(|reason| reason.contains("HDF5")), "{reason:?}");

    // The proposal is a dataset, also without a file.
    let path = folder.join("merra.toml");
    let described = proposal.open(&path, &OpenLimits::default()).unwrap();
    assert_eq!(described.arrays[0].description.shape.extents(), [9, 4, 5]);
    assert!(!path.exists());
    fs::write(folder.join("merra.toml"), proposal.text).unwrap();
    let catalogue = open(&folder.join("merra.toml")).unwrap();
    let dataset = catalogue.dataset("merra").unwrap();
    assert_eq!(dataset.array(0).unwrap().description().shape.extents(), [9, 4, 5]);
    let second = Region::new([3, 0, 0], whole().shape().clone()).unwrap();
    assert_eq!(read(&storage(2), &dataset, &second).unwrap(), native(&wind(1)));
    assert_eq!(dataset.manifest().array("time").unwrap().description().shape, Shape::new([9]).unwrap());
}

#[test]
fn names_in_another_order_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [("jan.nc", 0.0), ("feb.nc", 18.0), ("mar.nc", 36.0)] {
        fs::write(folder.path().join(name), written::netcdf_from(1, start)).unwrap();
    }
    let proposal = proposed(folder.path());
    let listed = "files = [\"jan.nc\", \"feb.nc\", \"mar.nc\"]\nalong = \"time\"\norder = \"listed\"\n";
    assert!(proposal.text.contains(listed), "{}", proposal.text);
    fs::write(folder.path().join("all.toml"), proposal.text).unwrap();
    open(&folder.path().join("all.toml")).unwrap();
}

#[test]
fn names_in_the_opposite_order_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [("a.nc", 18.0), ("b.nc", 0.0)] {
        fs::write(folder.path().join(name), written::netcdf_from(1, start)).unwrap();
    }
    let proposal = proposed(folder.path());
    assert!(proposal.text.contains("files = [\"b.nc\", \"a.nc\"]\n"), "{}", proposal.text);
    fs::write(folder.path().join("all.toml"), proposal.text).unwrap();
    open(&folder.path().join("all.toml")).unwrap();
}

#[test]
fn a_pattern_means_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [("a1.nc", 0.0), ("a2.nc", 18.0)] {
        fs::write(folder.path().join(name), written::netcdf_from(1, start)).unwrap();
    }
    fs::write(folder.path().join("a3.nc"), written::map_binary(1)).unwrap();
    let proposal = proposed(folder.path());
    assert!(proposal.text.contains("files = [\"a1.nc\", \"a2.nc\"]\n"), "{}", proposal.text);
}

#[test]
fn one_file_is_proposed_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.map"), written::map_binary(1)).unwrap();
    let proposal = proposed(folder.path());
    assert_eq!(proposal.reasons, ["There is one file."]);
    assert!(!proposal.text.contains("along"), "{}", proposal.text);
    fs::write(folder.path().join("all.toml"), proposal.text).unwrap();
    open(&folder.path().join("all.toml")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let nothing = propose(empty.path(), &OpenLimits::default());
    assert!(matches!(nothing, Err(CatalogueError::Nothing { .. })));
}
