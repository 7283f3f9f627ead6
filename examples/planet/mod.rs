//! A small planet for the examples of far arrays: a file of NetCDF-3, and a node that serves it.

use anyhow::{Context, Result, bail};
use rails_array::Shape;
use rails_formats::{
    data_type::DataType,
    manifest::{AttributeValue, Attributes},
    netcdf3::Writer,
};
use rails_lambdaram::{Array, Dataset, Server, ServerOptions, Site};
use std::f32::consts::TAU;
use tempfile::TempDir;

/// A node of this process that serves a planet out of a temporary folder.
pub(crate) struct Planet {
    server: Server,
    _folder: TempDir,
}

impl Planet {
    /// Makes the planet, and serves it to this machine: a wind `u`, `v` and `ozone` over time,
    /// level, latitude and longitude, and the temperature `t2m` over time, latitude and longitude.
    pub(crate) async fn serve() -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let file = folder.path().join("planet.nc");
        std::fs::write(&file, made_up()?).context("the planet cannot be written")?;
        let node = Site::open(file.to_str().context("the folder's name is no text")?).await?;
        let server = Server::bind(&node, &["127.0.0.1:0".into()], ServerOptions::new()).await?;
        Ok(Self { server, _folder: folder })
    }

    /// The address of the dataset.
    pub(crate) fn address(&self) -> String {
        format!("{}/planet", self.server.site_addresses()[0])
    }
}

/// The dataset that the address of a site names, or the only one there.
pub(crate) async fn dataset_of(site: &Site) -> Result<Dataset> {
    let name = match (site.address().dataset(), &site.datasets().await?[..]) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.name.clone(),
        (None, several) => bail!("{} has {} datasets: name one as lram://HOST/NAME", site.address(), several.len()),
    };
    Ok(site.dataset(&name).await?)
}

/// The array of that name, which has so many axes of 32-bit floating-point numbers.
pub(crate) fn array_of(dataset: &Dataset, name: &str, rank: usize) -> Result<Array> {
    let array = dataset.array(name)?;
    let description = array.description();
    if (description.dtype, description.shape.rank()) != (DataType::Float32, rank) {
        bail!("`{name}` is {} of {}, and no array of {rank} axes of float32", description.shape, description.dtype);
    }
    Ok(array)
}

/// The elements that a read returned.
pub(crate) fn floats(elements: &[u8]) -> impl ExactSizeIterator<Item = f32> {
    elements.chunks_exact(4).map(|element| f32::from_ne_bytes(element.try_into().expect("four bytes")))
}

/// A file with a jet that wanders eastwards, and with ozone that lies high above the equator.
fn made_up() -> Result<Vec<u8>> {
    let mut writer = Writer::new(Attributes::new());
    let lengths = [("time", STEPS), ("level", LEVELS.len() as u64), ("lat", ROWS), ("lon", COLUMNS)];
    let axes = lengths.map(|(name, length)| writer.dimension(name, length));
    let axes = axes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let surface = [axes[0], axes[2], axes[3]];
    let units = |units: &str| Attributes::from([("units".into(), AttributeValue::Text(units.into()))]);
    // Every variable has elements of four bytes, behind which is no padding.
    writer.variable("level", DataType::Float32, &axes[1..2], units("hPa"))?;
    writer.variable("lat", DataType::Float32, &axes[2..3], units("degrees_north"))?;
    writer.variable("u", DataType::Float32, &axes, units("m s-1"))?;
    writer.variable("v", DataType::Float32, &axes, units("m s-1"))?;
    writer.variable("ozone", DataType::Float32, &axes, units("kg kg-1"))?;
    writer.variable("t2m", DataType::Float32, &surface, units("K"))?;
    let mut file = writer.header()?;
    let mut append = |values: &mut dyn Iterator<Item = f32>| file.extend(values.flat_map(f32::to_be_bytes));

    let volume = Shape::new([STEPS, LEVELS.len() as u64, ROWS, COLUMNS])?;
    let at = |place: &[u64]| {
        let phase = (3.0 * place[3] as f32 / COLUMNS as f32 - place[0] as f32 / STEPS as f32) * TAU;
        (place[1] as usize, latitude(place[2]), phase)
    };
    let jet = |latitude: f32, phase: f32| (-((latitude.abs() - 30.0 - 8.0 * phase.sin()) / 12.0).powi(2)).exp();
    let places = || (0..volume.elements()).map(|number| at(&volume.coordinates_of(number)));
    append(&mut LEVELS.into_iter());
    append(&mut (0..ROWS).map(latitude));
    append(&mut places().map(|(level, latitude, phase)| 5.0 + 6.0 * level as f32 * jet(latitude, phase)));
    append(&mut places().map(|(level, latitude, phase)| 2.0 * level as f32 * jet(latitude, phase) * phase.cos()));
    append(
        &mut places().map(|(level, latitude, phase)| OZONE[level] * (1.0 + latitude.abs() / 90.0 + phase.sin() / 9.0)),
    );
    let plane = Shape::new([STEPS, ROWS, COLUMNS])?;
    append(&mut (0..plane.elements()).map(|number| {
        let place = plane.coordinates_of(number);
        let noon = (place[2] as f32 / COLUMNS as f32 + place[0] as f32 / STEPS as f32) * TAU;
        300.0 - 55.0 * (latitude(place[1]) / 90.0).powi(2) + 4.0 * noon.cos()
    }));
    Ok(file)
}

fn latitude(row: u64) -> f32 {
    -90.0 + 4.0 * row as f32
}

/// A day, hour by hour.
const STEPS: u64 = 24;
const ROWS: u64 = 46;
const COLUMNS: u64 = 72;
/// The pressure of each level, in hPa.
const LEVELS: [f32; 8] = [1000.0, 850.0, 500.0, 300.0, 200.0, 100.0, 50.0, 10.0];
/// The ozone of each level above the equator, in kg of a kg of air.
const OZONE: [f32; 8] = [4e-8, 5e-8, 6e-8, 1e-7, 3e-7, 8e-7, 2.5e-6, 1e-5];
