//! Files that change under a dataset.

use crate::written::{self, native, open, read, replace, storage, whole, wind};
use rails_cache::Fault;
use rails_formats::reader::ReadError;
use rails_lambdaram::{
    catalogue::{CatalogueError, PublishedDataset},
    storage::StorageError,
};
use std::{
    fs, iter,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

fn dataset(path: &Path) -> Arc<PublishedDataset> {
    let catalogue = open(path).unwrap();
    let name = catalogue.names().next().unwrap().to_owned();
    catalogue.dataset(&name).unwrap()
}

#[test]
fn a_changed_file_is_another_generation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nc");
    fs::write(&file, written::netcdf(1)).unwrap();
    let (first, storage) = (dataset(&file), storage(2));
    first.check().unwrap();
    // A node that starts again goes on with the number.
    assert_eq!(dataset(&file).description().generation, first.description().generation);
    assert_eq!(read(&storage, &first, &whole()).unwrap(), native(&wind(1)));
    replace(&file, &written::netcdf(2));
    assert!(matches!(first.check(), Err(ReadError::Changed { .. })));
    // The old file is open still, and known to be another one.
    let error = read(&storage, &first, &whole()).unwrap_err();
    assert_eq!(error.fault(), Fault::Changed, "{error}");
    let next = Arc::new(first.reopen().unwrap());
    assert!(next.description().generation > first.description().generation);
    assert_eq!(next.description().digest, first.description().digest);
    assert_eq!(read(&storage, &next, &whole()).unwrap(), native(&wind(2)));
    fs::remove_file(&file).unwrap();
    assert!(matches!(next.check(), Err(ReadError::Open { .. })));
    assert!(matches!(next.reopen(), Err(CatalogueError::Path { .. })));
}

#[test]
fn a_missing_or_cut_file_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nc");
    fs::write(&file, written::netcdf(1)).unwrap();
    let dataset = dataset(&file);
    let storage = storage(1);
    fs::File::options().write(true).open(&file).unwrap().set_len(100).unwrap();
    assert_eq!(read(&storage, &dataset, &whole()).unwrap_err().fault(), Fault::Changed);
    fs::remove_file(&file).unwrap();
    let error = read(&storage, &dataset, &whole()).unwrap_err();
    assert_eq!((error.fault(), &error.to_string()[..]), (Fault::Missing, "cannot open `a.nc`"));
}

#[test]
fn a_folder_that_was_exchanged_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let [now, next, old] = ["now", "next", "old"].map(|name| folder.path().join(name));
    for (seed, folder) in [(1, &now), (2, &next)] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("a.nc"), written::netcdf(seed)).unwrap();
    }
    let dataset = dataset(&now.join("a.nc"));
    fs::rename(&now, &old).unwrap();
    fs::rename(&next, &now).unwrap();
    assert!(matches!(dataset.check(), Err(ReadError::Changed { .. })));
    let next = Arc::new(dataset.reopen().unwrap());
    assert_eq!(read(&storage(1), &next, &whole()).unwrap(), native(&wind(2)));
}

#[test]
fn a_changed_dataset_file_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    written::raw(folder.path(), "d", 1);
    let file = folder.path().join("d.toml");
    let dataset = dataset(&file);
    dataset.check().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("# A comment.\n{text}")).unwrap();
    assert!(matches!(dataset.check(), Err(ReadError::Changed { path, .. }) if path.as_str() == "d.toml"));
    fs::write(&file, text.replace("\"d\"", "\"e\"")).unwrap();
    let renamed = dataset.reopen();
    assert!(matches!(&renamed, Err(CatalogueError::Renamed { name, .. }) if name == "e"), "{renamed:?}");
}

#[test]
fn a_rewritten_chunk_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("a.zarr");
    written::zarr(&store, 1);
    fs::remove_file(store.join("wind/2.0.0")).unwrap();
    let (first, storage) = (dataset(&store), storage(2));
    let mut expected = wind(1);
    expected[40..].fill(0.0);
    for _ in 0..2 {
        assert_eq!(read(&storage, &first, &whole()).unwrap(), native(&expected));
    }
    written::write_zarr_chunk(&store, 1, 2);
    let error = read(&storage, &first, &whole()).unwrap_err();
    assert!(matches!(error, StorageError::Read(ReadError::Changed { .. })), "{error}");
    let second = Arc::new(first.reopen().unwrap());
    assert!(second.description().generation > first.description().generation);
    read(&storage, &second, &whole()).unwrap();
    written::write_zarr_chunk(&store, 2, 2);
    let error = read(&storage, &second, &whole()).unwrap_err();
    assert!(matches!(error, StorageError::Read(ReadError::Presence { was_there: false, .. })), "{error}");
    assert_eq!(error.fault(), Fault::Changed);
    second.check().unwrap();
    fs::write(store.join("wind/.zattrs"), "{}").unwrap();
    assert!(matches!(second.check(), Err(ReadError::Changed { .. })));
}

#[test]
fn chunks_of_a_coordinate_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("a.zarr");
    written::zarr(&store, 1);
    let line = store.join("lon");
    fs::create_dir(&line).unwrap();
    let metadata = r#"{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": null,
                       "filters": null, "fill_value": 9, "order": "C"}"#;
    fs::write(line.join(".zarray"), metadata).unwrap();
    fs::write(line.join("0"), [1, 2]).unwrap();
    let first = dataset(&store);
    let [lon, _] = &first.description().arrays[..] else { panic!("{first:?}") };
    assert_eq!(lon.inline.as_deref(), Some(&[1, 2, 9, 9][..]));
    first.check().unwrap();
    fs::write(line.join("1"), [3, 4]).unwrap();
    assert!(matches!(first.check(), Err(ReadError::Presence { was_there: false, .. })));
    let second = first.reopen().unwrap();
    second.check().unwrap();
    replace(&line.join("0"), &[5, 6]);
    assert!(matches!(second.check(), Err(ReadError::Changed { .. })));
    // A chunk that is no chunk leaves the array without a description of its elements.
    replace(&line.join("0"), &[5, 6, 7]);
    assert_eq!(second.reopen().unwrap().description().arrays[0].inline, None);
}

#[test]
fn no_read_mixes_two_generations() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nc");
    fs::write(&file, written::netcdf(0)).unwrap();
    let storage = storage(4);
    let reads = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Ends the other thread, also on a panic.
        let _over = Over(&is_over);
        scope.spawn(|| {
            let mut before = 0;
            for seed in (1..1000).cycle() {
                // The file is exchanged when two reads have ended, so one of them may be good: mostly
                // during the next one.
                while reads.load(Ordering::Relaxed) < before + 2 {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::yield_now();
                }
                replace(&file, &written::netcdf(seed));
                before = reads.load(Ordering::Relaxed);
            }
        });
        let (mut current, mut good, mut changed) = (dataset(&file), 0, 0);
        while good < 10 || changed < 10 {
            let result = read(&storage, &current, &whole());
            reads.fetch_add(1, Ordering::Relaxed);
            match result {
                Ok(elements) => {
                    let first = f32::from_ne_bytes(elements[..4].try_into().unwrap());
                    assert_eq!(elements, native(&wind(first as u32 / 1000)));
                    good += 1;
                }
                Err(error) => {
                    assert_eq!(error.fault(), Fault::Changed, "{error}");
                    changed += 1;
                    // The file may change while it is opened again.
                    current = iter::repeat_with(|| current.reopen()).find_map(Result::ok).map(Arc::new).unwrap();
                }
            }
        }
    });
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
