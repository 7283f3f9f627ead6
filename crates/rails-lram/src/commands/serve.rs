//! `lram serve`: the end that has datasets.

use crate::site::{self, LinkArgs, SECURITY};
use anyhow::{Context, Result};
use rails_cli::{
    duration,
    exit::{Exit, Help, Helped},
    output_file, print, size,
    thread::{aside, block_on},
    tls::ServerTls,
};
use rails_lambdaram::{
    BudgetRule, ServeError, Server, ServerOptions, Site, SiteAddress, SiteOptions,
    catalogue::{Catalogue, OpenLimits},
    description::DatasetEntry,
};
use rails_topo::DataSize;
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// Serve datasets to nodes that read them, until a signal comes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
DATA is a file of NetCDF-3 or MAP-Binary, a Zarr folder, a dataset file (*.toml), a folder of these, or a pattern. An address \
lram://HOST[/DATASET] is another node: this one keeps what passes, and serves it to others.

Who reaches this machine's own addresses alone needs no secret. Blocks are kept in memory once for all readers, in slots \
of 64 KiB; --memory is taken at once.

A RULE of --budget is APPLICATION[:DATASET][,min=SIZE][,max=SIZE][,weight=N][,policy=POLICY], where the names may be \
patterns such as model-*, and a reader names its application by --application. `min` is what others do not take of the \
memory, `max` the most that the application has for all arrays of the dataset together, and `weight` its part of the \
rest in relation to others (1, if nothing is said). POLICY says what goes first: lru, the block that was used least \
recently; mru, most recently; hinted (the default), lru but for blocks whose reads a program announced; schedule, what \
no program announced.

Examples:
  lram serve plane.nc
  lram serve /data/merra.toml --listen 10.0.0.1,10.0.1.1 --memory 8GB --secret-file secret
  lram serve lram://archive.example.org --listen 0.0.0.0 --memory 64GB --secret-file secret
  lram serve /data/merra.toml --memory 8GB --budget viewer,min=2GB --budget '*,weight=3'")]
pub(crate) struct Args {
    /// Files, folders, patterns, dataset files, or the address of one other node
    #[arg(value_name = "DATA", required = true)]
    data: Vec<String>,
    /// Address to listen on: IP or host, with `:PORT` if it is not 5726; port 0 takes any;
    /// celeritas://ADDR takes links over Celeritas. Several are the lanes of one node
    #[arg(long, value_name = "ADDR", value_delimiter = ',', default_value = "127.0.0.1")]
    listen: Vec<String>,
    /// Memory for blocks, such as 512MiB or 8GB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size::parse)]
    memory: DataSize,
    /// A rule for the memory of applications, such as viewer:merra,min=2GiB,weight=3 (see below).
    /// Of several, the first holds that names an application and a dataset
    #[arg(long, value_name = "RULE")]
    budget: Vec<BudgetRule>,
    /// The largest number of links at the same time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_links: u32,
    /// How long a link is kept that is lost, such as that of a reader that was killed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    patience: Duration,
    /// The size that blocks come near to, where a dataset file says no other; at most 1MiB
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = block_bytes)]
    block_bytes: DataSize,
    /// Congestion control of TCP by the kernel's name, such as cubic where BBR is the system's and
    /// the path loses few packets [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Write the addresses to this file, one a line, once they take links
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArgs<ServerTls>,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(async {
        let mut stop = args.link.stop()?;
        stop.or(serve(&args)).await
    })
}

async fn serve(args: &Args) -> Result<Exit> {
    let addresses = args.listen.iter().map(|address| with_port(address)).collect::<Result<Vec<_>>>()?;
    let security = args.link.security(None)?;
    let site = site_of(args).await?;
    let datasets = site.datasets().await.map_err(|error| site::helped(error.into(), &args.data[0]))?;
    let options = ServerOptions::new().max_links(args.max_links as usize).patience(args.patience);
    let options = args.link.rate().into_iter().fold(options, ServerOptions::rate);
    let options = args.link.window().into_iter().fold(options, ServerOptions::window);
    let options = security.into_iter().fold(options, ServerOptions::security);
    let options = args.congestion.iter().fold(options, ServerOptions::congestion);
    let bound = Server::bind(&site, &addresses, options).await;
    let mut server = bound.map_err(|error| not_listening(error, &addresses))?;
    let addresses: Vec<String> = server.site_addresses().iter().flat_map(|address| reachable(address)).collect();
    tell(&datasets, &addresses)?;
    if let Some(path) = &args.ready_file {
        let lines: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        output_file::write(path, lines).with_context(|| format!("--ready-file {}", path.display()))?;
    }
    print::note(format_args!(
        "serving {} with {} of memory; a signal (Ctrl-C) ends it",
        if datasets.len() == 1 { "1 dataset".to_owned() } else { format!("{} datasets", datasets.len()) },
        args.memory
    ));
    server.closed().await;
    anyhow::bail!("the threads that listen have ended")
}

/// The site that is served.
async fn site_of(args: &Args) -> Result<Site> {
    let options = args.link.applied(SiteOptions::new().memory(args.memory));
    let options = args.budget.iter().cloned().fold(options, SiteOptions::budget);
    let is_node = |text: &&String| matches!(text.parse(), Ok(SiteAddress::Nodes { .. }));
    if let Some(address) = args.data.iter().find(is_node) {
        if args.data.len() > 1 {
            return Err(Helped::usage(
                "an address of another node is served alone",
                "run one `lram serve` for it and one for the files",
            ));
        }
        let options = args.link.security_without_tls()?.into_iter().fold(options, SiteOptions::security);
        return site::open(address, options).await;
    }
    let data: Vec<PathBuf> = args.data.iter().map(PathBuf::from).collect();
    let limits = OpenLimits::default().block_bytes(args.block_bytes.as_bytes()).max_block_bytes(MAX_BLOCK_BYTES);
    let catalogue = aside("catalogue", move || Catalogue::open(&data, &limits)).await?;
    let catalogue = catalogue?;
    let site = Site::of_files(catalogue, options).map_err(|error| site::not_opened(error, &args.data.join(" ")))?;
    site::warn_of_left_out(&site);
    Ok(site)
}

/// Prints a line for each dataset and address.
fn tell(datasets: &[DatasetEntry], addresses: &[String]) -> Result<()> {
    let mut lines = String::new();
    for dataset in datasets {
        let arrays = if dataset.arrays == 1 { "1 array".to_owned() } else { format!("{} arrays", dataset.arrays) };
        for address in addresses {
            let name = crate::text::printable(&dataset.name);
            lines += &format!("{address}/{name}  {arrays}, {}\n", DataSize::bytes(dataset.bytes));
        }
    }
    print::result(lines)
}

fn not_listening(error: ServeError, addresses: &[String]) -> anyhow::Error {
    let is_security = matches!(error, ServeError::Security { .. });
    let error = anyhow::Error::new(error).context(format!("--listen {}", addresses.join(",")));
    let errno = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error());
    match errno.map(nix::errno::Errno::from_raw) {
        _ if is_security => error.help(SECURITY),
        Some(nix::errno::Errno::EADDRINUSE) => {
            error.help("another program listens there: `ss -ltn` lists the ports that are taken; name another by --listen ADDR:PORT")
        }
        Some(nix::errno::Errno::EADDRNOTAVAIL) => error.help("`ip address` prints this machine's addresses"),
        Some(nix::errno::Errno::ENOENT) => {
            error.help("`sysctl net.ipv4.tcp_available_congestion_control` prints those that this kernel has")
        }
        Some(nix::errno::Errno::EPERM) => {
            error.help("`sysctl net.ipv4.tcp_allowed_congestion_control` prints those that need no CAP_NET_ADMIN")
        }
        _ => error,
    }
}

/// The address with a port: the default one, if it names none.
fn with_port(address: &str) -> Result<String> {
    let (scheme, host) = address.split_once("://").map_or(("", address), |(scheme, host)| (scheme, host));
    let behind_brackets = host.rfind(']').map_or(host, |end| &host[end..]);
    let colons = behind_brackets.matches(':').count();
    if colons > 1 {
        return Err(Helped::usage(
            format_args!("--listen {address}: an IPv6 address stands in brackets"),
            format!("write it as [{host}]"),
        ));
    }
    let port = if colons == 0 { format!(":{}", SiteAddress::DEFAULT_PORT) } else { String::new() };
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    Ok(format!("{scheme}{host}{port}"))
}

/// The addresses by which others reach one that the server tells: those of this machine, where it
/// listens on all of them.
fn reachable(address: &str) -> Vec<String> {
    let (scheme, hosts) = address.split_once("://").unwrap_or(("lram", address));
    let host: Result<SocketAddr, _> = hosts.parse();
    match host {
        Ok(host) if host.ip().is_unspecified() => {
            let own = own_addresses(host.is_ipv4());
            own.into_iter().map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, host.port()))).collect()
        }
        _ => vec![address.to_owned()],
    }
}

/// The addresses of this machine that others may reach, or that of the loopback if there is none.
fn own_addresses(of_ipv4: bool) -> BTreeSet<IpAddr> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address?;
        match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(address), _) => Some(IpAddr::V4(address.ip())),
            (_, Some(address)) => Some(IpAddr::V6(address.ip())).filter(|ip| !is_link_local(ip)),
            _ => None,
        }
    });
    let mut far: BTreeSet<IpAddr> = all.filter(|ip| ip.is_ipv4() || !of_ipv4).filter(|ip| !ip.is_loopback()).collect();
    if far.is_empty() {
        far.insert(if of_ipv4 { [127, 0, 0, 1].into() } else { IpAddr::V6(std::net::Ipv6Addr::LOCALHOST) });
    }
    far
}

/// Whether an address means another machine on each interface.
fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn block_bytes(text: &str) -> Result<DataSize, String> {
    let size = size::parse(text)?;
    let fits = (4096..=MAX_BLOCK_BYTES).contains(&size.as_bytes());
    if fits { Ok(size) } else { Err("a block has 4KiB to 1MiB".to_owned()) }
}

/// The largest block of a node: 16 slots.
const MAX_BLOCK_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_default_port() {
        for (given, expected) in [
            ("10.0.0.1", "10.0.0.1:5726"),
            ("10.0.0.1:0", "10.0.0.1:0"),
            ("celeritas://host", "celeritas://host:5726"),
            ("[fd00::1]", "[fd00::1]:5726"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ] {
            assert_eq!(with_port(given).unwrap(), expected);
        }
        assert!(with_port("fd00::1").is_err());
    }

    #[test]
    fn all_addresses_are_told_one_by_one() {
        assert_eq!(reachable("lram://127.0.0.1:7"), ["lram://127.0.0.1:7"]);
        assert_eq!(reachable("lram://10.0.0.1:7+10.0.1.1:7"), ["lram://10.0.0.1:7+10.0.1.1:7"]);
        let all = reachable("lram+celeritas://0.0.0.0:7");
        assert!(!all.is_empty() && all.iter().all(|address| address.starts_with("lram+celeritas://")), "{all:?}");
        assert!(all.iter().all(|address| address.ends_with(":7") && !address.contains("0.0.0.0")), "{all:?}");
    }

    #[test]
    fn blocks_have_limits() {
        assert_eq!(block_bytes("1MiB").unwrap().as_bytes(), MAX_BLOCK_BYTES);
        assert!(block_bytes("4KiB").is_ok() && block_bytes("4095").is_err() && block_bytes("2MiB").is_err());
    }
}
