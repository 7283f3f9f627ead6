//! The machine's weights for weighted interleaving.

use crate::BindError;
use rails_topo::NodeId;
use std::{collections::BTreeMap, fs, io, path::Path};

/// The number of successive pages that
/// [`WeightedInterleave`](super::MemoryPolicy::WeightedInterleave) puts on each node.
///
/// The kernel derives the weights from the nodes' bandwidth, if the firmware states it, else each
/// is 1; root may change them.
///
/// # Errors
/// [`BindError::Unsupported`] if the kernel has no weights (before Linux 6.9); [`BindError::Call`]
/// if a file cannot be read or holds no number.
///
/// # References
/// Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave
pub fn interleave_weights() -> Result<BTreeMap<NodeId, u32>, BindError> {
    read(Path::new(FOLDER))
}

const FOLDER: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

fn read(folder: &Path) -> Result<BTreeMap<NodeId, u32>, BindError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => {
            let subject = folder.display().to_string();
            BindError::Unsupported { call: "weighted interleaving", subject, source }
        }
        _ => BindError::of_call("read", folder.display(), source),
    };
    let mut weights = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Beside the nodes there is `auto` since Linux 6.16.
        let name = entry.file_name();
        let Some(node) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok()) else { continue };
        let text = fs::read_to_string(entry.path()).map_err(failed)?;
        let weight = text.trim().parse().map_err(|_| failed(io::Error::other(format!("`{text}` is no weight"))))?;
        weights.insert(NodeId(node), weight);
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_node() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("node0", "5\n"), ("node12", "1\n"), ("auto", "true\n")] {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let weights = read(folder.path()).expect("well-formed");
        assert_eq!(weights, BTreeMap::from([(NodeId(0), 5), (NodeId(12), 1)]));
        fs::write(folder.path().join("node1"), "many").expect("a file");
        assert!(matches!(read(folder.path()), Err(BindError::Call { .. })));
        let error = read(&folder.path().join("absent")).expect_err("it is not there");
        assert!(matches!(error, BindError::Unsupported { .. }), "{error}");
    }
}
