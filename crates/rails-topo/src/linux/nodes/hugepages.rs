//! A node's pools of huge pages, from its `hugepages/hugepages-*kB`
//! (Documentation/admin-guide/mm/hugetlbpage.rst in the kernel's sources).

use crate::{DataSize, Hugepages, linux::Root};

/// The pools of the node in `folder`, the smallest pages first.
pub(super) fn pools(root: &Root, folder: &str) -> Vec<Hugepages> {
    let folder = format!("{folder}/hugepages");
    let pool = |name: String| {
        let size = page_size(&name)?;
        let pages = |file| root.value(&format!("{folder}/{name}/{file}"));
        Some(Hugepages { size, total: pages("nr_hugepages"), free: pages("free_hugepages") })
    };
    let mut pools: Vec<Hugepages> = root.names(&folder).into_iter().filter_map(pool).collect();
    pools.sort_by_key(|pool| pool.size);
    pools
}

/// `hugepages-2048kB`; its kB are of 1024 bytes.
fn page_size(name: &str) -> Option<DataSize> {
    let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kib.checked_mul(1024).filter(|size| *size > 0).map(DataSize::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_is_named_by_the_size_of_its_pages() {
        assert_eq!(page_size("hugepages-1048576kB"), Some(DataSize::bytes(1 << 30)));
        for name in ["", "hugepages-kB", "hugepages-0kB", "hugepages-2048", "hugepages-18446744073709551615kB", "other"]
        {
            assert_eq!(page_size(name), None, "{name:?}");
        }
    }
}
