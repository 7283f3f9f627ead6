//! The divisions of arrays into blocks, and the readers that watch them.

use super::{ReplayError, Setting};
use crate::{
    grids::{Division, Views},
    trace::{Trace, TracedArray},
};
use rails_array::{BlockGrid, Grid, Region, Selection, Shape};
use rails_cache::{BudgetId, BudgetStats, DatasetId, DeclareError, Limits, Reader, rehearsal::Rehearsal};
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

/// All divisions of a replay.
pub(super) struct Divisions<'a> {
    trace: &'a Trace,
    setting: &'a Setting,
    open: HashMap<(u32, Region, Shape), Opened>,
    next_dataset: u32,
    handles: HashMap<u32, Handle>,
    pub(super) views: u64,
    /// The counters of the memory of divisions that have ended.
    pub(super) ended: Vec<BudgetStats>,
}

/// The memory of the application for a division.
#[derive(Debug, Clone)]
struct Opened {
    dataset: DatasetId,
    budget: BudgetId,
    layout: Arc<Grid>,
    /// Of [`Divisions::open`], and of each handle and each read that uses it.
    users: Rc<()>,
}

/// A division as one handle reads it.
#[derive(Debug, Clone)]
pub(super) struct View {
    opened: Opened,
    pub(super) reader: Rc<RefCell<Reader>>,
}

#[derive(Debug)]
struct Handle {
    whole: View,
    views: Views<View>,
    told: Vec<Region>,
}

impl View {
    pub(super) fn budget(&self) -> BudgetId {
        self.opened.budget
    }
}

impl Division for View {
    fn region(&self) -> &Region {
        self.opened.layout.blocks().region()
    }
}

impl<'a> Divisions<'a> {
    pub(super) fn new(trace: &'a Trace, setting: &'a Setting) -> Self {
        let (open, handles) = (HashMap::new(), HashMap::new());
        Self { trace, setting, open, next_dataset: 0, handles, views: 0, ended: Vec::new() }
    }

    /// The budgets so far.
    pub(super) fn budgets(&self) -> Vec<BudgetId> {
        let mut budgets: Vec<BudgetId> = self.open.values().map(|opened| opened.budget).collect();
        budgets.sort_unstable();
        budgets
    }

    /// The division for a read that begins now, and whether it is a new one. The choice is that of
    /// a site.
    pub(super) fn reading(
        &mut self,
        rehearsal: &mut Rehearsal,
        number: u32,
        array: u32,
        selection: &Selection,
    ) -> Result<(View, bool), ReplayError> {
        self.handle(rehearsal, number, array)?;
        let facts = self.array(array);
        let handle = self.handles.get_mut(&number).expect("the handle was opened just now");
        if let Some(view) = handle.views.use_for(selection.bounds()) {
            return Ok((view, false));
        }
        let whole = handle.whole.clone();
        if !self.setting.views {
            return Ok((whole, false));
        }
        let max_block_bytes = self.trace.header.max_block_bytes;
        let element_bytes = facts.element_bytes.into();
        let proposal = handle.views.propose(selection, &[], &whole.opened.layout, element_bytes, max_block_bytes);
        let Some((region, block_shape)) = proposal else { return Ok((whole, false)) };
        // A node that has no room for blocks of their own goes on with those of the array.
        let Ok(opened) = self.open(rehearsal, array, region, &block_shape) else { return Ok((whole, false)) };
        self.views += 1;
        let reader = whole.reader.borrow().for_budget(opened.budget);
        let view = View { opened, reader: Rc::new(RefCell::new(reader)) };
        let handle = self.handles.get_mut(&number).expect("the handle is open");
        tell(&view, &handle.told);
        handle.views.add(view.clone());
        Ok((view, true))
    }

    /// The budget that a later read would use, as far as is known now.
    pub(super) fn expected(
        &mut self,
        rehearsal: &mut Rehearsal,
        number: u32,
        array: u32,
        read: &Region,
    ) -> Result<BudgetId, ReplayError> {
        if let Some(handle) = self.handles.get(&number) {
            return Ok(handle.views.of(read).unwrap_or(&handle.whole).budget());
        }
        self.whole(rehearsal, array).map(|opened| opened.budget)
    }

    /// A handle announces regions.
    pub(super) fn tell(
        &mut self,
        rehearsal: &mut Rehearsal,
        number: u32,
        array: u32,
        regions: &[Region],
    ) -> Result<(), ReplayError> {
        let handle = self.handle(rehearsal, number, array)?;
        regions.clone_into(&mut handle.told);
        tell(&handle.whole, regions);
        handle.views.iter().for_each(|view| tell(view, regions));
        Ok(())
    }

    /// A handle reads no more.
    pub(super) fn forget(&mut self, number: u32) {
        self.handles.remove(&number);
    }

    fn handle(&mut self, rehearsal: &mut Rehearsal, number: u32, array: u32) -> Result<&mut Handle, ReplayError> {
        if !self.handles.contains_key(&number) {
            let opened = self.whole(rehearsal, array)?;
            let reader = Reader::new(opened.budget, &self.array(array).shape);
            let whole = View { opened, reader: Rc::new(RefCell::new(reader)) };
            self.handles.insert(number, Handle { whole, views: Views::default(), told: Vec::new() });
        }
        Ok(self.handles.get_mut(&number).expect("it was there, or was added"))
    }

    fn whole(&mut self, rehearsal: &mut Rehearsal, array: u32) -> Result<Opened, ReplayError> {
        let region = Region::whole(&self.array(array).shape);
        let block_shape = self.setting.block_shape(self.trace, array).clone();
        self.open(rehearsal, array, region, &block_shape)
    }

    fn open(
        &mut self,
        rehearsal: &mut Rehearsal,
        array: u32,
        region: Region,
        block_shape: &Shape,
    ) -> Result<Opened, ReplayError> {
        let key = (array, region, block_shape.clone());
        if let Some(opened) = self.open.get(&key) {
            return Ok(opened.clone());
        }
        let facts = self.array(array);
        let grid_error = |error| ReplayError::Grid { array: facts.name.clone(), error };
        let declare_error = |error: DeclareError| ReplayError::Declare { array: facts.name.clone(), error };
        let blocks = BlockGrid::new(key.1.clone(), block_shape.clone()).map_err(grid_error)?;
        let layout = Arc::new(Grid::new(blocks));
        let dataset = DatasetId(self.next_dataset);
        rehearsal.declare_dataset(dataset, layout.clone(), facts.element_bytes).map_err(declare_error)?;
        self.next_dataset += 1;
        let budget = self.budget(rehearsal, dataset).inspect_err(|_| {
            // A new dataset has no readers.
            let _ = rehearsal.end_dataset(dataset);
        });
        let opened = Opened { dataset, budget: budget.map_err(declare_error)?, layout, users: Rc::new(()) };
        self.open.insert(key, opened.clone());
        Ok(opened)
    }

    /// The memory for a division. As in a site, those that nobody uses make room for it.
    fn budget(&mut self, rehearsal: &mut Rehearsal, dataset: DatasetId) -> Result<BudgetId, DeclareError> {
        loop {
            let budget = rehearsal.node_mut().declare_budget(dataset, Limits::default(), self.setting.policy);
            let Err(error) = budget else { return budget };
            let may_help = matches!(error, DeclareError::Overcommitted { .. } | DeclareError::TooManyBudgets { .. });
            if !may_help || !self.end_idle(rehearsal) {
                return Err(error);
            }
        }
    }

    /// Ends the oldest division that nobody uses. Returns whether there was one.
    fn end_idle(&mut self, rehearsal: &mut Rehearsal) -> bool {
        let idle = self.open.iter().filter(|(_, opened)| Rc::strong_count(&opened.users) == 1);
        let Some((key, opened)) = idle.min_by_key(|(_, opened)| opened.dataset) else { return false };
        let (key, dataset, budget) = (key.clone(), opened.dataset, opened.budget);
        self.open.remove(&key);
        self.ended.push(rehearsal.node().stats(budget));
        rehearsal.end_dataset(dataset).expect("a division's dataset ends once");
        true
    }

    fn array(&self, number: u32) -> &'a TracedArray {
        &self.trace.arrays[number as usize]
    }
}

/// Has a reader know regions. Longer lists than a reader takes are not announced in a site either.
fn tell(view: &View, regions: &[Region]) {
    let _ = view.reader.borrow_mut().tell(regions.to_vec());
}
