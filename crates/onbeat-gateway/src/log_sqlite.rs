//! Rows of the database of a bag of ROS 2 (SQLite), as they were written.
//!
//! What a killed recorder has left in a journal beside the file is put in, or taken back, by SQLite in a copy: the user's files
//! stay as they are. A database that was cut, or has damaged pages, is read as far as it can be.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use onbeat_host::foreign;
use rustix::fs::{AtFlags, CWD};

use super::lcm_packets::word;
use super::log_defect::LogDefect;
use super::log_formats::new_channel;
use super::log_records::{LogMessage, LogRecordChannel, LogSchema};

/// Rows that are taken from a database at a time.
const ROWS: i64 = 256;
const SELECT: &str =
    "select id, topic_id, timestamp, data from messages where id >= ?1 order by id limit ?2";
/// Rows in the index of times, at most as many as the file has bytes: in a damaged one, pages may lead to one another.
const INDEXED: &str =
    "select count(*) from (select 1 from messages indexed by timestamp_idx limit ?1)";
/// Ends of the names of journals; the first byte of one that is over is 0.
const JOURNALS: [&str; 2] = ["-wal", "-journal"];

/// The rows, in the order of their numbers.
pub(super) struct SqliteRows {
    database: rusqlite::Connection,
    /// Keeps the path in /proc that the database is opened by.
    _file: File,
    pub(super) channels: Channels,
    waiting: VecDeque<Result<LogMessage, LogDefect>>,
    /// Number of the first row that was not read yet.
    next: i64,
    is_over: bool,
    /// Rows that were read; `None` once some are known to be damaged.
    found: Option<i64>,
    /// Rows in the index of times before any was read; 0 without one.
    indexed: i64,
    /// Of a file that was cut.
    cut: Option<LogDefect>,
}

type Channels = HashMap<i64, Arc<LogRecordChannel>>;

impl SqliteRows {
    /// Opens a database; with the path, also what waits in its journal.
    pub(super) fn open(file: File, path: Option<&Path>) -> Result<Self, LogDefect> {
        let recovered = match path {
            Some(path) => recovered(&file, path)?,
            None => Some(linked(&file)?),
        };
        // SQLite looks for the name of what it opens; that in the folder is gone once it is open.
        let (file, folder) = match recovered {
            Some((None, folder)) => (file, Some(folder)),
            Some((Some(other), folder)) => (other, Some(folder)),
            None => (file, None),
        };
        let (cut, whole) = missing_pages(&file)?;
        let (file, folder) = if file.metadata()?.len() > whole {
            let (file, folder) = shortened(&file, whole)?;
            (file, Some(folder))
        } else {
            (file, folder)
        };
        let flags =
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
        // By the descriptor: the file that was checked, whatever the path means by now.
        let name = match &folder {
            Some(folder) => folder.bag().display().to_string(),
            None => format!("/proc/self/fd/{}", file.as_raw_fd()),
        };
        let name = format!("file:{name}?immutable=1");
        let database = rusqlite::Connection::open_with_flags(name, flags).map_err(sqlite_says)?;
        if cut.is_some() {
            // SQLite reads no database that has fewer pages than it states, unless it is to be mended.
            database.execute_batch("pragma writable_schema = on").map_err(sqlite_says)?;
        }
        let channels = channels_of(&database).map_err(sqlite_says)??;
        // Not every bag has this index.
        let most = i64::try_from(whole).unwrap_or(i64::MAX);
        let indexed = database.query_row(INDEXED, [most], |row| row.get::<_, i64>(0)).unwrap_or(0);
        drop(folder);
        let (waiting, next, is_over) = (VecDeque::new(), i64::MIN, false);
        let found = Some(0);
        Ok(Self { database, _file: file, channels, waiting, next, is_over, found, indexed, cut })
    }

    /// Goes on after a defect; returns false where nothing follows.
    pub(super) fn resume(&self) -> bool {
        !self.is_over || !self.waiting.is_empty()
    }

    /// Takes the next rows, up to one that cannot be read.
    fn fill(&mut self) -> rusqlite::Result<()> {
        let mut query = self.database.prepare_cached(SELECT)?;
        let mut rows = query.query((self.next, ROWS))?;
        while let Some(row) = rows.next()? {
            let (id, topic, at): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if id < self.next {
                return Err(rusqlite::Error::IntegralValueOutOfRange(0, id));
            }
            let data: Vec<u8> = row.get(3)?;
            let log_time = u64::try_from(at).unwrap_or(0);
            let channel = self.channels.get(&topic).cloned();
            let message = channel.map(|channel| LogMessage::bare(channel, log_time, data));
            self.waiting.push_back(message.ok_or(LogDefect::NoTopic { row: id, topic }));
            self.is_over = id == i64::MAX;
            self.next = id.saturating_add(1);
            self.found = self.found.map(|found| found + 1);
        }
        Ok(())
    }

    /// Rows of a damaged page can be gone without an error; the index of times has them.
    fn missing_rows(&self) -> Option<LogDefect> {
        let (stated, read) = (self.indexed, self.found?);
        (stated > read).then_some(LogDefect::IndexedRows { stated, read })
    }

    /// Number of the first row from here on, if it can be read.
    fn row_from(&self, at: i64) -> rusqlite::Result<Option<i64>> {
        let mut query = self.database.prepare_cached(SELECT)?;
        let mut rows = query.query((at, 1_i64))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        row.get::<_, Vec<u8>>(3)?;
        row.get(0).map(Some)
    }

    /// Goes behind rows that cannot be read. Those of a page are consecutive: the first one behind is found by halves.
    fn pass_over(&mut self, why: rusqlite::Error) {
        self.found = None;
        let from = self.next.max(0);
        let (mut damaged, mut sound) = (from, None);
        for bit in 0..63 {
            let Some(at) = from.checked_add(1_i64 << bit) else { break };
            if self.row_from(at).is_ok() {
                sound = Some(at);
                break;
            }
            damaged = at;
        }
        let Some(mut sound) = sound else {
            self.is_over = true;
            let why = self.cut.take().unwrap_or_else(|| sqlite_says(why));
            self.waiting.push_back(Err(why));
            return;
        };
        while sound - damaged > 1 {
            let at = damaged + (sound - damaged) / 2;
            if self.row_from(at).is_ok() {
                sound = at;
            } else {
                damaged = at;
            }
        }
        self.next = sound;
        let why = why.to_string().replace('\n', " ");
        self.waiting.push_back(Err(LogDefect::Rows { from, to: sound - 1, why }));
    }
}

impl Iterator for SqliteRows {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.waiting.is_empty() && !self.is_over {
            match self.fill() {
                Ok(()) if self.waiting.is_empty() => {
                    self.is_over = true;
                    let why = self.cut.take().or_else(|| self.missing_rows());
                    self.waiting.extend(why.map(Err));
                }
                Ok(()) => {}
                Err(why) => self.pass_over(why),
            }
        }
        self.waiting.pop_front()
    }
}

/// A folder for this user alone, for as long as this lives.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onbeat-{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn bag(&self) -> PathBuf {
        self.0.join("bag.db3")
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nothing to be done about one that somebody else has removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[allow(clippy::needless_pass_by_value)] // What `map_err` hands over.
fn sqlite_says(why: rusqlite::Error) -> LogDefect {
    LogDefect::Database(why.to_string().replace('\n', " "))
}

/// A file in a folder, and the file itself if it is another one than that which was given.
type Named = (Option<File>, TemporaryFolder);

/// Names a file that has none.
fn linked(file: &File) -> Result<Named, LogDefect> {
    let folder = TemporaryFolder::new()?;
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, &own, CWD, folder.bag(), AtFlags::SYMLINK_FOLLOW)
        .map_err(io::Error::from)?;
    Ok((None, folder))
}

/// A copy of a database with what its journal has put in, or taken back; `None` without a journal.
fn recovered(file: &File, path: &Path) -> Result<Option<Named>, LogDefect> {
    // Where the file is, not a link to it.
    let path = path.canonicalize()?;
    for end in JOURNALS {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let journal = match foreign::open(Path::new(&name)) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            journal => journal,
        };
        let failed = |why: io::Error| {
            let place = std::env::temp_dir();
            let place = place.display();
            LogDefect::Database(format!(
                "its {end} file cannot be merged: {why} (TMPDIR is {place})"
            ))
        };
        let journal = journal.map_err(failed)?;
        let mut first = [0];
        if journal.read_at(&mut first, 0).map_err(failed)? > 0 && first != [0] {
            return merged(file, &journal, end, failed).map(Some);
        }
    }
    Ok(None)
}

fn merged(
    file: &File,
    journal: &File,
    end: &str,
    failed: impl Fn(io::Error) -> LogDefect + Copy,
) -> Result<Named, LogDefect> {
    let states = || -> io::Result<_> {
        let (of, beside) = (file.metadata()?, journal.metadata()?);
        Ok([(of.len(), of.modified()?), (beside.len(), beside.modified()?)])
    };
    let before = states()?;
    let folder = TemporaryFolder::new().map_err(failed)?;
    let whole = folder.bag();
    let beside = folder.0.join(format!("bag.db3{end}"));
    for (mut from, to) in [(file, &whole), (journal, &beside)] {
        let mut to = File::create(to).map_err(failed)?;
        io::copy(&mut from, &mut to).map_err(failed)?;
    }
    if states()? != before {
        let why = "it is being recorded; read it when the recorder has ended";
        return Err(LogDefect::Database(why.to_owned()));
    }
    let database = rusqlite::Connection::open(&whole).map_err(sqlite_says)?;
    let merge = "pragma locking_mode = exclusive; pragma journal_mode = delete; \
                 select 1 from sqlite_master";
    database.execute_batch(merge).map_err(sqlite_says)?;
    drop(database);
    Ok((Some(File::open(whole).map_err(failed)?), folder))
}

/// A copy of the first bytes of a file.
fn shortened(mut file: &File, bytes: u64) -> Result<(File, TemporaryFolder), LogDefect> {
    let folder = TemporaryFolder::new()?;
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file.take(bytes), &mut File::create(folder.bag())?)?;
    Ok((File::open(folder.bag())?, folder))
}

/// Why a database is not complete, if it states more pages than it has; and the bytes of whole ones, as SQLite would fill the
/// last one with zeros.
fn missing_pages(file: &File) -> io::Result<(Option<LogDefect>, u64)> {
    let bytes = file.metadata()?.len();
    let mut head = [0; 100];
    if file.read_at(&mut head, 0)? < head.len() {
        return Ok((None, bytes));
    }
    let word = |at: usize| word(&head, at).map_or(0, u64::from);
    let page = match word(16) >> 16 {
        1 => 1 << 16,
        size => size.max(512),
    };
    let (pages, stated) = (bytes / page, word(28));
    // Writers of old left the number as it was, and did not count this change.
    if stated <= pages || word(24) != word(92) {
        return Ok((None, bytes));
    }
    Ok((Some(LogDefect::Pages { pages, stated }), pages * page))
}

/// The service or action that ROS 2 made a type of: rosbag2 keeps its definition under that name.
fn interface_of(name: &str) -> Option<&str> {
    const ENDS: [&str; 4] = ["_SendGoal_Event", "_GetResult_Event", "_Event", "_FeedbackMessage"];
    let is_made = name.contains("/srv/") || name.contains("/action/");
    ENDS.iter().filter(|_| is_made).find_map(|end| name.strip_suffix(*end))
}

fn channels_of(database: &rusqlite::Connection) -> rusqlite::Result<Result<Channels, LogDefect>> {
    let table = "select count(*) from sqlite_master where type = 'table' and name = ?1";
    let has = |name: &str| {
        database.query_row(table, [name], |row| row.get::<_, i64>(0)).map(|count| count > 0)
    };
    if !has("topics")? || !has("messages")? {
        return Ok(Err(LogDefect::NoTables));
    }
    let has_definitions = has("message_definitions")?;
    let mut definitions: HashMap<String, (String, String)> = HashMap::new();
    if has_definitions {
        let mut query = database.prepare(
            "select topic_type, encoding, encoded_message_definition from message_definitions",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        definitions = rows.collect::<rusqlite::Result<_>>()?;
    }

    let mut query = database.prepare("select * from topics")?;
    let rows = query.query_map([], |row| {
        Ok((
            row.get::<_, i64>("id")?,
            row.get::<_, String>("name")?,
            row.get::<_, String>("type")?,
            row.get::<_, String>("serialization_format")?,
            texts_of(row),
        ))
    })?;
    let mut channels = HashMap::new();
    for row in rows {
        let (id, topic, name, encoding, texts) = row?;
        let known = definitions.get(&name).or_else(|| definitions.get(interface_of(&name)?));
        let (schema_encoding, text) = known.cloned().unwrap_or_default();
        let schema = LogSchema { name, encoding: schema_encoding, definition: text.into_bytes() };
        match new_channel(channels.len(), &topic, &encoding, Some(schema), texts) {
            Ok(channel) => channels.insert(id, channel),
            Err(why) => return Ok(Err(why)),
        };
    }
    Ok(Ok(channels))
}

/// What the player of ROS 2 looks for in a channel of MCAP, from columns that not every version has.
fn texts_of(topic: &rusqlite::Row<'_>) -> BTreeMap<String, String> {
    let column = |name: &str| topic.get::<_, String>(name).ok().filter(|text| !text.is_empty());
    let columns = [
        ("offered_qos_profiles", "offered_qos_profiles"),
        ("type_description_hash", "topic_type_hash"),
    ];
    columns.into_iter().filter_map(|(from, to)| Some((to.to_owned(), column(from)?))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::log_formats::FormatMessages;
    use super::super::log_reader::LogContent;
    use super::*;

    const MOST: u64 = 1 << 20;

    #[test]
    fn a_topic_of_a_bag_keeps_its_quality_of_service() {
        let folder = tempfile::tempdir().unwrap();
        for (column, value, wanted) in [
            ("", "", None),
            (", offered_qos_profiles text", ", ''", None),
            (", offered_qos_profiles text", ", '- durability: 1'", Some("- durability: 1")),
        ] {
            let path = folder.path().join(format!("{}.db3", value.len()));
            let database = rusqlite::Connection::open(&path).unwrap();
            let rows = format!(
                "create table topics(id integer, name text, type text, serialization_format text{column});
                 create table messages(id integer, topic_id integer, timestamp integer, data blob);
                 insert into topics values(1, '/tf', 'a/msg/B', 'cdr'{value});
                 insert into messages values(1, 1, 5, x'00');"
            );
            database.execute_batch(&rows).unwrap();
            drop(database);
            let message = FormatMessages::open(&path, 1 << 20).unwrap().next().unwrap().unwrap();
            let found = message.channel.texts.get("offered_qos_profiles");
            assert_eq!(found.map(String::as_str), wanted);
        }
    }

    #[test]
    fn an_event_of_a_service_has_the_definition_of_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db3");
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch(TABLES).unwrap();
        let rows = "create table message_definitions(topic_type text, encoding text, encoded_message_definition text);
             insert into message_definitions values('a/srv/B', 'ros2msg', 'int8 b');
             insert into topics values(2, '/b/_service_event', 'a/srv/B_Event', 'cdr');
             insert into messages values(1, 2, 5, x'00');";
        database.execute_batch(rows).unwrap();
        drop(database);
        let message = FormatMessages::open(&path, MOST).unwrap().next().unwrap().unwrap();
        let schema = message.channel.schema.as_ref().unwrap();
        let found = (schema.name.as_str(), schema.definition.as_slice());
        assert_eq!(found, ("a/srv/B_Event", &b"int8 b"[..]));
    }

    const TABLES: &str = "create table topics(id integer primary key, name text, type text, serialization_format text);
         create table messages(id integer primary key, topic_id integer, timestamp integer, data blob);
         insert into topics values(1, '/a', 'a/msg/B', 'cdr');";

    fn insert(database: &rusqlite::Connection, ids: std::ops::RangeInclusive<u32>) {
        for id in ids {
            let values = (id, id, vec![0_u8; 90]);
            database.execute("insert into messages values(?1, 1, ?2, ?3)", values).unwrap();
        }
    }

    fn bag(path: &Path) {
        let database = rusqlite::Connection::open(path).unwrap();
        database.execute_batch(TABLES).unwrap();
        database.execute_batch("begin").unwrap();
        insert(&database, 1..=2000);
        database.execute_batch("commit").unwrap();
    }

    fn content(path: &Path) -> LogContent {
        let content = LogContent::from_file(path, MOST).unwrap();
        assert_eq!(content.in_order().unwrap().count() as u64, content.messages);
        content
    }

    #[test]
    fn a_bag_that_was_cut_is_read_as_far_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db3");
        bag(&path);
        let whole = std::fs::read(&path).unwrap();
        for parts in 3..=9 {
            std::fs::write(&path, &whole[..whole.len() * parts / 10]).unwrap();
            let found = content(&path);
            let about = 2000 * parts as u64 / 10;
            // Pages of other tables are before those of the messages, and rows with large numbers are longer.
            let is_about = (about - 200..=about + 20).contains(&found.messages);
            assert!(is_about, "{parts}: {}", found.messages);
            assert!(found.cut.contains("pages of its database"), "{}", found.cut);
        }
    }

    #[test]
    fn a_damaged_page_of_a_bag_does_not_hide_those_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db3");
        bag(&path);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[30 * 4096..31 * 4096].fill(0xff);
        std::fs::write(&path, &bytes).unwrap();
        let found = content(&path);
        assert!((1940..1990).contains(&found.messages), "{}", found.messages);
        assert_eq!((found.damage.len(), found.cut.as_str()), (1, ""));
        let rows = found.damage[0].split(' ').filter_map(|it| it.parse::<u64>().ok());
        let rows: Vec<u64> = rows.collect();
        assert_eq!(rows[1] + 1 - rows[0] + found.messages, 2000, "{:?}", found.damage);
    }

    #[test]
    fn rows_that_are_gone_without_an_error_are_missed_in_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db3");
        bag(&path);
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch("create index timestamp_idx on messages(timestamp)").unwrap();
        drop(database);
        assert_eq!(content(&path).cut, "");
        let mut bytes = std::fs::read(&path).unwrap();
        // The number of rows of a page.
        bytes[30 * 4096 + 4] -= 2;
        std::fs::write(&path, &bytes).unwrap();
        let found = content(&path);
        assert_eq!((found.messages, found.damage.len()), (1998, 0));
        assert_eq!(found.cut, "its index of times has 2000 rows, and 1998 were found");
    }

    /// As a killed recorder leaves them: the newest rows in a WAL, or half a change of the file and its undoing in a journal.
    #[test]
    fn what_is_in_a_journal_beside_a_bag_is_put_in_or_taken_back() {
        for (mode, end, rows) in [("wal", "-wal", 2500), ("delete", "-journal", 2000)] {
            let folder = tempfile::tempdir().unwrap();
            let (path, left) = (folder.path().join("a.db3"), folder.path().join("left.db3"));
            bag(&path);
            let database = rusqlite::Connection::open(&path).unwrap();
            let how = format!(
                "pragma journal_mode = {mode}; pragma cache_size = 5; \
                 pragma wal_autocheckpoint = 0; begin"
            );
            database.execute_batch(&how).unwrap();
            insert(&database, 2001..=2500);
            if mode == "wal" {
                database.execute_batch("commit").unwrap();
            }
            for end in ["", end] {
                let name = |path: &Path| format!("{}{end}", path.display());
                std::fs::copy(name(&path), name(&left)).unwrap();
            }
            let before = std::fs::read(&left).unwrap();
            assert_eq!(content(&left).messages, rows, "{mode}");
            assert!(before == std::fs::read(&left).unwrap(), "the file was changed");
            let files = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(files, if mode == "wal" { 5 } else { 4 });
        }
    }
}
