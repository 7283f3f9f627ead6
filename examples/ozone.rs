//! The thickness of the ozone layer: columns of a far 4-D array, each summed over its levels.
//!
//! Run: `cargo run --release --example ozone`, or with `-- ADDRESS`: `lram://host/dataset` or a
//! file with `ozone` in kg of a kg of air over time, level, latitude and longitude, and with the
//! coordinates `level` in hPa and `lat`. Without an address, this process makes a small planet and
//! serves it to itself.
//!
//! Expected: the thickness in Dobson units for each latitude, averaged over time and longitude, and
//! the time for which the reads waited. A read takes all levels of every eighth longitude of a row,
//! so its elements lie far apart in the file. The program knows its reads beforehand, and tells
//! them by `Array::tell`, so that even the second one is fetched ahead.

pub(crate) mod planet;

use anyhow::{Result, ensure};
use planet::{Planet, array_of, dataset_of, floats};
use rails_array::{Region, Selection, Shape};
use rails_lambdaram::{Array, Site};
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(address) => show(&address).await,
        None => {
            let planet = Planet::serve().await?;
            show(&planet.address()).await
        }
    }
}

async fn show(address: &str) -> Result<()> {
    let site = Site::open(address).await?;
    let layer = run(&site).await?;
    for (latitude, thickness) in layer.rows {
        println!("{latitude:5.1} degrees: {thickness:5.1} DU {}", "#".repeat((thickness / 10.0) as usize));
    }
    println!("{} reads waited {:.2?}", layer.reads, layer.waited);
    // So that the node need not wait whether the link comes back.
    site.close().await;
    Ok(())
}

/// The ozone layer.
pub(crate) struct Layer {
    /// For each row the latitude in degrees, and the thickness in Dobson units.
    pub(crate) rows: Vec<(f32, f64)>,
    /// The number of reads.
    pub(crate) reads: usize,
    /// The time for which they waited.
    pub(crate) waited: Duration,
}

pub(crate) async fn run(site: &Site) -> Result<Layer> {
    let dataset = dataset_of(site).await?;
    let ozone = array_of(&dataset, "ozone", 4)?;
    let &[steps, levels, rows, longitudes] = ozone.description().shape.extents() else { unreachable!("four axes") };
    let weights = weights(&line(&array_of(&dataset, "level", 1)?).await?);
    let latitudes = line(&array_of(&dataset, "lat", 1)?).await?;
    ensure!(weights.len() as u64 == levels && latitudes.len() as u64 == rows, "the coordinates have other lengths");

    let mut reads = Vec::new();
    for row in 0..rows {
        for step in 0..steps {
            reads.push((row as usize, Region::new([step, 0, row, 0], Shape::new([1, levels, 1, longitudes])?)?));
        }
    }
    ozone.tell(reads.iter().map(|(_, region)| region.clone()).collect())?;
    let mut layer = Layer { rows: Vec::new(), reads: reads.len(), waited: Duration::ZERO };
    layer.rows = latitudes.into_iter().map(|latitude| (latitude, 0.0)).collect();
    for (row, region) in reads {
        let columns = Selection::new(region, [1, 1, 1, STRIDE])?;
        let begun = Instant::now();
        let elements = ozone.read_selection(&columns).await?;
        layer.waited += begun.elapsed();
        let count = columns.counts().extents()[3];
        let planes = elements.chunks_exact(count as usize * 4).zip(&weights);
        let thickness: f64 = planes.map(|(plane, weight)| weight * floats(plane).map(f64::from).sum::<f64>()).sum();
        layer.rows[row].1 += thickness / (count * steps) as f64;
    }
    Ok(layer)
}

/// All elements of a coordinate.
async fn line(coordinate: &Array) -> Result<Vec<f32>> {
    let whole = Region::whole(&coordinate.description().shape);
    Ok(floats(&coordinate.read(&whole).await?).collect())
}

/// The Dobson units of a column that has the mixing ratio 1 in one level and none elsewhere: the
/// mass of the air from half-way to the level below up to half-way to the one above.
fn weights(pressures: &[f32]) -> Vec<f64> {
    let border = |below: usize| match (pressures.get(below), pressures.get(below + 1)) {
        (Some(here), Some(above)) => f64::from((here + above) / 2.0),
        // The uppermost level reaches to the end of the air.
        _ => 0.0,
    };
    let lowest = pressures.first().copied().map_or(0.0, f64::from);
    let bottoms = std::iter::once(lowest).chain((0..pressures.len()).map(border));
    let layers = bottoms.zip((0..pressures.len()).map(border));
    layers.map(|(bottom, top)| (bottom - top) * PASCALS_PER_HPA / GRAVITY / KG_PER_DOBSON_UNIT).collect()
}

/// Every eighth longitude is read.
const STRIDE: u64 = 8;
const PASCALS_PER_HPA: f64 = 100.0;
/// In metres per second squared.
const GRAVITY: f64 = 9.806_65;
/// In kg per square metre.
const KG_PER_DOBSON_UNIT: f64 = 2.1415e-5;
