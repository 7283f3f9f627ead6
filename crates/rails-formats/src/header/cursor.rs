//! Reading big-endian fields from the prefix of a file.

use super::{HeaderError, HeaderProblem, Step};

/// The end of a parse that is not done: the prefix is too short, or the header is wrong.
pub(crate) enum Stop {
    /// The field behind the prefix ends there.
    Needs(u64),
    Wrong(HeaderError),
}

/// A place in the prefix of a file, which knows the size of the whole.
pub(crate) struct Cursor<'a> {
    prefix: &'a [u8],
    at: usize,
    file_bytes: u64,
    max_bytes: u64,
    /// The lists around the field, as `variable 3: attribute 0: `.
    lists: Vec<(&'static str, u64)>,
}

/// A parser of a header, which reads with a cursor.
pub(crate) trait Parse<'a> {
    fn cursor(&mut self) -> &mut Cursor<'a>;

    /// Reads the entries of a list.
    fn list<T>(
        &mut self,
        entry: &'static str,
        count: u64,
        mut read: impl FnMut(&mut Self) -> Result<T, Stop>,
    ) -> Result<Vec<T>, Stop> {
        let mut entries = Vec::new();
        for number in 0..count {
            self.cursor().enter(entry, number);
            entries.push(read(self)?);
            self.cursor().leave();
        }
        Ok(entries)
    }
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of a header of at most `max_bytes`.
    pub(crate) fn new(prefix: &'a [u8], file_bytes: u64, max_bytes: u64) -> Self {
        Self { prefix, at: 0, file_bytes, max_bytes, lists: Vec::new() }
    }

    /// The offset of the next field.
    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Takes the bytes of a field.
    pub(crate) fn take(&mut self, field: &'static str, bytes: u64) -> Result<&'a [u8], Stop> {
        let end = self.offset().checked_add(bytes).ok_or_else(|| self.wrong(field, HeaderProblem::Size))?;
        if end > self.file_bytes {
            return Err(self.wrong(field, HeaderProblem::Truncated { end, file_bytes: self.file_bytes }));
        }
        if end > self.max_bytes {
            return Err(self.wrong(field, HeaderProblem::TooLong { max_bytes: self.max_bytes }));
        }
        let rest = self.prefix.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(bytes).ok().and_then(|bytes| rest.get(..bytes)).ok_or(Stop::Needs(end))?;
        self.at += taken.len();
        Ok(taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Stop> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Stop> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Stop> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Stop> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    /// Takes text of that length, which has to be UTF-8.
    pub(crate) fn text(&mut self, field: &'static str, bytes: u64) -> Result<String, Stop> {
        let at = self.at;
        let taken = self.take(field, bytes)?;
        let text = str::from_utf8(taken).map_err(|_| self.wrong_at(at, field, HeaderProblem::NotText))?;
        Ok(text.to_owned())
    }

    /// Checks that `count` entries of `min_bytes` or more fit behind the cursor, so that a count
    /// which the file cannot hold is refused before its first entry.
    pub(crate) fn check_count(&self, field: &'static str, count: u64, min_bytes: u64) -> Result<(), Stop> {
        let max = (self.file_bytes.min(self.max_bytes).saturating_sub(self.offset())) / min_bytes;
        if count > max { Err(self.wrong(field, HeaderProblem::Count { count, max })) } else { Ok(()) }
    }

    /// Goes into an entry of a list, which errors name by its number.
    pub(crate) fn enter(&mut self, entry: &'static str, number: u64) {
        self.lists.push((entry, number));
    }

    /// Goes back to the list around the entry.
    pub(crate) fn leave(&mut self) {
        self.lists.pop().expect("an entry was entered");
    }

    /// An error in the field at the cursor.
    pub(crate) fn wrong(&self, field: &'static str, problem: HeaderProblem) -> Stop {
        self.wrong_at(self.at, field, problem)
    }

    /// An error in a field that has been taken.
    pub(crate) fn wrong_at(&self, at: usize, field: &'static str, problem: HeaderProblem) -> Stop {
        let lists: String = self.lists.iter().map(|(entry, number)| format!("{entry} {number}: ")).collect();
        Stop::Wrong(HeaderError { field: lists + field, offset: at as u64, problem })
    }

    /// An error in a field of `bytes` that was taken last.
    pub(crate) fn wrong_before(&self, bytes: usize, field: &'static str, problem: HeaderProblem) -> Stop {
        self.wrong_at(self.at - bytes, field, problem)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Stop> {
        Ok(self.take(field, N as u64)?.try_into().expect("as many bytes as were asked for"))
    }
}

/// The answer to a prefix. The next prefix is twice as long, or as long as the next field needs, so
/// that a header of any length is read in few steps.
pub(crate) fn answer<T>(
    parsed: Result<T, Stop>,
    prefix: &[u8],
    file_bytes: u64,
    max_bytes: u64,
) -> Result<Step<T>, HeaderError> {
    match parsed {
        Ok(header) => Ok(Step::Done(header)),
        Err(Stop::Wrong(error)) => Err(error),
        Err(Stop::Needs(end)) => {
            let bytes = end.max(prefix.len() as u64 * 2).min(file_bytes).min(max_bytes);
            Ok(Step::NeedsPrefix { bytes })
        }
    }
}
