//! The file format of a data directory: a header, then records.
//!
//! Pure encoding and decoding, without I/O. `journal.rs` writes logs and snapshots with it, `recovery.rs`
//! reads them. Each record has a length and a checksum. A record that the end of the process truncated is
//! recognized and dropped; any other damage is an error, because whole records follow it.

use std::sync::Arc;

use bytes::Bytes;

use crate::store::ObjectKey;

/// The magic bytes of every file.
const MAGIC: &[u8; 8] = b"KOPFDATA";

/// The version of the format; files of other versions are rejected.
pub(crate) const FORMAT: u32 = 1;

/// Starts each record. None of these bytes occurs in UTF-8, so it is never a part of an object.
const MARKER: [u8; 4] = [0xff, 0xfe, 0xff, 0xc0];

/// The marker, the length of the content, and the checksum of both length and content.
const FRAME_SIZE: usize = 12;

/// The length limit of a record; far above the size limit of requests.
const CONTENT_LIMIT: usize = 64 * 1024 * 1024;

/// The size of a header in its file.
pub(crate) const HEADER_SIZE: usize = 36;

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileType {
    /// Changes, in the order of their versions.
    Log,
    /// All objects at one version.
    Snapshot,
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub file_type: FileType,
    /// The number of the file: a log continues the snapshot of the same generation.
    pub generation: u64,
    /// The version of the store before the first record of a log, or of the whole snapshot.
    pub version: u64,
}

/// One record of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// An object exists, in this state.
    Put { version: u64, resource: Arc<str>, object_key: ObjectKey, raw: Bytes },
    /// An object was deleted.
    Remove { version: u64, resource: Arc<str>, object_key: ObjectKey },
    /// A snapshot ends here, after this number of objects.
    End { count: u64 },
}

/// Why a file is unreadable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not a file of a data directory.
    #[error("it is not a file of an embedded cluster")]
    Foreign,
    /// Another version of this program wrote it.
    #[error("it has the format {0}, while {FORMAT} is known here")]
    Format(u32),
    /// It ends within its header.
    #[error("its header is cut")]
    CutHeader,
    /// Its content does not match its checksum.
    #[error("it is damaged at byte {offset}: {reason}")]
    Damaged { offset: usize, reason: &'static str },
}

/// The whole records of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Records {
    pub records: Vec<Record>,
    /// Where the last whole record ends; the rest was truncated.
    pub end: usize,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12] = match self.file_type {
            FileType::Log => b'L',
            FileType::Snapshot => b'S',
        };
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ReadError> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(ReadError::Foreign);
        }
        let mut rest = RecordReader { bytes: bytes.get(MAGIC.len()..).unwrap_or_default() };
        match rest.u32() {
            Some(FORMAT) => {}
            Some(other) => return Err(ReadError::Format(other)),
            None => return Err(ReadError::CutHeader),
        }
        let header = bytes.first_chunk::<HEADER_SIZE>().ok_or(ReadError::CutHeader)?;
        let damaged = |reason| ReadError::Damaged { offset: 0, reason };
        let file_type = match header[12] {
            b'L' => FileType::Log,
            b'S' => FileType::Snapshot,
            _ => return Err(damaged("the kind of the file is unknown")),
        };
        rest.take(4);
        let fields = (rest.u64(), rest.u64(), rest.u32());
        let (Some(generation), Some(version), Some(checksum)) = fields else { return Err(ReadError::CutHeader) };
        match crc32fast::hash(&header[..32]) == checksum {
            true => Ok(Self { file_type, generation, version }),
            false => Err(damaged("the checksum of the header is another one")),
        }
    }
}

impl Record {
    /// Appends the record in the format of the files.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Put { version, resource, object_key, raw } => encode_put(into, *version, resource, object_key, raw),
            Self::Remove { version, resource, object_key } => encode_remove(into, *version, resource, object_key),
            Self::End { count } => encode_frame(into, |content| {
                content.push(b'E');
                content.extend_from_slice(&count.to_le_bytes());
            }),
        }
    }

    fn decode(content: &[u8]) -> Option<Self> {
        let mut rest = RecordReader { bytes: content };
        let kind = rest.take(1)?[0];
        let number = rest.u64()?;
        match kind {
            b'P' => {
                let (resource, object_key) = (rest.text()?.into(), ObjectKey::new(rest.text()?, rest.text()?));
                let raw = Bytes::copy_from_slice(rest.bytes);
                Some(Self::Put { version: number, resource, object_key, raw })
            }
            b'R' => {
                let (resource, object_key) = (rest.text()?.into(), ObjectKey::new(rest.text()?, rest.text()?));
                rest.bytes.is_empty().then_some(Self::Remove { version: number, resource, object_key })
            }
            b'E' => rest.bytes.is_empty().then_some(Self::End { count: number }),
            _ => None,
        }
    }
}

/// Appends the record of an existing object.
pub(crate) fn encode_put(into: &mut Vec<u8>, version: u64, resource: &str, object_key: &ObjectKey, raw: &[u8]) {
    encode_frame(into, |content| {
        encode_place(content, b'P', version, resource, object_key);
        content.extend_from_slice(raw);
    });
}

/// Appends the record of a deleted object.
pub(crate) fn encode_remove(into: &mut Vec<u8>, version: u64, resource: &str, object_key: &ObjectKey) {
    encode_frame(into, |content| encode_place(content, b'R', version, resource, object_key));
}

fn encode_place(content: &mut Vec<u8>, kind: u8, version: u64, resource: &str, object_key: &ObjectKey) {
    content.push(kind);
    content.extend_from_slice(&version.to_le_bytes());
    for text in [resource, &object_key.namespace, &object_key.name] {
        // Names were validated before: they have a few hundred bytes at most.
        content.extend_from_slice(&(text.len() as u16).to_le_bytes());
        content.extend_from_slice(text.as_bytes());
    }
}

fn encode_frame(into: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend_from_slice(&MARKER);
    into.extend_from_slice(&[0; 8]);
    fill(into);
    let length = (into.len() - start - FRAME_SIZE) as u32;
    into[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(length, &into[start + FRAME_SIZE..]);
    into[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads all records of a file after its header, up to a truncated one.
pub(crate) fn decode_all(bytes: &[u8]) -> Result<Records, ReadError> {
    let mut records = Vec::new();
    let mut end = HEADER_SIZE;
    while end < bytes.len() {
        let damaged = |reason| ReadError::Damaged { offset: end, reason };
        match decode_frame(&bytes[end..]) {
            Some(content) => {
                records.push(Record::decode(content).ok_or_else(|| damaged("a record makes no sense"))?);
                end += FRAME_SIZE + content.len();
            }
            None if has_whole_record(&bytes[end + 1..]) => return Err(damaged("a record is broken before others")),
            None => break,
        }
    }
    Ok(Records { records, end })
}

/// The content of the record at the start of the bytes, if it is whole.
fn decode_frame(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = RecordReader { bytes };
    if rest.take(MARKER.len())? != MARKER {
        return None;
    }
    let length = rest.u32()?;
    let expected = rest.u32()?;
    let content = rest.take(length as usize).filter(|content| content.len() <= CONTENT_LIMIT)?;
    (checksum(length, content) == expected).then_some(content)
}

/// Whether there is a whole record anywhere.
fn has_whole_record(bytes: &[u8]) -> bool {
    let candidates = bytes.iter().enumerate().filter(|(_, byte)| **byte == MARKER[0]);
    candidates.map(|(offset, _)| &bytes[offset..]).any(|rest| decode_frame(rest).is_some())
}

fn checksum(length: u32, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}

/// Takes pieces off the start of bytes; None if they are too short.
struct RecordReader<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.array().map(u16::from_le_bytes)?;
        std::str::from_utf8(self.take(usize::from(length))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> Header {
        Header { file_type: FileType::Log, generation: 3, version: 17 }
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let object_key = ("[a-z.]{0,12}", "[a-zé]{0,8}", "[a-z-]{1,20}");
        (0_u8..3, any::<u64>(), object_key, proptest::collection::vec(any::<u8>(), 0..64)).prop_map(
            |(kind, version, (resource, namespace, name), raw)| {
                let (resource, object_key) = (resource.into(), ObjectKey::new(&namespace, &name));
                match kind {
                    0 => Record::Put { version, resource, object_key, raw: raw.into() },
                    1 => Record::Remove { version, resource, object_key },
                    _ => Record::End { count: version },
                }
            },
        )
    }

    /// The file of the records, and where each of them ends.
    fn encode(records: &[Record]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = header().encode().to_vec();
        let ends = records.iter().map(|record| {
            record.encode(&mut bytes);
            bytes.len()
        });
        let ends = ends.collect();
        (bytes, ends)
    }

    proptest! {
        #[test]
        fn what_is_cut_anywhere_gives_the_records_before(records in proptest::collection::vec(any_record(), 0..6)) {
            let (bytes, ends) = encode(&records);
            for cut in HEADER_SIZE..=bytes.len() {
                let whole = ends.iter().filter(|end| **end <= cut).count();
                let read = decode_all(&bytes[..cut]).unwrap();
                prop_assert_eq!(&read.records[..], &records[..whole]);
                prop_assert_eq!(read.end, if whole == 0 { HEADER_SIZE } else { ends[whole - 1] });
            }
        }

        #[test]
        fn damage_is_never_taken_for_data(
            records in proptest::collection::vec(any_record(), 1..5),
            position in any::<prop::sample::Index>(),
            flip in 1_u8..,
        ) {
            let (mut bytes, ends) = encode(&records);
            let position = HEADER_SIZE + position.index(bytes.len() - HEADER_SIZE);
            bytes[position] ^= flip;
            let hit = ends.iter().filter(|end| **end <= position).count();
            let start = if hit == 0 { HEADER_SIZE } else { ends[hit - 1] };
            match decode_all(&bytes) {
                // Only the last record can be mistaken for a truncated one.
                Ok(read) => {
                    prop_assert_eq!(hit, records.len() - 1);
                    prop_assert_eq!(&read.records[..], &records[..hit]);
                }
                Err(error) => {
                    let damaged = matches!(error, ReadError::Damaged { offset, .. } if offset == start);
                    prop_assert!(damaged, "{}", error);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::decode(&bytes);
            if let Ok(read) = decode_all(&bytes) {
                prop_assert!(read.end <= bytes.len().max(HEADER_SIZE));
            }
        }
    }

    #[test]
    fn headers_are_checked() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes), Ok(header()));
        for cut in 0..HEADER_SIZE {
            assert_eq!(Header::decode(&bytes[..cut]), Err(ReadError::CutHeader), "{cut}");
        }
        let with = |position: usize, value: u8| {
            let mut bytes = bytes;
            bytes[position] = value;
            Header::decode(&bytes).unwrap_err()
        };
        assert_eq!(with(0, b'k'), ReadError::Foreign);
        assert_eq!(with(8, 9), ReadError::Format(9));
        for position in 12..HEADER_SIZE {
            let damaged = with(position, bytes.get(position).unwrap() ^ 1);
            assert!(matches!(damaged, ReadError::Damaged { offset: 0, .. }), "{position}: {damaged}");
        }
    }
}
