//! What a lab promises, held against the kernel. Run as root: `cargo test -p rails-lab -- --ignored netns_`

mod cleanup;
mod faults;
mod links;
mod wires;

const NAMESPACES: &str = "/var/run/netns";

fn exists(namespace: &str) -> bool {
    std::path::Path::new(NAMESPACES).join(namespace).exists()
}
