//! Nodes that serve, on this machine.

use crate::data::{SHAPE, expected, region, write};
use rails_array::Selection;
use rails_lambdaram::{ReadError, Server, ServerOptions, Site, SiteOptions};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

async fn served(file: &std::path::Path) -> (Site, Server, String) {
    let site = Site::open(file.to_str().unwrap()).await.unwrap();
    let server = Server::bind(&site, &["127.0.0.1:0".into()], ServerOptions::new()).await.unwrap();
    let address = server.site_addresses()[0].clone();
    (site, server, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn far_selections_are_those_of_the_array() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, _server, address) = served(&file).await;
    let far = Site::open(&format!("{address}/wind")).await.unwrap();
    assert_eq!(far.address().dataset(), Some("wind"));
    let dataset = far.dataset("wind").await.unwrap();
    let (latitudes, two) = dataset.select("lat[2:4]").unwrap();
    assert_eq!(latitudes.read_selection(&two).await.unwrap(), [1.0_f64, 1.5].map(f64::to_ne_bytes).concat());
    let wind = dataset.array("wind").unwrap();
    for step in 0..SHAPE[0] {
        let basin = Selection::from(region([step, 2, 20, 30], [1, 1, 40, 60]));
        assert_eq!(wind.read_selection(&basin).await.unwrap(), expected(&basin, 0), "step {step}");
    }
    let whole = Selection::from(region([0; 4], SHAPE));
    assert_eq!(wind.read_selection(&whole).await.unwrap(), expected(&whole, 0));
    let [(_, status)] = &far.upstream_status().await[..] else { panic!("there is one server") };
    assert_eq!(status.as_ref().unwrap().links, 1);
    assert_eq!(far.links()[0].1, "up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_nodes_passes_blocks_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, _server, address) = served(&file).await;
    let peer = Site::open(&address).await.unwrap();
    let peer_server = Server::bind(&peer, &["127.0.0.1:0".into()], ServerOptions::new()).await.unwrap();
    let far = Site::open(&peer_server.site_addresses()[0]).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    let plane = Selection::from(region([5, 1, 0, 0], [2, 2, 91, 135]));
    assert_eq!(wind.read_selection(&plane).await.unwrap(), expected(&plane, 0));
    assert!(peer.status().cached > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_source_is_told_to_readers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, _server, address) = served(&file).await;
    let far = Site::open(&address).await.unwrap();
    let before = far.dataset("wind").await.unwrap().array("wind").unwrap();
    let plane = Selection::from(region([3, 2, 0, 0], [1, 1, 91, 135]));
    assert_eq!(before.read_selection(&plane).await.unwrap(), expected(&plane, 0));
    write(&file, 1);
    let other = Selection::from(region([9, 2, 0, 0], [1, 1, 91, 135]));
    let changed = before.read_selection(&other).await.unwrap_err();
    assert!(matches!(changed, ReadError::Changed { .. }), "{changed}");
    let after = far.dataset("wind").await.unwrap().array("wind").unwrap();
    assert_eq!(after.read_selection(&plane).await.unwrap(), expected(&plane, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (site, server, address) = served(&file).await;
    let far = Site::open(&address).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    let plane = |time| Selection::from(region([time, 2, 0, 0], [1, 1, 91, 135]));
    assert_eq!(wind.read_selection(&plane(0)).await.unwrap(), expected(&plane(0), 0));
    drop(server);
    let listen = address.strip_prefix("lram://").unwrap().to_owned();
    let (first, second) = tokio::join!(async { wind.read_selection(&plane(1)).await }, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Server::bind(&site, &[listen], ServerOptions::new()).await
    });
    assert_eq!(first.unwrap(), expected(&plane(1), 0));
    drop(second.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, server, address) = served(&file).await;
    let options = SiteOptions::new().patience(Duration::from_secs(2));
    let far = Site::open_with(&address, options).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    drop(server);
    let gone = wind.read(&region([0; 4], [1, 1, 91, 135])).await.unwrap_err();
    assert!(matches!(&gone, ReadError::Failed { reason, .. } if reason.contains("127.0.0.1")), "{gone}");
    let unknown = far.dataset("wind").await.unwrap_err().to_string();
    assert!(unknown.contains("127.0.0.1"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_site_leaves_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (site, _server, address) = served(&file).await;
    for site in [Site::open(&address).await.unwrap(), Site::open(&address).await.unwrap()] {
        site.datasets().await.unwrap();
        site.close().await;
        // It is closed already.
        site.close().await;
    }
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while site.status().links > 0 {
        assert!(std::time::Instant::now() < until, "the server counts {} links", site.status().links);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A relay for one connection. It holds the listener's answers after its `Challenge` back until the
/// reader has sent that text.
fn relay_until(text: &'static [u8], to: SocketAddr) -> SocketAddr {
    const CHALLENGE: usize = 68;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(to).unwrap();
        let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let (sender, seen) = mpsc::channel();
        thread::spawn(move || -> io::Result<()> {
            let (mut heard, mut buffer) = (Vec::new(), [0_u8; 4096]);
            while let Ok(count @ 1..) = from_near.read(&mut buffer) {
                to_far.write_all(&buffer[..count])?;
                heard.extend(&buffer[..count]);
                if heard.windows(text.len()).any(|bytes: &[u8]| bytes == text) {
                    let _ = sender.send(());
                }
            }
            to_far.shutdown(std::net::Shutdown::Write)
        });
        let mut challenge = [0; CHALLENGE];
        far.read_exact(&mut challenge).unwrap();
        near.write_all(&challenge).unwrap();
        if seen.recv().is_ok() {
            let _ = io::copy(&mut far, &mut near);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_is_asked_for_before_the_link_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, _server, address) = served(&file).await;
    let listener = address.strip_prefix("lram://").unwrap().parse().unwrap();
    let far = Site::open(&format!("lram://{}", relay_until(b"wind", listener))).await.unwrap();
    let dataset = tokio::time::timeout(Duration::from_secs(60), far.dataset("wind")).await;
    assert!(dataset.expect("the question waits for no answer").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_basin_gets_blocks_of_its_own_at_the_first_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, _server, address) = served(&file).await;
    let far = Site::open(&address).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    let basin = |step| Selection::from(region([step, 2, 20, 30], [1, 1, 20, 30]));
    assert_eq!(wind.read_selection(&basin(4)).await.unwrap(), expected(&basin(4), 0));
    let explained = wind.explain(&basin(9)).unwrap();
    assert_eq!(explained.view, Some(region([0, 0, 20, 30], [SHAPE[0], SHAPE[1], 20, 30])));
    assert_eq!(explained.block_shape.extents()[2..], [20, 30], "the blocks have no byte beside the box");
    // A box that is read whole, and one of which every axis is a part, get none.
    for first in [region([4, 2, 0, 0], [1, 1, 91, 135]), region([0, 0, 20, 30], [2, 2, 20, 30])] {
        let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
        wind.read(&first).await.unwrap();
        assert_eq!(wind.explain(&first.into()).unwrap().view, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn announced_regions_come_before_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wind.mapb");
    write(&file, 0);
    let (_site, _server, address) = served(&file).await;
    let far = Site::open_with(&address, SiteOptions::new().presend(true)).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    // No two are at the same distance.
    let basins: Vec<_> = [3, 0, 11, 5].map(|step| region([step, 2, 20, 30], [1, 1, 20, 30])).into();
    wind.tell(basins.clone()).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while far.status().sum(|budget| budget.pushed) < 4 {
        assert!(std::time::Instant::now() < until, "{:?}", far.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for basin in basins {
        let basin = Selection::from(basin);
        assert_eq!(wind.read_selection(&basin).await.unwrap(), expected(&basin, 0));
    }
    let status = far.status();
    assert_eq!((status.sum(|budget| budget.pushed), status.sum(|budget| budget.misses)), (4, 0), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_a_dataset_file_are_told_to_readers() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("wind.mapb"), 0);
    let file = folder.path().join("wind.toml");
    let text = r#"
        [dataset]
        name = "wind"
        [[array]]
        name = "wind"
        format = "map-binary"
        files = "wind.mapb"
        [[array.view]]
        name = "basin"
        start = [0, 0, 20, 30]
        shape = [16, 6, 20, 30]
    "#;
    std::fs::write(&file, text).unwrap();
    let (_site, _server, address) = served(&file).await;
    let far = Site::open(&address).await.unwrap();
    let wind = far.dataset("wind").await.unwrap().array("wind").unwrap();
    let [inside, outside] = [25, 39].map(|row| Selection::from(region([4, 2, row, 35], [2, 2, 5, 5])));
    for (selection, view) in [(inside, Some(region([0, 0, 20, 30], [16, 6, 20, 30]))), (outside, None)] {
        assert_eq!(wind.read_selection(&selection).await.unwrap(), expected(&selection, 0));
        assert_eq!(wind.explain(&selection).unwrap().view, view);
    }
}
