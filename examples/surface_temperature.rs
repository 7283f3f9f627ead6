//! The mean surface temperature of a far planet, as a picture that becomes sharper as it is read.
//!
//! Run: `cargo run --release --example surface_temperature`, or with `-- ADDRESS [PICTURE]`: the
//! address is `lram://host/dataset` or a file with `t2m` in kelvin over time, latitude and
//! longitude. The picture is a PPM file, written anew after each step, which most viewers draw anew
//! then. Without an address, this process makes a small planet and serves it to itself.
//!
//! Expected: the mean over the steps so far, after each of them; at the end the picture in letters,
//! from ` ` for the coldest place to `@` for the warmest one, and north above.

pub(crate) mod planet;

use anyhow::{Context, Result};
use planet::{Planet, array_of, dataset_of, floats};
use rails_array::{Region, Shape};
use rails_lambdaram::Site;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(address), file) => show(&address.to_string_lossy(), file.as_deref().map(Path::new)).await,
        (None, _) => {
            let planet = Planet::serve().await?;
            show(&planet.address(), None).await
        }
    }
}

async fn show(address: &str, file: Option<&Path>) -> Result<()> {
    let site = Site::open(address).await?;
    let picture = run(&site, |picture| {
        println!("step {:3}: the mean so far is {:.2} K", picture.steps, picture.mean());
        match file {
            Some(file) => {
                std::fs::write(file, picture.ppm()).with_context(|| format!("cannot write {}", file.display()))
            }
            None => Ok(()),
        }
    });
    print!("{}", picture.await?.letters());
    // So that the node need not wait whether the link comes back.
    site.close().await;
    Ok(())
}

/// The sum of the steps that were read.
pub(crate) struct Picture {
    pub(crate) columns: usize,
    /// From south to north.
    pub(crate) sums: Vec<f64>,
    pub(crate) steps: u64,
}

/// Adds step after step, and shows the picture after each.
pub(crate) async fn run(site: &Site, mut show: impl FnMut(&Picture) -> Result<()>) -> Result<Picture> {
    let dataset = dataset_of(site).await?;
    let temperature = array_of(&dataset, "t2m", 3)?;
    let &[steps, rows, columns] = temperature.description().shape.extents() else { unreachable!("three axes") };
    let mut picture = Picture { columns: columns as usize, sums: vec![0.0; (rows * columns) as usize], steps: 0 };
    for step in 0..steps {
        let plane = temperature.read(&Region::new([step, 0, 0], Shape::new([1, rows, columns])?)?).await?;
        picture.sums.iter_mut().zip(floats(&plane)).for_each(|(sum, kelvin)| *sum += f64::from(kelvin));
        picture.steps += 1;
        show(&picture)?;
    }
    Ok(picture)
}

impl Picture {
    /// The mean over time and place, in kelvin; a degree of latitude near a pole counts as much as
    /// one at the equator.
    pub(crate) fn mean(&self) -> f64 {
        self.sums.iter().sum::<f64>() / self.sums.len() as f64 / self.steps as f64
    }

    /// Each place between 0, the coldest one, and 1, from north to south.
    fn shades(&self) -> impl Iterator<Item = impl Iterator<Item = f64>> {
        let bound = |better: fn(f64, f64) -> f64| self.sums.iter().copied().reduce(better).unwrap_or_default();
        let (coldest, warmest) = (bound(f64::min), bound(f64::max));
        let shade = move |sum: &f64| (sum - coldest) / (warmest - coldest).max(f64::MIN_POSITIVE);
        self.sums.chunks(self.columns).rev().map(move |row| row.iter().map(shade))
    }

    /// A letter for each place of every second row, because letters are twice as high as wide.
    pub(crate) fn letters(&self) -> String {
        let letter = |shade: f64| LETTERS[(shade * (LETTERS.len() - 1) as f64).round() as usize];
        self.shades().step_by(2).map(|row| row.map(letter).chain(['\n']).collect::<String>()).collect()
    }

    /// A picture from blue to red, as a file of the format PPM.
    pub(crate) fn ppm(&self) -> Vec<u8> {
        let head = format!("P6\n{} {}\n255\n", self.columns, self.sums.len() / self.columns);
        let colour =
            |shade: f64| [shade, 1.0 - (2.0 * shade - 1.0).abs(), 1.0 - shade].map(|part| (part * 255.0).round() as u8);
        head.into_bytes().into_iter().chain(self.shades().flat_map(|row| row.flat_map(colour))).collect()
    }
}

const LETTERS: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
