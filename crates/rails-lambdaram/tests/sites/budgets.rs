//! The memory of applications for datasets.

use crate::data::{SHAPE, region, value, write};
use rails_lambdaram::{
    Array, BudgetRule, ReadError, Server, ServerOptions, Site, SiteError, SiteOptionError, SiteOptions,
    wire::BudgetStatus,
};
use rails_topo::DataSize;
use std::path::Path;

/// The options of a site of 128 slots with rules.
fn ruled(rules: &[&str]) -> SiteOptions {
    let options = SiteOptions::new().memory(DataSize::bytes(8 << 20));
    rules.iter().map(|rule| rule.parse::<BudgetRule>().unwrap()).fold(options, SiteOptions::budget)
}

/// A node with two datasets, and its address.
async fn served(folder: &Path, rules: &[&str]) -> (Site, Server, String) {
    write(&folder.join("one.mapb"), 0);
    std::fs::copy(folder.join("one.mapb"), folder.join("other.mapb")).unwrap();
    let site = Site::open_with(folder.to_str().unwrap(), ruled(rules)).await.unwrap();
    let server = Server::bind(&site, &["127.0.0.1:0".into()], ServerOptions::new()).await.unwrap();
    let address = server.site_addresses()[0].clone();
    (site, server, address)
}

/// A reader that fetches nothing ahead, in an application.
async fn reader(address: &str, application: &str, dataset: &str) -> Array {
    let options = SiteOptions::new().application(application).prefetch(false).views(false);
    let site = Site::open_with(address, options).await.unwrap();
    site.dataset(dataset).await.unwrap().array("wind").unwrap()
}

async fn read(array: &Array, steps: std::ops::Range<u64>) {
    for step in steps {
        let elements = array.read(&region([step, 0, 0, 0], [1, SHAPE[1], SHAPE[2], SHAPE[3]])).await.unwrap();
        assert_eq!(elements[..4], value([step, 0, 0, 0], 0).to_ne_bytes(), "step {step}");
    }
}

fn budget(site: &Site, application: &str) -> BudgetStatus {
    let budgets = site.status().budgets;
    budgets.into_iter().find(|budget| budget.application == application).unwrap()
}

/// The blocks that a working set lacks when it is read again, after a scan by another application
/// of much greater weight.
async fn misses_after_a_scan(rules: &[&str]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let (site, _server, address) = served(folder.path(), rules).await;
    read(&reader(&address, "worker", "one").await, 0..8).await;
    let before = budget(&site, "worker");
    assert!(before.slots > 30 && before.slots <= 48, "{before:?}");
    for _ in 0..2 {
        read(&reader(&address, "scanner", "other").await, 0..SHAPE[0]).await;
    }
    assert!(budget(&site, "scanner").reclaimed > 0, "the scan is larger than its room");
    read(&reader(&address, "worker", "one").await, 0..8).await;
    budget(&site, "worker").misses - before.misses
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_takes_nothing_of_a_min() {
    assert_eq!(misses_after_a_scan(&["worker:one,min=3MiB", "scanner,weight=1000"]).await, 0);
    assert!(misses_after_a_scan(&["scanner,weight=1000"]).await > 0, "the rule is what keeps the blocks");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_told_by_the_first_rule() {
    let folder = tempfile::tempdir().unwrap();
    let rules = ["work*:one,min=1MiB,max=2MiB,weight=3", "*,weight=9"];
    let (site, _server, address) = served(folder.path(), &rules).await;
    let one = reader(&address, "worker", "one").await;
    read(&one, 0..SHAPE[0]).await;
    read(&reader(&address, "other", "one").await, 0..1).await;
    let limits = |budget: BudgetStatus| (budget.min_slots, budget.max_slots, budget.weight);
    assert_eq!(limits(budget(&site, "worker")), (16, 32, 3));
    assert_eq!(limits(budget(&site, "other")), (0, 128, 9));
    assert!(budget(&site, "worker").slots <= 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_max_holds_for_all_divisions_of_a_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let site = Site::open_with(file.to_str().unwrap(), ruled(&["*:wind,max=1MiB"])).await.unwrap();
    let wind = site.dataset("wind").await.unwrap().array("wind").unwrap();
    for step in (0..SHAPE[0]).chain(0..SHAPE[0]) {
        for part in [region([step, 2, 20, 30], [1, 1, 9, 9]), region([step, 0, 0, 0], [1, 6, 91, 135])] {
            let elements = wind.read(&part).await.unwrap();
            let first = part.start().try_into().unwrap();
            assert_eq!(elements[..4], value(first, 0).to_ne_bytes(), "step {step}");
            let budgets = site.status().budgets;
            assert!(budgets.iter().map(|budget| budget.slots).sum::<u32>() <= 16, "{budgets:?}");
        }
    }
    let budgets = site.status().budgets;
    assert!(budgets.len() > 1, "a region that is read again and again has blocks of its own: {budgets:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guarantees_beyond_the_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let opened = Site::open_with(file.to_str().unwrap(), ruled(&["a,min=4MiB", "b,min=2MiB"])).await;
    let error = opened.unwrap_err();
    assert!(matches!(&error, SiteError::Option(SiteOptionError::Budget(_))), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the budget `b:*,min=2 MiB` guarantees 2 MiB: of the memory of 8 MiB, 4 MiB are guaranteed by rules before it, \
         and 2.9 MiB have to be left to whoever asks"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_without_room_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let (_site, _server, address) = served(folder.path(), &["*,min=2MiB"]).await;
    let (first, second) = (reader(&address, "first", "one").await, reader(&address, "second", "one").await);
    read(&first, 0..1).await;
    read(&second, 0..1).await;
    let third = reader(&address, "third", "one").await;
    let plane = region([0; 4], [1, 1, 91, 135]);
    let error = third.read(&plane).await.unwrap_err();
    let ReadError::Failed { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("application `third` gets no memory for `one` by the rule `*:*,min=2 MiB`"), "{reason}");
    assert!(reason.contains("of the memory of 8 MiB, 4 MiB are guaranteed to others"), "{reason}");
    // The first one goes on, and makes room once it is gone.
    read(&first, 0..SHAPE[0]).await;
    drop(first);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match reader(&address, "third", "one").await.read(&plane).await {
            Ok(_) => break,
            Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
