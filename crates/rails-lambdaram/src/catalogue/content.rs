//! From one file or folder to its manifest.

use super::{
    error::CatalogueError,
    folders::{Folders, Place},
    format::SourceFormat,
    limits::OpenLimits,
};
use rails_array::Shape;
use rails_formats::{
    data_type::{DataType, Endianness},
    dataset::{ArraySource, DatasetFile, Principal, StitchedArray, View},
    header::{HeaderError, IndexError, Step},
    manifest::{
        ArrayDescription, ArrayManifest, Attributes, ChunkSource, Codec, Manifest, ManifestError, ManifestProblem,
        ObjectPath, Placement, Section,
    },
    map_binary, netcdf3,
    reader::{
        Generation, OpenError, OpenedDataset, ReadError, open_dataset, open_dataset_text, open_zarr, read_header,
    },
    zarr::ZarrError,
};
use std::{collections::BTreeMap, path::Path};

/// The manifest of a dataset, and the wishes of its dataset file.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) manifest: Manifest,
    /// The generation of each file of the manifest, by number.
    pub(super) generations: Vec<Generation>,
    /// The dataset file's own generation.
    pub(super) dataset_file: Option<Generation>,
    pub(super) readers: Vec<Principal>,
    /// The wishes for each array, by number; none behind the end.
    pub(super) layouts: Vec<ArrayLayout>,
    pub(super) views: Vec<DatasetView>,
    /// The arrays that cannot be read.
    pub(super) refused: Vec<ZarrError>,
}

/// The wishes of a dataset file for an array.
#[derive(Debug, Clone, Default)]
pub(super) struct ArrayLayout {
    pub(super) block_shape: Option<Shape>,
    pub(super) partition_shape: Option<Shape>,
    pub(super) replicas: Vec<String>,
}

/// A view of an array of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetView {
    /// The number of the array.
    pub array: usize,
    /// The name and the region.
    pub view: View,
}

/// Opens the file or folder. It blocks.
pub(super) fn open(
    path: &Path,
    format: SourceFormat,
    folders: &mut Folders,
    limits: &OpenLimits,
) -> Result<Content, CatalogueError> {
    let place = folders.place(path)?;
    with_arrays(
        path,
        match format {
            SourceFormat::DatasetFile => of_dataset_file(path, place, limits)?,
            SourceFormat::NetCdf3 => of_file(path, place, netcdf3::Header::parse, netcdf3::Header::index)?,
            SourceFormat::MapBinary => of_file(path, place, map_binary::Header::parse, map_binary::Header::index)?,
            SourceFormat::Zarr => of_zarr(path, place, limits)?,
        },
    )
}

/// Opens the dataset that a text in a dataset file at that place would mean. The call blocks.
pub(super) fn open_text(path: &Path, place: Place, text: &str, limits: &OpenLimits) -> Result<Content, CatalogueError> {
    let opened = open_dataset_text(&place.root, &place.name, text.as_bytes(), &limits.search());
    with_arrays(path, of_dataset(path, place, opened)?)
}

/// The content, if it has an array.
fn with_arrays(path: &Path, content: Content) -> Result<Content, CatalogueError> {
    if content.manifest.arrays().is_empty() {
        return Err(CatalogueError::NoArray { path: path.into(), refused: content.refused.len() });
    }
    Ok(content)
}

impl Content {
    fn new(path: &Path, place: Place, manifest: Manifest, generations: Vec<Generation>) -> Self {
        Self {
            name: name_of(path, &place),
            place,
            manifest,
            generations,
            dataset_file: None,
            readers: Vec::new(),
            layouts: Vec::new(),
            views: Vec::new(),
            refused: Vec::new(),
        }
    }
}

fn of_dataset_file(path: &Path, place: Place, limits: &OpenLimits) -> Result<Content, CatalogueError> {
    let wrong = |error| CatalogueError::Read { path: path.into(), error: Box::new(error) };
    let generation = place.root.source(&place.name).map_err(wrong)?.generation();
    let opened = open_dataset(&place.root, &place.name, &limits.search());
    Ok(Content { dataset_file: Some(generation), ..of_dataset(path, place, opened)? })
}

fn of_dataset(path: &Path, place: Place, opened: Result<OpenedDataset, OpenError>) -> Result<Content, CatalogueError> {
    let opened = opened.map_err(|error| CatalogueError::Dataset { path: path.into(), error: Box::new(error) })?;
    let manifest = with_coordinates(&opened.stitched.manifest, &opened.stitched.arrays)
        .map_err(|error| CatalogueError::Coordinates { path: path.into(), error: Box::new(error) })?;
    let DatasetFile { name, readers, arrays, .. } = opened.dataset;
    let views = arrays
        .iter()
        .enumerate()
        .flat_map(|(array, source)| source.views.iter().map(move |view| DatasetView { array, view: view.clone() }));
    Ok(Content {
        name,
        readers,
        views: views.collect(),
        layouts: arrays.into_iter().map(layout_of).collect(),
        ..Content::new(path, place, manifest, opened.generations)
    })
}

fn layout_of(source: ArraySource) -> ArrayLayout {
    let ArraySource { block_shape, partition_shape, replicas, .. } = source;
    ArrayLayout { block_shape, partition_shape, replicas }
}

fn of_file<H>(
    path: &Path,
    place: Place,
    parse: impl Fn(&[u8], u64) -> Result<Step<H>, HeaderError>,
    index: impl FnOnce(&H, ObjectPath, u64) -> Result<Manifest, IndexError>,
) -> Result<Content, CatalogueError> {
    let wrong = |error: ReadError| CatalogueError::Read { path: path.into(), error: Box::new(error) };
    let source = place.root.source(&place.name).map_err(wrong)?;
    let header = read_header(&source, parse).map_err(wrong)?;
    let manifest = index(&header, place.name.clone(), source.generation().bytes)
        .map_err(|error| CatalogueError::Index { path: path.into(), error })?;
    let generations = vec![source.generation(); manifest.objects().len()];
    Ok(Content::new(path, place, manifest, generations))
}

fn of_zarr(path: &Path, place: Place, limits: &OpenLimits) -> Result<Content, CatalogueError> {
    let opened = open_zarr(&place.root, &place.name, &limits.search())
        .map_err(|error| CatalogueError::Zarr { path: path.into(), error: Box::new(error) })?;
    let content = Content::new(path, place, opened.manifest, opened.generations);
    Ok(Content { refused: opened.refused, ..content })
}

/// The name of a dataset that has none of its own: that of its file, without what follows the last
/// dot.
fn name_of(path: &Path, place: &Place) -> String {
    // A path such as `.` has no name, and its folder has one.
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(place.name.as_str());
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.into(),
        _ => name.into(),
    }
}

/// The manifest with an array for each axis of which the coordinates are known and no array has the
/// name. An axis of which two arrays have different coordinates gets none.
fn with_coordinates(manifest: &Manifest, stitched: &[StitchedArray]) -> Result<Manifest, ManifestError> {
    let mut axes: BTreeMap<&str, Option<(&[f64], &Attributes)>> = BTreeMap::new();
    for (array, stitched) in manifest.arrays().iter().zip(stitched) {
        let Some(values) = &stitched.coordinates else { continue };
        let Some(Some(axis)) = array.description().dimension_names.get(array.along()) else { continue };
        let coordinates = Some((&values[..], &stitched.coordinate_attributes));
        let known = axes.entry(axis).or_insert(coordinates);
        if *known != coordinates {
            *known = None;
        }
    }
    let mut arrays = manifest.arrays().to_vec();
    for (axis, coordinates) in axes {
        if let Some((values, attributes)) = coordinates
            && manifest.array(axis).is_none()
        {
            let array = coordinate_array(axis, values, attributes)
                .map_err(|problem| ManifestError::Array { name: axis.into(), problem })?;
            arrays.push(array);
        }
    }
    Manifest::new(manifest.objects().to_vec(), arrays, manifest.attributes().clone())
}

/// An array of coordinates, which lie in the manifest.
fn coordinate_array(axis: &str, values: &[f64], attributes: &Attributes) -> Result<ArrayManifest, ManifestProblem> {
    let extent = values.len() as u64;
    let description = ArrayDescription {
        name: axis.into(),
        dtype: DataType::Float64,
        shape: Shape::new([extent])?,
        dimension_names: vec![Some(axis.into())],
        fill_value: None,
        attributes: attributes.clone(),
    };
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let chunks = if values.is_empty() { Vec::new() } else { vec![ChunkSource::Inline(bytes)] };
    let section = Section {
        extent,
        chunk_shape: Shape::new([extent.max(1)])?,
        codecs: vec![Codec::Bytes { endianness: Endianness::Little }],
        placement: Placement::Listed(chunks),
    };
    ArrayManifest::new(description, 0, vec![section])
}
