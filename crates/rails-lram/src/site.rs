//! Sites on the command line: the flags of a link, an address, and a dataset at it.

use crate::text::printable;
use anyhow::{Result, anyhow, bail};
use rails_cli::{
    duration,
    exit::{Help, Helped},
    print, rate,
    secret::JoinArgs,
    size,
    stop::Stop,
    tls::{ClientTls, TlsArgs},
};
use rails_lambdaram::{
    Dataset, DescribeError, LinkError, Site, SiteAddress, SiteAddressError, SiteError, SiteOptionError, SiteOptions,
};
use rails_multirail::Security;
use rails_topo::{Bandwidth, DataSize};
use std::{io, time::Duration};

/// The flags of links, at either end.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LinkArgs<T: TlsArgs> {
    /// Send over Celeritas at this rate, such as 500mbit, on a path that no other sender uses
    /// [default: it is searched for, and makes way for others]
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    rate: Option<Bandwidth>,
    /// The bytes that may be on their way over one link: at least twice its rate times its round
    /// trip [default: 32MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    window: Option<DataSize>,
    #[command(flatten)]
    join: JoinArgs,
    #[command(flatten)]
    tls: T,
}

/// The flags of a command that reads.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReaderArgs {
    /// How long blocks that are waited for wait for a node that does not answer, such as 30s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    patience: Duration,
    /// The name under which the nodes count what is read, and keep memory for it
    #[arg(long, value_name = "NAME", default_value = "default")]
    application: String,
    #[command(flatten)]
    link: LinkArgs<ClientTls>,
}

/// The address of a dataset.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DatasetArgs {
    /// The dataset: lram://HOST/DATASET (or HOST:PORT), or the path of a file or folder
    pub(crate) address: String,
    /// The dataset's name, where the address has several and names none
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}

impl<T: TlsArgs> LinkArgs<T> {
    /// The rate that is stated.
    pub(crate) fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }

    /// The window that is stated.
    pub(crate) fn window(&self) -> Option<DataSize> {
        self.window
    }

    /// The security that is stated, if one is; `called` is the host that this end calls, if it
    /// calls one.
    pub(crate) fn security(&self, called: Option<&str>) -> Result<Option<Security>> {
        self.join.stated(self.tls.security(called)?)
    }

    /// The signals that end a command which listens; SIGHUP renews its certificate, if it has one.
    pub(crate) fn stop(&self) -> io::Result<Stop> {
        Stop::renewing(self.tls.renewal())
    }

    /// The security of links to other nodes that is stated, if one is: that of TLS is for those who
    /// call here.
    pub(crate) fn security_without_tls(&self) -> Result<Option<Security>> {
        if self.tls.security(None)?.is_some() { Ok(None) } else { self.join.stated(None) }
    }

    /// The options of a site that these flags mean, but for the security.
    pub(crate) fn applied(&self, options: SiteOptions) -> SiteOptions {
        let options = self.rate.into_iter().fold(options, SiteOptions::rate);
        self.window.into_iter().fold(options, SiteOptions::window)
    }
}

impl ReaderArgs {
    /// Opens the site of an address, with so much memory for blocks.
    pub(crate) async fn open(&self, address: &str, memory: DataSize) -> Result<Site> {
        let options = SiteOptions::new().memory(memory).patience(self.patience).application(&self.application);
        let options = self.link.applied(options);
        let options = self.link.security(host_of(address))?.into_iter().fold(options, SiteOptions::security);
        open(address, options).await
    }
}

/// Runs work on a site to its end or until a signal comes, and closes the site's links.
///
/// # Errors
/// Those of opening and of the work, and [`Stopped`](rails_cli::stop::Stopped).
pub(crate) async fn reading<T>(
    open: impl Future<Output = Result<Site>>,
    work: impl AsyncFnOnce(&Site) -> Result<T>,
) -> Result<T> {
    let mut stop = Stop::on_signals()?;
    let site = stop.or(open).await?;
    let done = stop.or(work(&site)).await;
    site.close().await;
    done
}

impl DatasetArgs {
    /// Runs work on the dataset, with so much memory for blocks, as [`reading`] does.
    pub(crate) async fn reading<T>(
        &self,
        memory: DataSize,
        work: impl AsyncFnOnce(&Site, Dataset) -> Result<T>,
    ) -> Result<T> {
        let open = self.reader.open(&self.address, memory);
        reading(open, async |site| {
            let name = self.name(site).await?;
            let dataset = site.dataset(&name).await.map_err(|error| helped(error.into(), &self.address))?;
            work(site, dataset).await
        })
        .await
    }

    /// The name of the dataset: that of the address, that of the flag, or the only one there.
    async fn name(&self, site: &Site) -> Result<String> {
        match (site.address().dataset(), &self.dataset) {
            (Some(named), Some(other)) if named != other => Err(Helped::usage(
                format_args!("two datasets: the address names `{named}`, and --dataset `{other}`"),
                "leave one out",
            )),
            (Some(name), _) => Ok(name.to_owned()),
            (None, Some(name)) => Ok(name.clone()),
            (None, None) => {
                let all = site.datasets().await.map_err(|error| helped(error.into(), &self.address))?;
                match &all[..] {
                    [only] => Ok(only.name.clone()),
                    [] => bail!("{}: there is no dataset", self.address),
                    several => {
                        let names: Vec<&str> = several.iter().map(|dataset| &dataset.name[..]).collect();
                        let error = anyhow!("{}: it has {} datasets, and none is named", self.address, names.len());
                        let first = &names[..names.len().min(MAX_NAMES)];
                        let first: Vec<String> = first.iter().map(|name| format!("`{}`", printable(name))).collect();
                        Err(error.help(format!("name one by --dataset: {}", first.join(", "))))
                    }
                }
            }
        }
    }
}

/// Opens the site of an address.
pub(crate) async fn open(address: &str, options: SiteOptions) -> Result<Site> {
    match Site::open_with(address, options).await {
        Ok(site) => Ok(site),
        Err(SiteError::Address(error)) => Err(Helped::usage(&error, mistyped(address, &error))),
        Err(error @ SiteError::Catalogue(_)) if is_like_a_host(address) => {
            let error = anyhow::Error::new(error);
            Err(error.help(format!("it is taken for a path; the address of a node is {}", with_scheme(address))))
        }
        Err(error) => Err(not_opened(error, address)),
    }
}

/// The error of a site, with a remedy.
pub(crate) fn not_opened(error: SiteError, address: &str) -> anyhow::Error {
    match error {
        SiteError::Option(error @ SiteOptionError::Memory { .. }) => {
            Helped::usage(error, "give another size by --memory, such as 256MiB")
        }
        error @ SiteError::Option(SiteOptionError::Budget(_)) => beyond_memory(error),
        SiteError::Option(error) => Helped::usage(error, "give another name by --application"),
        error @ SiteError::Security { .. } => anyhow::Error::new(error).help(SECURITY),
        error @ SiteError::Resolve { .. } => {
            let error = anyhow::Error::new(error).context(address.to_owned());
            error.help("`getent hosts HOST` says whether this machine knows a host")
        }
        error @ SiteError::Memory(_) => anyhow::Error::new(error).help("give less by --memory, down to 4MiB"),
        error => anyhow::Error::new(error).context(address.to_owned()),
    }
}

/// A remedy for a text that is no address.
fn mistyped(address: &str, error: &SiteAddressError) -> String {
    let (_, place) = address.split_once("://").unwrap_or(("", address));
    let (host, dataset) = place.split_once('/').map_or((place, None), |(host, dataset)| (host, Some(dataset)));
    match error {
        SiteAddressError::Scheme { .. } => format!("the address of a node is lram://{place}"),
        SiteAddressError::Host { .. } if host.is_empty() => {
            let dataset = dataset.filter(|dataset| !dataset.is_empty()).unwrap_or("DATASET");
            format!("the host comes before the dataset: lram://HOST/{dataset}")
        }
        _ if host.matches(':').count() > 1 && !host.contains(['[', ']', ',', '+']) => {
            format!("an IPv6 address stands in brackets: lram://[{host}]{}", &place[host.len()..])
        }
        SiteAddressError::Port { .. } => "`lram serve` prints its address with the port".to_owned(),
        _ => "an address is lram://HOST/DATASET (or HOST:PORT), or a path".to_owned(),
    }
}

/// Adds a remedy to the error of opening, if the memory cannot keep the rules for budgets.
pub(crate) fn beyond_memory(error: SiteError) -> anyhow::Error {
    match error {
        SiteError::Option(SiteOptionError::Budget(error)) => Helped::usage(
            error,
            "give more by --memory, or guarantee less by the `min` of each --budget; `max` is at least 1MiB",
        ),
        error => error.into(),
    }
}

/// Adds a remedy to the error of a question, if no node answered it.
pub(crate) fn helped(error: anyhow::Error, address: &str) -> anyhow::Error {
    let is_far = matches!(address.parse(), Ok(SiteAddress::Nodes { .. }));
    let is_of_link = error.is::<LinkError>() || matches!(error.downcast_ref(), Some(DescribeError::Link(_)));
    if is_far && is_of_link {
        return error.help(
            "see that `lram serve` runs there and prints this address, and that both ends have the same secret, TLS or \
             neither",
        );
    }
    if is_far { error.help(format!("`lram ls {}` lists the datasets", node_of(address))) } else { error }
}

/// The address of the nodes, without a dataset.
fn node_of(address: &str) -> &str {
    let host = address.find("://").map_or(0, |at| at + 3);
    address[host..].find('/').map_or(address, |end| &address[..host + end])
}

/// The first host of an address of nodes, without its port.
fn host_of(address: &str) -> Option<&str> {
    let (_, place) = address.split_once("://")?;
    let host = place.split(['/', ',', '+']).next()?;
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    }
}

/// Whether a path that is not there may have been meant as a host.
fn is_like_a_host(address: &str) -> bool {
    let host = address.split('/').next().unwrap_or(address);
    let is_like = host.contains([':', '.']) || address.starts_with("lram/");
    !address.starts_with(['/', '.']) && is_like && !std::path::Path::new(address).exists()
}

/// The address that was meant by one that lacks the scheme, or a part of it.
fn with_scheme(address: &str) -> String {
    let place = address.strip_prefix("lram").filter(|rest| rest.starts_with([':', '/'])).unwrap_or(address);
    format!("lram://{}", place.trim_start_matches([':', '/']))
}

/// The remedy for a link to another machine without security.
pub(crate) const SECURITY: &str =
    "give --secret-file PATH at both ends, or set RAILS_SECRET, or use TLS, or say --insecure";

/// The memory of commands that read no blocks, or few: the least that a site takes.
pub(crate) const LITTLE_MEMORY: DataSize = DataSize::bytes(4 << 20);

/// A remedy lists so many names.
const MAX_NAMES: usize = 20;

/// Names the files that were left out, and why.
pub(crate) fn warn_of_left_out(site: &Site) {
    for reason in site.left_out() {
        print::note(format_args!("warning: left out: {}", printable(&reason)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_their_datasets() {
        assert_eq!(node_of("lram://host:7/climate/merra"), "lram://host:7");
        assert_eq!(node_of("lram+celeritas://host"), "lram+celeritas://host");
        for (address, host) in [
            ("lram://host:7/climate", Some("host")),
            ("lram+celeritas://10.0.0.1+10.0.1.1,west/climate", Some("10.0.0.1")),
            ("lram://[fd00::1]:7", Some("fd00::1")),
            ("/data/climate.nc", None),
        ] {
            assert_eq!(host_of(address), host);
        }
    }

    #[test]
    fn hosts_that_lack_their_scheme() {
        assert!(is_like_a_host("host:5726/merra") && is_like_a_host("10.0.0.1"));
        assert!(!is_like_a_host("/data/merra.toml") && !is_like_a_host("./a.nc") && !is_like_a_host("merra"));
        for (address, meant) in [
            ("host:5726/merra", "lram://host:5726/merra"),
            ("lram:/host/merra", "lram://host/merra"),
            ("lram//host/merra", "lram://host/merra"),
            ("lram:host", "lram://host"),
            ("lram.org/merra", "lram://lram.org/merra"),
        ] {
            assert!(is_like_a_host(address));
            assert_eq!(with_scheme(address), meant);
        }
    }

    #[test]
    fn remedies_fit_the_mistake() {
        for (address, remedy) in [
            ("http://host/merra", "the address of a node is lram://host/merra"),
            ("lram:///merra", "the host comes before the dataset: lram://HOST/merra"),
            ("lram://", "the host comes before the dataset: lram://HOST/DATASET"),
            ("lram://fd00::1/merra", "an IPv6 address stands in brackets: lram://[fd00::1]/merra"),
            ("lram://host:99999/merra", "`lram serve` prints its address with the port"),
            ("lram://a b/merra", "an address is lram://HOST/DATASET (or HOST:PORT), or a path"),
        ] {
            let error = address.parse::<SiteAddress>().unwrap_err();
            assert_eq!(mistyped(address, &error), remedy);
        }
    }
}
