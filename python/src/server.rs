//! Servers.

use crate::{
    error::exception,
    options::{Rate, Size},
    process::{Owned, runtime, wait},
    security::Security,
    site::status,
};
use pyo3::{prelude::*, types::PyDict};
use rails_lambdaram::{
    ServeError, ServerOptions, Site, SiteError, SiteOptions,
    catalogue::{Catalogue, OpenLimits},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::task::spawn_blocking;

/// A listener for nodes that read datasets of this machine's files.
#[pyclass(frozen, module = "lambdaram._lambdaram")]
pub(crate) struct Server {
    /// `None` once it is closed.
    serving: Mutex<Option<Arc<Owned<Serving>>>>,
    addresses: Vec<String>,
    datasets: Vec<String>,
}

struct Serving {
    site: Site,
    _server: rails_lambdaram::Server,
}

/// Serves the datasets of files.
#[pyfunction]
#[pyo3(signature = (paths, *, listen, memory, security, rate, window))]
pub(crate) fn serve(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    listen: Vec<String>,
    memory: Size,
    security: Option<Bound<'_, Security>>,
    rate: Option<Rate>,
    window: Size,
) -> PyResult<Server> {
    let site_options = SiteOptions::new().memory(memory.get(py)?);
    let options = ServerOptions::new().window(window.get(py)?);
    let options = security.into_iter().fold(options, |options, security| options.security(security.get().protection()));
    let options = match rate {
        Some(rate) => options.rate(rate.get(py)?),
        None => options,
    };
    let started = wait(py, async move {
        let catalogue = spawn_blocking(move || Catalogue::open(&paths, &OpenLimits::default())).await;
        let catalogue = catalogue.expect("opening a catalogue does not panic").map_err(SiteError::from)?;
        let datasets = catalogue.names().map(str::to_owned).collect();
        let site = Site::of_files(catalogue, site_options)?;
        let server = rails_lambdaram::Server::bind(&site, &listen, options).await?;
        let addresses = server.site_addresses();
        Ok::<_, StartError>((Serving { site, _server: server }, addresses, datasets))
    })?;
    let (serving, addresses, datasets) = started.map_err(|error| match error {
        StartError::Site(error) => exception(py, &error),
        StartError::Serve(error) => exception(py, &error),
    })?;
    Ok(Server { serving: Mutex::new(Some(Arc::new(Owned::new(serving)))), addresses, datasets })
}

#[pymethods]
impl Server {
    /// The addresses for `open`, each without a dataset.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    /// The names of the datasets.
    #[getter]
    fn datasets(&self) -> Vec<String> {
        self.datasets.clone()
    }

    /// The figures of the memory of the node that serves; `None` once it is closed.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let serving = self.lock().clone();
        serving.map(|serving| status(py, &serving.get(py)?.site.status())).transpose()
    }

    /// Ends the links.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = runtime(py)?;
        let serving = self.lock().take();
        py.detach(|| {
            let _entered = runtime.enter();
            drop(serving);
        });
        Ok(())
    }
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Owned<Serving>>>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum StartError {
    Site(SiteError),
    Serve(ServeError),
}

impl From<SiteError> for StartError {
    fn from(error: SiteError) -> Self {
        Self::Site(error)
    }
}

impl From<ServeError> for StartError {
    fn from(error: ServeError) -> Self {
        Self::Serve(error)
    }
}
