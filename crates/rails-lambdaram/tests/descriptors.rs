//! A process with few file descriptors. It is alone in its file, for the limit is the process'.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rails_array::{Region, Shape};
use rails_lambdaram::{
    catalogue::{Catalogue, OpenLimits},
    storage::{Storage, StorageOptions, Urgency},
};
use std::{fs, sync::mpsc};

#[test]
fn many_files_are_read_with_few_descriptors() {
    const FILES: u32 = 300;
    let folder = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        fs::write(folder.path().join(format!("{number:04}.bin")), number.to_be_bytes()).unwrap();
    }
    let text = "[dataset]\nname = \"many\"\n[[array]]\nname = \"a\"\nformat = \"raw\"\nfiles = \"*.bin\"\nalong = \"time\"\n\
                raw = { dtype = \"int32\", endianness = \"big\", shape = [1, 1], dimensions = [\"time\", \"x\"] }\n";
    fs::write(folder.path().join("many.toml"), text).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 64, hard).unwrap();

    let catalogue = Catalogue::open(&[folder.path().join("many.toml")], &OpenLimits::default()).unwrap();
    let dataset = catalogue.dataset("many").unwrap();
    dataset.check().unwrap();
    let storage = Storage::new(StorageOptions::default()).unwrap();
    for _ in 0..2 {
        let (sender, receiver) = mpsc::channel();
        let tickets: Vec<_> = (0..u64::from(FILES) / 10)
            .map(|number| {
                let sender = sender.clone();
                let region = Region::new([number * 10, 0], Shape::new([10, 1]).unwrap()).unwrap();
                storage.read(&dataset, 0, &region, Urgency::Ahead, move |result| {
                    sender.send((number, result.unwrap())).unwrap();
                })
            })
            .collect();
        for (number, elements) in receiver.iter().take(tickets.len()) {
            let expected = (number as u32 * 10..).take(10).flat_map(u32::to_ne_bytes);
            assert_eq!(elements, expected.collect::<Vec<_>>());
        }
    }
    assert_eq!(storage.figures().open_files, 16, "a quarter of the limit");

    // Somebody else takes the descriptors: the files that stay open go for those that are read.
    let mut others = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        others.push(file);
    }
    let (sender, receiver) = mpsc::channel();
    let all = Region::whole(&Shape::new([u64::from(FILES), 1]).unwrap());
    let _ticket = storage.read(&dataset, 0, &all, Urgency::Demand, move |result| sender.send(result).unwrap());
    let elements = receiver.recv().unwrap().unwrap();
    assert_eq!(elements, (0..FILES).flat_map(u32::to_ne_bytes).collect::<Vec<_>>());
}
