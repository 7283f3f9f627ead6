//! `lram demo`: far reads, both ends in this process.

use crate::{
    demo_data::{LEVELS, ROWS, STEPS, wind},
    slow_path::SlowPath,
};
use anyhow::{Context, Result, ensure};
use rails_array::{Region, Shape};
use rails_cli::{duration, exit::Exit, print, rate, stop::Stop, thread::block_on};
use rails_lambdaram::{Server, ServerOptions, Site, SiteOptions};
use rails_topo::Bandwidth;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Compute the wind shear over a basin from a far array, both ends in this process
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file of 31 MiB is written below $TMPDIR or /tmp, and removed at the end. The path lies between two ports of this machine, and \
each direction has the rate and half of the round trip. It loses nothing, and TCP starts faster on it than on a line.")]
pub(crate) struct Args {
    /// The time that the program computes after each read
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration::parse)]
    compute: Duration,
    /// The rate of the path, in each direction
    #[arg(long, value_name = "RATE", default_value = "500mbit", value_parser = rate::parse)]
    rate: Bandwidth,
    /// The round trip of the path
    #[arg(long, value_name = "TIME", default_value = "19ms", value_parser = duration::parse)]
    rtt: Duration,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(async {
        let mut stop = Stop::on_signals()?;
        let folder = tempfile::tempdir().context("no folder for the demo")?;
        let shown = stop.or(show(&args, folder.path())).await;
        // The folder is gone before the process is.
        drop(folder);
        shown
    })
}

/// The reads of one case.
struct Outcome {
    all: Duration,
    waited: Duration,
    /// The sum of the shear, the same in every case.
    shear: f64,
    misses: u64,
    ahead: u64,
}

async fn show(args: &Args, folder: &Path) -> Result<Exit> {
    let file = folder.join("wind.nc");
    fs::write(&file, wind()?).context("the demo's file cannot be written")?;
    let path = file.to_str().context("the folder's name is no text")?;
    let local = read(&Site::open(path).await?, args.compute).await?;
    let cold = far(path, SiteOptions::new().prefetch(false).views(false), args).await?;
    let ahead = far(path, SiteOptions::new(), args).await?;
    let unasked = far(path, SiteOptions::new().presend(true), args).await?;
    let mut table = print::table(1, vec!["wind shear from", "took", "waited", "a read", "misses", "ahead"]);
    let cases = [
        ("a file of this machine", &local),
        ("a node", &cold),
        ("a node, prefetched", &ahead),
        ("a node, presended", &unasked),
    ];
    for (name, outcome) in cases {
        ensure!(outcome.shear == local.shear, "{name}: other elements were read than from the file");
        let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        table.add_row(vec![
            name.to_owned(),
            milliseconds(outcome.all),
            milliseconds(outcome.waited),
            milliseconds(outcome.waited / STEPS as u32),
            outcome.misses.to_string(),
            outcome.ahead.to_string(),
        ]);
    }
    print::text(format_args!("{table}\n"))?;
    print::note(format_args!(
        "all cases read the same elements; the path has {}, and a round trip of {:?}",
        args.rate, args.rtt
    ));
    Ok(Exit::Done)
}

/// Reads over a link from a node that has nothing in memory yet.
async fn far(path: &str, options: SiteOptions, args: &Args) -> Result<Outcome> {
    let node = Site::open(path).await?;
    let server = Server::bind(&node, &["127.0.0.1:0".to_owned()], ServerOptions::new()).await?;
    let address = server.site_addresses()[0].trim_start_matches("lram://").parse()?;
    let line = SlowPath::to(address, args.rate, args.rtt).await.context("no port for the path")?;
    let site = Site::open_with(&format!("lram://{}", line.address()), options).await?;
    let outcome = read(&site, args.compute).await;
    site.close().await;
    outcome
}

/// Computes the shear between the lowest and the highest level, step by step.
async fn read(site: &Site, compute: Duration) -> Result<Outcome> {
    let dataset = site.dataset("wind").await?;
    let wind = dataset.array("u")?;
    let (begun, mut waited, mut shear) = (Instant::now(), Duration::ZERO, 0.0);
    for step in 0..STEPS {
        let asked = Instant::now();
        let basin = Region::new([step, 0, ROWS / 4, 0], Shape::new([1, LEVELS, ROWS / 2, 120])?)?;
        let elements = wind.read(&basin).await?;
        waited += asked.elapsed();
        let plane = elements.len() / LEVELS as usize;
        let winds = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks_exact(4).map(|wind| f32::from_ne_bytes(wind.try_into().expect("four bytes"))).collect()
        };
        let (low, high) = (winds(&elements[..plane]), winds(&elements[elements.len() - plane..]));
        shear += low.iter().zip(&high).map(|(low, high)| f64::from((high - low).abs())).sum::<f64>();
        sleep(compute).await;
    }
    let status = site.status();
    Ok(Outcome {
        all: begun.elapsed(),
        waited,
        shear,
        misses: status.sum(|budget| budget.misses),
        ahead: status.sum(|budget| budget.ahead_fetched + budget.pushed),
    })
}
