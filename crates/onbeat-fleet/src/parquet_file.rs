//! Tables as Parquet files: written whole or not at all, and read back.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_host::foreign;
use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel,
};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use crate::table::{Column, ColumnType, Table, TableShape, Words};

/// Rows of a row group at most, and those from which a new cell begins a new one: a question about one cell reads its row groups alone.
const MOST_ROWS: usize = 500_000;
const FEWEST_ROWS: usize = 20_000;
/// Values that are handed over at once.
const AT_ONCE: usize = 8_192;
/// zstd: 3 is 3 % larger than 9 and several times as fast.
const LEVEL: i32 = 3;
/// The key in the footer that says which tables these are.
const SCHEMA_KEY: &str = "onbeat.fleet";
/// The version of the tables. It grows when a column changes its meaning; new columns do not change it.
pub const SCHEMA: i64 = 1;

/// A Parquet file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableFileError {
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Rows could not be encoded.
    #[error("cannot encode rows of {table}: {source}")]
    Encode {
        /// Of which table.
        table: &'static str,
        /// What the library found.
        source: ParquetError,
    },
    /// The file is not a whole Parquet file, or its writer failed.
    #[error("cannot {what} {path}: {source}")]
    Parquet {
        /// `read` or `write`.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the library found.
        source: ParquetError,
    },
    /// A column is missing or of another type.
    #[error("{path} has no column {column} of the table {table}; it is not of this data set")]
    Column {
        /// Which file.
        path: PathBuf,
        table: &'static str,
        column: &'static str,
    },
}

/// Returns a function that adds operation and path to an answer of the system.
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TableFileError {
    let path = path.to_owned();
    move |source| TableFileError::System { what, path, source }
}

fn schema_of(shape: &TableShape) -> Result<TypePtr, ParquetError> {
    let field = |&(name, holds): &(&str, ColumnType)| {
        let (physical, is_text) = match holds {
            ColumnType::Text => (Physical::BYTE_ARRAY, true),
            ColumnType::Whole => (Physical::INT64, false),
            ColumnType::Flag => (Physical::BOOLEAN, false),
            ColumnType::Real => (Physical::DOUBLE, false),
        };
        let field =
            Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        // Annotated twice: readers of either age take it for text.
        let field = if is_text {
            field
                .with_converted_type(ConvertedType::UTF8)
                .with_logical_type(Some(LogicalType::String))
        } else {
            field
        };
        field.build().map(Arc::new)
    };
    let fields = shape.columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("onbeat").with_fields(fields).build().map(Arc::new)
}

fn properties_of(shape: &TableShape) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_created_by(concat!("onbeat ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(
            SCHEMA_KEY.to_owned(),
            SCHEMA.to_string(),
        )]));
    for (name, holds) in shape.columns {
        let column = ColumnPath::from(*name);
        properties = match holds {
            ColumnType::Whole => properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED),
            _ => properties.set_column_dictionary_enabled(column, true),
        };
    }
    Ok(properties.build())
}

/// A Parquet file that grows by row groups.
pub struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file of rows of this shape.
    ///
    /// # Errors
    /// The library's.
    pub fn begin(to: W, shape: &TableShape) -> Result<Self, ParquetError> {
        let file =
            SerializedFileWriter::new(to, schema_of(shape)?, Arc::new(properties_of(shape)?))?;
        Ok(Self { file })
    }

    /// Appends the rows of a table, in as many row groups as they fill.
    ///
    /// # Errors
    /// The library's, and those of what is written to.
    pub fn append(&mut self, table: &Table) -> Result<(), ParquetError> {
        let mut from = 0;
        while from < table.rows() {
            let to = end_of_group(table, from);
            let mut group = self.file.next_row_group()?;
            for column in table.columns() {
                write_column(&mut group, column, from, to)?;
            }
            group.close()?;
            from = to;
        }
        Ok(())
    }

    /// Writes the footer and returns what was written to.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn finish(self) -> Result<W, ParquetError> {
        self.file.into_inner()
    }
}

fn end_of_group(table: &Table, from: usize) -> usize {
    let most = (from + MOST_ROWS).min(table.rows());
    let earliest = from + FEWEST_ROWS;
    (earliest..most).find(|&row| !table.is_same_cell(row - 1, row)).unwrap_or(most)
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    from: usize,
    to: usize,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("a table with more columns than its file".to_owned()));
    };
    match column {
        Column::Whole(all) => {
            writer.typed::<Int64Type>().write_batch(&all[from..to], None, None)?;
        }
        Column::Flag(all) => {
            writer.typed::<BoolType>().write_batch(&all[from..to], None, None)?;
        }
        Column::Real(all) => {
            writer.typed::<DoubleType>().write_batch(&all[from..to], None, None)?;
        }
        Column::Text(words) => {
            let known = words.known().iter().map(|word| word.as_bytes().to_vec());
            let known: Vec<ByteArray> = known.map(ByteArray::from).collect();
            for places in words.places()[from..to].chunks(AT_ONCE) {
                let values: Vec<ByteArray> =
                    places.iter().map(|&place| known[place as usize].clone()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
        }
    }
    writer.close()
}

/// Writes a file that is there whole or not at all: under a temporary name, to the disk, then by its own name.
///
/// # Errors
/// [`TableFileError`]; the temporary file is removed.
pub fn write(path: &Path, table: &Table) -> Result<(), TableFileError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Two writers of one run have two temporary names; both files are the same.
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary =
        folder.join(format!("{TEMPORARY}{name}.{}-{:x}-{number}", std::process::id(), now_ns()));
    let written = write_at(&temporary, path, table);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Returns a table as the bytes of a file.
///
/// # Errors
/// [`TableFileError::Encode`].
pub fn bytes_of(table: &Table) -> Result<Vec<u8>, TableFileError> {
    encoded(Vec::new(), table)
        .map_err(|source| TableFileError::Encode { table: table.shape().name, source })
}

fn encoded<W: Write + Send>(to: W, table: &Table) -> Result<W, ParquetError> {
    let mut writer = TableWriter::begin(to, table.shape())?;
    writer.append(table)?;
    writer.finish()
}

/// How the names of files begin that are being written: what a killed writer leaves, and readers pass over.
pub const TEMPORARY: &str = ".tmp-";

/// Files that this process has begun: names differ also where the clock stands still.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

fn now_ns() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos())
}

fn write_at(temporary: &Path, path: &Path, table: &Table) -> Result<(), TableFileError> {
    let broken = |source| TableFileError::Parquet { what: "write", path: path.to_owned(), source };
    let file = File::options().write(true).create_new(true).open(temporary);
    let file = file.map_err(failed("create", temporary))?;
    let file = encoded(file, table).map_err(broken)?;
    // In this order: a name in the data set never leads to bytes that are not on the disk.
    file.sync_all().map_err(failed("write", path))?;
    // What a network file system has kept is asked for once more before it counts.
    let written = foreign::open(temporary).map_err(failed("read", temporary))?;
    SerializedFileReader::new(written).map_err(broken)?;
    fs::rename(temporary, path).map_err(failed("rename", temporary))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Puts the names of a folder on the disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), TableFileError> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some network file systems have no such operation.
        Err(why)
            if why.kind() == io::ErrorKind::InvalidInput
                || why.kind() == io::ErrorKind::Unsupported =>
        {
            Ok(())
        }
        other => other.map_err(failed("write", folder)),
    }
}

/// Reads a file into memory.
///
/// # Errors
/// [`TableFileError`], also for a file that was cut off.
pub fn read(path: &Path, shape: &'static TableShape) -> Result<Table, TableFileError> {
    let mut table = Table::new(shape);
    read_into(path, &mut table)?;
    Ok(table)
}

/// Reads a file and appends its rows to a table.
///
/// # Errors
/// As [`read`]; the table may have rows of the file.
pub fn read_into(path: &Path, table: &mut Table) -> Result<(), TableFileError> {
    let broken = |source| TableFileError::Parquet { what: "read", path: path.to_owned(), source };
    // Written by others, in a directory that many can write into: not a pipe, not a device.
    let file = foreign::open(path).map_err(failed("read", path))?;
    let file = SerializedFileReader::new(file).map_err(broken)?;
    let shape = table.shape();
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number).map_err(broken)?;
        let mut columns = Vec::new();
        for (name, holds) in shape.columns {
            let column = read_column(group.as_ref(), name, *holds).map_err(broken)?;
            columns.push(column.ok_or_else(|| TableFileError::Column {
                path: path.to_owned(),
                table: shape.name,
                column: name,
            })?);
        }
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        table.append_columns(columns, rows);
    }
    Ok(())
}

fn read_column(
    group: &dyn RowGroupReader,
    name: &str,
    holds: ColumnType,
) -> Result<Option<Column>, ParquetError> {
    let schema = group.metadata().schema_descr();
    let Some(place) = schema.columns().iter().position(|column| column.name() == name) else {
        return Ok(None);
    };
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    Ok(Some(match (group.get_column_reader(place)?, holds) {
        (ColumnReader::Int64ColumnReader(reader), ColumnType::Whole) => {
            Column::Whole(all_of(reader, rows)?)
        }
        (ColumnReader::BoolColumnReader(reader), ColumnType::Flag) => {
            Column::Flag(all_of(reader, rows)?)
        }
        (ColumnReader::DoubleColumnReader(reader), ColumnType::Real) => {
            Column::Real(all_of(reader, rows)?)
        }
        (ColumnReader::ByteArrayColumnReader(reader), ColumnType::Text) => {
            let mut words = Words::default();
            for word in all_of(reader, rows)? {
                words.push(word.as_utf8()?);
            }
            Column::Text(words)
        }
        _ => return Ok(None),
    }))
}

fn all_of<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
) -> Result<Vec<T::T>, ParquetError> {
    let mut values = Vec::with_capacity(rows);
    while values.len() < rows {
        let before = values.len();
        reader.read_records(rows - before, None, None, &mut values)?;
        if values.len() == before {
            return Err(ParquetError::EOF(format!("{before} of {rows} values")));
        }
    }
    Ok(values)
}

/// Returns the number of rows of a file, by its footer.
///
/// # Errors
/// As [`read`].
pub fn rows_of(path: &Path) -> Result<usize, TableFileError> {
    let file = foreign::open(path).map_err(failed("read", path))?;
    let file = SerializedFileReader::new(file).map_err(|source| TableFileError::Parquet {
        what: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(usize::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{CELLS, HISTOGRAMS, Value};

    fn buckets(rows: i64) -> Table {
        let mut table = Table::new(&HISTOGRAMS);
        for n in 0..rows {
            let load = if n % 3 == 0 { "idle" } else { "paper" };
            let row: [Value<'_>; 8] = [
                n.into(),
                "release_latency".into(),
                "PMCS".into(),
                load.into(),
                "walker ü".into(),
                (n * 7).into(),
                (n * 7 + 6).into(),
                (1 + n % 5).into(),
            ];
            table.push(row);
        }
        table
    }

    #[test]
    fn a_table_is_read_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("histograms/a.parquet");
        let mut table = buckets(70_000).sorted();
        let more = buckets(3);
        (0..3).for_each(|row| table.push_row_of(&more, row));
        write(&path, &table).unwrap();
        let back = read(&path, &HISTOGRAMS).unwrap();
        assert_eq!(back.rows(), 70_003);
        assert_eq!(back.numbers("low_ns").unwrap(), table.numbers("low_ns").unwrap());
        assert_eq!(back.texts("host").unwrap().get(70_002), "walker ü");
        let names: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(names, ["a.parquet"], "no temporary file is left");
    }

    #[test]
    fn a_file_that_was_cut_off_is_refused_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        write(&path, &buckets(1_000)).unwrap();
        let whole = fs::read(&path).unwrap();
        assert_eq!(rows_of(&path).unwrap(), 1_000);
        for length in [0, 3, 4, 100, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(
                rows_of(&path).is_err() && read(&path, &HISTOGRAMS).is_err(),
                "{length} of {} bytes",
                whole.len()
            );
        }
    }

    #[test]
    fn a_file_of_another_table_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        write(&path, &buckets(10)).unwrap();
        let why = read(&path, &CELLS).unwrap_err().to_string();
        assert!(
            why.ends_with(
                "has no column started_us of the table cells; it is not of this data set"
            ),
            "{why}"
        );
    }
}
