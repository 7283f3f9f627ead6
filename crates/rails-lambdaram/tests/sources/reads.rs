//! Regions that are read.

use crate::written::{self, EXTENTS, native, open, read, storage, whole, wind};
use rails_array::{Region, Shape};
use rails_cache::Fault;
use rails_lambdaram::storage::{StorageError, StorageOptions, Urgency};
use std::{
    fs,
    num::NonZeroUsize,
    sync::{Arc, mpsc},
};

#[test]
fn every_format_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.nc"), written::netcdf(1)).unwrap();
    fs::write(path.join("b.map"), written::map_binary(2)).unwrap();
    written::zarr(&path.join("c.zarr"), 3);
    written::raw(path, "d", 4);
    let catalogue = open(path).unwrap();
    let storage = storage(3);
    let corner = Region::new([1, 0, 2], Shape::new([2, 3, 2]).unwrap()).unwrap();
    for (seed, dataset) in (1..).zip(catalogue.datasets()) {
        assert_eq!(read(&storage, dataset, &whole()).unwrap(), native(&wind(seed)), "{}", dataset.name());
        let mut expected = Vec::new();
        for (time, row) in [1, 2].into_iter().flat_map(|time| [0, 1, 2].map(|row| (time, row))) {
            let first = (time * EXTENTS[1] + row) * EXTENTS[2] + 2;
            expected.extend(native(&wind(seed)[first as usize..][..2]));
        }
        assert_eq!(read(&storage, dataset, &corner).unwrap(), expected, "{}", dataset.name());
    }
    let figures = storage.figures();
    assert_eq!((figures.threads, figures.reads, figures.bytes), (3, 8, 4 * (240 + 48)));
    assert_eq!((figures.waiting, figures.running, figures.open_files), (0, 0, 3));
    assert!(figures.latency.is_some() && figures.bytes_per_second.is_some());
    assert_eq!(figures.sources.len(), 1);
    assert!(figures.sources[0].gap_bytes <= 256 << 10);
    storage.forget(&catalogue.dataset("a").unwrap());
    assert_eq!(storage.figures().open_files, 2);
}

#[test]
fn wrong_reads_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.nc"), written::netcdf(1)).unwrap();
    let catalogue = open(folder.path()).unwrap();
    let dataset = catalogue.dataset("a").unwrap();
    let storage = storage(1);
    let outside = Region::whole(&Shape::new([4, 4, 5]).unwrap());
    let error = read(&storage, &dataset, &outside).unwrap_err();
    assert!(matches!(&error, StorageError::Region(outside) if outside.name == "wind"));
    assert_eq!(error.fault(), Fault::Missing);
    let (sender, receiver) = mpsc::channel();
    let _ticket = storage.read(&dataset, 2, &whole(), Urgency::Ahead, move |result| sender.send(result).unwrap());
    let error = receiver.recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the dataset `a` has no array with the number 2");
    let nothing = Region::whole(&Shape::new([0, 4, 5]).unwrap());
    assert!(read(&storage, &dataset, &nothing).unwrap().is_empty());
}

#[test]
fn as_many_files_stay_open_as_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..5 {
        fs::write(folder.path().join(format!("{number}.nc")), written::netcdf(number)).unwrap();
    }
    let catalogue = open(folder.path()).unwrap();
    let options = StorageOptions::default().max_open_files(NonZeroUsize::new(2).unwrap());
    let storage = rails_lambdaram::storage::Storage::new(options).unwrap();
    for _ in 0..2 {
        for (seed, dataset) in (0..).zip(catalogue.datasets()) {
            assert_eq!(read(&storage, dataset, &whole()).unwrap(), native(&wind(seed)));
        }
    }
    assert_eq!(storage.figures().open_files, 2);
}

#[test]
fn a_broken_chunk_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("a.zarr");
    written::zarr(&store, 1);
    fs::write(store.join("wind/1.0.0"), [1, 2, 3]).unwrap();
    let dataset = open(&store).unwrap().dataset("a").unwrap();
    let error = read(&storage(2), &dataset, &whole()).unwrap_err();
    assert_eq!(
        (error.fault(), &error.to_string()[..]),
        (Fault::Corrupt, "the chunk [1, 0, 0] in `a.zarr/wind/1.0.0` is wrong")
    );
}

#[test]
fn a_receiver_that_panics_ends_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.nc"), written::netcdf(1)).unwrap();
    let dataset = open(folder.path()).unwrap().dataset("a").unwrap();
    let storage = storage(1);
    let _good = storage.read(&dataset, 1, &whole(), Urgency::Demand, |_| panic!("as the test wants"));
    let _bad = storage.read(&dataset, 9, &whole(), Urgency::Demand, |_| panic!("as the test wants"));
    assert_eq!(read(&storage, &dataset, &whole()).unwrap(), native(&wind(1)));
}

#[test]
fn a_receiver_may_be_the_last_owner() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.nc"), written::netcdf(1)).unwrap();
    let dataset = open(folder.path()).unwrap().dataset("a").unwrap();
    let storage = Arc::new(storage(1));
    let (last, (sender, receiver)) = (Arc::clone(&storage), mpsc::channel());
    let (go, wait) = mpsc::channel::<()>();
    let ticket = storage.read(&dataset, 1, &whole(), Urgency::Demand, move |_| {
        wait.recv().unwrap();
        drop(last);
        sender.send(()).unwrap();
    });
    drop(storage);
    go.send(()).unwrap();
    receiver.recv().unwrap();
    drop(ticket);
}
