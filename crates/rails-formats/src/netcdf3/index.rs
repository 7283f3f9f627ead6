//! From a header to a manifest.

use super::{Dimension, Header, Variable};
use crate::{
    data_type::Endianness,
    header::{IndexError, do_names_fit},
    manifest::{ArrayDescription, ArrayManifest, Codec, Manifest, ManifestProblem, ObjectPath, Placement, Section},
};
use rails_array::Shape;

impl Header {
    /// The manifest of the file, in which it has the path `object`.
    ///
    /// The number of records of a header that leaves it open is that of the records whose elements
    /// are all in the file.
    ///
    /// A file that is shorter than its header says is refused, though the reference library reads
    /// zeros in place of the bytes that are not there (libnetcdf 4.10.1, tried with cut files of
    /// all three variants): a copy that broke off shall not become data. The library's own files
    /// have all of their elements; only the padding behind the last one may be absent.
    ///
    /// # Errors
    /// [`IndexError`], if a variable does not lie between the header and the end of the file.
    pub fn index(&self, object: ObjectPath, file_bytes: u64) -> Result<Manifest, IndexError> {
        let axes = self.variables.iter().flat_map(|variable| &variable.dimensions);
        if !do_names_fit(axes.map(|dimension| &self.dimensions[*dimension].name)) {
            return Err(IndexError::AxisNames);
        }
        let records = self.record_layout(file_bytes)?;
        let arrays = self.variables.iter().map(|variable| {
            self.array(variable, &records, file_bytes).map_err(|problem| match problem {
                Problem::Array(problem) => IndexError::Variable { name: variable.name.clone(), problem },
                Problem::Truncated(end) => IndexError::Truncated { name: variable.name.clone(), end, file_bytes },
                Problem::InsideHeader => {
                    let (name, offset) = (variable.name.clone(), variable.begin);
                    IndexError::InsideHeader { name, offset, header_bytes: self.bytes }
                }
            })
        });
        let arrays = arrays.collect::<Result<_, _>>()?;
        Ok(Manifest::new(vec![object], arrays, self.attributes.clone())?)
    }

    /// Size and number of the records.
    fn record_layout(&self, file_bytes: u64) -> Result<Records, IndexError> {
        let has_records = |variable: &&Variable| self.has_records(variable);
        let slabs = self.variables.iter().filter(has_records).map(|variable| {
            let problem = |problem| IndexError::Variable { name: variable.name.clone(), problem };
            Ok((variable.begin, self.slab_bytes(variable).map_err(problem)?))
        });
        let slabs: Vec<(u64, u64)> = slabs.collect::<Result<_, IndexError>>()?;
        let bytes = match slabs[..] {
            [(_, slab)] => slab,
            _ => slabs
                .iter()
                .try_fold(0_u64, |sum, (_, slab)| sum.checked_add(slab.checked_next_multiple_of(PADDING)?))
                .ok_or(IndexError::RecordSize)?,
        };
        let whole = slabs.iter().map(|(begin, slab)| match file_bytes.checked_sub(*begin) {
            Some(behind) if behind >= *slab => (behind - slab) / bytes.max(1) + 1,
            _ => 0,
        });
        let count = self.records.unwrap_or_else(|| whole.min().unwrap_or(0));
        Ok(Records { bytes, count })
    }

    fn array(&self, variable: &Variable, records: &Records, file_bytes: u64) -> Result<ArrayManifest, Problem> {
        let dimensions = variable.dimensions.iter().map(|dimension| &self.dimensions[*dimension]);
        let lengths = dimensions.clone().map(|dimension| dimension.length.unwrap_or(records.count));
        let shape = Shape::new(lengths).map_err(ManifestProblem::from)?;
        let section = if self.has_records(variable) {
            let slab = dimensions.clone().map(|dimension| dimension.length.unwrap_or(1));
            let mut strides = vec![0; shape.rank()];
            strides[0] = records.bytes;
            Section {
                extent: records.count,
                chunk_shape: Shape::new(slab).map_err(ManifestProblem::from)?,
                codecs: vec![Codec::Bytes { endianness: Endianness::Big }],
                placement: Placement::Regular {
                    object: 0,
                    offset: variable.begin,
                    strides,
                    length: self.slab_bytes(variable)?,
                },
            }
        } else {
            Section::contiguous(&shape, 0, 0, variable.begin, variable.dtype, Endianness::Big)
        };
        let name = |dimension: &Dimension| Some(dimension.name.clone());
        let fill = variable.attributes.get("_FillValue").and_then(|value| value.as_element(variable.dtype));
        let description = ArrayDescription {
            name: variable.name.clone(),
            dtype: variable.dtype,
            shape,
            dimension_names: dimensions.map(name).collect(),
            fill_value: fill.map(<[u8]>::to_vec),
            attributes: variable.attributes.clone(),
        };
        let array = ArrayManifest::new(description, 0, vec![section])?;
        match array.sections()[0].regular_end(array.description(), 0) {
            Some(end) if end > file_bytes => Err(Problem::Truncated(end)),
            Some(_) if variable.begin < self.bytes => Err(Problem::InsideHeader),
            _ => Ok(array),
        }
    }

    fn has_records(&self, variable: &Variable) -> bool {
        variable.dimensions.first().is_some_and(|first| self.dimensions[*first].length.is_none())
    }

    /// The bytes of a variable in one record, without padding.
    fn slab_bytes(&self, variable: &Variable) -> Result<u64, ManifestProblem> {
        let lengths = variable.dimensions.iter().filter_map(|dimension| self.dimensions[*dimension].length);
        let elements = Shape::new(lengths)?.elements();
        elements.checked_mul(variable.dtype.bytes()).ok_or(ManifestProblem::TooLarge)
    }
}

/// The records of a file.
struct Records {
    /// The distance of neighbours in bytes.
    bytes: u64,
    count: u64,
}

enum Problem {
    Array(ManifestProblem),
    Truncated(u64),
    InsideHeader,
}

impl From<ManifestProblem> for Problem {
    fn from(problem: ManifestProblem) -> Self {
        Self::Array(problem)
    }
}

/// A slab is padded to a multiple of so many bytes.
const PADDING: u64 = 4;
