//! Files on disk: datasets opened and read, and files that change.

use crate::{
    arrays::{self, Element, expected},
    netcdf3_writer::{self, Attribute, Variable},
};
use ndarray::{ArrayD, Axis, Slice};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::DataType,
    dataset::{CoordinateError, CoordinateSource, StitchError},
    manifest::ObjectPath,
    map_binary,
    plan::{MergeLimits, plan_region},
    reader::{OpenError, OpenLimits, OpenedDataset, ReadError, Root, open_dataset, read_header, read_plan},
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::Path,
    process::Command,
};
use tempfile::TempDir;

fn path(path: &str) -> ObjectPath {
    ObjectPath::new(path).unwrap()
}

/// A NetCDF-3 file of some time steps of `T`, with their times.
fn file(values: ArrayD<Element>, first: u64) -> Vec<u8> {
    file_since(values, first, vec![])
}

/// That file, with attributes of the times.
fn file_since(values: ArrayD<Element>, first: u64, attributes: Vec<Attribute>) -> Vec<u8> {
    let times = (0..values.shape()[0] as u64).map(|step| ((first + step) as f64).to_bits().to_le_bytes()).collect();
    let time = Variable {
        name: "time".into(),
        dimensions: vec![0],
        attributes,
        dtype: DataType::Float64,
        values: ArrayD::from_shape_vec(vec![values.shape()[0]], times).unwrap(),
    };
    let field =
        Variable { name: "T".into(), dimensions: vec![0, 1, 2], attributes: vec![], dtype: DataType::Float32, values };
    netcdf3_writer::write(&netcdf3_writer::File {
        version: 2,
        dimensions: vec![("time".into(), 0), ("lat".into(), 4), ("lon".into(), 5)],
        variables: vec![time, field],
        ..netcdf3_writer::File::default()
    })
}

const DATASET: &str = r#"
[dataset]
name = "merra"
[[array]]
name = "temperature"
variable = "T"
format = "netcdf3"
files = "data/*.nc"
along = "time"
coordinate = { from = "variable" }
"#;

/// A folder with a dataset of 3 files of 2, 3 and 1 steps, between which a step lacks, and its
/// array.
fn folder() -> (TempDir, ArrayD<Element>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let array = arrays::array(&[6, 4, 5], 1);
    for (name, steps, first) in [("a", 0..2, 0), ("b", 2..5, 2), ("c", 5..6, 6)] {
        let part = array.slice_axis(Axis(0), Slice::from(steps)).to_owned();
        fs::write(folder.path().join(format!("data/{name}.nc")), file(part, first)).unwrap();
    }
    fs::write(folder.path().join("merra.toml"), DATASET).unwrap();
    (folder, array)
}

fn open(folder: &Path) -> Result<OpenedDataset, OpenError> {
    open_dataset(&Root::open(folder).unwrap(), &path("merra.toml"), &OpenLimits::default())
}

#[test]
fn a_dataset_is_opened_and_read() {
    let (folder, array) = folder();
    let opened = open(folder.path()).unwrap();
    let stitched = &opened.stitched.arrays[0];
    assert_eq!(stitched.coordinates.as_deref(), Some(&[0.0, 1.0, 2.0, 3.0, 4.0, 6.0][..]));
    let [gap] = &stitched.gaps[..] else { panic!("{:?}", stitched.gaps) };
    assert_eq!((gap.after.as_str(), gap.before.as_str()), ("data/b.nc", "data/c.nc"));
    let root = Root::open(folder.path()).unwrap();
    let manifest = &opened.stitched.manifest;
    for (start, extents) in [([1, 1, 0], [4, 2, 5]), ([0, 0, 0], [6, 4, 5]), ([3, 3, 4], [3, 1, 1])] {
        let region = Region::new(start, Shape::new(extents).unwrap()).unwrap();
        let limits = MergeLimits::default().max_gap_bytes(64).max_over_read_percent(1000);
        let plan = plan_region(manifest.array("temperature").unwrap(), &region, &limits).unwrap();
        let mut goal = vec![0; plan.bytes() as usize];
        let source_of = |object: u32| {
            let source = root.source(&manifest.objects()[object as usize])?;
            source.of_generation(opened.generations[object as usize])
        };
        read_plan(&plan, &mut goal, source_of).unwrap();
        assert_eq!(goal, expected(&array, &region, DataType::Float32));
    }
}

#[test]
fn a_file_that_changes_is_an_error() {
    let (folder, _) = folder();
    let root = Root::open(folder.path()).unwrap();
    let name = folder.path().join("data/a.nc");
    let source = root.source(&path("data/a.nc")).unwrap();
    let mut bytes = [0; 4];
    source.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"CDF\x02");

    let written = fs::read(&name).unwrap();
    fs::write(&name, &written[..written.len() - 1]).unwrap();
    assert!(matches!(source.read_at(0, &mut bytes), Err(ReadError::Changed { .. })));
    let cut = root.source(&path("data/a.nc")).unwrap();
    assert_ne!(cut.generation(), source.generation());

    // The same size and another time.
    let file = fs::File::options().write(true).open(&name).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(matches!(cut.read_at(0, &mut bytes), Err(ReadError::Changed { .. })));

    // Another file takes over the name: the open one has lost it, and the next opening differs.
    let old = root.source(&path("data/b.nc")).unwrap();
    fs::copy(folder.path().join("data/b.nc"), folder.path().join("new")).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("data/b.nc")).unwrap();
    assert!(matches!(old.read_at(0, &mut bytes), Err(ReadError::Changed { .. })));
    let new = root.source(&path("data/b.nc")).unwrap();
    assert!(matches!(new.of_generation(old.generation()), Err(ReadError::Changed { .. })));
}

#[test]
fn a_time_that_is_set_back_is_noticed() {
    let (folder, _) = folder();
    let name = folder.path().join("data/a.nc");
    let source = Root::open(folder.path()).unwrap().source(&path("data/a.nc")).unwrap();
    let before = fs::metadata(&name).unwrap();
    // The clock of the file system has a resolution, and the file was just written.
    loop {
        let file = fs::File::options().write(true).open(&name).unwrap();
        file.write_all_at(b"other", before.len() - 5).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        let now = fs::metadata(&name).unwrap();
        assert_eq!((now.len(), now.modified().unwrap()), (before.len(), before.modified().unwrap()));
        if now.ctime_nsec() != before.ctime_nsec() {
            break;
        }
    }
    assert!(matches!(source.read_at(0, &mut [0; 4]), Err(ReadError::Changed { .. })));
}

#[test]
fn a_file_that_changes_within_a_plan_is_an_error() {
    let (folder, _) = folder();
    let opened = open(folder.path()).unwrap();
    let root = Root::open(folder.path()).unwrap();
    let manifest = &opened.stitched.manifest;
    let array = manifest.array("temperature").unwrap();
    let whole = Region::whole(&array.description().shape);
    let plan = plan_region(array, &whole, &MergeLimits::default()).unwrap();
    let mut goal = vec![0; plan.bytes() as usize];
    let mut opened = Vec::new();
    let result = read_plan(&plan, &mut goal, |object| {
        opened.push(object);
        if object == 1 {
            let first = folder.path().join("data/a.nc");
            fs::File::options().append(true).open(first).unwrap().set_len(10).unwrap();
        }
        root.source(&manifest.objects()[object as usize])
    });
    assert!(matches!(result, Err(ReadError::Changed { path, .. }) if path.as_str() == "data/a.nc"));
    assert_eq!(opened, [0, 1]);
}

#[test]
fn the_end_of_a_file_is_a_limit() {
    let (folder, _) = folder();
    let source = Root::open(folder.path()).unwrap().source(&path("data/a.nc")).unwrap();
    let bytes = source.generation().bytes;
    assert!(source.read_at(bytes - 4, &mut [0; 4]).is_ok());
    assert!(source.read_at(bytes, &mut []).is_ok());
    assert!(matches!(source.read_at(bytes - 3, &mut [0; 4]), Err(ReadError::Short { .. })));
    assert!(matches!(source.read_at(u64::MAX, &mut [0; 4]), Err(ReadError::Short { .. })));
}

#[test]
fn no_path_leads_out_of_the_root() {
    let (folder, _) = folder();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"CDF").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    link(&outside.path().join("secret"), "absolute");
    link(outside.path(), "folder");
    link(Path::new("data/a.nc"), "inside");
    let root = Root::open(folder.path()).unwrap();
    assert!(matches!(root.source(&path("absolute")), Err(ReadError::Open { .. })));
    assert!(matches!(root.source(&path("folder/secret")), Err(ReadError::Open { .. })));
    assert!(root.source(&path("inside")).is_ok());
    assert!(matches!(root.source(&path("data")), Err(ReadError::NotAFile { .. })));
    assert!(matches!(root.source(&path("nothing")), Err(ReadError::Open { .. })));
}

#[test]
fn a_long_header_is_read_in_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = map_binary::Writer::new(map_binary::Layout::Interleaved);
    let coordinates: Vec<f64> = (0..100_000).map(f64::from).collect();
    writer.dimension("cell", "", &coordinates).unwrap();
    fs::write(folder.path().join("a.map"), writer.header().unwrap()).unwrap();
    let source = Root::open(folder.path()).unwrap().source(&path("a.map")).unwrap();
    let header = read_header(&source, map_binary::Header::parse).unwrap();
    assert_eq!(header.dimensions[0].coordinates, coordinates);
}

#[test]
fn errors_of_opening_name_the_file() {
    let (folder, array) = folder();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("data/d.nc", b"CDF\x07");
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "the header of `data/d.nc` is wrong");
    let short = file(array.clone(), 7);
    write("data/d.nc", &short[..short.len() - 1]);
    assert_eq!(open(folder.path()).unwrap_err().to_string(), "`data/d.nc` does not fit its header");
    write("data/d.nc", &file(array.clone(), 7));
    assert!(open(folder.path()).is_ok());
    write("data/d.nc", &file(array, 6));
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "the axis of the array `temperature` is wrong");
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(cause.unwrap(), "the coordinate 6 in the file `data/d.nc` does not follow 6 in `data/c.nc`");
    write("merra.toml", b"[dataset]");
    let error = open(folder.path()).unwrap_err();
    assert!(error.to_string().starts_with("merra.toml:1: dataset: missing field `name`"), "{error}");
    write("merra.toml", &vec![b'#'; (1 << 20) + 1]);
    assert!(open(folder.path()).unwrap_err().to_string().contains("at most 1048576"));
}

#[test]
fn units_of_coordinates_are_compared() {
    let (folder, array) = folder();
    let day = |day: u8| {
        let values = format!("hours since 1979-01-0{day}").into_bytes();
        vec![Attribute { name: "units".into(), dtype: DataType::Char, values }]
    };
    let part = |steps: std::ops::Range<usize>| array.slice_axis(Axis(0), Slice::from(steps)).to_owned();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("data/a.nc", &file_since(part(0..2), 0, day(1)));
    write("data/b.nc", &file_since(part(2..5), 24, day(1)));
    write("data/c.nc", &file_since(part(5..6), 30, day(2)));
    let error = open(folder.path()).unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let text = "the variable `time` differs in the file `data/c.nc` from that in `data/a.nc`: its attribute `units` is \
                Some(Text(\"hours since 1979-01-02\")) and not Some(Text(\"hours since 1979-01-01\"))";
    assert_eq!(cause.as_deref(), Some(text));
    write("data/c.nc", &file_since(part(5..6), 30, vec![]));
    assert!(open(folder.path()).is_err());
    write("data/c.nc", &file_since(part(5..6), 30, day(1)));
    assert!(open(folder.path()).is_ok());
}

#[test]
fn coordinates_of_all_files_are_limited() {
    let (folder, _) = folder();
    let variable = |name: &str, dtype, steps: usize| Variable {
        name: name.into(),
        dimensions: vec![0],
        attributes: vec![],
        dtype,
        values: arrays::array(&[steps as u64], 1),
    };
    // The values of the second file are a hole.
    for (name, steps, written) in [("a", 1, 1), ("b", CoordinateSource::MAX_STEPS, 0)] {
        let file = netcdf3_writer::File {
            version: 2,
            dimensions: vec![("time".into(), steps)],
            variables: vec![variable("time", DataType::Int8, written), variable("T", DataType::Int8, written)],
            ..netcdf3_writer::File::default()
        };
        let path = folder.path().join(format!("data/{name}.nc"));
        fs::write(&path, netcdf3_writer::write(&file)).unwrap();
        fs::File::options().append(true).open(path).unwrap().set_len(1000 + 2 * steps).unwrap();
    }
    fs::remove_file(folder.path().join("data/c.nc")).unwrap();
    let Err(OpenError::Stitch(StitchError::Coordinate { error, .. })) = open(folder.path()) else {
        panic!("there are more than MAX_STEPS")
    };
    assert_eq!(*error, CoordinateError::TooMany { steps: CoordinateSource::MAX_STEPS + 1 });
}

#[test]
fn a_short_file_names_file_and_variable() {
    let (folder, array) = folder();
    let bytes = file(array.slice_axis(Axis(0), Slice::from(5..6)).to_owned(), 6);
    fs::write(folder.path().join("data/c.nc"), &bytes[..bytes.len() - 1]).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "`data/c.nc` does not fit its header");
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let (end, short) = (bytes.len(), bytes.len() - 1);
    assert_eq!(cause, Some(format!("the variable `T` ends at byte {end}, and the file has {short} bytes")));
}

#[test]
fn a_pipe_is_refused_at_once() {
    let (folder, _) = folder();
    let made = Command::new("mkfifo").arg(folder.path().join("data/pipe")).status().unwrap();
    assert!(made.success());
    let root = Root::open(folder.path()).unwrap();
    assert!(matches!(root.source(&path("data/pipe")), Err(ReadError::NotAFile { .. })));
    // One that a link leads to has a name as a file has it.
    std::os::unix::fs::symlink("pipe", folder.path().join("data/d.nc")).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "`data/d.nc` is no regular file");
}

#[test]
fn names_that_are_no_text_are_not_left_out() {
    let (folder, _) = folder();
    let write = |name: &[u8]| fs::write(folder.path().join("data").join(OsStr::from_bytes(name)), "").unwrap();
    write(b"temp_\xb0.txt");
    assert!(open(folder.path()).is_ok());
    write(b"temp_\xb0.nc");
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "the name of `data/temp_\u{fffd}.nc`, which a pattern means, is not UTF-8");
}

#[test]
fn other_folders_are_not_looked_at() {
    let (folder, _) = folder();
    for name in ["other", "data/deeper"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        (0..10).for_each(|file| fs::write(folder.path().join(format!("{name}/{file}.nc")), "").unwrap());
    }
    let root = Root::open(folder.path()).unwrap();
    let opened = open_dataset(&root, &path("merra.toml"), &OpenLimits::default().max_entries(7)).unwrap();
    assert_eq!(opened.generations.len(), 3);
}

#[test]
fn the_error_of_a_root_names_it() {
    let error = Root::open(Path::new("/no/such/folder")).unwrap_err();
    assert_eq!(error.to_string(), "cannot open `/no/such/folder`");
}

#[test]
fn the_search_for_files_is_limited() {
    let (folder, _) = folder();
    let root = Root::open(folder.path()).unwrap();
    let open = |limits: OpenLimits| open_dataset(&root, &path("merra.toml"), &limits);
    // The dataset file, the folder and its three files.
    assert!(open(OpenLimits::default().max_entries(5)).is_ok());
    let error = open(OpenLimits::default().max_entries(4)).unwrap_err();
    assert!(matches!(error, OpenError::TooMany { max_entries: 4 }), "{error}");
    assert!(open(OpenLimits::default().max_depth(1)).is_ok());
    let error = open(OpenLimits::default().max_depth(0)).unwrap_err();
    assert_eq!(error.to_string(), "the folder `data` is deeper than 0 below the root, and a pattern leads into it");
}
