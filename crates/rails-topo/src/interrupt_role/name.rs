//! The names that drivers give their vectors.

use super::{Direction, InterruptRole};
use Direction::{Both, Receive, Transmit};

/// The role of a vector of this name.
///
/// An interface may have almost any name, `misc0` and `rx-1` too, so only the end of a vector's
/// name counts, which is the driver's.
pub(super) fn role(name: &str) -> InterruptRole {
    // mlx4, mlx5, ena, gve and mana add the device's address: `mlx5_comp3@pci:0000:3b:00.0`.
    let (name, has_place) = match name.split_once('@') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    let name = name.to_ascii_lowercase();
    // cxgb4: `eth0 (queue 3)`.
    if let Some(index) = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (queue ")) {
        return index.1.parse().map_or(InterruptRole::Unknown, |index| InterruptRole::Queue { index, direction: Both });
    }
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (words, index) = name.split_at(digits);
    if CONTROL.iter().any(|ending| words.ends_with(ending)) {
        return InterruptRole::Control;
    }
    if let Some((_, direction)) = SHARED.iter().find(|(ending, _)| words.ends_with(ending)) {
        return InterruptRole::Queues(*direction);
    }
    // mlx4 numbers its event queues, which the queues of all its ports share.
    if has_place && words == "mlx4-" {
        return InterruptRole::Queues(Both);
    }
    let Ok(index) = index.parse() else { return InterruptRole::Unknown };
    let direction = QUEUES.iter().find(|(ending, _)| words.ends_with(ending)).map(|(_, direction)| *direction);
    direction.map_or(InterruptRole::Unknown, |direction| InterruptRole::Queue { index, direction })
}

/// The ends of names, but for a number, of vectors that serve no queue.
const CONTROL: [&str; 16] = [
    "mlx5_async",
    "mlx5_sf_ctrl",
    "mlx4-async",
    // i40e's flow director has a queue of its own, for its filters: `i40e-0000:04:00.0:fdir-TxRx-0`.
    ":fdir-txrx-",
    ":misc",
    ":mbx",
    ":lsc",
    ":ll_ts",
    "-config",
    "-mgmnt",
    "-mgmt",
    "-event-",
    "-mailbox-",
    "-mac",
    "-fweventq",
    "mana_hwc",
];

/// Names of vectors, but for a number, that serve several queues, or whose number is no queue's.
const SHARED: [(&str, Direction); 5] = [
    ("-virtqueues", Both),
    ("mlx5_combined", Both),
    // The subfunctions of a device share these.
    ("mlx5_sf_comp", Both),
    // gve numbers its notification blocks, first those of the transmit queues.
    ("-ntfy-blk", Both),
    ("-ntfy-block.", Both),
];

/// The words before a queue's index. The first match counts: `txrx-` ends with `rx-` too.
const QUEUES: [(&str, Direction); 11] = [
    ("-txrx-", Both),
    ("-tx-rx-", Both),
    ("-rxtx-", Both),
    ("mlx5_comp", Both),
    ("mana_q", Both),
    ("-fp-", Both),
    ("-input.", Receive),
    ("-output.", Transmit),
    ("-rx-", Receive),
    ("-tx-", Transmit),
    // cxgb4 writes no hyphen before the number.
    ("-rx", Receive),
];

#[cfg(test)]
mod tests {
    use super::*;
    use InterruptRole::{Control, Queues, Unknown};
    use proptest::prelude::*;

    #[test]
    fn names_of_common_drivers_are_understood() {
        let queue = |index, direction| InterruptRole::Queue { index, direction };
        for (name, expected) in [
            // drivers/net/ethernet/mellanox/mlx5/core/pci_irq.c: irq_set_name, irq_sf_set_name
            ("mlx5_comp3@pci:0000:3b:00.0", queue(3, Both)),
            ("mlx5_async0@pci:0000:3b:00.0", Control),
            ("mlx5_async@pci:0000:3b:00.0", Control),
            ("mlx5_combined0@pci:0000:3b:00.0", Queues(Both)),
            ("mlx5_sf_comp2@pci:0000:3b:00.0", Queues(Both)),
            ("mlx5_sf_ctrl1@pci:0000:3b:00.0", Control),
            // drivers/net/ethernet/mellanox/mlx4/eq.c: mlx4_assign_eq
            ("mlx4-7@0000:3b:00.0", Queues(Both)),
            ("mlx4-async@pci:0000:3b:00.0", Control),
            // drivers/net/ethernet/intel/ice/ice_main.c: ice_vsi_req_irq_msix, ice_req_irq_msix_misc
            ("ice-eth0-TxRx-12", queue(12, Both)),
            ("ice-0000:18:00.0:misc", Control),
            ("ice-0000:18:00.0:ll_ts", Control),
            // drivers/net/ethernet/intel/iavf/iavf_main.c: iavf_request_traffic_irqs, iavf_request_misc_irq
            ("iavf-eth0-TxRx-4", queue(4, Both)),
            ("iavf-0000:18:01.0:mbx", Control),
            // drivers/net/ethernet/intel/ixgbe/ixgbe_main.c: ixgbe_request_msix_irqs (`:lsc` of old versions)
            ("eth0-TxRx-0", queue(0, Both)),
            ("eth0:lsc", Control),
            // drivers/net/ethernet/intel/i40e/i40e_main.c
            ("i40e-eth0-TxRx-63", queue(63, Both)),
            ("i40e-0000:18:00.0:misc", Control),
            ("i40e-0000:04:00.0:fdir-TxRx-0", Control),
            // drivers/net/ethernet/intel/igb/igb_main.c, igc/igc_main.c: *_request_msix; the interface's own name is
            // everything else
            ("eth0-rx-1", queue(1, Receive)),
            ("eth0", Unknown),
            // drivers/net/ethernet/intel/e1000e/netdev.c: e1000_request_msix
            ("eth0-rx-0", queue(0, Receive)),
            ("eth0-tx-0", queue(0, Transmit)),
            // drivers/net/ethernet/broadcom/bnxt/bnxt.c: bnxt_setup_msix, which cut long names short in old versions
            ("enp4s0f0-TxRx-5", queue(5, Both)),
            ("enp4s0f0np0-TxRx-", Unknown),
            // drivers/net/ethernet/amazon/ena/ena_netdev.c: ena_setup_io_intr, ena_setup_mgmnt_intr
            ("eth0-Tx-Rx-3", queue(3, Both)),
            ("ena-mgmnt@pci:0000:00:05.0", Control),
            // drivers/net/ethernet/google/gve/gve_main.c: gve_alloc_notify_blocks
            ("gve-ntfy-blk7@pci:0000:00:04.0", Queues(Both)),
            ("eth0-ntfy-block.7", Queues(Both)),
            ("gve-mgmnt@pci:0000:00:04.0", Control),
            // drivers/net/ethernet/microsoft/mana/gdma_main.c: mana_gd_setup_irqs
            ("mana_q3@pci:7870:00:00.0", queue(3, Both)),
            ("mana_hwc@pci:7870:00:00.0", Control),
            // drivers/virtio/virtio_pci_common.c with drivers/net/virtio_net.c: virtnet_find_vqs
            ("virtio1-input.0", queue(0, Receive)),
            ("virtio1-output.2", queue(2, Transmit)),
            ("virtio1-config", Control),
            ("virtio1-virtqueues", Queues(Both)),
            // drivers/net/vmxnet3/vmxnet3_drv.c: vmxnet3_request_irqs
            ("eth0-rxtx-1", queue(1, Both)),
            ("eth0-event-4", Control),
            // drivers/net/ethernet/qlogic/qede/qede_main.c: qede_init_fp
            ("eth0-fp-2", queue(2, Both)),
            // drivers/net/ethernet/chelsio/cxgb4/cxgb4_main.c: setup_sge_queues, setup_fw_sge_queues; the vendor's own
            // name_msix_vecs
            ("eth0-Rx3", queue(3, Receive)),
            ("eth0-FWeventq", Control),
            ("eth0 (queue 3)", queue(3, Both)),
            // drivers/net/ethernet/engleder/tsnep_main.c: tsnep_request_irq
            ("eth0-txrx-1", queue(1, Both)),
            ("eth0-mac", Control),
            // Interfaces that are called like something else.
            ("misc0-TxRx-2", queue(2, Both)),
            ("event-1-rx-0", queue(0, Receive)),
            ("async", Unknown),
            // Of other devices, and none at all.
            ("nvme0q3", Unknown),
            ("i8042", Unknown),
            ("", Unknown),
            ("eth0-rx-99999999999", Unknown),
            ("eth0 (queue )", Unknown),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "\\PC{0,40}|(eth|é|rx|tx|-|[0-9]|@| \\(queue |\\)){0,20}") {
            let _ = role(&name);
        }

        #[test]
        fn any_interface_name_in_a_vector(interface in "[a-z0-9:._-]{1,15}", index in 0..4096_u32) {
            let name = format!("{interface}-TxRx-{index}");
            prop_assume!(!interface.ends_with(":fdir"));
            prop_assert_eq!(role(&name), InterruptRole::Queue { index, direction: Both });
        }
    }
}
