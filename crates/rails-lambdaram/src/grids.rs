//! The divisions of one array into blocks: that of its node, and those of regions that are read
//! again and again.

mod views;
mod watch;

use crate::{
    SiteOptions,
    description::DatasetDescription,
    library::{Library, OpenError},
    node::{BudgetLease, Lease, Node, OpenGrid, ReaderKey},
    wire::GridOf,
};
use rails_array::{Region, Selection, Shape};
use rails_cache::pattern::{Pattern, TellError};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
pub(crate) use views::{Division, Views};
pub(crate) use watch::block_shape;

/// The divisions of an array that one reader uses.
pub(crate) struct Grids {
    library: Arc<Library>,
    description: Arc<DatasetDescription>,
    array: u32,
    application: String,
    has_views: bool,
    prefetches: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    whole: Option<View>,
    views: Views<View>,
    /// A view was denied: there are no more.
    is_denied: bool,
    told: Vec<Region>,
}

/// A division, and the reader that watches what is read of it.
#[derive(Debug, Clone)]
pub(crate) struct View(Arc<ViewInner>);

#[derive(Debug)]
struct ViewInner {
    node: Arc<Node>,
    grid: Lease,
    /// The node keeps the budget as long as the view.
    _budget: BudgetLease,
    reader: ReaderKey,
}

impl Grids {
    pub(crate) fn new(
        library: &Arc<Library>,
        description: &Arc<DatasetDescription>,
        array: u32,
        options: &SiteOptions,
    ) -> Self {
        Self {
            library: Arc::clone(library),
            description: Arc::clone(description),
            array,
            application: options.application.clone(),
            has_views: options.views,
            prefetches: options.prefetch,
            state: Mutex::default(),
        }
    }

    /// The division for a read that begins now.
    pub(crate) fn reading(&self, selection: &Selection) -> Result<View, OpenError> {
        self.reading_in(&mut self.state(), selection)
    }

    fn reading_in(&self, state: &mut State, selection: &Selection) -> Result<View, OpenError> {
        let whole = self.whole_of(state)?;
        state.views.retain(|view| !view.grid().is_denied());
        if let Some(view) = state.views.use_for(selection.bounds()) {
            return Ok(view);
        }
        if self.has_views && !state.is_denied {
            let max_block_bytes = self.library.node().max_block_bytes();
            let (grid, declared) = (whole.grid(), &self.description.arrays[self.array as usize].views);
            let proposal = state.views.propose(selection, declared, &grid.layout, grid.dtype.bytes(), max_block_bytes);
            if let Some((region, block_shape)) = proposal {
                // A node that has no room for blocks of their own goes on with those of the array.
                let Ok(view) = self.open(Some(region), block_shape, Some(&whole), &state.told) else {
                    return Ok(whole);
                };
                state.views.add(view.clone());
                return Ok(view);
            }
        }
        Ok(whole)
    }

    /// A view was denied by its node, and reads go on with the blocks of the array. Returns whether
    /// this is news of a view.
    pub(crate) fn deny(&self, view: &View) -> bool {
        let is_view = view.grid().key.grid.region.is_some();
        if is_view {
            self.state().is_denied = true;
        }
        is_view
    }

    /// The division that a read would use.
    pub(crate) fn of(&self, selection: &Selection) -> Result<View, OpenError> {
        let mut state = self.state();
        let whole = self.whole_of(&mut state)?;
        Ok(state.views.of(selection.bounds()).cloned().unwrap_or(whole))
    }

    /// The division of the whole array.
    pub(crate) fn whole(&self) -> Result<View, OpenError> {
        self.whole_of(&mut self.state())
    }

    /// Announces the regions that will be read.
    pub(crate) fn tell(&self, regions: Vec<Region>) -> Result<(), TellError> {
        let mut state = self.state();
        // An array that cannot be opened says so to the reads.
        let Ok(whole) = self.whole_of(&mut state) else { return Ok(()) };
        for view in [&whole].into_iter().chain(state.views.iter()) {
            view.0.node.tell(view.reader(), regions.clone())?;
        }
        state.told = regions;
        // The first region shows by which division all will be read, and the blocks of no other are
        // to come.
        if !whole.grid().upstream.presends() {
            return Ok(());
        }
        let announced = match state.told.first().map(|first| Selection::from(first.clone())) {
            Some(first) => vec![self.reading_in(&mut state, &first).unwrap_or(whole)],
            // An empty list ends the announcement before it, by whichever division that was.
            None => [&whole].into_iter().chain(state.views.iter()).cloned().collect(),
        };
        for view in announced {
            view.grid().upstream.intend(view.grid(), &state.told);
        }
        Ok(())
    }

    /// The pattern of the last reads.
    pub(crate) fn pattern(&self) -> Pattern {
        let state = self.state();
        let last = state.views.iter().next_back().or(state.whole.as_ref());
        last.map_or(Pattern::Random, |view| view.0.node.pattern(view.reader()))
    }

    fn whole_of(&self, state: &mut State) -> Result<View, OpenError> {
        if let Some(whole) = &state.whole {
            return Ok(whole.clone());
        }
        let array = self.description.arrays.get(self.array as usize).ok_or(OpenError::NoArray { array: self.array })?;
        let whole = self.open(None, array.block_shape.clone(), None, &state.told)?;
        state.whole = Some(whole.clone());
        Ok(whole)
    }

    fn open(
        &self,
        region: Option<Region>,
        block_shape: Shape,
        before: Option<&View>,
        told: &[Region],
    ) -> Result<View, OpenError> {
        let wanted = GridOf { region, block_shape };
        let (grid, budget) = self.library.open(&self.description, self.array, &wanted, &self.application)?;
        let node = Arc::clone(self.library.node());
        let shape = &self.description.arrays[self.array as usize].description.shape;
        let reader = node.add_reader(*budget, shape, before.map(View::reader), self.prefetches);
        if !told.is_empty() {
            node.tell(reader, told.to_vec()).expect("the regions were told before");
        }
        Ok(View(Arc::new(ViewInner { node, grid, _budget: budget, reader })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    pub(crate) fn grid(&self) -> &Arc<OpenGrid> {
        &self.0.grid
    }

    pub(crate) fn reader(&self) -> ReaderKey {
        self.0.reader
    }
}

impl Division for View {
    fn region(&self) -> &Region {
        self.grid().layout.blocks().region()
    }
}

impl Drop for ViewInner {
    fn drop(&mut self) {
        self.node.remove_reader(self.reader);
    }
}

impl fmt::Debug for Grids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grids").field("array", &self.array).finish_non_exhaustive()
    }
}
