//! The server of LambdaRAM, in a process of its own.

use anyhow::{Context, Result};
use rails_lambdaram::{Server, ServerOptions, Site, SiteOptions};
use rails_multirail::Security;
use rails_topo::{Bandwidth, DataSize};
use std::{path::PathBuf, process::ExitCode};
use tokio::runtime::Runtime;

/// Serves data until it is killed
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// A dataset file or a folder of Zarr
    data: PathBuf,
    /// Where to listen
    #[arg(long)]
    listen: Vec<String>,
    /// The memory for blocks
    #[arg(long, default_value = "256MiB")]
    memory: DataSize,
    /// The rate of Celeritas
    #[arg(long)]
    rate: Option<Bandwidth>,
}

/// Serves, and says so on standard error.
pub(crate) fn serve(args: &ServerArgs) -> Result<ExitCode> {
    Runtime::new().context("start a runtime")?.block_on(async {
        let options = SiteOptions::new().memory(args.memory);
        let site = Site::open_with(args.data.to_str().context("a path is no text")?, options).await?;
        let mut options = ServerOptions::new().security(Security::insecure());
        if let Some(rate) = args.rate {
            options = options.rate(rate);
        }
        let mut server = Server::bind(&site, &args.listen, options).await?;
        eprintln!("serving at {}", server.site_addresses().join(" "));
        server.closed().await;
        Ok(ExitCode::SUCCESS)
    })
}
