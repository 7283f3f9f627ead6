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

/// A file of NetCDF-3 whose elements are formulas.
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
    append(&mut LEVELS.into_iter());
    append(&mut (0..ROWS).map(latitude));
    let volume = Shape::new(lengths.map(|(_, length)| length))?;
    for formula in [Place::eastward_wind, Place::northward_wind, Place::ozone] {
        append(&mut (0..volume.elements()).map(|number| formula(&Place::at(&volume.coordinates_of(number)))));
    }
    let plane = Shape::new([STEPS, ROWS, COLUMNS])?;
    append(&mut (0..plane.elements()).map(|number| {
        let at = plane.coordinates_of(number);
        Place::at(&[at[0], 0, at[1], at[2]]).temperature()
    }));
    Ok(file)
}

/// A place on the planet at a time.
struct Place {
    /// The time of day as an angle.
    time: f32,
    level: usize,
    /// In degrees.
    latitude: f32,
    /// In radians.
    longitude: f32,
}

impl Place {
    fn at(coordinates: &[u64]) -> Self {
        Self {
            time: coordinates[0] as f32 / STEPS as f32 * TAU,
            level: coordinates[1] as usize,
            latitude: latitude(coordinates[2]),
            longitude: coordinates[3] as f32 / COLUMNS as f32 * TAU,
        }
    }

    /// The angle in one of three waves, which go round the planet in three days.
    fn phase(&self) -> f32 {
        3.0 * self.longitude - self.time
    }

    /// The strength of the jet of each half of the planet.
    fn jet(&self) -> f32 {
        let distance = (self.latitude.abs() - 30.0 - 8.0 * self.phase().sin()) / 12.0;
        (1.0 + 0.4 * self.time.sin()) * (-distance.powi(2)).exp()
    }

    fn eastward_wind(&self) -> f32 {
        5.0 + 6.0 * self.level as f32 * self.jet()
    }

    fn northward_wind(&self) -> f32 {
        2.0 * self.level as f32 * self.jet() * self.phase().cos()
    }

    fn ozone(&self) -> f32 {
        OZONE[self.level] * (1.0 + self.latitude.abs() / 90.0 + self.phase().sin() / 9.0)
    }

    /// Two continents, and a day that becomes warmer.
    fn temperature(&self) -> f32 {
        let continents = 9.0 * (2.0 * self.longitude).cos() * self.latitude.to_radians().cos();
        let noon = 4.0 * (self.longitude + self.time).cos();
        298.0 - 55.0 * (self.latitude / 90.0).powi(2) + continents + noon + 2.0 * self.time / TAU
    }
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
