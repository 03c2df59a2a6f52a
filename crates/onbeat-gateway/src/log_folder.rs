//! Folders of ROS 2 bags: the files that a `metadata.yaml` names, one after the other.
//!
//! A bag whose recorder was killed has no `metadata.yaml`; its files are those of the folder, in the order of their numbers.
//! Channels of several files are one where topic, encoding, definition and texts are the same.
//!
//! Absent on purpose: custom data and policies, which say nothing about records.

use std::collections::{HashMap, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use onbeat_host::foreign;
use saphyr_parser::{Event, Parser};

use super::error::GatewayError;
use super::log_defect::{LogDefect, MOST_CHANNELS, printable};
use super::log_formats::FormatMessages;
use super::log_records::{LogMessage, LogRecordChannel};

const METADATA: &str = "metadata.yaml";
const MOST_METADATA: u64 = 64 << 20;
/// Of a file that was compressed as a whole.
const PACKED: &str = ".zstd";
/// The key above all others.
const ABOUT: &str = "rosbag2_bagfile_information";

/// What `metadata.yaml` says about the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BagMetadata {
    files: Vec<String>,
    records: Option<u64>,
}

impl BagMetadata {
    fn from_yaml(text: &str) -> Result<Self, LogDefect> {
        enum Level {
            Map(Option<String>),
            List,
        }
        let (mut levels, mut metadata) = (Vec::new(), Self::default());
        for event in Parser::new_from_str(text) {
            let (event, _) = event.map_err(|why| {
                let (line, why) = (why.marker().line(), why.info());
                LogDefect::Metadata(format!("line {line}: {why}"))
            })?;
            // What was before is the value of its key, or a key.
            let is_value = match event {
                Event::MappingStart(..) => {
                    levels.push(Level::Map(None));
                    false
                }
                Event::SequenceStart(..) => {
                    levels.push(Level::List);
                    false
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    levels.pop();
                    true
                }
                Event::Alias(_) => true,
                Event::Scalar(value, ..) => {
                    if let Some(Level::Map(key @ None)) = levels.last_mut() {
                        *key = Some(value.into_owned());
                        continue;
                    }
                    let keys: Vec<&str> = levels
                        .iter()
                        .filter_map(|level| match level {
                            Level::Map(key) => key.as_deref(),
                            Level::List => Some("-"),
                        })
                        .collect();
                    match keys.as_slice() {
                        [ABOUT, "relative_file_paths", "-"] => {
                            metadata.files.push(value.into_owned());
                        }
                        [ABOUT, "message_count"] => metadata.records = value.parse().ok(),
                        _ => {}
                    }
                    true
                }
                _ => false,
            };
            if is_value && let Some(Level::Map(key)) = levels.last_mut() {
                *key = None;
            }
        }
        Ok(metadata)
    }
}

/// The messages of all files of a bag.
pub(super) struct FolderMessages {
    files: VecDeque<PathBuf>,
    most_memory: u64,
    current: Option<Box<FormatMessages>>,
    /// Name of the current file, and its channels by their numbers there.
    name: String,
    of_file: HashMap<u16, Arc<LogRecordChannel>>,
    /// Channels of all files, by their numbers in the folder.
    pub(super) channels: Vec<Arc<LogRecordChannel>>,
    /// What was noticed before the first record.
    noticed: VecDeque<LogDefect>,
    /// Whether the last defect was within a file.
    is_in_file: bool,
    is_damaged: bool,
    stated: Option<u64>,
    read: u64,
    /// As [`FormatMessages::others`], of the files that were read to their end.
    pub(super) others: u64,
}

impl FolderMessages {
    /// Opens a folder.
    ///
    /// # Errors
    /// [`GatewayError::Open`] if it cannot be read; [`GatewayError::Read`] if it has no files of a bag.
    pub(super) fn open(path: &Path, most_memory: u64) -> Result<Self, GatewayError> {
        let opened = |source| GatewayError::Open { path: path.to_owned(), source };
        let mut noticed = VecDeque::new();
        let about = path.join(METADATA);
        let metadata = if about.exists() {
            let text = foreign::text(&about, MOST_METADATA)
                .map_err(|source| GatewayError::Open { path: about.clone(), source })?;
            BagMetadata::from_yaml(&text).unwrap_or_else(|why| {
                noticed.push_back(why);
                BagMetadata::default()
            })
        } else {
            noticed.push_back(LogDefect::NoMetadata);
            BagMetadata::default()
        };

        let mut files = Vec::new();
        for name in &metadata.files {
            match places_of(path, name).into_iter().find(|file| file.exists()) {
                Some(file) if files.contains(&file) => {}
                Some(file) => files.push(file),
                None => {
                    let name = Path::new(name).file_name().unwrap_or_default();
                    let name = printable(&name.to_string_lossy());
                    noticed.push_back(LogDefect::NoFile { name });
                }
            }
        }
        let named: Vec<_> = files.iter().map(|file| plain(file)).collect();
        let mut others = files_of(path).map_err(opened)?;
        others.retain(|file| !named.contains(&plain(file)));
        if files.is_empty() {
            files = others;
        } else if let Some(first) = others.first() {
            let name = printable(&first.file_name().unwrap_or_default().to_string_lossy());
            noticed.push_back(LogDefect::NotNamed { files: others.len(), name });
        }
        if files.is_empty() {
            let (path, source) = (path.to_owned(), LogDefect::NoBag);
            return Err(GatewayError::Read { path, source });
        }
        Ok(Self {
            files: files.into(),
            most_memory,
            current: None,
            name: String::new(),
            of_file: HashMap::new(),
            channels: Vec::new(),
            noticed,
            is_in_file: false,
            is_damaged: false,
            stated: metadata.records,
            read: 0,
            others: 0,
        })
    }

    /// Goes on after a defect, in the same file or in the next one.
    pub(super) fn resume(&mut self) -> bool {
        if self.is_in_file && !self.current.as_mut().is_some_and(|file| file.resume()) {
            self.current = None;
            return !self.files.is_empty();
        }
        true
    }

    fn defect(&mut self, why: LogDefect) -> LogDefect {
        self.is_in_file = true;
        self.is_damaged = true;
        LogDefect::InFile { name: self.name.clone(), why: Box::new(why) }
    }

    fn read(&mut self) -> Result<Option<LogMessage>, LogDefect> {
        if let Some(why) = self.noticed.pop_front() {
            self.is_in_file = false;
            self.is_damaged |= !matches!(why, LogDefect::NotNamed { .. });
            return Err(why);
        }
        loop {
            let Some(file) = self.current.as_mut() else {
                let Some(path) = self.files.pop_front() else { return self.compared() };
                self.name = printable(&path.file_name().unwrap_or_default().to_string_lossy());
                self.of_file.clear();
                match FormatMessages::of_file(&path, self.most_memory) {
                    Ok(messages) => self.current = Some(Box::new(messages)),
                    Err(GatewayError::Read { source, .. }) => return Err(self.defect(source)),
                    Err(why) => return Err(self.defect(LogDefect::Unread(why.to_string()))),
                }
                continue;
            };
            match file.next() {
                Some(Ok(message)) => {
                    self.read += 1;
                    let channel = self.channel(&message.channel)?;
                    return Ok(Some(LogMessage { channel, ..message }));
                }
                Some(Err(why)) => return Err(self.defect(why)),
                None => {
                    self.others += file.others();
                    let defined = file.channels();
                    self.current = None;
                    for of in &defined {
                        // One too many has no messages.
                        let _ = self.channel(of);
                    }
                }
            }
        }
    }

    /// Says at the end what is missing, unless something was said before.
    fn compared(&mut self) -> Result<Option<LogMessage>, LogDefect> {
        match self.stated.take() {
            Some(stated) if stated > self.read && !self.is_damaged => {
                self.is_in_file = false;
                Err(LogDefect::Missing { stated, read: self.read })
            }
            _ => Ok(None),
        }
    }

    fn channel(&mut self, of: &Arc<LogRecordChannel>) -> Result<Arc<LogRecordChannel>, LogDefect> {
        if let Some(known) = self.of_file.get(&of.id) {
            return Ok(Arc::clone(known));
        }
        let is_same = |known: &&Arc<LogRecordChannel>| {
            (&known.topic, &known.encoding, &known.schema, &known.texts)
                == (&of.topic, &of.encoding, &of.schema, &of.texts)
        };
        let channel = match self.channels.iter().find(is_same) {
            Some(known) => Arc::clone(known),
            None => {
                if self.channels.len() >= MOST_CHANNELS {
                    return Err(LogDefect::Channels);
                }
                let id = self.channels.len() as u16;
                let (topic, encoding) = (of.topic.clone(), of.encoding.clone());
                let (schema, texts) = (of.schema.clone(), of.texts.clone());
                let channel = LogRecordChannel { id, topic, encoding, schema, texts };
                self.channels.push(Arc::new(channel));
                Arc::clone(&self.channels[usize::from(id)])
            }
        };
        self.of_file.insert(of.id, Arc::clone(&channel));
        Ok(channel)
    }
}

impl Iterator for FolderMessages {
    type Item = Result<LogMessage, LogDefect>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Where a file that `metadata.yaml` names can be: older versions name the folder too, and the player of ROS 2 leaves the
/// unpacked file beside the packed one. A name leads nowhere else.
fn places_of(folder: &Path, name: &str) -> Vec<PathBuf> {
    let is_normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let parts: Vec<_> = Path::new(name).components().filter(is_normal).collect();
    let ends = (0..parts.len()).map(|from| parts[from..].iter().collect::<PathBuf>());
    let unpacked = |end: &PathBuf| end.to_str()?.strip_suffix(PACKED).map(PathBuf::from);
    let both = ends.flat_map(|end| [unpacked(&end), Some(end)].into_iter().rev().flatten());
    both.map(|end| folder.join(end)).collect()
}

/// The path of a file when it is not packed.
fn plain(file: &Path) -> String {
    let name = file.to_string_lossy();
    name.strip_suffix(PACKED).unwrap_or(&name).to_owned()
}

/// The files of a folder that can be parts of a bag, in the order of their numbers.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.strip_suffix(PACKED).unwrap_or(&name);
        let is_log = [".mcap", ".db3"].iter().any(|end| plain.ends_with(end));
        // A packed file beside the unpacked one has the same records.
        let is_copy = plain != name && folder.join(plain).exists();
        if is_log && !is_copy {
            files.push((plain.len(), name, path));
        }
    }
    // `bag_10` is behind `bag_9`.
    files.sort();
    Ok(files.into_iter().map(|(_, _, path)| path).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::log_reader::LogContent;
    use super::super::log_writer::{Compression, LogWriter};
    use super::*;

    const MOST: u64 = 1 << 20;

    fn part(path: &Path, channels: &[&str], times: std::ops::Range<u64>) {
        let mut log = LogWriter::create(path, Compression::Lz4).unwrap();
        let of: Vec<_> =
            channels.iter().map(|it| log.add_channel(it, "", "", &[]).unwrap()).collect();
        for at in times {
            log.write(of[at as usize % of.len()], at, at, &at.to_le_bytes()).unwrap();
        }
        log.finish().unwrap();
    }

    fn content(folder: &Path) -> LogContent {
        LogContent::from_file(folder, MOST).unwrap()
    }

    #[test]
    fn metadata_is_read_in_blocks_and_in_brackets() {
        let block = "rosbag2_bagfile_information:\n  version: 5\n  relative_file_paths:\n    - old/a_0.db3\n    \
                     - old/a_1.db3\n  topics_with_message_count:\n    - message_count: 7\n      topic_metadata: {name: /a}\n  \
                     message_count: 9\n  files:\n    - path: x.db3\n      message_count: 3\n";
        let brackets = r#"{rosbag2_bagfile_information: {message_count: 9,
            files: [{message_count: 3}], "relative_file_paths": ["old/a_0.db3", 'old/a_1.db3']}}"#;
        for text in [block, brackets] {
            let found = BagMetadata::from_yaml(text).unwrap();
            assert_eq!(found.files, ["old/a_0.db3", "old/a_1.db3"]);
            assert_eq!(found.records, Some(9));
        }
        assert!(
            BagMetadata::from_yaml("a: [1")
                .unwrap_err()
                .to_string()
                .contains("metadata.yaml is not valid: line ")
        );
    }

    #[test]
    fn channels_of_several_files_are_one_whatever_their_numbers_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        part(&at("a_9.mcap"), &["/a", "/b"], 0..10);
        part(&at("a_10.mcap"), &["/c", "/b", "/a"], 10..19);
        let found = content(folder.path());
        let topics: Vec<_> =
            found.channels.iter().map(|of| (of.topic.as_str(), of.messages)).collect();
        assert_eq!(topics, [("/a", 8), ("/b", 8), ("/c", 3)]);
        let times: Vec<_> = found.in_order().unwrap().map(|it| it.unwrap().log_time).collect();
        assert_eq!(times, (0..19).collect::<Vec<_>>());
        assert!(found.damage[0].contains("metadata.yaml"), "{:?}", found.damage);
    }

    #[test]
    fn a_missing_file_and_missing_records_are_named_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |names: &str, count: u64| {
            let text =
                format!("{ABOUT}:\n  relative_file_paths: [{names}]\n  message_count: {count}\n");
            std::fs::write(folder.path().join(METADATA), text).unwrap();
        };
        part(&folder.path().join("a_1.mcap"), &["/a"], 0..5);
        write("a_0.mcap, a_1.mcap", 9);
        let found = content(folder.path());
        assert_eq!((found.messages, found.damage.len()), (5, 1));
        assert!(found.damage[0].contains("a_0.mcap"), "{:?}", found.damage);

        write("a_1.mcap", 6);
        let found = content(folder.path());
        assert!(found.damage[0].contains("5 of 6"), "{:?}", found.damage);
        write("a_1.mcap", 5);
        assert!(content(folder.path()).damage.is_empty());

        // A part that was cut does not hide those behind it.
        let whole = std::fs::read(folder.path().join("a_1.mcap")).unwrap();
        std::fs::write(folder.path().join("a_0.mcap"), &whole[..whole.len() / 2]).unwrap();
        write("a_0.mcap, a_1.mcap", 10);
        let found = content(folder.path());
        assert!(
            found.messages >= 5 && found.damage[0].starts_with("a_0.mcap: "),
            "{:?}",
            found.damage
        );

        // A part in a folder below, and one after the name of a folder that is not there.
        std::fs::create_dir(folder.path().join("more")).unwrap();
        part(&folder.path().join("more/a_1.mcap"), &["/a"], 5..9);
        write("more/a_1.mcap, old/a_1.mcap", 9);
        let found = content(folder.path());
        assert_eq!((found.messages, found.damage.len()), (9, 1), "{:?}", found.damage);
        let wanted =
            "files that metadata.yaml does not name are not read: 1, the first is a_0.mcap";
        assert_eq!(found.damage[0], wanted);
    }

    #[test]
    fn a_folder_that_is_no_bag_is_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let why = LogContent::from_file(folder.path(), MOST).unwrap_err().to_string();
        assert!(why.contains("neither .mcap nor .db3 files"), "{why}");
    }
}
