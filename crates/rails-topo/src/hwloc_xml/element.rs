//! XML elements of the file.

use quick_xml::{Writer, events::BytesText};
use std::io;

/// An element that contains a text or other elements.
#[derive(Debug)]
pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    text: String,
    inner: Vec<Element>,
}

impl Element {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), text: String::new(), inner: Vec::new() }
    }

    pub(super) fn info(name: &str, value: &str) -> Self {
        Self::new("info").with("name", name).with("value", value)
    }

    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub(super) fn with_all(mut self, attributes: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        self.attributes.extend(attributes);
        self
    }

    pub(super) fn with_text(mut self, text: String) -> Self {
        self.text = text;
        self
    }

    pub(super) fn containing(mut self, inner: impl IntoIterator<Item = Self>) -> Self {
        self.inner.extend(inner);
        self
    }

    pub(super) fn write(&self, xml: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let attributes = self.attributes.iter().fold(xml.create_element(self.name), |element, (name, value)| {
            // XML has no way to write most of the control characters (XML 1.0, 2.2).
            let value: String = value.chars().filter(|character| !character.is_control()).collect();
            element.with_attribute((*name, value.as_str()))
        });
        match (self.text.is_empty(), self.inner.is_empty()) {
            (false, _) => attributes.write_text_content(BytesText::new(&self.text)),
            (true, true) => attributes.write_empty(),
            _ => attributes.write_inner_content(|xml| self.inner.iter().try_for_each(|inner| inner.write(xml))),
        }
        .map(drop)
    }
}
