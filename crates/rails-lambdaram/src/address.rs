//! Addresses of datasets.

use std::{fmt, path::PathBuf, str::FromStr};

/// The place of a site: files of this machine, or nodes that serve.
///
/// | text | place |
/// |---|---|
/// | `lram://host/merra` | the dataset `merra` of a node on `host`, at port 5726 |
/// | `lram://host:7000` | all datasets of a node at port 7000 |
/// | `lram://10.0.0.1+10.0.1.1/merra` | a node with two addresses, each with a lane |
/// | `lram://east,west/merra` | two nodes that serve copies of `merra` |
/// | `lram+celeritas://host/merra` | a node that is asked over [`rails_celeritas`] |
/// | `/data/merra.toml`, `plane.nc` | files of this machine |
///
/// A name that stands for several addresses gives each a lane. IPv6 addresses are in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteAddress {
    /// A file, a folder or a pattern.
    Files(PathBuf),
    /// Nodes that serve.
    Nodes {
        /// The transport of the links.
        transport: LinkTransport,
        /// The nodes. Several serve the same datasets.
        nodes: Vec<NodeAddress>,
        /// The dataset, if the address names one.
        dataset: Option<String>,
    },
}

/// What carries the messages of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkTransport {
    /// A stream over rails, whose lanes are TCP connections (`lram://`).
    Rails,
    /// One connection of Celeritas (`lram+celeritas://`).
    Celeritas,
}

/// A node that serves, by the names or addresses of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// Each is `HOST:PORT`.
    pub(crate) lanes: Vec<String>,
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SiteAddressError {
    /// The part before `://` is none of an address's.
    #[error("`{scheme}://` is no address of a site: they begin with `lram://` or `lram+celeritas://`")]
    Scheme {
        /// The part.
        scheme: String,
    },
    /// A host is missing or is none.
    #[error("`{text}` is no host: an address is lram://HOST[:PORT]/DATASET")]
    Host {
        /// The text in the host's place.
        text: String,
    },
    /// A port is none.
    #[error("`{text}` is no port: it is from 1 to 65535")]
    Port {
        /// The text in the port's place.
        text: String,
    },
    /// The text is empty.
    #[error("an address is missing: it is a file, or lram://HOST/DATASET")]
    Empty,
}

impl SiteAddress {
    /// The port of a node whose address names none: the letters LRAM on the keys of a telephone.
    pub const DEFAULT_PORT: u16 = 5726;

    /// The dataset that the address names.
    pub fn dataset(&self) -> Option<&str> {
        match self {
            Self::Files(_) => None,
            Self::Nodes { dataset, .. } => dataset.as_deref(),
        }
    }
}

impl FromStr for SiteAddress {
    type Err = SiteAddressError;

    fn from_str(text: &str) -> Result<Self, SiteAddressError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.is_empty() { Err(SiteAddressError::Empty) } else { Ok(Self::Files(text.into())) };
        };
        let transport = match scheme {
            "lram" => LinkTransport::Rails,
            "lram+celeritas" => LinkTransport::Celeritas,
            _ => return Err(SiteAddressError::Scheme { scheme: scheme.into() }),
        };
        let (hosts, dataset) = rest.split_once('/').unwrap_or((rest, ""));
        let dataset = dataset.trim_end_matches('/');
        let node = |node: &str| {
            let lanes = node.split('+').map(with_port).collect::<Result<_, _>>()?;
            Ok(NodeAddress { lanes })
        };
        let nodes = hosts.split(',').map(node).collect::<Result<_, _>>()?;
        Ok(Self::Nodes { transport, nodes, dataset: (!dataset.is_empty()).then(|| dataset.into()) })
    }
}

impl fmt::Display for SiteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(path) => path.display().fmt(f),
            Self::Nodes { transport, nodes, dataset } => {
                let scheme = match transport {
                    LinkTransport::Rails => "lram",
                    LinkTransport::Celeritas => "lram+celeritas",
                };
                let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                write!(f, "{scheme}://{}/{}", nodes.join(","), dataset.as_deref().unwrap_or(""))
            }
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lanes.join("+"))
    }
}

/// `HOST:PORT`, with the default port if the text names none.
fn with_port(text: &str) -> Result<String, SiteAddressError> {
    let wrong = || SiteAddressError::Host { text: text.into() };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or_else(wrong)?;
            let port = match behind {
                "" => None,
                behind => Some(behind.strip_prefix(':').ok_or_else(wrong)?),
            };
            (format!("[{host}]"), port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    if host.is_empty() || host == "[]" || host.contains(char::is_whitespace) {
        return Err(wrong());
    }
    let port = match port {
        None => SiteAddress::DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(SiteAddressError::Port { text: port.into() }),
        },
    };
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<Vec<String>> {
        match text.parse().unwrap() {
            SiteAddress::Nodes { nodes, .. } => nodes.into_iter().map(|node| node.lanes).collect(),
            SiteAddress::Files(path) => panic!("{} is a file", path.display()),
        }
    }

    #[test]
    fn hosts_have_ports_lanes_and_replicas() {
        assert_eq!(nodes("lram://host/merra"), [["host:5726"]]);
        assert_eq!(nodes("lram://[fd00::1]:7000"), [["[fd00::1]:7000"]]);
        assert_eq!(nodes("lram://10.0.0.1+10.0.1.1:7/x"), [["10.0.0.1:5726", "10.0.1.1:7"]]);
        assert_eq!(nodes("lram+celeritas://east,west/x"), [["east:5726"], ["west:5726"]]);
        let address: SiteAddress = "lram://host/climate/merra/".parse().unwrap();
        assert_eq!(address.dataset(), Some("climate/merra"));
        assert_eq!(address.to_string(), "lram://host:5726/climate/merra");
        assert_eq!("data/*.nc".parse(), Ok(SiteAddress::Files("data/*.nc".into())));
    }

    #[test]
    fn refusal_of_texts_that_are_no_addresses() {
        let refused = |text: &str| text.parse::<SiteAddress>().unwrap_err();
        assert_eq!(refused(""), SiteAddressError::Empty);
        assert!(matches!(refused("http://host/x"), SiteAddressError::Scheme { .. }));
        for text in ["lram://", "lram:///merra", "lram://a,,b/x", "lram://[fd00::1/x", "lram://[]:1", "lram://a b"] {
            assert!(matches!(refused(text), SiteAddressError::Host { .. }), "{text}");
        }
        for text in ["lram://host:0/x", "lram://host:65536", "lram://host:", "lram://fd00::1/x"] {
            assert!(matches!(refused(text), SiteAddressError::Port { .. }), "{text}");
        }
    }
}
