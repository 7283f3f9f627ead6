//! Dataset files: those that are refused, and arrays in many files.

use crate::arrays::{self, Element, expected};
use ndarray::{ArrayD, Axis, Slice};
use proptest::{collection::vec, prelude::*};
use rails_array::Shape;
use rails_formats::{
    data_type::{DataType, Endianness},
    dataset::{
        CoordinateError, CoordinateSource, DatasetFile, DatasetFileError, Difference, FilePattern, Format, Order,
        Principal, SourceFile, StitchError, Stitched,
    },
    manifest::{AttributeValue, Attributes, Manifest, ObjectPath},
    raw::Raw,
};

const WHOLE: &str = r#"
[dataset]
name = "merra"
readers = ["user:ana", "group:climate", "node:n1", "key:abc"]

[[array]]
name = "wind"
variable = "U"
format = "netcdf3"
files = "1979/merra-*.nc"
along = "time"
order = { attribute = "start" }
coordinate = { from = "file-name", pattern = "1979/merra-{}.nc", step = 6 }
block_shape = [1, 1, 91, 135]
partition_shape = [4, 4, 4, 4]
replicas = ["lram://starlight/merra"]

[[array.view]]
name = "atlantic"
start = [0, 0, 100, 200]
shape = [4, 36, 100, 150]

[[array]]
name = "mask"
format = "raw"
files = ["mask.raw"]
raw = { offset = 8, dtype = "uint8", endianness = "big", shape = [361, 540], dimensions = ["lat", "lon"] }
"#;

fn parse(text: &str) -> Result<DatasetFile, DatasetFileError> {
    DatasetFile::parse("d.toml", text.as_bytes())
}

/// The error of a dataset of one array with these lines.
fn error_of(lines: &str) -> String {
    let text = format!("[dataset]\nname = \"d\"\n[[array]]\n{lines}\n");
    parse(&text).unwrap_err().to_string()
}

#[test]
fn all_keys_are_read() {
    let dataset = parse(WHOLE).unwrap();
    assert_eq!(dataset.name, "merra");
    let readers = [
        Principal::User("ana".into()),
        Principal::Group("climate".into()),
        Principal::Node("n1".into()),
        Principal::Key("abc".into()),
    ];
    assert_eq!(dataset.readers, readers);
    let [wind, mask] = &dataset.arrays[..] else { panic!("two arrays") };
    assert_eq!((&wind.variable[..], wind.format, wind.along.as_deref()), ("U", Format::NetCdf3, Some("time")));
    assert_eq!(wind.order, Order::Attribute("start".into()));
    let pattern = "1979/merra-{}.nc".into();
    assert_eq!(wind.coordinate, Some(CoordinateSource::FileName { pattern, step: Some(6.0) }));
    assert_eq!(wind.block_shape, Some(Shape::new([1, 1, 91, 135]).unwrap()));
    assert_eq!(wind.views[0].region.to_string(), "[0:4, 0:36, 100:200, 200:350]");
    assert_eq!(wind.replicas, ["lram://starlight/merra"]);
    assert_eq!((&mask.variable[..], &mask.order, mask.along.as_deref()), ("mask", &Order::Name, None));
    assert_eq!(mask.raw.as_ref().unwrap().dimensions, ["lat", "lon"]);
}

#[test]
fn patterns_stay_in_their_folder() {
    let wind = &parse(WHOLE).unwrap().arrays[0];
    for (name, is_match) in
        [("1979/merra-1.nc", true), ("1979/merra-1.nc4", false), ("1979/merra-a/1.nc", false), ("merra-1.nc", false)]
    {
        assert_eq!(wind.matches(&ObjectPath::new(name).unwrap()), is_match, "{name}");
    }
}

#[test]
fn errors_name_file_line_and_key() {
    let array = "name = \"a\"\nformat = \"netcdf3\"\n";
    let cases = [
        ("files = []", "d.toml:6: array[0].files: an array has files"),
        ("files = \"../a\"", "d.toml:6: array[0].files: `../a` is no pattern: the path \"../a\" has the part \"..\""),
        ("files = \"a[\"", "d.toml:6: array[0].files: `a[` is no pattern: invalid range pattern"),
        ("files = \"a\"\nalong = \"\"", "d.toml:7: array[0].along: the name is empty"),
        ("files = \"a\"\norder = \"name\"", "d.toml:7: array[0].order: `along` has to name the axis"),
        (
            "files = \"a*\"\nalong = \"t\"\norder = \"listed\"",
            "d.toml:6: array[0].files: the order is that of the list, and `a*` may be several files",
        ),
        ("files = \"a\"\nblock_shape = [4, 0]", "d.toml:7: array[0].block_shape: an extent is zero"),
        (
            "files = \"a\"\nblock_shape = [4, 4]\npartition_shape = [1]",
            "d.toml:8: array[0].partition_shape: 1 numbers do not fit the 2 of `block_shape`",
        ),
        ("files = \"a\"\nreplicas = [\"\"]", "d.toml:7: array[0].replicas[0]: the place of a replica is empty"),
        (
            "files = \"a\"\n[[array.view]]\nname = \"v\"\nstart = [0]\nshape = [1, 2]",
            "d.toml:10: array[0].view[0].shape: 2 numbers do not fit the 1 of `start`",
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(error_of(&format!("{array}{lines}")), expected);
    }
}

#[test]
fn unknown_and_lacking_keys_are_errors() {
    let error = error_of("name = \"a\"\nformat = \"netcdf3\"\nfiles = \"a\"\nblok_shape = [1]");
    assert!(error.starts_with("d.toml:7: array[0].blok_shape: unknown field `blok_shape`"), "{error}");
    let error = error_of("name = \"a\"\nformat = \"netcdf5\"\nfiles = \"a\"");
    assert!(error.starts_with("d.toml:5: array[0].format: unknown variant `netcdf5`"), "{error}");
    let error = error_of("name = \"a\"\nformat = \"netcdf3\"");
    assert!(error.contains("missing field `files`"), "{error}");
    let error = error_of("name = \"a\"\nformat = \"netcdf3\"\nfiles = 7");
    assert!(error.contains("expected a pattern or a list of patterns"), "{error}");
    let error = error_of("name = \"a\"\nformat = \"raw\"\nfiles = \"a\"");
    assert_eq!(error, "d.toml:4: array[0].name: `raw` describes files of the format `raw`, and no others");
}

#[test]
fn other_dataset_errors() {
    let message = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(message("[dataset]\nname = \"d\""), "d.toml:2: dataset.name: a dataset has an array");
    let twice = WHOLE.replace("\"mask\"", "\"wind\"");
    assert_eq!(message(&twice), "d.toml:24: array[1].name: the name `wind` is there twice");
    let principal = WHOLE.replace("node:n1", "host:n1");
    let text = "d.toml:4: dataset.readers[2]: `host:n1` is not `user:`, `group:`, `node:` or `key:` with a name";
    assert_eq!(message(&principal), text);
    let step = WHOLE.replace("step = 6", "step = 0");
    assert_eq!(message(&step), "d.toml:13: array[0].coordinate: 0 is no step");
    let places = WHOLE.replace("merra-{}", "{}-{}");
    assert!(message(&places).ends_with("`1979/{}-{}.nc` has not exactly one `{}`"));
    let end = WHOLE.replace("[0, 0, 100, 200]", "[0, 0, 100, 9223372036854775807]");
    assert!(parse(&end).is_ok());
    assert!(message("[dataset").starts_with("d.toml:1: "));
}

#[test]
fn a_dataset_file_has_a_largest_size() {
    let mut text = WHOLE.to_owned();
    text.extend(std::iter::repeat_n('#', DatasetFile::MAX_BYTES - text.len()));
    assert!(parse(&text).is_ok());
    text.push('#');
    assert!(parse(&text).unwrap_err().to_string().contains("at most 1048576"));
    assert!(DatasetFile::parse("d.toml", b"\xff").is_err());
}

/// A dataset of one array in raw files, along the axis `d{along}`.
fn dataset(along: usize, more: &str) -> DatasetFile {
    let text = format!(
        "[dataset]\nname = \"d\"\n[[array]]\nname = \"v\"\nfiles = \"*.raw\"\nalong = \"d{along}\"\nformat = \"raw\"\n\
         raw = {{ dtype = \"int8\", endianness = \"big\", shape = [0] }}\n{more}\n"
    );
    parse(&text).unwrap()
}

fn source(name: &str, extents: &[u64], dtype: DataType) -> SourceFile {
    let dimensions = (0..extents.len()).map(|axis| format!("d{axis}")).collect();
    let shape = Shape::new(extents.iter().copied()).unwrap();
    let raw = Raw { offset: 3, dtype, endianness: Endianness::Big, shape, dimensions };
    let file = ObjectPath::new(name).unwrap();
    let manifest = raw.index("v", file.clone(), u64::MAX).unwrap();
    SourceFile { file, manifest, coordinates: None }
}

fn stitch(dataset: &DatasetFile, files: &[SourceFile]) -> Result<Stitched, StitchError> {
    dataset.stitch(|_| files.to_vec())
}

proptest! {
    #[test]
    fn many_files_are_one_array(
        extents in arrays::extents(),
        (seed, along) in (any::<u64>(), 0_usize..4),
        cuts in vec(0_u64..6, 0..4),
        draws in arrays::draws(),
        limits in arrays::limits(),
    ) {
        let along = along % extents.len();
        let array: ArrayD<Element> = arrays::array(&extents, seed);
        let mut ends: Vec<u64> = cuts.iter().map(|cut| cut % (extents[along] + 1)).collect();
        ends.push(extents[along]);
        ends.sort();
        let (mut files, mut bytes, mut start) = (Vec::new(), Vec::new(), 0);
        for (number, end) in ends.iter().enumerate() {
            let part = array.slice_axis(Axis(along), Slice::from(start as usize..*end as usize));
            let mut file = vec![0xee; 3];
            file.extend(part.iter().flat_map(|element| arrays::big_endian(element, DataType::Int16)));
            let mut shape = extents.clone();
            shape[along] = end - start;
            files.push(source(&format!("{number}.raw"), &shape, DataType::Int16));
            bytes.push(file);
            start = *end;
        }
        files.reverse();
        let stitched = stitch(&dataset(along, ""), &files).unwrap();
        let bytes: Vec<&[u8]> = bytes.iter().map(|file| &file[..]).collect();
        let region = arrays::region(&extents, &draws);
        let manifest = Manifest::decode(&stitched.manifest.encode()).unwrap();
        prop_assert_eq!(manifest.objects().len(), files.len());
        let read = arrays::read(&manifest, "v", &region, &limits, &bytes);
        prop_assert_eq!(read, expected(&array, &region, DataType::Int16));
    }

    #[test]
    fn any_dataset_file_is_no_panic(at in any::<prop::sample::Index>(), with in "[\\[\\]{}=\"a-z0-9.# \n]{0,6}") {
        let at = at.index(WHOLE.len());
        let damaged = format!("{}{with}{}", &WHOLE[..at], &WHOLE[at + 1..]);
        if let Err(error) = parse(&damaged) {
            prop_assert!(error.line <= damaged.lines().count() + 1);
        }
    }
}

#[test]
fn files_that_differ_are_named() {
    let error = |other: SourceFile| {
        let files = [source("1.raw", &[2, 3], DataType::Int16), other];
        stitch(&dataset(0, ""), &files).unwrap_err()
    };
    let text = error(source("2.raw", &[2, 3], DataType::Int32)).to_string();
    let expected = "the array `v` differs in the file `2.raw` from that in `1.raw`: its type is int32 and not int16";
    assert_eq!(text, expected);
    let text = error(source("2.raw", &[5, 4], DataType::Int16)).to_string();
    assert!(text.ends_with("its extent on axis 1 is 4 and not 3"), "{text}");
    let text = error(source("2.raw", &[5], DataType::Int16)).to_string();
    assert!(text.ends_with(r#"its axes are ["d0"] and not ["d0", "d1"]"#), "{text}");
    let mut other = source("2.raw", &[2, 3], DataType::Int16);
    other.manifest = with_fill(&other.manifest);
    let StitchError::Differs { difference, .. } = error(other) else { panic!("the fill values differ") };
    assert!(matches!(*difference, Difference::FillValue { .. }), "{difference}");
    let mut other = source("2.raw", &[2, 3], DataType::Int16);
    other.manifest = with_units(&other.manifest);
    let text = error(other).to_string();
    assert!(text.ends_with(r#"its attribute `units` is Some(Text("K")) and not None"#), "{text}");
    let mut other = source("2.raw", &[2, 3], DataType::Int16);
    other.manifest = Manifest::new(vec![], vec![], Attributes::new()).unwrap();
    let text = error(other).to_string();
    assert_eq!(text, "the array `v` needs the variable `v`, which the file `2.raw` has not");
    let text = error(source("1.raw", &[2, 3], DataType::Int16)).to_string();
    assert_eq!(text, "the array `v` has the file `1.raw` twice");
}

fn with_fill(manifest: &Manifest) -> Manifest {
    let text = serde_json::to_string(manifest).unwrap().replace("\"fill_value\":null", "\"fill_value\":[1,2]");
    serde_json::from_str(&text).unwrap()
}

fn with_units(manifest: &Manifest) -> Manifest {
    let units = r#""attributes":{"units":{"Text":"K"}}},"along""#;
    let text = serde_json::to_string(manifest).unwrap().replace(r#""attributes":{}},"along""#, units);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn other_stitch_errors() {
    let one = source("1.raw", &[2, 3], DataType::Int16);
    let two = source("2.raw", &[2, 3], DataType::Int16);
    assert!(matches!(stitch(&dataset(0, ""), &[]), Err(StitchError::NoFiles { .. })));
    let text = stitch(&dataset(7, ""), std::slice::from_ref(&one)).unwrap_err().to_string();
    assert_eq!(text, r#"the array `v` has no axis `d7` in the file `1.raw`, but ["d0", "d1"]"#);
    let mut single = dataset(0, "");
    single.arrays[0].along = None;
    assert!(stitch(&single, std::slice::from_ref(&one)).is_ok());
    assert!(matches!(stitch(&single, &[one.clone(), two.clone()]), Err(StitchError::SeveralFiles { files: 2, .. })));
    let blocks = dataset(0, "block_shape = [1]");
    assert!(matches!(stitch(&blocks, std::slice::from_ref(&one)), Err(StitchError::Layout { .. })));
    let view = dataset(0, "[[array.view]]\nname = \"x\"\nstart = [0, 0]\nshape = [4, 3]");
    assert!(stitch(&view, &[one.clone(), two]).is_ok());
    let text = stitch(&view, &[one]).unwrap_err().to_string();
    assert_eq!(text, "the `view.x` of the array `v` does not fit its shape 2x3");
}

#[test]
fn every_pattern_has_a_file() {
    let mut listed = dataset(0, "");
    listed.arrays[0].files = ["1.raw", "2.raw", "3.raw"].map(|name| FilePattern::new(name).unwrap()).into();
    let files = [1, 3].map(|number| source(&format!("{number}.raw"), &[2, 3], DataType::Int16));
    let text = stitch(&listed, &files).unwrap_err().to_string();
    assert_eq!(text, r#"the array `v` has no file that matches ["2.raw"]"#);
    listed.arrays[0].files.remove(1);
    assert!(stitch(&listed, &files).is_ok());
}

/// Files of 2 steps each, whose attribute `start` has this value.
fn with_starts(starts: &[f64]) -> Vec<SourceFile> {
    let file = |(number, start): (usize, &f64)| {
        let mut file = source(&format!("{number}.raw"), &[2, 3], DataType::Int16);
        let bytes = start.to_be_bytes();
        let value = AttributeValue::from_bytes(DataType::Float64, &bytes, Endianness::Big);
        let attributes = Attributes::from([("start".to_owned(), value)]);
        let arrays = file.manifest.arrays().to_vec();
        file.manifest = Manifest::new(file.manifest.objects().to_vec(), arrays, attributes).unwrap();
        file
    };
    starts.iter().enumerate().map(file).collect()
}

#[test]
fn an_attribute_orders_files() {
    let order = dataset(0, "order = { attribute = \"start\" }");
    let stitched = stitch(&order, &with_starts(&[12.0, -3.0, 5.0])).unwrap();
    let names: Vec<&str> = stitched.arrays[0].files.iter().map(|(file, _)| file.as_str()).collect();
    assert_eq!(names, ["1.raw", "2.raw", "0.raw"]);
    let text = stitch(&order, &with_starts(&[1.0, 2.0, 1.0])).unwrap_err().to_string();
    assert_eq!(text, "the attribute `start` does not order the files `0.raw` and `2.raw` of the array `v`");
    let none = source("9.raw", &[2, 3], DataType::Int16);
    assert!(matches!(stitch(&order, &[none]), Err(StitchError::OrderAttribute { .. })));
}

#[test]
fn a_list_orders_files() {
    let mut listed = dataset(0, "");
    listed.arrays[0].files = ["2.raw", "0.raw", "1.raw"].map(|name| FilePattern::new(name).unwrap()).into();
    listed.arrays[0].order = Order::Listed;
    let stitched = stitch(&listed, &with_starts(&[0.0; 3])).unwrap();
    let names: Vec<&str> = stitched.arrays[0].files.iter().map(|(file, _)| file.as_str()).collect();
    assert_eq!(names, ["2.raw", "0.raw", "1.raw"]);
}

#[test]
fn gaps_are_reported() {
    let by_start = dataset(0, "coordinate = { from = \"attribute\", name = \"start\", step = 6.0 }");
    let stitched = stitch(&by_start, &with_starts(&[0.0, 12.0, 36.0])).unwrap();
    let array = &stitched.arrays[0];
    assert_eq!(array.coordinates.as_deref(), Some(&[0.0, 6.0, 12.0, 18.0, 36.0, 42.0][..]));
    let [gap] = &array.gaps[..] else { panic!("{:?}", array.gaps) };
    assert_eq!((gap.after.as_str(), gap.before.as_str()), ("1.raw", "2.raw"));
    assert_eq!((gap.from, gap.to, gap.step), (18.0, 36.0, 6.0));
    assert!(stitch(&by_start, &with_starts(&[0.0, 12.0, 24.0])).unwrap().arrays[0].gaps.is_empty());
}

#[test]
fn coordinates_are_in_order() {
    let error = |dataset: &DatasetFile, files: &[SourceFile]| match stitch(dataset, files) {
        Err(StitchError::Coordinate { error, .. }) => *error,
        other => panic!("{other:?}"),
    };
    let by_start = dataset(0, "coordinate = { from = \"attribute\", name = \"start\", step = 6.0 }");
    let text = error(&by_start, &with_starts(&[0.0, 6.0])).to_string();
    assert_eq!(text, "the coordinate 6 in the file `1.raw` does not follow 6 in `0.raw`");
    assert!(matches!(error(&by_start, &with_starts(&[f64::NAN])), CoordinateError::NotFinite { .. }));
    let falls = dataset(0, "coordinate = { from = \"attribute\", name = \"start\", step = -6.0 }");
    assert_eq!(stitch(&falls, &with_starts(&[12.0, 0.0])).unwrap().arrays[0].gaps, []);
    let no_step = dataset(0, "coordinate = { from = \"attribute\", name = \"start\" }");
    assert!(matches!(error(&no_step, &with_starts(&[0.0])), CoordinateError::NoStep { steps: 2, .. }));
    let by_name = dataset(0, "coordinate = { from = \"file-name\", pattern = \"{}.raw\", step = 0.5 }");
    let stitched = stitch(&by_name, &with_starts(&[0.0, 0.0])).unwrap();
    assert_eq!(stitched.arrays[0].coordinates.as_deref(), Some(&[0.0, 0.5, 1.0, 1.5][..]));
    assert!(matches!(error(&by_name, &[source("a.raw", &[2], DataType::Int8)]), CoordinateError::FileName { .. }));
    let listed = dataset(0, "coordinate = { from = \"list\", values = [1, 2, 4] }");
    assert!(matches!(error(&listed, &with_starts(&[0.0])), CoordinateError::ListCount { steps: 2, coordinates: 3 }));
    let variable = dataset(0, "coordinate = { from = \"variable\" }");
    assert!(matches!(error(&variable, &with_starts(&[0.0])), CoordinateError::NoVariable { .. }));
    let mut files = with_starts(&[0.0]);
    files[0].coordinates = Some(vec![1.0]);
    assert!(matches!(error(&variable, &files), CoordinateError::Count { steps: 2, coordinates: 1, .. }));
    files[0].coordinates = Some(vec![1.0, 2.0]);
    assert_eq!(stitch(&variable, &files).unwrap().arrays[0].coordinates, Some(vec![1.0, 2.0]));
}

#[test]
fn steps_without_elements_take_no_memory() {
    let by_name = dataset(0, "coordinate = { from = \"file-name\", pattern = \"{}.raw\", step = 0.5 }");
    let files = [source("1.raw", &[1 << 60, 0], DataType::Int8)];
    match stitch(&by_name, &files) {
        Err(StitchError::Coordinate { error, .. }) => assert_eq!(*error, CoordinateError::TooMany { steps: 1 << 60 }),
        other => panic!("{other:?}"),
    }
}
