//! Rivals that speak QUIC: one connection with one stream, always encrypted.

use super::{
    WanContest,
    ends::{MESSAGE, Progress, any, runtime},
};
use quinn::rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    time::Duration,
};

/// A certificate and the windows.
pub(super) struct Setup {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    window: u32,
}

/// The settings, as a text.
pub(super) fn settings(contest: &WanContest) -> String {
    format!(
        "QUIC (quinn, noq): TLS 1.3; windows of {} bytes (stream, connection, sender); datagrams of up to {DATAGRAM} \
         bytes, found by probes; segmentation offload; socket buffers of 4 MiB; one stream, which the receiver reads in \
         any order (in order, both libraries end a connection with more than 1,024 pieces between gaps); the rest as \
         its makers set it; `sent again` are packets taken for lost",
        window(contest)
    )
}

/// The given window, or eight times the bytes that the path and its queue hold.
fn window(contest: &WanContest) -> u32 {
    let path = &contest.path;
    let held = path.rate.as_bits_per_second() as f64 / 8.0 * (path.rtt + path.queue).as_secs_f64();
    contest.quic_window.unwrap_or((held * 8.0).clamp(1e6, f64::from(1 << 30)) as u32)
}

impl Setup {
    /// Makes a new certificate.
    pub(super) fn of(contest: &WanContest) -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key, window: window(contest) })
    }

    pub(super) fn receive_quinn(
        &self,
        address: SocketAddr,
        ready: mpsc::Sender<()>,
        progress: &Progress,
    ) -> io::Result<()> {
        with_quinn::receive(self, address, ready, progress)
    }

    pub(super) fn receive_noq(
        &self,
        address: SocketAddr,
        ready: mpsc::Sender<()>,
        progress: &Progress,
    ) -> io::Result<()> {
        with_noq::receive(self, address, ready, progress)
    }

    pub(super) fn send_quinn_bbr(&self, address: SocketAddr, progress: &Progress) -> io::Result<()> {
        with_quinn::send(self, Arc::new(quinn::congestion::BbrConfig::default()), address, progress)
    }

    pub(super) fn send_quinn_cubic(&self, address: SocketAddr, progress: &Progress) -> io::Result<()> {
        with_quinn::send(self, Arc::new(quinn::congestion::CubicConfig::default()), address, progress)
    }

    pub(super) fn send_noq_bbr3(&self, address: SocketAddr, progress: &Progress) -> io::Result<()> {
        with_noq::send(self, Arc::new(noq::congestion::Bbr3Config::default()), address, progress)
    }

    fn roots(&self) -> io::Result<Arc<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(io::Error::other)?;
        Ok(Arc::new(roots))
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key().into()
    }
}

/// Both ends with one library: noq has the interface of quinn with its own types.
macro_rules! ends {
    (
        $module:ident, $library:ident,
        $incoming:ident => $unordered:expr,
        $stream:ident => $chunk:expr,
        $stats:ident => $lost:expr
    ) => {
        mod $module {
            use super::*;
            use $library::{
                ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TokioRuntime,
                TransportConfig,
                congestion::{ControllerFactory, CubicConfig},
            };

            pub(super) fn receive(
                setup: &Setup,
                address: SocketAddr,
                ready: mpsc::Sender<()>,
                progress: &Progress,
            ) -> io::Result<()> {
                runtime()?.block_on(async {
                    let config = ServerConfig::with_single_cert(vec![setup.certificate.clone()], setup.key());
                    let mut config = config.map_err(io::Error::other)?;
                    config.transport_config(transport(setup, Arc::new(CubicConfig::default())));
                    let endpoint = endpoint(address, Some(config))?;
                    let _ = ready.send(());
                    let incoming = endpoint.accept().await;
                    let connection =
                        incoming.ok_or_else(|| io::Error::other("the endpoint takes no connection"))?.await?;
                    let receive = async {
                        let $incoming = connection.accept_uni().await?;
                        let mut $stream = $unordered;
                        let mut message = vec![0; MESSAGE];
                        while let Some(chunk) = $chunk.await? {
                            put(&chunk.bytes, chunk.offset, &mut message);
                            progress.arrived.fetch_add(chunk.bytes.len() as u64, Relaxed);
                        }
                        Ok(())
                    };
                    until_over(progress, receive).await?;
                    connection.close(0_u32.into(), b"");
                    endpoint.wait_idle().await;
                    Ok(())
                })
            }

            pub(super) fn send(
                setup: &Setup,
                controller: Arc<dyn ControllerFactory + Send + Sync>,
                address: SocketAddr,
                progress: &Progress,
            ) -> io::Result<()> {
                runtime()?.block_on(async {
                    let config = ClientConfig::with_root_certificates(setup.roots()?);
                    let mut config = config.map_err(io::Error::other)?;
                    config.transport_config(transport(setup, controller));
                    let endpoint = endpoint(any(address), None)?;
                    let connecting = endpoint.connect_with(config, address, NAME).map_err(io::Error::other)?;
                    let connection = connecting.await?;
                    let block = vec![7; 256 << 10];
                    let send = async {
                        let mut stream = connection.open_uni().await?;
                        loop {
                            stream.write_all(&block).await?;
                        }
                    };
                    until_over(progress, send).await?;
                    let $stats = connection.stats();
                    progress.retransmitted.store($lost, Relaxed);
                    connection.close(0_u32.into(), b"");
                    endpoint.wait_idle().await;
                    Ok(())
                })
            }

            fn transport(setup: &Setup, controller: Arc<dyn ControllerFactory + Send + Sync>) -> Arc<TransportConfig> {
                let mut mtu = MtuDiscoveryConfig::default();
                mtu.upper_bound(DATAGRAM).minimum_change(1);
                let mut config = TransportConfig::default();
                config
                    .stream_receive_window(setup.window.into())
                    .receive_window(setup.window.into())
                    .send_window(setup.window.into())
                    .mtu_discovery_config(Some(mtu))
                    .enable_segmentation_offload(true)
                    .congestion_controller_factory(controller);
                Arc::new(config)
            }

            fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> io::Result<Endpoint> {
                Endpoint::new(EndpointConfig::default(), server, socket(address)?, Arc::new(TokioRuntime))
            }
        }
    };
}

ends!(
    with_quinn, quinn,
    stream => stream,
    stream => stream.read_chunk(usize::MAX, false),
    stats => stats.path.lost_packets
);
ends!(
    with_noq, noq,
    stream => stream.into_unordered(),
    stream => stream.read_chunk(usize::MAX),
    stats => stats.lost_packets
);

/// Copies bytes of a stream to their offset in the message buffer, which successive messages reuse.
fn put(mut bytes: &[u8], offset: u64, message: &mut [u8]) {
    let mut place = (offset % message.len() as u64) as usize;
    while !bytes.is_empty() {
        let (these, rest) = bytes.split_at(bytes.len().min(message.len() - place));
        message[place..place + these.len()].copy_from_slice(these);
        (bytes, place) = (rest, 0);
    }
}

/// Runs an end until the time is over. Later errors are ignored, because the peer may close at any
/// moment.
async fn until_over(progress: &Progress, run: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let mut run = std::pin::pin!(run);
    loop {
        tokio::select! {
            outcome = &mut run => return if progress.is_over() { Ok(()) } else { outcome },
            () = tokio::time::sleep(Duration::from_millis(5)) => if progress.is_over() { return Ok(()) },
        }
    }
}

fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(SOCKET_BUFFER)?;
    options.set_send_buffer_size(SOCKET_BUFFER)?;
    Ok(socket)
}

/// The name on the certificate.
const NAME: &str = "rails.example";
/// UDP payload of a packet of 1,500 bytes with the headers of IPv4 and UDP.
const DATAGRAM: u16 = 1472;
const SOCKET_BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_land_at_their_offsets_across_the_end() {
        let mut message = [0; 5];
        put(&[1, 2, 3], 13, &mut message);
        assert_eq!(message, [3, 0, 0, 1, 2]);
        put(&[], 4, &mut message);
        put(&[9; 7], 10, &mut message);
        assert_eq!(message, [9; 5]);
    }
}
