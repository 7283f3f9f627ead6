//! Opening a TAP device.

use crate::{LabError, namespace::Namespace};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// Makes a TAP device in a namespace and opens it, not yet up. The device disappears when the
/// descriptor is closed, also by a crash.
///
/// Offloads stay off, so that a frame is the same as on a cable: at most the MTU long, checksums
/// complete. The link counts, loses and delays the frames that a real one would; the price is a
/// read and a write for each.
///
/// # References
///
/// Documentation/networking/tuntap.rst
pub(crate) fn open(namespace: &Namespace, interface: &str) -> Result<SyncDevice, LabError> {
    let fail = |source| LabError::Tap { interface: interface.to_owned(), source };
    // The device belongs to the namespace of the thread that opens /dev/net/tun.
    let _inside = namespace.enter()?;
    let tap = DeviceBuilder::new()
        .name(interface)
        .layer(Layer::L2)
        .tx_queue_len(QUEUE_FRAMES)
        .inherit_enable_state()
        .build_sync()
        .map_err(fail)?;
    tap.set_nonblocking(true).map_err(fail)?;
    Ok(tap)
}

/// The frames that the kernel holds until the link's thread reads them: 0.2 s of full frames at 500
/// Mbit/s, far more than a window of TCP sends at once there. The default of 1000 overflows when a
/// sender opens its window after an idle time.
const QUEUE_FRAMES: u32 = 8192;
