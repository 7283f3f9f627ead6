//! Files of this machine.

use crate::data::{SHAPE, expected, region, write};
use rails_array::Selection;
use rails_lambdaram::{ReadError, Site, SiteOptions};
use rails_topo::DataSize;

#[tokio::test(flavor = "multi_thread")]
async fn selections_are_those_of_the_array() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let site = Site::open(file.to_str().unwrap()).await.unwrap();
    let names: Vec<String> = site.datasets().await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["wind"]);
    let wind = site.dataset("wind").await.unwrap().array("wind").unwrap();
    let whole = Selection::from(region([0; 4], SHAPE));
    assert_eq!(wind.read_selection(&whole).await.unwrap(), expected(&whole, 0));
    let strided = Selection::new(region([1, 0, 3, 2], [14, 6, 80, 130]), [3, 2, 7, 11]).unwrap();
    assert_eq!(wind.read_selection(&strided).await.unwrap(), expected(&strided, 0));
    let outside = wind.read(&region([0, 0, 0, 0], [17, 1, 1, 1])).await.unwrap_err();
    assert!(matches!(outside, ReadError::Outside { .. }), "{outside}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_larger_than_the_memory_slides() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    // 4 MiB of 4.7.
    let options = SiteOptions::new().memory(DataSize::bytes(4 << 20));
    let site = Site::open_with(file.to_str().unwrap(), options).await.unwrap();
    let wind = site.dataset("wind").await.unwrap().array("wind").unwrap();
    let whole = Selection::from(region([0; 4], SHAPE));
    for _ in 0..2 {
        assert_eq!(wind.read_selection(&whole).await.unwrap(), expected(&whole, 0));
    }
    let status = site.status();
    assert!(status.budgets[0].reclaimed > 0 && status.in_transit == 0, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_never_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let site = Site::open(file.to_str().unwrap()).await.unwrap();
    let before = site.dataset("wind").await.unwrap().array("wind").unwrap();
    let plane = Selection::from(region([3, 2, 0, 0], [1, 1, 91, 135]));
    assert_eq!(before.read_selection(&plane).await.unwrap(), expected(&plane, 0));
    write(&file, 1);
    let other = Selection::from(region([9, 2, 0, 0], [1, 1, 91, 135]));
    let changed = before.read_selection(&other).await.unwrap_err();
    assert!(matches!(changed, ReadError::Changed { .. }), "{changed}");
    let after = site.dataset("wind").await.unwrap().array("wind").unwrap();
    assert_eq!(after.read_selection(&plane).await.unwrap(), expected(&plane, 1));
    assert_eq!(after.read_selection(&other).await.unwrap(), expected(&other, 1));
}
