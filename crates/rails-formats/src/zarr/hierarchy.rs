//! The arrays of a folder, from one or more files of metadata.

use super::{
    array::Node,
    attributes::attributes,
    error::{ZarrError, ZarrProblem},
    v2, v3,
};
use crate::manifest::{ArrayManifest, Attributes, ObjectPath};
use serde_json::{Map, Value};

/// The arrays of a folder and of the groups below it, as far as they have been read.
///
/// An array is named by its path below the folder: `era5/temperature`. An array that is the folder
/// itself has the folder's last name.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Hierarchy {
    /// The arrays.
    pub arrays: Vec<ArrayManifest>,
    /// The arrays that cannot be read, with the causes.
    pub refused: Vec<ZarrError>,
    /// The attributes of the folder's group.
    pub attributes: Attributes,
    /// Whether the metadata say all groups and arrays below, so that no folder is looked into.
    pub is_complete: bool,
}

impl Hierarchy {
    /// The largest size of a file of metadata, in bytes. Reading takes up to two hundred times
    /// as much memory, for a text of nothing but lists of one number; 192 times were measured.
    pub const MAX_BYTES: usize = 4 << 20;

    /// Reads a `zarr.json`, which is at `file`. `below` leads to its folder from the `store`, and
    /// is empty for the store itself.
    ///
    /// # Errors
    /// [`ZarrError`] for a text that is no metadata, and for a group's metadata that are wrong. An
    /// array that cannot be read is among [`refused`](Self::refused).
    pub fn parse_v3(store: &ObjectPath, below: &str, file: &ObjectPath, bytes: &[u8]) -> Result<Self, ZarrError> {
        let reader = Reader { store, file };
        let json = reader.json(bytes)?;
        match json["node_type"].as_str() {
            Some("array") => {
                let mut hierarchy = Self { is_complete: true, ..Self::default() };
                hierarchy.add(reader.array(below, |node| v3::array(node, &json)));
                Ok(hierarchy)
            }
            Some("group") if json["zarr_format"] == 3 => reader.group_v3(below, &json),
            _ => Err(reader.malformed("it is no array and no group of Zarr's third version")),
        }
    }

    /// Reads a `.zarray` and the `.zattrs` beside it, if there is one, as
    /// [`parse_v3`](Self::parse_v3) does.
    ///
    /// # Errors
    /// [`ZarrError`] for a text that is no JSON.
    pub fn parse_v2_array(
        store: &ObjectPath,
        below: &str,
        file: &ObjectPath,
        zarray: &[u8],
        zattrs: Option<&[u8]>,
    ) -> Result<Self, ZarrError> {
        let reader = Reader { store, file };
        let json = reader.json(zarray)?;
        let zattrs = reader.zattrs(zattrs)?;
        let mut hierarchy = Self { is_complete: true, ..Self::default() };
        hierarchy.add(reader.array(below, |node| v2::array(node, &json, &zattrs)));
        Ok(hierarchy)
    }

    /// Reads a `.zgroup` and the `.zattrs` beside it, if there is one. The arrays of the group are
    /// not in it.
    ///
    /// # Errors
    /// [`ZarrError`] for a text that is no group's.
    pub fn parse_v2_group(file: &ObjectPath, zgroup: &[u8], zattrs: Option<&[u8]>) -> Result<Self, ZarrError> {
        let reader = Reader { store: file, file };
        if reader.json(zgroup)?["zarr_format"] != 2 {
            return Err(reader.malformed("it is no group of Zarr's second version"));
        }
        Ok(Self { attributes: attributes(&reader.zattrs(zattrs)?), ..Self::default() })
    }

    /// Reads a `.zmetadata`, the consolidated metadata of a store.
    ///
    /// # Errors
    /// [`ZarrError`] for a text that is no such metadata. An array that cannot be read is among
    /// [`refused`](Self::refused).
    pub fn parse_v2_consolidated(store: &ObjectPath, file: &ObjectPath, bytes: &[u8]) -> Result<Self, ZarrError> {
        let reader = Reader { store, file };
        let json = reader.json(bytes)?;
        let metadata = json["metadata"].as_object().filter(|_| json["zarr_consolidated_format"] == 1);
        let Some(metadata) = metadata else {
            return Err(reader.malformed("it is no consolidated metadata of the first format"));
        };
        let nothing = Map::new();
        let zattrs = |key: &str| metadata.get(key).and_then(Value::as_object).unwrap_or(&nothing);
        let mut hierarchy = Self { is_complete: true, attributes: attributes(zattrs(".zattrs")), ..Self::default() };
        for (key, zarray) in metadata {
            let below = match key.strip_suffix(".zarray") {
                Some("") => "",
                Some(folder) if folder.ends_with('/') => &folder[..folder.len() - 1],
                _ => continue,
            };
            let zattrs = if below.is_empty() { zattrs(".zattrs") } else { zattrs(&format!("{below}/.zattrs")) };
            hierarchy.add(reader.array(below, |node| v2::array(node, zarray, zattrs)));
        }
        Ok(hierarchy)
    }

    /// Adds the arrays of a folder below.
    pub fn append(&mut self, below: Self) {
        self.arrays.extend(below.arrays);
        self.refused.extend(below.refused);
    }

    fn add(&mut self, array: Result<ArrayManifest, ZarrError>) {
        match array {
            Ok(array) => self.arrays.push(array),
            Err(error) => self.refused.push(error),
        }
    }
}

/// The file that is being read.
struct Reader<'a> {
    store: &'a ObjectPath,
    file: &'a ObjectPath,
}

impl Reader<'_> {
    fn json(&self, bytes: &[u8]) -> Result<Value, ZarrError> {
        if bytes.len() > Hierarchy::MAX_BYTES {
            let (bytes, max_bytes) = (bytes.len() as u64, Hierarchy::MAX_BYTES as u64);
            return Err(self.error("", ZarrProblem::TooLong { bytes, max_bytes }));
        }
        serde_json::from_slice(bytes).map_err(|error| self.malformed(error.to_string()))
    }

    fn zattrs(&self, bytes: Option<&[u8]>) -> Result<Map<String, Value>, ZarrError> {
        let of_attributes = |error: ZarrError| match error.problem {
            ZarrProblem::Malformed { reason } => self.malformed(format!("`.zattrs` is no JSON: {reason}")),
            _ => error,
        };
        match bytes.map(|bytes| self.json(bytes)).transpose().map_err(of_attributes)? {
            None => Ok(Map::new()),
            Some(Value::Object(attributes)) => Ok(attributes),
            Some(_) => Err(self.malformed("`.zattrs` has no object")),
        }
    }

    fn group_v3(&self, below: &str, json: &Value) -> Result<Hierarchy, ZarrError> {
        let nothing = Map::new();
        let mut hierarchy = Hierarchy {
            attributes: attributes(json["attributes"].as_object().unwrap_or(&nothing)),
            ..Hierarchy::default()
        };
        let Some(consolidated) = json["consolidated_metadata"].as_object() else { return Ok(hierarchy) };
        let nodes = consolidated.get("metadata").and_then(Value::as_object);
        let Some(nodes) = nodes.filter(|_| consolidated.get("kind").is_some_and(|kind| kind == "inline")) else {
            return Err(self.malformed("the consolidated metadata are not inline"));
        };
        hierarchy.is_complete = true;
        for (path, node) in nodes {
            let path = if below.is_empty() { path.clone() } else { format!("{below}/{path}") };
            if node["node_type"] == "array" {
                hierarchy.add(self.array(&path, |place| v3::array(place, node)));
            }
        }
        Ok(hierarchy)
    }

    /// Makes the array that is `below` the store.
    fn array(
        &self,
        below: &str,
        make: impl FnOnce(Node<'_>) -> Result<ArrayManifest, ZarrProblem>,
    ) -> Result<ArrayManifest, ZarrError> {
        let store = self.store.as_str();
        let name = if below.is_empty() { store.rsplit('/').next().unwrap_or(store) } else { below };
        let folder =
            if below.is_empty() { Ok(self.store.clone()) } else { ObjectPath::new(format!("{store}/{below}")) };
        let array = folder.map_err(ZarrProblem::from).and_then(|folder| make(Node { name, folder: &folder }));
        array.map_err(|problem| self.error(name, problem))
    }

    fn malformed(&self, reason: impl Into<String>) -> ZarrError {
        self.error("", ZarrProblem::Malformed { reason: reason.into() })
    }

    fn error(&self, array: &str, problem: ZarrProblem) -> ZarrError {
        ZarrError { file: self.file.clone(), array: array.into(), problem }
    }
}
