//! NetCDF-3: the header, the coordinates before the elements, and the padding behind them.

use super::{Frame, swap};
use anyhow::{Context, Result};
use rails_array::{Region, Selection, Shape};
use rails_cli::print;
use rails_formats::{
    data_type::{DataType, Endianness},
    manifest::{ArrayDescription, AttributeValue, Attributes},
    netcdf3::Writer,
};
use rails_lambdaram::{Array, Dataset};
use std::collections::HashSet;

/// The bytes around the selected elements, with the selected coordinates of each axis. The
/// coordinate of an axis that is dropped becomes a variable of one element.
pub(super) async fn frame(dataset: &Dataset, array: &Array, selection: &Selection) -> Result<Frame> {
    let description = array.description();
    let name = last_part(&description.name);
    let mut writer = Writer::new(kept(dataset.attributes(), None));
    let (mut dimensions, mut coordinates) = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for axis in 0..selection.rank() {
        let given = description.dimension_names[axis].as_deref().map_or_else(|| format!("axis_{axis}"), str::to_owned);
        let dimension = unused(last_part(&given), &names);
        names.insert(dimension.clone());
        let numbers = if selection.is_dropped(axis) {
            Vec::new()
        } else {
            let length = selection.counts().extents()[axis];
            vec![writer.dimension(&dimension, length).with_context(|| format!("the axis `{dimension}`"))?]
        };
        if dimension != name
            && let Some(line) = line(dataset, &given, description.shape.extents()[axis])
        {
            let selected = along(selection, axis)?;
            let dtype = line.description().dtype;
            let mut elements = line.read_selection(&selected).await?;
            swap(dtype, &mut elements, Endianness::Big);
            let attributes = kept(&line.description().attributes, Some(dtype));
            let number = writer.variable(&dimension, dtype, &numbers, attributes)?;
            coordinates.push((number, elements));
        }
        dimensions.extend(numbers);
    }
    let mut attributes = kept(&description.attributes, Some(description.dtype));
    if let Some(fill) = fill_of(description) {
        attributes.entry("_FillValue".to_owned()).or_insert(fill);
    }
    let variable = writer.variable(&name, description.dtype, &dimensions, attributes)?;
    let mut header = writer.header().context("NetCDF-3 cannot hold it")?;
    for (number, elements) in coordinates {
        header.extend(elements);
        header.resize(header.len() + writer.padding(number), 0);
    }
    Ok(Frame { header, endianness: Endianness::Big, trailer: vec![0; writer.padding(variable)] })
}

/// The array with the coordinates of an axis: one of its name and length, which has this axis
/// alone.
fn line(dataset: &Dataset, axis: &str, length: u64) -> Option<Array> {
    let line = dataset.array(axis).ok()?;
    let description = line.description();
    let is_its = description.shape.extents() == [length] && description.dimension_names == [Some(axis.to_owned())];
    is_its.then_some(line)
}

/// The coordinates of one axis of a selection.
fn along(selection: &Selection, axis: usize) -> Result<Selection> {
    let (bounds, step) = (selection.bounds(), selection.steps()[axis]);
    let region = Region::new([bounds.start()[axis]], Shape::new([bounds.shape().extents()[axis]])?)?;
    Ok(Selection::new(region, [step])?)
}

/// The fill value, if it is said and not zero, which many formats have where nothing is meant.
fn fill_of(description: &ArrayDescription) -> Option<AttributeValue> {
    let fill = description.fill_value.as_deref().filter(|fill| fill.iter().any(|byte| *byte != 0))?;
    Some(AttributeValue::from_bytes(description.dtype, fill, Endianness::Little))
}

/// The attributes that NetCDF can have; others are told of. A fill value has its variable's type.
fn kept(attributes: &Attributes, dtype: Option<DataType>) -> Attributes {
    let has_room = |(name, value): &(&String, &AttributeValue)| {
        let is_name = !name.is_empty() && !name.contains('/') && !name.chars().any(char::is_control);
        let fits = *name != "_FillValue" || dtype.is_some_and(|dtype| value.as_element(dtype).is_some());
        if !(is_name && fits) {
            print::note(format_args!("left out: the attribute `{}`, which NetCDF-3 has not", name.escape_debug()));
        }
        is_name && fits
    };
    attributes.iter().filter(has_room).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The name behind the last slash, which no name of NetCDF has.
fn last_part(name: &str) -> String {
    let last = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or("array");
    last.chars().map(|character| if character.is_control() { '_' } else { character }).collect()
}

/// The name, or with a number behind it if it is taken.
fn unused(name: String, taken: &HashSet<String>) -> String {
    if !taken.contains(&name) {
        return name;
    }
    let numbered = (2..).map(|number| format!("{name}_{number}")).find(|other| !taken.contains(other));
    numbered.expect("there are more numbers than axes")
}
