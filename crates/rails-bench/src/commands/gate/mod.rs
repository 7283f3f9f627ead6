//! `rails-bench gate`

mod show;

use super::door::{DoorArgs, raise_descriptors};
use crate::{
    endpoint::{Address, Endpoint, LaneArgs, Remotes, addresses_of, help_for_listener, say_listening},
    exit::{Exit, Help, explain},
    placement::RailsArgs,
    print, secret,
    service::Service,
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Result};
use rails_gate::{
    BindDoorsError, DoorKind, Gate, GateOptions, GateSecurity, StartError,
    policy::{PeerKey, Policy},
};
use rails_multirail::{PeerSecrets, RailRequest, Secret, Security, StreamOptions};
use std::{collections::BTreeMap, path::PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Carry connections of unchanged programs to other hosts, over every rail
///
/// A program's connection comes in by a door of this host: `pipe`, `forward`, `run --stripe`,
/// `redirect`. The gate of the other host, which the policy names, connects to the service there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A policy (all keys: docs/gate.md):
  listen = [\"10.0.1.1:7600\", \"10.0.2.1:7600\"]
  [[peer]]
  name = \"storage\"
  dial = [\"10.0.1.9:7600\", \"10.0.2.9:7600\"]
  secret_file = \"storage.secret\"
  networks = [\"10.0.1.9:22,80\"]       # these destinations go through this peer
  reach = [\"127.0.0.1:5432\"]          # and these it may reach from here; nothing by default

SIGHUP reads the policy again, and no connection is lost.")]
pub(crate) struct Args {
    /// The policy: peers, the destinations that go through each, and those that each may reach
    #[arg(long, value_name = "FILE", default_value = "/etc/rails/gate.toml")]
    policy: PathBuf,
    /// Rails of the sessions: interfaces, addresses, `auto` [default: those of the addresses that
    /// the policy listens on, or else those by which the peers are reached]
    #[arg(long, value_name = "RAILS")]
    from: Option<RailRequest>,
    /// Read the policy and the secrets, report the faults in them, and end
    #[arg(long, conflicts_with_all = ["status", "prometheus"])]
    check: bool,
    /// Print the state of the gate that runs on this host: peers, connections, and those that went
    /// plain
    #[arg(long)]
    status: bool,
    /// Print the state as a JSON object (docs/json.md)
    #[arg(long, requires = "status")]
    json: bool,
    /// Write the counts of the gate that runs on this host to this file, as text for Prometheus;
    /// `-` is stdout
    #[cfg(feature = "prometheus")]
    #[arg(long, value_name = "FILE", conflicts_with = "status")]
    prometheus: Option<PathBuf>,
    #[command(flatten)]
    gate: DoorArgs,
    #[command(flatten)]
    placement: RailsArgs,
    #[command(flatten)]
    lanes: LaneArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    #[cfg(feature = "prometheus")]
    if let Some(to) = &args.prometheus {
        return block_on(show::prometheus(&args.gate.door(DoorKind::Pipe), to));
    }
    if args.status {
        return block_on(show::status(&args.gate.door(DoorKind::Pipe), args.json));
    }
    if args.check {
        let (policy, _) = read(args)?;
        let count = policy.peers().len();
        let peers = if count == 1 { "peer" } else { "peers" };
        print::text(format_args!(
            "{}: {count} {peers}; the policy and what it names can be read\n",
            args.policy.display()
        ))?;
        return Ok(Exit::Done);
    }
    block_on(serve(args))
}

async fn serve(args: &Args) -> Result<Exit> {
    // Each connection takes one, and those that are asked for two.
    raise_descriptors();
    let mut stop = Stop::of_a_service()?;
    let mut again = signal(SignalKind::hangup()).context("cannot take SIGHUP")?;
    let (policy, security) = read(args)?;
    let stream = args.lanes.options()?;
    let fixed = Fixed::of(&policy);
    let end = endpoint(args, &policy, stream(Security::insecure())).await?;
    let options = GateOptions { rails: end.rails.clone(), policy, security, stream: Box::new(stream) };
    let gate = Gate::start(options).await.map_err(not_started)?;
    if !gate.local_addrs().is_empty() {
        say_listening(gate.local_addrs());
    }
    let mut service = Service::ready();
    loop {
        tokio::select! {
            biased;
            signal = stop.requested() => return Ok(Exit::Signal(signal)),
            () = service.lives() => {}
            _ = again.recv() => reload(&gate, args, &fixed),
        }
    }
}

/// The parts of a policy that a gate keeps for as long as it runs.
#[derive(Debug, PartialEq, Eq)]
struct Fixed {
    listen: Vec<String>,
    socket: Option<PathBuf>,
    socket_mode: u32,
    socket_group: Option<String>,
}

impl Fixed {
    fn of(policy: &Policy) -> Self {
        Self {
            listen: policy.listen.clone(),
            socket: policy.socket.clone(),
            socket_mode: policy.socket_mode,
            socket_group: policy.socket_group.clone(),
        }
    }

    /// The keys by which another policy differs.
    fn changed(&self, other: &Self) -> Vec<&'static str> {
        let keys = [
            ("listen", self.listen != other.listen),
            ("socket", self.socket != other.socket),
            ("socket_mode", self.socket_mode != other.socket_mode),
            ("socket_group", self.socket_group != other.socket_group),
        ];
        keys.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }
}

/// Reads the policy again. A gate whose new policy is wrong goes on with the one before.
fn reload(gate: &Gate, args: &Args, fixed: &Fixed) {
    let read = read(args).and_then(|(policy, security)| {
        let changed = fixed.changed(&Fixed::of(&policy));
        gate.reload(policy, security)?;
        Ok(changed)
    });
    match read {
        Ok(changed) => {
            print::note(format_args!("{} is in place", args.policy.display()));
            if !changed.is_empty() {
                let keys = changed.join(", ");
                print::note(format_args!("warning: {keys}: as before until the gate is started anew"));
            }
        }
        Err(error) => {
            explain(&error.context("the gate goes on with the policy of before"));
        }
    }
}

/// The rails of the gate.
async fn endpoint(args: &Args, policy: &Policy, options: StreamOptions) -> Result<Endpoint> {
    let addresses = |texts: &[String]| -> Result<Vec<Address>> {
        let parse = |text: &String| text.parse().map_err(|error| anyhow::anyhow!("{text}: {error}"));
        texts.iter().map(parse).collect()
    };
    let dialled: Vec<_> = policy.peers().iter().flat_map(|peer| peer.dial.clone()).collect();
    if args.from.is_none() && !policy.listen.is_empty() {
        let listens = addresses_of("listen", &addresses(&policy.listen)?).await?;
        return Endpoint::listening("listen", &listens, &args.placement, options);
    }
    let remotes = Remotes::of("dial", &addresses(&dialled)?).await?;
    Endpoint::calling(&remotes, args.from.as_ref(), &args.placement, options)
}

/// Reads the policy, and the secrets that it names.
fn read(args: &Args) -> Result<(Policy, GateSecurity)> {
    let path = &args.policy;
    let mut policy = Policy::read(path).map_err(|error| {
        anyhow::Error::new(error).help("`rails-bench gate --help` shows a policy, and docs/gate.md has all keys")
    })?;
    policy.socket.get_or_insert_with(|| args.gate.own());
    let security = security_of(&policy).with_context(|| path.display().to_string())?;
    Ok((policy, security))
}

fn not_started(error: StartError) -> anyhow::Error {
    let help = match &error {
        StartError::Doors(BindDoorsError::Taken { .. }) => Some("`rails-bench gate --status` shows its state"),
        StartError::Doors(BindDoorsError::System { .. }) => {
            Some("`--gate`, or `socket` in the policy, names a socket in a folder that this user may write to")
        }
        _ => None,
    };
    let error = anyhow::Error::new(error).context("the gate cannot start");
    match help.or_else(|| help_for_listener(&error, false)) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// The security of the sessions with each peer.
fn security_of(policy: &Policy) -> Result<GateSecurity> {
    let (mut secrets, mut dial) = (Vec::new(), BTreeMap::new());
    for peer in policy.peers() {
        match &peer.key {
            PeerKey::Secret(file) => {
                let secret = secret::of_file(&format!("peer.{}.secret_file", peer.name), file)?;
                let security = match policy.encrypt {
                    true => secret::encrypted(secret.clone(), "`encrypt = false`")?,
                    false => Security::psk(secret.clone()),
                };
                dial.insert(peer.name.clone(), security);
                secrets.push((peer.name.as_str().to_owned(), secret));
            }
            #[cfg(feature = "tls")]
            PeerKey::Pin(pin) => drop(dial.insert(peer.name.clone(), by_key(policy, *pin)?)),
            _ => anyhow::bail!("{}: this build has no TLS", peer.name),
        }
    }
    anyhow::ensure!(
        policy.listen.is_empty() || secrets.is_empty() || secrets.len() == policy.peers().len(),
        "peers that come in have all a `secret_file`, or all a `pin`: a listener has one kind of security"
    );
    let listen = match (policy.listen.is_empty(), secrets.is_empty()) {
        (true, _) => None,
        (false, false) => Some(known_by_secret(secrets, policy.encrypt)?),
        (false, true) => Some(known_by_key(policy)?),
    };
    Ok(GateSecurity { listen, dial })
}

fn known_by_secret(secrets: Vec<(String, Secret)>, encrypt: bool) -> Result<Security> {
    let secrets = PeerSecrets::new(secrets).context("secret_file")?;
    match encrypt {
        #[cfg(feature = "encryption")]
        true => Ok(Security::encrypted_of(secrets)),
        _ => Ok(Security::psk_of(secrets)),
    }
}

#[cfg(feature = "tls")]
fn by_key(policy: &Policy, pin: rails_multirail::KeyPin) -> Result<Security> {
    use rails_multirail::TlsClient;

    let files = policy.identity.as_ref().context("a peer with a pin asks for `certificate`")?;
    let identity = crate::tls::identity(&files.certificate, &files.key)?;
    Ok(Security::tls_client(TlsClient::pinned(pin).context("pin")?.identity(identity).context("certificate")?))
}

#[cfg(feature = "tls")]
fn known_by_key(policy: &Policy) -> Result<Security> {
    use rails_multirail::TlsServer;

    let files = policy.identity.as_ref().context("a gate that listens for peers with pins needs `certificate`")?;
    let authorities =
        files.authorities.as_ref().context("a gate that listens for peers with pins needs `authorities`")?;
    let identity = crate::tls::identity(&files.certificate, &files.key)?;
    let authorities = std::fs::read(authorities).with_context(|| format!("authorities {}", authorities.display()))?;
    Ok(Security::tls_server(TlsServer::for_clients_of(identity, &authorities).context("authorities")?))
}

#[cfg(not(feature = "tls"))]
fn known_by_key(_: &Policy) -> Result<Security> {
    anyhow::bail!("a gate that listens has a peer with a secret")
}
