//! Many manifests as one.

use super::{
    coordinate::{FileSteps, Gap},
    difference::{difference, names},
    file::{ArraySource, DatasetFile},
    order,
    pattern::FilePattern,
    source::SourceFile,
    stitch_error::StitchError,
};
use crate::manifest::{ArrayDescription, ArrayManifest, Attributes, Manifest, ManifestProblem, ObjectPath, Section};
use rails_array::Shape;
use std::collections::HashMap;

/// The manifest of a dataset, and the order of its files.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stitched {
    /// The arrays of the dataset, with their names in it.
    pub manifest: Manifest,
    /// The files of each array.
    pub arrays: Vec<StitchedArray>,
}

/// The files of an array of a dataset.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StitchedArray {
    /// The name of the array.
    pub name: String,
    /// The files in their order, with the number of steps of each along the axis. An array without
    /// an axis has one file of one step.
    pub files: Vec<(ObjectPath, u64)>,
    /// The coordinates along the axis, if the dataset file says where they come from.
    pub coordinates: Option<Vec<f64>>,
    /// The attributes of the coordinates, such as `units`: those of the variable in the first file,
    /// if they come from one.
    pub coordinate_attributes: Attributes,
    /// The gaps of the coordinates.
    pub gaps: Vec<Gap>,
}

impl DatasetFile {
    /// Makes one manifest of the manifests of all files. `files_of` gives the files of an array, in
    /// any order: those that [match](ArraySource::matches).
    ///
    /// An array's attributes are those in its first file; those that give the elements their
    /// meaning (`_Unsigned`, `add_offset`, `calendar`, `missing_value`, `scale_factor`, `units`)
    /// have to be alike in all, and so have those of a coordinate variable. Gaps of the
    /// coordinates are no errors, and are part of the result.
    ///
    /// # Errors
    /// [`StitchError`] names the array and the file that does not fit the others, and how.
    pub fn stitch(&self, mut files_of: impl FnMut(&ArraySource) -> Vec<SourceFile>) -> Result<Stitched, StitchError> {
        let mut objects = Objects::default();
        let (mut manifests, mut arrays) = (Vec::new(), Vec::new());
        for array in &self.arrays {
            let (manifest, stitched) = array.stitch(files_of(array), &mut objects)?;
            manifests.push(manifest);
            arrays.push(stitched);
        }
        let manifest = Manifest::new(objects.paths, manifests, Attributes::new()).map_err(Box::new)?;
        Ok(Stitched { manifest, arrays })
    }
}

impl ArraySource {
    fn stitch(
        &self,
        mut files: Vec<SourceFile>,
        objects: &mut Objects,
    ) -> Result<(ArrayManifest, StitchedArray), StitchError> {
        self.check_files(&mut files)?;
        let (first, along) = self.axis(&files)?;
        let mut extents = first.shape.extents().to_vec();
        let (mut sections, mut steps) = (Vec::new(), Vec::new());
        let mut end = 0_u64;
        for file in &files {
            let part = self.part(file)?;
            let differs = |difference| StitchError::Differs {
                array: self.name.clone(),
                file: file.file.clone(),
                first: files[0].file.clone(),
                difference: Box::new(difference),
            };
            difference(part.description(), &first, along).map_or(Ok(()), |difference| Err(differs(difference)))?;
            let numbers = objects.add_all(file.manifest.objects());
            sections
                .extend(self.sections(file, part, along)?.into_iter().map(|section| section.with_objects(&numbers)));
            let extent = part.description().shape.extents().get(along).copied().unwrap_or(1);
            steps.push((file.file.clone(), extent));
            end = end.checked_add(extent).ok_or_else(|| self.wrong(ManifestProblem::TooLarge))?;
        }
        if let Some(extent) = extents.get_mut(along) {
            *extent = end;
        }
        let shape = Shape::new(extents).map_err(|error| self.wrong(error.into()))?;
        self.check_layout(&shape)?;
        let (coordinates, gaps) = self.coordinates(&files, &steps)?;
        let description = ArrayDescription { name: self.name.clone(), shape, ..first };
        let array = ArrayManifest::new(description, along, sections).map_err(|problem| self.wrong(problem))?;
        let line = self.coordinate_variable().and_then(|variable| files[0].manifest.array(variable));
        let coordinate_attributes = line.map(|line| line.description().attributes.clone()).unwrap_or_default();
        Ok((array, StitchedArray { name: self.name.clone(), files: steps, coordinates, coordinate_attributes, gaps }))
    }

    /// Puts the files into order, and checks their number.
    fn check_files(&self, files: &mut [SourceFile]) -> Result<(), StitchError> {
        let array = self.name.clone();
        if files.is_empty() {
            return Err(StitchError::NoFiles {
                array,
                patterns: self.files.iter().map(FilePattern::to_string).collect(),
            });
        }
        let is_alone = |pattern: &&FilePattern| !files.iter().any(|file| pattern.matches(&file.file));
        if let Some(pattern) = self.files.iter().find(is_alone) {
            return Err(StitchError::NoFiles { array, patterns: vec![pattern.to_string()] });
        }
        files.sort_by(|one, other| one.file.cmp(&other.file));
        if let Some(pair) = files.windows(2).find(|pair| pair[0].file == pair[1].file) {
            return Err(StitchError::DuplicateFile { array, file: pair[0].file.clone() });
        }
        if self.along.is_none() && files.len() > 1 {
            return Err(StitchError::SeveralFiles { array, files: files.len() });
        }
        order::sort(self, files)
    }

    /// The array in the first file, and the axis of the files.
    fn axis(&self, files: &[SourceFile]) -> Result<(ArrayDescription, usize), StitchError> {
        let part = self.part(&files[0])?;
        let first = part.description().clone();
        let Some(along) = &self.along else { return Ok((first, part.along())) };
        let axis = first.dimension_names.iter().position(|name| name.as_ref() == Some(along));
        let axis = axis.ok_or_else(|| StitchError::NoAxis {
            array: self.name.clone(),
            file: files[0].file.clone(),
            along: along.clone(),
            dimensions: names(&first),
        })?;
        Ok((first, axis))
    }

    /// The array in a file.
    fn part<'a>(&self, file: &'a SourceFile) -> Result<&'a ArrayManifest, StitchError> {
        file.manifest.array(&self.variable).ok_or_else(|| StitchError::NoVariable {
            array: self.name.clone(),
            file: file.file.clone(),
            variable: self.variable.clone(),
        })
    }

    /// The sections of a file along the axis of the files.
    fn sections(&self, file: &SourceFile, part: &ArrayManifest, along: usize) -> Result<Vec<Section>, StitchError> {
        if part.along() == along {
            return Ok(part.sections().to_vec());
        }
        // One section is all of the array, and so may be counted along any axis.
        let [section] = part.sections() else {
            return Err(StitchError::Nested { array: self.name.clone(), file: file.file.clone() });
        };
        Ok(vec![Section { extent: part.description().shape.extents()[along], ..section.clone() }])
    }

    fn coordinates(
        &self,
        files: &[SourceFile],
        steps: &[(ObjectPath, u64)],
    ) -> Result<(Option<Vec<f64>>, Vec<Gap>), StitchError> {
        let (Some(source), Some(along)) = (&self.coordinate, &self.along) else { return Ok((None, Vec::new())) };
        let variable = self.coordinate_variable();
        let files: Vec<FileSteps<'_>> = files
            .iter()
            .zip(steps)
            .map(|(file, (_, steps))| FileSteps {
                file: &file.file,
                steps: *steps,
                attributes: file.manifest.attributes(),
                values: file.coordinates.as_deref(),
                line: variable.and_then(|variable| file.manifest.array(variable)).map(ArrayManifest::description),
            })
            .collect();
        let wrong = |error| StitchError::Coordinate { array: self.name.clone(), error: Box::new(error) };
        let (coordinates, gaps) = source.coordinates(along, &files).map_err(wrong)?;
        Ok((Some(coordinates), gaps))
    }

    /// Checks that blocks, partitions and views fit the array.
    fn check_layout(&self, shape: &Shape) -> Result<(), StitchError> {
        let unfit = |key: String| StitchError::Layout { array: self.name.clone(), key, shape: shape.clone() };
        for (key, wanted) in [("block_shape", &self.block_shape), ("partition_shape", &self.partition_shape)] {
            if wanted.as_ref().is_some_and(|wanted| wanted.rank() != shape.rank()) {
                return Err(unfit(key.into()));
            }
        }
        match self.views.iter().find(|view| !view.region.is_within(shape)) {
            Some(view) => Err(unfit(format!("view.{}", view.name))),
            None => Ok(()),
        }
    }

    fn wrong(&self, problem: ManifestProblem) -> StitchError {
        StitchError::Array { array: self.name.clone(), problem: Box::new(problem) }
    }
}

/// Files by number, each once.
#[derive(Default)]
struct Objects {
    paths: Vec<ObjectPath>,
    numbers: HashMap<ObjectPath, u32>,
}

impl Objects {
    /// The numbers of files, of which the new ones are added.
    fn add_all(&mut self, paths: &[ObjectPath]) -> Vec<u32> {
        let add = |path: &ObjectPath| {
            *self.numbers.entry(path.clone()).or_insert_with(|| {
                self.paths.push(path.clone());
                u32::try_from(self.paths.len() - 1).expect("the paths of 2^32 files do not fit memory")
            })
        };
        paths.iter().map(add).collect()
    }
}
