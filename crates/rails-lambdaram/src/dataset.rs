//! Datasets and arrays, as an application reads them.

use crate::{
    description::{ArraySummary, DatasetDescription},
    grids::Grids,
    library::OpenError,
    node::{Failure, ReadingError},
    opened::OpenSite,
    trace::{Recorder, TracedHandle},
    wire::{runs_of, split_runs},
};
use rails_array::{PlanError, QueryError, Region, Selection, SelectionText, Shape};
use rails_cache::{
    Fault,
    pattern::{Pattern, TellError},
};
use rails_formats::{
    data_type::{DataType, Endianness},
    manifest::{ArrayDescription, Attributes},
};
use rails_multirail::error::with_causes;
use std::sync::Arc;

/// A dataset of one generation: if its source changes, reads fail with [`ReadError::Changed`], and
/// [`Site::dataset`](crate::Site::dataset) opens it as it is then.
#[derive(Debug, Clone)]
pub struct Dataset {
    site: Arc<OpenSite>,
    description: Arc<DatasetDescription>,
}

/// An array of a dataset.
///
/// Clones are handles to the same reader: the site watches the regions that they read, in their
/// order, and fetches those that it expects next. Reads of other purposes take a handle of their
/// own, by [`Dataset::array`].
#[derive(Debug, Clone)]
pub struct Array {
    inner: Arc<ArrayInner>,
}

#[derive(Debug)]
struct ArrayInner {
    dataset: Dataset,
    number: u32,
    grids: Grids,
    traced: Option<Arc<TracedHandle>>,
}

/// Why a dataset has no such array, or it cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The dataset has no array of that name.
    #[error("`{dataset}` has no array `{array}`; it has {known}")]
    Unknown {
        /// The dataset.
        dataset: String,
        /// The name that was asked for.
        array: String,
        /// The names of its arrays.
        known: String,
    },
    /// The array cannot be cached.
    #[error("the array `{array}` cannot be cached: {reason}")]
    Open {
        /// The array.
        array: String,
        /// The reason.
        reason: String,
    },
}

/// Why a read failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The selection is none of the array's.
    #[error("the array `{array}` has the shape {shape}, and {selection} is not within it")]
    Outside {
        /// The array.
        array: String,
        /// The array's shape.
        shape: Shape,
        /// The selection, in the syntax of slices.
        selection: String,
    },
    /// The destination has not the size of the selection.
    #[error("the selection has {wanted} bytes, and there is room for {room}")]
    Room {
        /// The size of the selection in bytes.
        wanted: u64,
        /// The size of the destination in bytes.
        room: u64,
    },
    /// The source has changed since the dataset was opened.
    #[error("the source of `{array}` has changed since it was opened")]
    Changed {
        /// The array.
        array: String,
    },
    /// A block cannot be had.
    #[error("{region} of the array `{array}` cannot be read: {reason}")]
    Failed {
        /// The array.
        array: String,
        /// The region of the block.
        region: String,
        /// The kind of the fault.
        fault: Fault,
        /// The words of the source, which name file and chunk where there are any.
        reason: Arc<str>,
    },
    /// A block of the array cannot be cached.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

/// What a read of a region would do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The shape of the blocks.
    pub block_shape: Shape,
    /// The region that has blocks of its own, if the blocks are those of a view.
    pub view: Option<Region>,
    /// Each block with its region, and whether it is in the memory of this process.
    pub blocks: Vec<(Region, bool)>,
    /// The size of the selected elements in bytes.
    pub wanted_bytes: u64,
    /// The size of the blocks that are not in memory, in bytes.
    pub missing_bytes: u64,
    /// The pattern of the reads so far.
    pub pattern: Pattern,
}

impl Dataset {
    pub(crate) fn new(site: &Arc<OpenSite>, description: Arc<DatasetDescription>) -> Self {
        Self { site: Arc::clone(site), description }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// All facts.
    pub fn description(&self) -> &DatasetDescription {
        &self.description
    }

    /// The attributes of the whole.
    pub fn attributes(&self) -> &Attributes {
        &self.description.attributes
    }

    /// The names of the arrays.
    pub fn array_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.description.arrays.iter().map(|array| &array.description.name[..])
    }

    /// A reader of the array of that name.
    ///
    /// # Errors
    /// [`ArrayError::Unknown`].
    pub fn array(&self, name: &str) -> Result<Array, ArrayError> {
        let number = self.description.arrays.iter().position(|array| array.description.name == name);
        let number = number.ok_or_else(|| ArrayError::Unknown {
            dataset: self.name().into(),
            array: name.into(),
            known: self.array_names().collect::<Vec<_>>().join(", "),
        })?;
        let grids = Grids::new(&self.site.library, &self.description, number as u32, &self.site.options);
        let traced = self.site.recorder.as_ref().map(|recorder| recorder.handle(&self.description, number as u32));
        Ok(Array { inner: Arc::new(ArrayInner { dataset: self.clone(), number: number as u32, grids, traced }) })
    }

    /// The array and the selection that a text means, such as `ozone[0:64, 3, :, 100:250]`.
    ///
    /// # Errors
    /// [`SelectError`].
    pub fn select(&self, text: &str) -> Result<(Array, Selection), SelectError> {
        let text: SelectionText = text.parse()?;
        let name = match (text.name(), &self.description.arrays[..]) {
            (Some(name), _) => name,
            (None, [only]) => &only.description.name,
            (None, _) => return Err(SelectError::NoName),
        };
        let array = self.array(name)?;
        let selection = text.resolve(&array.description().shape)?;
        Ok((array, selection))
    }
}

/// Why a text selects nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The text is no selection.
    #[error(transparent)]
    Text(#[from] rails_array::SelectionTextError),
    /// The selection does not fit the array.
    #[error(transparent)]
    Resolve(#[from] rails_array::ResolveError),
    /// There is no such array.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The text names no array, and the dataset has not one alone.
    #[error("the selection names no array: it is `NAME[...]`")]
    NoName,
}

impl Array {
    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.inner.dataset
    }

    /// The name, type, shape, dimensions and attributes.
    pub fn description(&self) -> &ArrayDescription {
        &self.summary().description
    }

    /// The shape of the blocks in which the array is fetched.
    pub fn block_shape(&self) -> &Shape {
        &self.summary().block_shape
    }

    /// Reads a region: its elements in C order, in this machine's order of bytes.
    ///
    /// # Cancel safety
    /// A read that is dropped is given up.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read(&self, region: &Region) -> Result<Vec<u8>, ReadError> {
        self.read_selection(&Selection::from(region.clone())).await
    }

    /// Reads selected elements, in C order, in this machine's order of bytes.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read).
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_selection(&self, selection: &Selection) -> Result<Vec<u8>, ReadError> {
        self.check(selection)?;
        let mut elements = vec![0; self.bytes_of(selection) as usize];
        self.read_into(selection, &mut elements).await?;
        Ok(elements)
    }

    /// Fills `goal` with selected elements, in C order, in this machine's order of bytes.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read); `goal` is partly filled then.
    ///
    /// # Errors
    /// [`ReadError`]; `goal` is partly filled then.
    pub async fn read_into(&self, selection: &Selection, goal: &mut [u8]) -> Result<(), ReadError> {
        self.check(selection)?;
        let (wanted, room) = (self.bytes_of(selection), goal.len() as u64);
        if wanted != room {
            return Err(ReadError::Room { wanted, room });
        }
        if wanted == 0 {
            return Ok(());
        }
        let summary = self.summary();
        if let Some(inline) = &summary.inline {
            copy_inline(summary, inline, selection, goal);
            return Ok(());
        }
        let traced = self.recording().map(|(recorder, handle)| recorder.begin(handle, selection));
        let read = self.read_blocks(selection, goal).await;
        traced.into_iter().for_each(|traced| traced.end(&read));
        read
    }

    /// Fills `goal` with the elements of a checked selection out of blocks.
    async fn read_blocks(&self, selection: &Selection, goal: &mut [u8]) -> Result<(), ReadError> {
        let summary = self.summary();
        let mut view = self.inner.grids.reading(selection).map_err(|error| self.not_opened(&error))?;
        let node = self.inner.dataset.site.library.node();
        let mut read = node.read_into(view.reader(), view.grid(), selection, goal).await;
        if read.is_err() && view.grid().is_denied() && self.inner.grids.deny(&view) {
            view = self.inner.grids.whole().map_err(|error| self.not_opened(&error))?;
            read = node.read_into(view.reader(), view.grid(), selection, goal).await;
        }
        read.map_err(|error| match error {
            ReadingError::Changed | ReadingError::Failed(Failure { fault: Fault::Changed, .. }) => {
                ReadError::Changed { array: summary.description.name.clone() }
            }
            ReadingError::Failed(Failure { block, fault, text }) => ReadError::Failed {
                array: summary.description.name.clone(),
                region: block
                    .map_or_else(|| selection.to_string(), |block| view.grid().region(block.index).to_string()),
                fault,
                reason: text,
            },
            ReadingError::Outside => self.outside(selection),
        })
    }

    /// Announces the regions that will be read, in their order, so that they are fetched in it.
    /// They take the place of those that were announced before.
    ///
    /// Blocks that are read more than once stay in memory for the next time, the nearest reads
    /// first, under the policies [`Hinted`](crate::Policy::Hinted) and
    /// [`Schedule`](crate::Policy::Schedule). The read that follows notes the blocks of the list,
    /// at most a million.
    ///
    /// # Errors
    /// [`TellError`] for a list that is too long or leaves the array.
    pub fn tell(&self, regions: Vec<Region>) -> Result<(), TellError> {
        let Some((recorder, handle)) = self.recording() else { return self.inner.grids.tell(regions) };
        self.inner.grids.tell(regions.clone())?;
        recorder.tell(handle, regions);
        Ok(())
    }

    /// Has the nodes that serve keep the blocks of a region ready in their memory. It does not wait
    /// for them. Does nothing for files of this machine.
    ///
    /// # Errors
    /// [`ReadError::Outside`] and [`ReadError::Array`].
    pub fn warm(&self, region: &Region) -> Result<u64, ReadError> {
        let selection = Selection::from(region.clone());
        self.check(&selection)?;
        let view = self.inner.grids.whole().map_err(|error| self.not_opened(&error))?;
        let blocks = view.grid().blocks_of(&selection).map_err(|_: QueryError| self.outside(&selection))?;
        let runs = runs_of(blocks);
        let count = runs.iter().map(|run| u64::from(run.count)).sum();
        self.inner.dataset.site.library.warm(view.grid(), split_runs(&runs));
        Ok(count)
    }

    /// Says which blocks a read would take, and which of them are in memory.
    ///
    /// # Errors
    /// [`ReadError::Outside`] and [`ReadError::Array`].
    pub fn explain(&self, selection: &Selection) -> Result<Explanation, ReadError> {
        self.check(selection)?;
        let view = self.inner.grids.of(selection).map_err(|error| self.not_opened(&error))?;
        let grid = view.grid();
        let blocks: Vec<_> = grid.blocks_of(selection).map_err(|_: QueryError| self.outside(selection))?.collect();
        let node = self.inner.dataset.site.library.node();
        let cached = node.cached(grid, blocks.iter().copied());
        let missing = blocks.iter().zip(&cached).filter(|(_, is_cached)| !**is_cached);
        Ok(Explanation {
            block_shape: grid.key.grid.block_shape.clone(),
            view: grid.key.grid.region.clone(),
            missing_bytes: missing.map(|(block, _)| grid.block_bytes(*block)).sum(),
            wanted_bytes: self.bytes_of(selection),
            pattern: self.inner.grids.pattern(),
            blocks: blocks.into_iter().map(|block| grid.region(block)).zip(cached).collect(),
        })
    }

    /// The recording of reads, and this handle in it.
    fn recording(&self) -> Option<(&Recorder, &Arc<TracedHandle>)> {
        self.inner.dataset.site.recorder.as_ref().zip(self.inner.traced.as_ref())
    }

    fn summary(&self) -> &ArraySummary {
        &self.inner.dataset.description.arrays[self.inner.number as usize]
    }

    fn bytes_of(&self, selection: &Selection) -> u64 {
        selection.elements().saturating_mul(self.description().dtype.bytes())
    }

    fn check(&self, selection: &Selection) -> Result<(), ReadError> {
        let shape = &self.description().shape;
        let fits = selection.rank() == shape.rank() && (selection.is_empty() || selection.bounds().is_within(shape));
        if fits { Ok(()) } else { Err(self.outside(selection)) }
    }

    fn outside(&self, selection: &Selection) -> ReadError {
        let ArrayDescription { name, shape, .. } = self.description();
        ReadError::Outside { array: name.clone(), shape: shape.clone(), selection: selection.to_string() }
    }

    fn not_opened(&self, error: &OpenError) -> ReadError {
        let array = self.description().name.clone();
        match error {
            OpenError::Changed => ReadError::Changed { array },
            error => ArrayError::Open { array, reason: with_causes(error) }.into(),
        }
    }
}

/// Copies out of the elements that came with the description.
fn copy_inline(summary: &ArraySummary, inline: &[u8], selection: &Selection, goal: &mut [u8]) {
    let ArrayDescription { dtype, shape, .. } = &summary.description;
    let plan = rails_array::CopyPlan::new(&Region::whole(shape), selection, dtype.bytes());
    let plan: Result<_, PlanError> = plan;
    rails_array::copy(&plan.expect("a checked selection fits"), inline, goal).expect("a description was checked");
    DataType::swap_to_native(*dtype, goal, Endianness::Little);
}
