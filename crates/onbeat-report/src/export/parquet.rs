//! Every bucket of every interval as an Apache Parquet file, without a library: one page per column
//! and row group, PLAIN for numbers and a dictionary for words, no compression, no null values. A
//! library for all of the format would be a hundred times as much code to build; this is the part
//! that a table of numbers needs (parquet-format 2.10, `README.md`, `Encodings.md`).

use std::io::{self, Write};

use super::BucketRow;
use super::thrift::{Struct, varint};
use onbeat_record::RunFile;

const MAGIC: &[u8; 4] = b"PAR1";
/// Rows that are held before they are written; bounds memory at some 60 MiB.
const ROWS_PER_GROUP: usize = 1 << 20;
/// `Type`, `Encoding`, `PageType` and `ConvertedType` of `parquet.thrift`.
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const UTF8: i32 = 0;

/// Columns in the order of the file.
const COLUMNS: [(&str, i32); 9] = [
    ("tuning", BYTE_ARRAY),
    ("load", BYTE_ARRAY),
    ("series", BYTE_ARRAY),
    ("block", INT64),
    ("t_s", DOUBLE),
    ("length_s", DOUBLE),
    ("low_ns", INT64),
    ("high_ns", INT64),
    ("count", INT64),
];
const WORDS: usize = 3;

/// Writes the buckets of runs; returns how many rows. `block` is −1 where blocks are not noted.
///
/// # Errors
/// The error of the writer.
pub fn write<'r>(
    runs: impl IntoIterator<Item = &'r RunFile>,
    to: &mut dyn Write,
) -> io::Result<u64> {
    let mut file = ParquetWriter::begin(to)?;
    for run in runs {
        let cell = super::cell(run);
        for row in super::rows(run, &cell) {
            file.row(&row)?;
        }
    }

    file.finish()
}

/// A file that is being written.
struct ParquetWriter<'w> {
    to: &'w mut dyn Write,
    at: u64,
    rows: u64,
    group: Group,
    groups: Vec<Struct>,
}

/// The rows that are held.
#[derive(Default)]
struct Group {
    rows: usize,
    words: [StringColumn; WORDS],
    /// PLAIN bytes of the columns behind the words.
    numbers: [Vec<u8>; COLUMNS.len() - WORDS],
}

/// Where the pages of a column begin in the file.
#[derive(Clone, Copy)]
struct ChunkPlaces {
    dictionary: Option<u64>,
    data: u64,
}

/// One column of words: each once, and their places.
#[derive(Default)]
struct StringColumn {
    known: Vec<String>,
    /// Runs of equal places.
    runs: Vec<(u32, u64)>,
}

impl StringColumn {
    fn push(&mut self, word: &str) {
        if let Some((last, length)) = self.runs.last_mut()
            && self.known[*last as usize] == word
        {
            *length += 1;
            return;
        }

        let place = self.known.iter().position(|known| known == word).unwrap_or_else(|| {
            self.known.push(word.to_owned());
            self.known.len() - 1
        });

        self.runs.push((u32::try_from(place).unwrap_or(u32::MAX), 1));
    }

    fn dictionary(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in &self.known {
            bytes.extend_from_slice(&u32::try_from(word.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(word.as_bytes());
        }
        bytes
    }

    /// The width of a place in bits, then runs: length doubled, and the place in whole bytes.
    fn places(&self) -> Vec<u8> {
        let bits = usize::BITS - self.known.len().saturating_sub(1).leading_zeros();
        let bits = bits.max(1);
        let mut bytes = vec![bits as u8];
        for &(place, length) in &self.runs {
            varint(&mut bytes, length << 1);
            bytes.extend_from_slice(&place.to_le_bytes()[..bits.div_ceil(8) as usize]);
        }

        bytes
    }
}

impl<'w> ParquetWriter<'w> {
    fn begin(to: &'w mut dyn Write) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        Ok(Self {
            to,
            at: MAGIC.len() as u64,
            rows: 0,
            group: Group::default(),
            groups: Vec::new(),
        })
    }

    fn row(&mut self, row: &BucketRow<'_>) -> io::Result<()> {
        let group = &mut self.group;
        for (words, word) in group.words.iter_mut().zip([row.tuning, row.load, row.series.tag()]) {
            words.push(word);
        }

        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).to_le_bytes();
        let numbers = [
            row.block.map_or(-1, i64::from).to_le_bytes(),
            row.t.to_le_bytes(),
            row.length.to_le_bytes(),
            whole(row.bucket.low_ns),
            whole(row.bucket.high_ns()),
            whole(row.bucket.count),
        ];

        for (column, bytes) in group.numbers.iter_mut().zip(numbers) {
            column.extend_from_slice(&bytes);
        }

        group.rows += 1;
        if group.rows == ROWS_PER_GROUP { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        let group = std::mem::take(&mut self.group);
        let begin = self.at;
        let mut chunks = Vec::new();
        for (words, (name, kind)) in group.words.iter().zip(COLUMNS) {
            let dictionary_at = self.at;
            let header = Struct::default().i32(1, i32_of(words.known.len())).i32(2, PLAIN);
            self.page(DICTIONARY_PAGE, (7, header), &words.dictionary())?;
            let data_at = self.at;
            self.data_page(&group, RLE_DICTIONARY, &words.places())?;
            let dictionary = Some(dictionary_at);
            chunks.push(self.chunk(
                (name, kind),
                &group,
                ChunkPlaces { dictionary, data: data_at },
            ));
        }

        for (numbers, (name, kind)) in group.numbers.iter().zip(&COLUMNS[WORDS..]) {
            let data_at = self.at;
            self.data_page(&group, PLAIN, numbers)?;
            chunks.push(self.chunk(
                (name, *kind),
                &group,
                ChunkPlaces { dictionary: None, data: data_at },
            ));
        }

        let bytes = i64_of(self.at - begin);
        self.groups.push(
            Struct::default().structs(1, chunks).i64(2, bytes).i64(3, i64_of(group.rows as u64)),
        );
        self.rows += group.rows as u64;
        Ok(())
    }

    fn data_page(&mut self, group: &Group, encoding: i32, bytes: &[u8]) -> io::Result<()> {
        let header =
            Struct::default().i32(1, i32_of(group.rows)).i32(2, encoding).i32(3, RLE).i32(4, RLE);
        self.page(DATA_PAGE, (5, header), bytes)
    }

    fn page(&mut self, kind: i32, (field, header): (u8, Struct), bytes: &[u8]) -> io::Result<()> {
        let length = i32_of(bytes.len());
        let header = Struct::default()
            .i32(1, kind)
            .i32(2, length)
            .i32(3, length)
            .nested(field, header)
            .finish();
        self.to.write_all(&header)?;
        self.to.write_all(bytes)?;
        self.at += (header.len() + bytes.len()) as u64;
        Ok(())
    }

    /// The footer's words on a column that ends here.
    fn chunk(&self, (name, kind): (&str, i32), group: &Group, places: ChunkPlaces) -> Struct {
        let ChunkPlaces { dictionary, data } = places;
        let begin = dictionary.unwrap_or(data);
        let bytes = i64_of(self.at - begin);
        let encodings: &[i32] =
            if dictionary.is_some() { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] };
        let meta = Struct::default()
            .i32(1, kind)
            .integers(2, encodings)
            .texts(3, &[name])
            .i32(4, 0)
            .i64(5, i64_of(group.rows as u64))
            .i64(6, bytes)
            .i64(7, bytes)
            .i64(9, i64_of(data));
        let meta = match dictionary {
            Some(at) => meta.i64(11, i64_of(at)),
            None => meta,
        };

        Struct::default().i64(2, i64_of(begin)).nested(3, meta)
    }

    fn finish(mut self) -> io::Result<u64> {
        if self.group.rows > 0 {
            self.end_group()?;
        }

        let root = Struct::default().text(4, "onbeat").i32(5, i32_of(COLUMNS.len()));
        let column = |(name, kind): (&str, i32)| {
            let column = Struct::default().i32(1, kind).i32(3, 0).text(4, name);
            // Annotated twice: readers of either age take it for text.
            if kind == BYTE_ARRAY {
                column.i32(6, UTF8).nested(10, Struct::default().nested(1, Struct::default()))
            } else {
                column
            }
        };

        let schema = std::iter::once(root).chain(COLUMNS.map(column)).collect();
        let footer = Struct::default()
            .i32(1, 1)
            .structs(2, schema)
            .i64(3, i64_of(self.rows))
            .structs(4, std::mem::take(&mut self.groups))
            .text(6, concat!("onbeat ", env!("CARGO_PKG_VERSION")))
            .finish();
        self.to.write_all(&footer)?;
        self.to.write_all(&i32_of(footer.len()).to_le_bytes())?;
        self.to.write_all(MAGIC)?;

        Ok(self.rows)
    }
}

fn i32_of(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn i64_of(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
