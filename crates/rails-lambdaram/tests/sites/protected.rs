//! Links that are protected, over every transport, and blocks that come unasked.

use crate::data::{SHAPE, expected, region, write};
use rails_array::Selection;
use rails_lambdaram::{Server, ServerOptions, Site, SiteOptions};
use rails_multirail::{Secret, Security};
use rails_topo::Bandwidth;
use std::{path::Path, time::Duration};

fn secret(text: &[u8]) -> Security {
    Security::encrypted(Secret::pre_shared(text).unwrap())
}

async fn served(file: &Path, listen: &str, options: ServerOptions) -> (Site, Server, String) {
    write(file, 0);
    let site = Site::open(file.to_str().unwrap()).await.unwrap();
    let server = Server::bind(&site, &[listen.into()], options).await.unwrap();
    let address = server.site_addresses()[0].clone();
    (site, server, address)
}

async fn reads_planes(far: &Site) {
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    for step in 0..SHAPE[0] {
        let plane = Selection::from(region([step, 2, 0, 0], [1, 1, 91, 135]));
        assert_eq!(wind.read_selection(&plane).await.unwrap(), expected(&plane, 0), "step {step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_lets_in_those_who_know_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions::new().security(secret(b"sixteen bytes or more"));
    let (_site, _server, address) = served(&folder.path().join("wind.mapb"), "127.0.0.1:0", options).await;
    let knowing = SiteOptions::new().security(secret(b"sixteen bytes or more"));
    reads_planes(&Site::open_with(&address, knowing).await.unwrap()).await;
    let guessing = SiteOptions::new().security(secret(b"sixteen bytes of another")).patience(Duration::from_secs(1));
    let refused = Site::open_with(&address, guessing).await.unwrap().dataset("wind").await.unwrap_err();
    assert!(refused.to_string().contains("127.0.0.1"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn celeritas_carries_links() {
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions::new().rate(Bandwidth::mbps(500));
    let (_site, _server, address) = served(&folder.path().join("wind.mapb"), "celeritas://127.0.0.1:0", options).await;
    assert!(address.starts_with("lram+celeritas://"), "{address}");
    let options = SiteOptions::new().rate(Bandwidth::mbps(500));
    reads_planes(&Site::open_with(&address, options).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_come_before_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (_site, _server, address) = served(&folder.path().join("wind.mapb"), "127.0.0.1:0", ServerOptions::new()).await;
    let far = Site::open_with(&address, SiteOptions::new().presend(true)).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    for step in 0..SHAPE[0] {
        let plane = Selection::from(region([step, 2, 0, 0], [1, 1, 91, 135]));
        assert_eq!(wind.read_selection(&plane).await.unwrap(), expected(&plane, 0), "step {step}");
        // The program computes, until the next plane is on its way.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = far.status();
    assert!(status.budgets.iter().map(|budget| budget.pushed).sum::<u64>() > 0, "{status:?}");
}
