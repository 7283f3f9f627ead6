//! The wind shear between two levels over a globe or a basin, out of an array that is far away.
//!
//! Run: `cargo run --release --example wind_shear`, or with `-- ADDRESS [AREA]`: the address is
//! `lram://host/dataset` or a file with `u` and `v` over time, level, latitude and longitude, and
//! the area a box of the last two, such as `20:40, 5:35` [default: the globe]. Without an address,
//! this process makes a small planet and serves it to itself.
//!
//! Expected: for each time step the mean shear between its second and its fifth level, and the time
//! for which its reads waited. The first steps wait for the node. The later ones find their
//! elements here, because the site has seen the order of the reads.

pub(crate) mod planet;

use anyhow::Result;
use planet::{Planet, array_of, dataset_of, floats};
use rails_array::Selection;
use rails_lambdaram::Site;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(address), area) => show(&address, area.as_deref().unwrap_or(":, :")).await,
        (None, _) => {
            let planet = Planet::serve().await?;
            show(&planet.address(), ":, :").await
        }
    }
}

async fn show(address: &str, area: &str) -> Result<()> {
    let site = Site::open(address).await?;
    let mut waited = Duration::ZERO;
    let steps = run(&site, area, |step| {
        waited += step.waited;
        let bar = "#".repeat(step.mean as usize);
        println!("step {:3}: mean {:5.2} m/s, waited {:>9.2?} {bar}", step.number, step.mean, step.waited);
    });
    steps.await?;
    let (mut ahead, mut asked) = (0, 0);
    for array in site.status().budgets {
        ahead += array.ahead_fetched;
        asked += array.misses;
    }
    println!("reads waited {waited:.2?}; {ahead} blocks were fetched ahead, and {asked} when they were asked for");
    // So that the node need not wait whether the link comes back.
    site.close().await;
    Ok(())
}

/// A time step.
pub(crate) struct Step {
    /// The number, from 0.
    pub(crate) number: u64,
    /// The mean shear in metres a second.
    pub(crate) mean: f32,
    /// The time for which the reads waited.
    pub(crate) waited: Duration,
}

/// Hands the shear over an area to `each`, step by step.
pub(crate) async fn run(site: &Site, area: &str, mut each: impl FnMut(Step)) -> Result<()> {
    let dataset = dataset_of(site).await?;
    let (u, v) = (array_of(&dataset, "u", 4)?, array_of(&dataset, "v", 4)?);
    let (_, first) = dataset.select(&format!("u[0:1, 0:1, {area}]"))?;
    let at = |step, level| -> Result<Selection> {
        Ok(Selection::new(first.bounds().translated(&[step, level, 0, 0])?, first.steps().to_vec())?)
    };
    for number in 0..u.description().shape.extents()[0] {
        let begun = Instant::now();
        let (low, high) = (at(number, LEVELS[0])?, at(number, LEVELS[1])?);
        // Both arrays are read at the same time, each in an order of its own.
        let (u, v) = tokio::try_join!(
            async { Ok::<_, anyhow::Error>((u.read_selection(&low).await?, u.read_selection(&high).await?)) },
            async { Ok((v.read_selection(&low).await?, v.read_selection(&high).await?)) },
        )?;
        let waited = begun.elapsed();
        let differences = |(low, high): &(Vec<u8>, Vec<u8>)| -> Vec<f32> {
            floats(low).zip(floats(high)).map(|(low, high)| high - low).collect()
        };
        let shears = differences(&u).into_iter().zip(differences(&v)).map(|(u, v)| u.hypot(v));
        let mean = shears.sum::<f32>() / first.elements() as f32;
        each(Step { number, mean, waited });
    }
    Ok(())
}

/// The levels between which the wind is compared.
const LEVELS: [u64; 2] = [1, 4];
