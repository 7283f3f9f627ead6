//! Reads that are recorded, and replayed.

use crate::data::{SHAPE, expected, region, write};
use rails_array::{Region, Selection};
use rails_lambdaram::{
    Server, ServerOptions, Site, SiteOptions,
    replay::{Setting, replay},
    trace::{ReadOutcome, Trace},
};
use std::{
    fs::{self, File},
    io::BufReader,
    path::Path,
    time::Instant,
};

fn load(path: &Path) -> Trace {
    Trace::read(BufReader::new(File::open(path).unwrap())).unwrap()
}

fn planes() -> impl Iterator<Item = Region> {
    (0..SHAPE[0]).map(|step| region([step, 2, 0, 0], [1, 1, 91, 135]))
}

/// Reads planes one after the other, the last ones once more, and returns the trace of it.
async fn recorded(address: &str, trace: &Path, options: SiteOptions) -> Trace {
    let site = Site::open_with(address, options.trace(trace)).await.unwrap();
    let wind = site.dataset("wind").await.unwrap().array("wind").unwrap();
    for plane in planes().chain(planes().skip(10)) {
        let plane = Selection::from(plane);
        assert_eq!(wind.read_selection(&plane).await.unwrap(), expected(&plane, 0));
    }
    site.close().await;
    drop((site, wind));
    load(trace)
}

/// With prefetching it depends on the moment which of the blocks that a read finds are there, and
/// which are on their way. Without it nothing does.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_counts_what_the_recording_did() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let near = Site::open(file.to_str().unwrap()).await.unwrap();
    let server = Server::bind(&near, &["127.0.0.1:0".into()], ServerOptions::new()).await.unwrap();
    let far = server.site_addresses()[0].clone();
    for (number, address) in [file.to_str().unwrap(), &far].into_iter().enumerate() {
        for prefetches in [false, true] {
            let path = folder.path().join(format!("{number}-{prefetches}.trace"));
            let trace = recorded(address, &path, SiteOptions::new().prefetch(prefetches)).await;
            assert_eq!(trace.reads.len(), 22);
            assert!(trace.reads.iter().all(|read| read.outcome == ReadOutcome::Done));
            let outcome = replay(&trace, &Setting::recorded(&trace), Instant::now()).unwrap();
            let (end, stats) = (trace.end.unwrap(), outcome.stats);
            assert_eq!((end.reads, end.dropped, outcome.waits.len()), (22, 0, 22));
            let then = [end.hits, end.ahead_hits, end.late_ahead, end.misses];
            let now = [stats.hits, stats.ahead_hits, stats.late_ahead, stats.misses];
            if prefetches {
                assert_eq!(now.iter().sum::<u64>(), then.iter().sum::<u64>(), "{now:?} for {then:?}");
            } else {
                assert_eq!(now, then);
                assert_eq!((end.hits, end.misses), (6, 16));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_and_cancelled_reads_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let trace = folder.path().join("run.trace");
    let site = Site::open_with(file.to_str().unwrap(), SiteOptions::new().trace(&trace)).await.unwrap();
    let dataset = site.dataset("wind").await.unwrap();
    let [told, cancelled] = ["wind"; 2].map(|name| dataset.array(name).unwrap());
    told.tell(planes().collect()).unwrap();
    told.tell(vec![region([0, 9, 0, 0], [1, 1, 1, 1])]).unwrap_err();
    told.read(&planes().next().unwrap()).await.unwrap();
    // Coordinates come with the description.
    dataset
        .array("lat")
        .unwrap()
        .read(&Region::new([0], rails_array::Shape::new([4]).unwrap()).unwrap())
        .await
        .unwrap();
    {
        let plane = planes().nth(5).unwrap();
        let mut read = std::pin::pin!(cancelled.read(&plane));
        let begun = std::future::poll_fn(|context| std::task::Poll::Ready(read.as_mut().poll(context).is_pending()));
        assert!(begun.await, "no file is read at once");
    }
    drop((site, dataset, told, cancelled));
    let trace = load(&trace);
    assert_eq!((trace.arrays.len(), trace.tells.len(), trace.tells[0].regions.len()), (1, 1, 16));
    let outcomes: Vec<ReadOutcome> = trace.reads.iter().map(|read| read.outcome).collect();
    assert_eq!(outcomes, [ReadOutcome::Done, ReadOutcome::Cancelled]);
    assert_ne!(trace.reads[0].handle, trace.reads[1].handle);
}

#[tokio::test(flavor = "multi_thread")]
async fn sites_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let path = folder.path().join("run.trace");
    let options = SiteOptions::new().trace(&path);
    let unread = Site::open_with(file.to_str().unwrap(), options.clone()).await.unwrap();
    unread.datasets().await.unwrap();
    drop(unread);
    assert!(!path.exists(), "nothing was read");
    for name in ["run.trace", "run.trace.2", "run.trace.3"] {
        let trace = recorded(file.to_str().unwrap(), &path, options.clone()).await;
        assert_eq!(trace.reads.len(), 22);
        assert_eq!(load(&folder.path().join(name)).reads.len(), 22);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_written_ends_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let nowhere = folder.path().join("no-folder/run.trace");
    let full = folder.path().join("full.trace");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    for path in [nowhere, full.clone()] {
        let options = SiteOptions::new().trace(&path);
        let site = Site::open_with(file.to_str().unwrap(), options).await.unwrap();
        let wind = site.dataset("wind").await.unwrap().array("wind").unwrap();
        for plane in planes() {
            let plane = Selection::from(plane);
            assert_eq!(wind.read_selection(&plane).await.unwrap(), expected(&plane, 0));
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "a link is there already, so its name is not taken");
}
