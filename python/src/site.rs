//! Sites.

use crate::{
    dataset::Dataset,
    error::{Class, exception},
    options::{Rate, Size, seconds},
    process::{Owned, runtime, wait},
    security::Security,
};
use pyo3::{prelude::*, types::PyDict};
use rails_lambdaram::{
    DescribeError, SiteOptions,
    wire::{BudgetStatus, NodeStatus},
};
use std::sync::{Mutex, PoisonError};
use tokio::task::JoinSet;

/// The datasets at one address.
#[pyclass(frozen, module = "lambdaram._lambdaram")]
pub(crate) struct Site {
    site: Owned<rails_lambdaram::Site>,
}

type Asking = JoinSet<Result<rails_lambdaram::Dataset, DescribeError>>;

/// A dataset that was asked for. Nobody asks any more once it is dropped.
#[pyclass(frozen, module = "lambdaram._lambdaram")]
pub(crate) struct AskedDataset {
    /// The task that asks; `None` once it is waited for.
    asking: Mutex<Option<Owned<Asking>>>,
}

#[pymethods]
impl AskedDataset {
    /// Waits for the dataset. It is waited for once.
    fn wait(&self, py: Python<'_>) -> PyResult<Dataset> {
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner).take();
        let asking = asking.ok_or_else(|| Class::Error.exception(py, "the dataset was waited for before"))?;
        let mut asking = asking.into_inner(py)?;
        let answer = wait(py, asking.join_next())?.expect("a task was spawned");
        let dataset = answer.map_err(|error| Class::Error.exception(py, &error.to_string()))?;
        Ok(Dataset::new(dataset.map_err(|error| exception(py, &error))?))
    }
}

/// Opens the site of an address.
#[pyfunction]
#[pyo3(signature = (address, *, memory, application, security, rate, prefetch, presend, views, window, patience))]
#[expect(clippy::too_many_arguments, reason = "they are named, and the package beside gives them")]
pub(crate) fn open(
    py: Python<'_>,
    address: &str,
    memory: Size,
    application: &str,
    security: Option<Bound<'_, Security>>,
    rate: Option<Rate>,
    prefetch: bool,
    presend: bool,
    views: bool,
    window: Size,
    patience: f64,
) -> PyResult<Site> {
    let options = SiteOptions::new().memory(memory.get(py)?).application(application);
    let options = options.prefetch(prefetch).presend(presend).views(views);
    let options = options.window(window.get(py)?).patience(seconds(py, patience)?);
    let options = security.into_iter().fold(options, |options, security| options.security(security.get().protection()));
    let options = match rate {
        Some(rate) => options.rate(rate.get(py)?),
        None => options,
    };
    let site = wait(py, rails_lambdaram::Site::open_with(address, options))?;
    Ok(Site { site: Owned::new(site.map_err(|error| exception(py, &error))?) })
}

/// Ends the links of the sites of this process, all at the same time.
#[pyfunction]
pub(crate) fn close(py: Python<'_>, sites: Vec<Bound<'_, Site>>) -> PyResult<()> {
    let own = sites.iter().filter_map(|site| site.get().site.get(py).ok().cloned());
    let mut closing: JoinSet<()> = JoinSet::new();
    let runtime = runtime(py)?;
    for site in own {
        closing.spawn_on(async move { site.close().await }, &runtime);
    }
    wait(py, async move { while closing.join_next().await.is_some() {} })
}

#[pymethods]
impl Site {
    /// The address, in full.
    #[getter]
    fn address(&self) -> String {
        self.site.facts().address().to_string()
    }

    /// The dataset that the address names.
    #[getter]
    fn dataset_name(&self) -> Option<&str> {
        self.site.facts().address().dataset()
    }

    /// Name, number of arrays and bytes of each dataset.
    fn datasets(&self, py: Python<'_>) -> PyResult<Vec<(String, u32, u64)>> {
        let entries = wait(py, self.site.get(py)?.datasets())?.map_err(|error| exception(py, &error))?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.arrays, entry.bytes)).collect())
    }

    /// Asks for a dataset, as it is now. The program goes on until it waits for the answer.
    fn ask(&self, py: Python<'_>, name: String) -> PyResult<AskedDataset> {
        let site = self.site.get(py)?.clone();
        let mut asking = JoinSet::new();
        asking.spawn_on(async move { site.dataset(&name).await }, &runtime(py)?);
        Ok(AskedDataset { asking: Mutex::new(Some(Owned::new(asking))) })
    }

    /// The figures of this process's memory.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        status(py, &self.site.get(py)?.status())
    }

    /// The nodes that serve, and how their links are.
    fn links(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let links = self.site.get(py)?.links().into_iter();
        Ok(links.map(|(node, status)| (node.to_string(), status)).collect())
    }
}

pub(crate) fn status<'py>(py: Python<'py>, status: &NodeStatus) -> PyResult<Bound<'py, PyDict>> {
    let figures = PyDict::new(py);
    let slots = [
        ("slots", status.slots),
        ("slot_bytes", status.slot_bytes),
        ("free", status.free),
        ("in_transit", status.in_transit),
        ("cached", status.cached),
        ("credited", status.credited),
        ("level", u32::from(status.level)),
        ("links", status.links),
    ];
    for (name, figure) in slots {
        figures.set_item(name, figure)?;
    }
    let budgets = status.budgets.iter().map(|budget| counters(py, budget)).collect::<PyResult<Vec<_>>>()?;
    figures.set_item("budgets", budgets)?;
    Ok(figures)
}

fn counters<'py>(py: Python<'py>, budget: &BudgetStatus) -> PyResult<Bound<'py, PyDict>> {
    let figures = PyDict::new(py);
    for (name, text) in [("application", &budget.application), ("dataset", &budget.dataset), ("array", &budget.array)] {
        figures.set_item(name, text)?;
    }
    let counters = [
        ("hits", budget.hits),
        ("ahead_hits", budget.ahead_hits),
        ("late_ahead", budget.late_ahead),
        ("misses", budget.misses),
        ("ahead_fetched", budget.ahead_fetched),
        ("pushed", budget.pushed),
        ("used", budget.used),
        ("unused", budget.unused),
        ("reclaimed", budget.reclaimed),
        ("failed", budget.failed),
    ];
    for (name, count) in counters {
        figures.set_item(name, count)?;
    }
    Ok(figures)
}
