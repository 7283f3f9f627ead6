//! Files that are replaced while they are read.

use crate::data::{SHAPE, expected, region, write};
use rails_array::Selection;
use rails_lambdaram::{ReadError, Server, ServerOptions, Site, SiteOptions};
use rails_topo::DataSize;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Reads planes again and again while the file is replaced. Every read is of one of the files.
#[tokio::test(flavor = "multi_thread")]
async fn no_read_has_bytes_of_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    // Less than the array, so that blocks are read again and again.
    let small = || SiteOptions::new().memory(DataSize::bytes(4 << 20));
    let site = Site::open_with(file.to_str().unwrap(), small()).await.unwrap();
    let server = Server::bind(&site, &["127.0.0.1:0".into()], ServerOptions::new()).await.unwrap();
    let far = Site::open_with(&server.site_addresses()[0], small()).await.unwrap();
    let has_ended = Arc::new(AtomicBool::new(false));
    let replacing = tokio::task::spawn_blocking({
        let (file, has_ended): (PathBuf, _) = (file.clone(), Arc::clone(&has_ended));
        move || {
            let mut salt = 0;
            while !has_ended.load(Ordering::Relaxed) {
                salt = (salt + 1) % SALTS;
                write(&file, salt);
            }
        }
    });
    let (mut whole, mut changed, mut wind) = (0, 0, None);
    // A busy machine may not run the thread that writes for a while.
    let until = Instant::now() + Duration::from_secs(60);
    let goes_on = |trial: u64, changed: u64| trial < trials() || changed == 0 && Instant::now() < until;
    for trial in 0.. {
        if !goes_on(trial, changed) {
            break;
        }
        let array = match wind.take() {
            Some(array) => array,
            None => match far.dataset("wind").await {
                Ok(dataset) => dataset.array("wind").unwrap(),
                // The file has changed while it was opened.
                Err(_) => continue,
            },
        };
        let slab = Selection::from(region([trial % SHAPE[0], 0, 0, 0], [1, SHAPE[1], 91, 135]));
        match array.read_selection(&slab).await {
            Ok(read) => {
                let is_one = (0..SALTS).any(|salt| read == expected(&slab, salt));
                assert!(is_one, "trial {trial} has bytes of two files");
                whole += 1;
                wind = Some(array);
            }
            Err(ReadError::Changed { .. } | ReadError::Failed { .. }) => changed += 1,
            Err(error) => panic!("trial {trial}: {error}"),
        }
    }
    has_ended.store(true, Ordering::Relaxed);
    replacing.await.unwrap();
    println!("{whole} whole, {changed} changed");
    assert!(changed > 0, "{whole} reads were whole, and none saw a change");
}

/// The number of reads, by `RAILS_RUNS`.
fn trials() -> u64 {
    std::env::var("RAILS_RUNS").map_or(40, |runs| runs.parse().expect("RAILS_RUNS is a number"))
}

/// The files differ in every element.
const SALTS: u32 = 4;
