//! The same on the guest's kernel, which is older than most.

use rails_lab::guest::{load_module, require};

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_kernel_diverts_and_detaches() {
    require();
    // The namespaces' links.
    for module in ["veth", "sch_tbf"] {
        load_module(module).unwrap();
    }
    crate::sockets::destination_arrives_from_every_kind_of_socket();
    crate::life::accepted_connection_outlives_the_redirect();
    crate::life::reset_connection_is_not_handed_out();
}
