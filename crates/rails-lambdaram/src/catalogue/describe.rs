//! The description of a dataset: blocks, small arrays, and the digest.

use super::{
    block_shape::propose,
    content::{ArrayLayout, Content},
    error::CatalogueError,
    limits::OpenLimits,
};
use crate::{
    description::{ArraySummary, DatasetDescription},
    wire::MAX_VIEWS,
};
use rails_array::{Region, Shape};
use rails_formats::{
    data_type::Endianness,
    manifest::{ArrayDescription, ArrayManifest, Attributes, Codec, ObjectPath, Placement, Section},
    plan::{FetchPlace, MergeLimits, RegionPlan, plan_region},
    reader::{Generation, ReadError, read_plan_below},
};
use std::path::Path;

/// The description, and the files without a number that were read for it.
pub(super) struct Described {
    pub(super) description: DatasetDescription,
    /// The generations; `None` of a file that is not there.
    pub(super) chunk_files: Vec<(ObjectPath, Option<Generation>)>,
}

/// Describes a dataset, and reads its small arrays. It blocks.
pub(super) fn describe(
    path: &Path,
    content: &Content,
    generation: u64,
    limits: &OpenLimits,
) -> Result<Described, CatalogueError> {
    let arrays = content.manifest.arrays();
    let summary = |(number, array): (usize, &ArrayManifest)| {
        let description = array.description().clone();
        let layout = content.layouts.get(number);
        let views = content.views.iter().filter(|view| view.array == number).take(MAX_VIEWS);
        let views = views.map(|view| view.view.region.clone()).collect();
        Ok(ArraySummary { block_shape: block_shape(path, array, layout, limits)?, views, description, inline: None })
    };
    let mut summaries = arrays.iter().enumerate().map(summary).collect::<Result<Vec<_>, _>>()?;
    let mut chunk_files = Vec::new();
    let mut left = MAX_INLINE_BYTES;
    for number in by_use(arrays) {
        let Some(plan) = inline_plan(&arrays[number], left) else { continue };
        left -= plan.bytes();
        summaries[number].inline = read(path, content, &arrays[number], &plan, &mut chunk_files)?;
    }
    let attributes = content.manifest.attributes().clone();
    let description = DatasetDescription {
        name: content.name.clone(),
        generation,
        digest: digest(content, &attributes, &summaries),
        attributes,
        arrays: summaries,
    };
    Ok(Described { description, chunk_files })
}

/// The wish of the dataset file, or a proposal.
fn block_shape(
    path: &Path,
    array: &ArrayManifest,
    layout: Option<&ArrayLayout>,
    limits: &OpenLimits,
) -> Result<Shape, CatalogueError> {
    let ArrayDescription { name, dtype, shape, .. } = array.description();
    let Some(wanted) = layout.and_then(|layout| layout.block_shape.as_ref()) else {
        let chunk = array.sections().first().filter(|section| is_whole(section)).map(|section| &section.chunk_shape);
        return Ok(propose(shape, dtype.bytes(), chunk, limits.block_bytes, limits.max_block_bytes));
    };
    // A block at the edge of its array is cut, so one that reaches over all edges is the array.
    let cut = wanted.extents().iter().zip(shape.extents()).map(|(block, extent)| *block.min(extent.max(&1)));
    let block = Shape::new(cut).expect("a part of a shape is one");
    let bytes = block.elements().saturating_mul(dtype.bytes());
    if bytes > limits.max_block_bytes {
        let (array, max_block_bytes) = (name.clone(), limits.max_block_bytes);
        return Err(CatalogueError::BlockBytes { path: path.into(), array, bytes, max_block_bytes });
    }
    Ok(block)
}

/// Whether a chunk of the section has to be read whole.
fn is_whole(section: &Section) -> bool {
    let is_in_place = |codec: &Codec| matches!(codec, Codec::Bytes { .. } | Codec::Transpose { .. });
    matches!(section.placement, Placement::Keyed(_)) || !section.codecs.iter().all(is_in_place)
}

/// The numbers of the arrays, coordinates first: arrays that are named like their only axis.
fn by_use(arrays: &[ArrayManifest]) -> Vec<usize> {
    let is_coordinate = |array: &ArrayManifest| {
        let ArrayDescription { name, dimension_names, .. } = array.description();
        matches!(&dimension_names[..], [Some(axis)] if axis == name)
    };
    let mut numbers: Vec<usize> = (0..arrays.len()).collect();
    numbers.sort_by_key(|number| !is_coordinate(&arrays[*number]));
    numbers
}

/// The plan to read a scalar or a line that is small enough.
fn inline_plan(array: &ArrayManifest, left: u64) -> Option<RegionPlan> {
    let ArrayDescription { shape, dtype, .. } = array.description();
    let bytes = shape.elements().saturating_mul(dtype.bytes());
    if shape.rank() > 1 || shape.is_empty() || bytes > MAX_INLINE_ARRAY_BYTES.min(left) {
        return None;
    }
    let gap = MergeLimits::default().max_gap_bytes(INLINE_GAP_BYTES).max_over_read_percent(u32::MAX);
    let plan = plan_region(array, &Region::whole(shape), &gap).expect("all of an array is within it");
    let decoded: u64 = plan.fetches().iter().flat_map(|fetch| &fetch.chunks).map(|chunk| chunk.decoded_bytes).sum();
    (plan.fetches().len() <= MAX_INLINE_FETCHES && decoded <= MAX_INLINE_DECODED_BYTES).then_some(plan)
}

/// The elements, little-endian; `None`, if they cannot be read: other arrays may be readable.
fn read(
    path: &Path,
    content: &Content,
    array: &ArrayManifest,
    plan: &RegionPlan,
    chunk_files: &mut Vec<(ObjectPath, Option<Generation>)>,
) -> Result<Option<Vec<u8>>, CatalogueError> {
    let root = &content.place.root;
    let mut files = Vec::new();
    for fetch in plan.fetches() {
        if let FetchPlace::File(file) | FetchPlace::Shard { path: file, .. } = &fetch.from {
            let Ok(source) = root.source_if_there(file) else { return Ok(None) };
            files.push((file.clone(), source.map(|source| source.generation())));
        }
    }
    let mut elements = vec![0; plan.bytes() as usize];
    let read = read_plan_below(root, plan, &mut elements, |object| {
        let source = root.source(&content.manifest.objects()[object as usize])?;
        source.of_generation(content.generations[object as usize])
    });
    match read {
        Ok(()) => {
            // The way from little-endian and the way back are the same.
            array.description().dtype.swap_to_native(&mut elements, Endianness::Little);
            chunk_files.extend(files);
            Ok(Some(elements))
        }
        Err(ReadError::Changed { path: file, .. }) => Err(CatalogueError::Changed { path: path.into(), file }),
        Err(error) => {
            tracing::warn!(path = %path.display(), array = array.description().name, %error, "an array is not read");
            Ok(None)
        }
    }
}

/// The digest by which copies of the same files are known: names, types, shapes and attributes, the
/// elements of small arrays, and the sizes of the files and the times of the last changes of their
/// bytes, which a copy keeps in seconds at least (`rsync -t`, `cp -p`, `scp -p`). Files of one
/// record may have been written within a second, and differ in their coordinates.
fn digest(content: &Content, attributes: &Attributes, arrays: &[ArraySummary]) -> [u8; 32] {
    let seconds = |ns: i128| ns.div_euclid(1_000_000_000) as i64;
    let files = content.generations.iter().map(|file| (file.bytes, seconds(file.modified_ns)));
    let arrays = arrays.iter().map(|array| (&array.description, array.inline.as_deref()));
    let identity = (attributes, arrays.collect::<Vec<_>>(), files.collect::<Vec<_>>());
    let bytes = postcard::to_allocvec(&identity).expect("a description has nothing that postcard cannot write");
    *blake3::hash(&bytes).as_bytes()
}

const MAX_INLINE_ARRAY_BYTES: u64 = 64 << 10;
/// The largest size of all small arrays of a dataset: they travel in one answer.
const MAX_INLINE_BYTES: u64 = 1 << 20;
/// A line in more files than these is read when somebody asks: at opening, they are read one after
/// the other.
const MAX_INLINE_FETCHES: usize = 64;
/// A small line may be a part of large chunks.
const MAX_INLINE_DECODED_BYTES: u64 = 16 << 20;
/// Folklore: the records of a time axis lie this far apart at most where reading over them pays.
const INLINE_GAP_BYTES: u64 = 4 << 10;
