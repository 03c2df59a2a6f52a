package onbeat;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.CRC32;

/**
 * A log: an MCAP file, a bag of ROS 2 (its folder or one of its files), or a log of LCM. It is read as a whole.
 *
 * <p>Every record is in the result, or counted in {@link #account} with the reason. A log whose writer was killed is read up to
 * its last complete chunk. {@code onbeat message convert} makes an MCAP file of bags of ROS 1.
 */
public final class Log {
    private static final String SQLITE = "SQLite format 3\0";
    private static final byte[] MAGIC = {(byte) 0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};
    private static final int HEADER = 0x01;
    private static final int FOOTER = 0x02;
    private static final int SCHEMA = 0x03;
    private static final int CHANNEL = 0x04;
    private static final int MESSAGE = 0x05;
    private static final int CHUNK = 0x06;
    private static final int INDEX = 0x07;
    private static final int ATTACHMENT = 0x09;
    private static final int STATISTICS = 0x0b;
    private static final int NOTE = 0x0c;
    private static final int DATA_END = 0x0f;
    /** First bytes of an event of LCM, its head, and the longest name of a channel. */
    private static final int LCM = 0xeda1da01;
    private static final int LCM_HEAD = 28;
    private static final int LCM_NAME = 1024;
    /** Most channels of a file, and most damaged places that are named. */
    private static final int MOST_CHANNELS = 4096;
    private static final int MOST_NAMED = 20;
    private static final String NOT_CLOSED = "the file was not closed: its writer was killed, or it was not copied whole";
    /** Bytes of a record before its content, and of a message before its payload. */
    private static final int HEAD = 9;
    private static final int MESSAGE_HEAD = 22;
    /** Longest record and longest chunk, in bytes, and what one compressed byte of LZ4 can stand for. */
    private static final int MOST_BYTES = 256 << 20;
    private static final long LZ4_RATIO = 255;
    private static final long LZ4_MORE = 1 << 16;

    private final String path;
    private final boolean skips;
    private final Map<Integer, String[]> schemas = new HashMap<>();
    private final Map<Integer, LogChannel> byId = new LinkedHashMap<>();
    /** Channels whose definition, or that of whose type, was not found yet: a log repeats them behind the messages. */
    private final Set<Integer> undefined = new HashSet<>();
    private final Map<String, LogChannel> channels = new LinkedHashMap<>();
    private final Map<String, Map<String, String>> accounts = new HashMap<>();
    private final List<String> damage = new ArrayList<>();
    /** Records of each channel that were read, and that the file states at its end. */
    private final Map<Integer, Long> read = new HashMap<>();
    private final Map<Integer, Long> stated = new HashMap<>();
    private final List<String> account = new ArrayList<>();
    private boolean isComplete;
    private boolean isChunked;
    /** Whether messages were read that no chunk's checksum covers: that of the whole data section does. */
    private boolean isUnchecked;
    /** Damage that was named in the files before this one of a folder. */
    private int damageBefore;
    /** Up to where a chunk that is not compressed was read when it was found damaged. */
    private long scanned;
    /** Whether the file ends within a record: what is read behind that place is more than it promises. */
    private boolean isCut;
    /** Whether the messages are over, and kinds of records that were passed over before where they do not belong. */
    private boolean isBehind;
    private final Set<Integer> misplaced = new HashSet<>();
    /** Before the numbers of the channels of a file: a bag may have several. */
    private int base;

    /** Definitions for logs that have none: texts in the {@code .msg} language, one behind the other as in a schema. */
    private final String types;

    private Log(String path, boolean skips, String types) {
        this.path = path;
        this.skips = skips;
        this.types = types;
    }

    /** Reads a log; a damaged one is an error. */
    public static Log open(String path) {
        return open(path, false);
    }

    /** Reads a log; with {@code skips}, the sound part of a damaged one, and the rest is in {@link #account}. */
    public static Log open(String path, boolean skips) {
        return open(path, skips, "");
    }

    /** Reads a log; {@code types} is a folder of {@code .msg} files for bags without definitions (SQLite, ROS 2 Humble and earlier). */
    public static Log open(String path, boolean skips, String types) {
        Log log = new Log(path, skips, types.isEmpty() ? "" : LogFiles.definitions(new File(types)));
        try {
            if (new File(path).isDirectory()) log.readFolder(new File(path));
            else log.readFile(new File(path));
        } catch (IOException why) {
            throw new OnbeatException(OnbeatException.LOG, "cannot read " + path + ": " + why.getMessage());
        } catch (BufferUnderflowException | IllegalArgumentException | IndexOutOfBoundsException why) {
            throw log.wrong("is damaged: a record contradicts its own length");
        } catch (OutOfMemoryError full) {
            throw log.wrong("needs more memory than Java has; give it more, or load fewer channels in Python");
        }
        log.finish();
        return log;
    }

    /** Returns the names of the channels with a line feed between two: Octave does not convert an array of strings. */
    public String channelNames() {
        return String.join("\n", channels.keySet());
    }

    /** Returns a channel. */
    public LogChannel channel(String name) {
        LogChannel channel = channels.get(name);
        if (channel == null) throw wrong("has no channel " + name + "; it has " + String.join(", ", channels.keySet()));
        return channel;
    }

    /** Returns the number of records of a channel that were lost before they reached the log; NaN if it has no account. */
    public double lost(String name) {
        Map<String, String> own = accounts.get(name);
        String lost = own == null ? null : own.get("lost");
        return lost == null || !lost.matches("\\d{1,18}") ? Double.NaN : Double.parseDouble(lost);
    }

    /** Returns whether the log was ended in order: false after a kill of its writer. */
    public boolean isComplete() {
        return isComplete;
    }

    /** Returns what is damaged or not decoded: a line for each, with channel, {@code damaged} or {@code not_decoded}, count and reason, a tab between two. */
    public String account() {
        return String.join("\n", account);
    }

    private OnbeatException wrong(String why) {
        return new OnbeatException(OnbeatException.LOG, path + " " + why);
    }

    private void damaged(String why) {
        if (!skips && !isCut) throw wrong("is damaged: " + why + "; onbeat.load (file, 'damaged', 'skip') loads the rest, and counts");
        if (damage.size() < MOST_NAMED) damage.add(why);
    }

    private void note(String channel, String what, long count, String why) {
        account.add(channel.replaceAll("[\\t\\n]", " ") + "\t" + what + "\t" + count + "\t" + why.replaceAll("[\\t\\n]", " "));
    }

    /** Decodes all channels, merges the writers of a topic, and accounts for what is missing. */
    private void finish() {
        for (Map.Entry<Integer, Long> of : stated.entrySet()) {
            long missing = of.getValue() - read.getOrDefault(of.getKey(), 0L);
            if (missing <= 0) continue;
            LogChannel channel = byId.get(of.getKey());
            String topic = channel == null ? "(channel " + (of.getKey() & 0xffff) + ")" : channel.topic;
            if (damage.isEmpty()) damaged(missing + " of " + of.getValue() + " messages of " + topic + " are missing");
            note(topic, "damaged", missing, "");
        }
        for (String why : damage) note("", "damaged", 0, why);
        for (Map.Entry<Integer, LogChannel> of : byId.entrySet()) {
            LogChannel channel = of.getValue();
            LogChannel other = channels.get(channel.topic);
            if (other == null) channels.put(channel.topic, channel);
            else if (other.isAlike(channel)) other.merge(channel);
            else if (channel.rows() > 0) channels.put(channel.topic + " [" + (of.getKey() & 0xffff) + "]", channel);
        }
        for (Map.Entry<String, LogChannel> of : channels.entrySet()) {
            LogChannel channel = of.getValue();
            String why = channel.finish(skips);
            if (channel.damaged() > 0) {
                if (!skips) damaged(why);
                note(of.getKey(), "damaged", channel.damaged(), why);
            }
            if (!channel.why().isEmpty() && channel.rows() > 0) note(of.getKey(), "not_decoded", channel.rows(), channel.why());
        }
    }

    private void readFolder(File folder) throws IOException {
        LogFiles bag = new LogFiles(folder);
        if (bag.files.isEmpty() && bag.missing.isEmpty()) throw wrong("is not a bag: it has neither .mcap nor .db3 files");
        for (String name : bag.missing) damaged("the file " + name + ", which metadata.yaml names, is missing");
        boolean isWhole = bag.hasMetadata;
        for (File part : bag.files) {
            isComplete = false;
            damageBefore = damage.size();
            try {
                readFile(part);
            } catch (IOException | BufferUnderflowException | IllegalArgumentException | IndexOutOfBoundsException why) {
                damaged(part.getName() + ": " + (why.getMessage() == null ? "a record contradicts its own length" : why.getMessage()));
            } catch (OnbeatException why) {
                if (!skips || bag.files.size() == 1) throw why;
                damaged(part.getName() + ": " + why.sentence());
            }
            isWhole &= isComplete;
            // Numbers of channels and definitions are those of one file.
            base += 1 << 16;
            schemas.clear();
            misplaced.clear();
            isBehind = false;
            isChunked = false;
            isUnchecked = false;
            isCut = false;
            scanned = 0;
        }
        isComplete = isWhole;
        if (!bag.hasMetadata) note("", "damaged", 0, "the folder has no metadata.yaml: its recorder was killed, or it was not copied whole");
        long found = 0;
        for (LogChannel channel : byId.values()) found += channel.rows();
        boolean isKnown = damage.isEmpty() && account.isEmpty();
        if (isKnown && found < bag.stated) damaged(found + " of " + bag.stated + " records were found, which metadata.yaml states");
    }

    private void readFile(File path) throws IOException {
        File unpacked = null;
        try (RandomAccessFile file = new RandomAccessFile(path, "r")) {
            byte[] first = new byte[SQLITE.length()];
            int bytes = Math.max(file.read(first), 0);
            file.seek(0);
            if (LogFiles.isPacked(first, 0, bytes)) {
                unpacked = LogFiles.unpacked(path);
                readFile(unpacked);
            } else if (bytes == first.length && new String(first, StandardCharsets.ISO_8859_1).equals(SQLITE)) {
                rows(path);
            } else {
                read(file);
            }
        } finally {
            if (unpacked != null && !unpacked.delete()) unpacked.deleteOnExit();
        }
    }

    /** Reads the database of a bag of ROS 2. */
    private void rows(File path) throws IOException {
        for (String end : new String[] {"-wal", "-journal"}) {
            if (!LogFiles.isJournal(new File(path.getCanonicalPath() + end))) continue;
            throw wrong("has a " + end + " file beside it, which its recorder has left; `onbeat message convert " + path + " OUT.mcap` reads both");
        }
        try (SqliteTables database = new SqliteTables(path)) {
            if (!database.has("topics") || !database.has("messages")) {
                throw wrong("is a database of SQLite, and not a bag of ROS 2: it has no tables topics and messages");
            }
            Map<String, String[]> definitions = new HashMap<>();
            if (database.has("message_definitions")) {
                database.rows("message_definitions", (number, of) -> {
                    String[] definition = {database.text(of.get("encoding")), database.text(of.get("encoded_message_definition"))};
                    definitions.put(database.text(of.get("topic_type")), definition);
                });
            }
            Map<Long, LogChannel> topics = new HashMap<>();
            database.rows("topics", (number, of) -> {
                String type = database.text(of.get("type"));
                // The definition of a service or an action has its own name, and not that of the message made of it.
                String made = type.replaceFirst("(/(?:srv|action)/.+?)(?:(?:_SendGoal|_GetResult)?_Event|_FeedbackMessage)$", "$1");
                String[] known = definitions.getOrDefault(type, definitions.getOrDefault(made, new String[] {"", ""}));
                String[] schema = {type, known[0], known[1]};
                LogChannel channel = channel(database.text(of.get("name")), database.text(of.get("serialization_format")), schema, new HashMap<>());
                topics.put(number, channel);
                put(base + topics.size() - 1, channel);
            });
            // Rows of a damaged page can be gone without a word; the index of times has them.
            long indexed = database.indexed("timestamp_idx");
            long[] found = {0};
            List<String> lost = database.rows("messages", (number, of) -> {
                found[0]++;
                Object topic = of.get("topic_id");
                Object data = of.get("data");
                LogChannel channel = topics.get(topic);
                if (channel == null) {
                    damaged("row " + number + " of messages has topic " + topic + ", which the bag does not define");
                    note("(topic " + topic + ")", "damaged", 1, "the bag does not define it");
                    return;
                }
                byte[] bytes = data instanceof byte[] ? (byte[]) data : new byte[0];
                long at = of.get("timestamp") instanceof Long ? (Long) of.get("timestamp") : 0;
                channel.add(ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN), 0, bytes.length, channel.rows(), at);
            });
            if (indexed > found[0] && database.cut.isEmpty() && lost.isEmpty()) {
                lost.add("its index of times has " + indexed + " rows, and " + found[0] + " were found");
            }
            isComplete = database.cut.isEmpty() && lost.isEmpty();
            for (String why : lost) {
                if (database.cut.isEmpty()) damaged(why);
                else note("", "damaged", 0, why);
            }
            if (!database.cut.isEmpty()) note("", "damaged", 0, database.cut);
        }
    }

    private void read(RandomAccessFile file) throws IOException {
        byte[] magic = new byte[MAGIC.length];
        int found = file.read(magic);
        boolean isLcm = found == magic.length && ByteBuffer.wrap(magic).getInt(0) == LCM;
        if (isLcm) {
            file.seek(0);
            events(file);
            return;
        }
        if (found != magic.length || !Arrays.equals(magic, MAGIC)) {
            String start = new String(magic, StandardCharsets.ISO_8859_1);
            boolean isBag = start.startsWith("#ROSBAG ");
            if (isBag) throw wrong("is a bag of ROS 1; `onbeat message convert " + path + " OUT.mcap` makes an MCAP file of it");
            throw wrong("is not a log: it begins as none of MCAP, a bag of ROS 2 and a log of LCM");
        }
        long end = file.length();
        boolean isClosed = isClosed(file, end);
        file.seek(MAGIC.length);
        byte[] head = new byte[HEAD];
        while (true) {
            long at = file.getFilePointer();
            String why;
            if (at + HEAD > end) {
                why = "the file ends within the record at byte " + at;
                if (at >= end || !isClosed) {
                    if (!isCut) note("", "damaged", 0, NOT_CLOSED);
                    return;
                }
            } else {
                file.readFully(head);
                long length = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getLong(1);
                if (length < 0 || length > end - at - HEAD) {
                    why = "the record at byte " + at + " claims " + Long.toUnsignedString(length) + " bytes, and " + (end - at - HEAD) + " are left";
                    if (!isClosed) {
                        String cut = "the file ends within the record at byte " + at + ": its writer was killed, or it was not copied whole";
                        if (!isCut) note("", "damaged", 0, cut);
                        isCut = true;
                        // A chunk that is not compressed has whole records; and it may be the length that is damaged.
                        boolean isPacked = head[0] == CHUNK && isPacked(file, at, end);
                        if (isPacked) return;
                        search(file, at, end);
                        continue;
                    }
                } else {
                    int kind = head[0] & 0xff;
                    long left = end - at - HEAD - length;
                    if (kind == FOOTER) {
                        isComplete = isMagic(file, at + HEAD + length, end);
                        if (!isComplete && left <= MAGIC.length) note("", "damaged", 0, NOT_CLOSED);
                        if (isComplete && left > MAGIC.length) {
                            isComplete = false;
                            String behind = "; the " + (left - MAGIC.length) + " bytes behind it, perhaps another file's, are not read";
                            note("", "damaged", 0, "the log ends at byte " + (end - left + MAGIC.length) + behind);
                            return;
                        }
                        if (isComplete || left <= MAGIC.length) return;
                    }
                    why = kind == FOOTER
                            ? "the record at byte " + at + " is one that ends a file, and " + left + " bytes are behind it"
                            : record(file, kind, length, at);
                }
            }
            if (!why.isEmpty()) {
                damaged(why);
                resume(file, at, end);
            }
        }
    }

    private static boolean isClosed(RandomAccessFile file, long end) throws IOException {
        return end >= 2 * MAGIC.length && isMagic(file, end - MAGIC.length, end);
    }

    private static boolean isMagic(RandomAccessFile file, long at, long end) throws IOException {
        if (at + MAGIC.length > end) return false;
        byte[] found = new byte[MAGIC.length];
        file.seek(at);
        file.readFully(found);
        return Arrays.equals(found, MAGIC);
    }

    /** Takes a record of the file; returns why it is damaged, or nothing. */
    private String record(RandomAccessFile file, int kind, long length, long at) throws IOException {
        boolean isRead = kind == SCHEMA || kind == CHANNEL || kind == MESSAGE || kind == CHUNK || kind == NOTE || kind == STATISTICS;
        if (kind == 0) return "a record of kind 0 is not one of MCAP";
        if (!isBehind && !belongs(file, kind, length, at)) passOver(kind, at);
        isUnchecked |= kind == MESSAGE;
        if (!isRead) {
            boolean isEnd = kind == DATA_END && !isBehind && length == 4;
            String changed = isEnd && isUnchecked && damage.size() == damageBefore ? changed(file, at) : "";
            isBehind |= kind == DATA_END;
            file.seek(at + HEAD + length);
            return changed;
        }
        if (length > MOST_BYTES) return "the record at byte " + at + " has " + length + " bytes; at most " + MOST_BYTES + " are read";
        byte[] content = new byte[(int) length];
        file.readFully(content);
        ByteBuffer data = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
        try {
            // A later version may add fields; what is no record behind the chunk has its length damaged.
            long behind = at + HEAD + length;
            if (kind == CHUNK && data.getLong(32 + data.getInt(28)) < length - 40 - data.getInt(28) && !isSound(file, behind, file.length())) {
                return "the record at byte " + at + " is longer than its chunk";
            }
            file.seek(behind);
            take(kind, data, 0, content.length, at);
            return "";
        } catch (EOFException | BufferUnderflowException | IllegalArgumentException | IndexOutOfBoundsException why) {
            String said = why.getMessage();
            return "the record at byte " + at + " is not valid" + (said == null ? "" : ": " + said);
        }
    }

    /** Compares the checksum of all bytes before the end of messages; returns what is wrong, or nothing. */
    private static String changed(RandomAccessFile file, long end) throws IOException {
        file.seek(end + HEAD);
        int stated = Integer.reverseBytes(file.readInt());
        if (stated == 0) return "";
        CRC32 sum = new CRC32();
        byte[] piece = new byte[1 << 16];
        file.seek(0);
        for (long left = end; left > 0; left -= Math.min(left, piece.length)) {
            int bytes = (int) Math.min(left, piece.length);
            file.readFully(piece, 0, bytes);
            sum.update(piece, 0, bytes);
        }
        if ((int) sum.getValue() == stated) return "";
        return String.format("the checksum of the messages is %08x, and %08x was written: some byte has changed", sum.getValue(), stated);
    }

    /** Returns whether a record outside of chunks can be among messages. */
    private static boolean belongs(RandomAccessFile file, int kind, long length, long at) throws IOException {
        if (kind == INDEX && length >= 6) {
            byte[] head = new byte[6];
            file.readFully(head);
            // A later version may add a field.
            long more = length - 6 - (ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getInt(2) & 0xffffffffL);
            return more >= 0 && more < 16;
        }
        boolean isOfMessages = kind >= SCHEMA && kind <= CHUNK;
        return isOfMessages || kind == ATTACHMENT || kind == NOTE || kind == DATA_END || kind == HEADER && at == MAGIC.length;
    }

    /** Says that a record does not belong among messages: it may have been one before it was damaged. */
    private void passOver(int kind, long at) {
        if (!misplaced.add(kind)) return;
        String why = "the record at byte " + at + " is of kind " + kind + ", which does not belong there; it was passed over";
        // Records of a program's own, or of a later version, are permitted.
        if (kind > DATA_END) damage.add(why);
        else damaged(why);
    }

    /** Goes to the next record from which on records follow one another. */
    private void resume(RandomAccessFile file, long from, long end) throws IOException {
        // Behind the whole record, where others follow: what seem to be records within a damaged chunk are damaged too.
        if (from + HEAD <= end) {
            byte[] head = new byte[HEAD];
            file.seek(from);
            file.readFully(head);
            long length = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getLong(1);
            long whole = from + HEAD + length;
            if (length >= 0 && length <= end - from - HEAD && isSound(file, whole, end)) {
                file.seek(whole);
                return;
            }
        }
        search(file, Math.max(from, scanned), end);
    }

    private static boolean isPacked(RandomAccessFile file, long chunk, long end) throws IOException {
        if (chunk + HEAD + 32 > end) return false;
        file.seek(chunk + HEAD + 28);
        return file.readInt() != 0;
    }

    private void search(RandomAccessFile file, long from, long end) throws IOException {
        byte[] window = new byte[1 << 16];
        for (long begin = from + 1; begin + HEAD <= end; begin += window.length - HEAD + 1) {
            file.seek(begin);
            int bytes = (int) Math.min(window.length, end - begin);
            file.readFully(window, 0, bytes);
            for (int i = 0; i + HEAD <= bytes; i++) {
                boolean isLikely = window[i] > 0 && window[i] <= DATA_END && window[i + 5] == 0 && window[i + 6] == 0 && window[i + 7] == 0;
                // Messages outside of chunks, in a file that has chunks, are parts of a damaged one.
                isLikely &= !(isChunked && window[i] == MESSAGE);
                if (isLikely && window[i + 8] == 0 && isSound(file, begin + i, end)) {
                    file.seek(begin + i);
                    return;
                }
            }
        }
        file.seek(end);
    }

    private static boolean isSound(RandomAccessFile file, long from, long end) throws IOException {
        byte[] head = new byte[HEAD];
        long at = from;
        for (int i = 0; i < 3; i++) {
            if (at + MAGIC.length == end) return true;
            if (at + HEAD > end) return false;
            file.seek(at);
            file.readFully(head);
            long length = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getLong(1);
            if (head[0] < 1 || head[0] > DATA_END || length < 0 || length > end - at - HEAD) return false;
            at += HEAD + length;
        }
        return true;
    }

    /** Reads a log of LCM, whose payloads are bytes: it has no definitions. */
    private void events(RandomAccessFile file) throws IOException {
        long end = file.length();
        byte[] head = new byte[LCM_HEAD];
        long at = 0;
        isComplete = true;
        Map<String, LogChannel> known = new HashMap<>();
        while (at < end) {
            file.seek(at);
            boolean isShort = at + LCM_HEAD > end;
            if (!isShort) file.readFully(head);
            ByteBuffer event = ByteBuffer.wrap(head);
            long name = event.getInt(20);
            long length = event.getInt(24);
            boolean isEvent = !isShort && event.getInt(0) == LCM && name >= 0 && name <= LCM_NAME && length >= 0 && length <= MOST_BYTES;
            boolean isLong = isEvent && at + LCM_HEAD + name + length > end;
            long next = isShort ? end : isEvent && !isLong ? at : nextEvent(file, at + 1, end);
            if (isShort || isLong && next == end) {
                isComplete = false;
                note("", "damaged", 0, "the file ends within the event at byte " + at);
                return;
            }
            if (!isEvent || isLong) {
                damaged("bytes " + at + " to " + next + " are not an event of LCM");
                at = next;
                continue;
            }
            byte[] content = new byte[(int) (name + length)];
            file.readFully(content);
            String topic = new String(content, 0, (int) name, StandardCharsets.UTF_8);
            LogChannel channel = known.get(topic);
            if (channel == null) {
                if (known.size() >= MOST_CHANNELS) throw wrong("has more than " + MOST_CHANNELS + " channels");
                String why = "an LCM log has no definitions; `onbeat message convert --file TYPES.lcm` adds them";
                channel = new LogChannel(topic, "", "lcm", null, new HashMap<>(), why);
                byId.put(base + known.size(), channel);
                known.put(topic, channel);
            }
            channel.add(ByteBuffer.wrap(content), (int) name, (int) length, (int) event.getLong(4), event.getLong(12) * 1000);
            at += LCM_HEAD + name + length;
        }
    }

    /** Where the next event of LCM begins. */
    private static long nextEvent(RandomAccessFile file, long from, long end) throws IOException {
        byte[] window = new byte[1 << 16];
        for (long begin = from; begin + 4 <= end; begin += window.length - 3) {
            file.seek(begin);
            int bytes = (int) Math.min(window.length, end - begin);
            file.readFully(window, 0, bytes);
            ByteBuffer words = ByteBuffer.wrap(window);
            for (int i = 0; i + 4 <= bytes; i++) {
                if (words.getInt(i) == LCM) return begin + i;
            }
        }
        return end;
    }

    /** Takes the record whose content is in {@code data} at {@code at}. */
    private void take(int kind, ByteBuffer data, int at, int length, long place) throws IOException {
        if (kind == MESSAGE) {
            if (length < MESSAGE_HEAD) throw new EOFException("a message is shorter than its head");
            int id = base + (data.getShort(at) & 0xffff);
            read.merge(id, 1L, Long::sum);
            LogChannel channel = byId.get(id);
            if (channel == null) {
                undefined.add(id);
                channel = new LogChannel("(channel " + (id - base) + ")", "", "", null, new HashMap<>(), "the file does not define its channel");
                put(id, channel);
            }
            channel.add(data, at + MESSAGE_HEAD, length - MESSAGE_HEAD, data.getInt(at + 2), data.getLong(at + 6));
            return;
        }

        data.position(at);
        if (kind == CHUNK) {
            isChunked = true;
            chunk(data, place);
        } else if (kind == SCHEMA) {
            int id = data.getShort() & 0xffff;
            String[] schema = {text(data), text(data), text(data)};
            // A log repeats its definitions behind the messages.
            String[] known = schemas.putIfAbsent(id, schema);
            if (known != null && !Arrays.equals(known, schema)) conflict("definition", id);
        } else if (kind == CHANNEL) {
            define(data);
        } else if (kind == STATISTICS) {
            data.position(at + 42);
            int end = data.getInt() + data.position();
            while (data.position() + 10 <= Math.min(end, at + length)) stated.put(base + (data.getShort() & 0xffff), data.getLong());
        } else if (kind == NOTE && text(data).equals("onbeat:account")) {
            Map<String, String> own = pairs(data);
            accounts.put(own.get("channel"), own);
        }
    }

    private void chunk(ByteBuffer data, long place) throws IOException {
        long size = data.getLong(16);
        int checksum = data.getInt(24);
        data.position(28);
        String compression = text(data);
        long stored = data.getLong();
        if (stored < 0 || stored > data.remaining()) throw new EOFException("a chunk is longer than its record");
        ByteBuffer records = data;
        int begin = data.position();
        int end = begin + (int) stored;
        if (!compression.isEmpty()) {
            boolean isLz4 = compression.equals("lz4");
            if (!isLz4 && !compression.equals("zstd")) {
                throw new IllegalArgumentException("the compression " + compression.replaceAll("[^ -~]", "?") + " is not known; lz4 and zstd are");
            }
            long most = isLz4 ? Math.min(MOST_BYTES, stored * LZ4_RATIO + LZ4_MORE) : MOST_BYTES;
            if (size < 0 || size > most) {
                String claimed = Long.toUnsignedString(size);
                throw new IllegalArgumentException("a chunk of " + stored + " bytes claims " + claimed + "; at most " + most + " are read");
            }
            byte[] whole;
            try {
                whole = isLz4 ? Lz4.decompressed(data.array(), begin, (int) size) : Zstd.decompressed(data.array(), begin, (int) stored, (int) size);
            } catch (OnbeatException wrong) {
                if (!isLz4) throw wrong;
                throw new IllegalArgumentException(wrong.sentence());
            }
            records = ByteBuffer.wrap(whole).order(ByteOrder.LITTLE_ENDIAN);
            begin = 0;
            end = whole.length;
        }
        isUnchecked |= checksum == 0;
        if (checksum != 0) {
            CRC32 sum = new CRC32();
            sum.update(records.array(), begin, end - begin);
            if ((int) sum.getValue() != checksum) {
                throw new IllegalArgumentException(String.format("the chunk has the checksum %08x, and %08x was written", sum.getValue(), checksum));
            }
        }

        int at = begin;
        while (at < end) {
            scanned = compression.isEmpty() ? place + HEAD + at : 0;
            if (at + HEAD > end) throw new EOFException("a chunk ends within a record");
            long length = records.getLong(at + 1);
            int content = at + HEAD;
            if (length < 0 || length > end - content) throw new EOFException("a record is longer than its chunk");
            int kind = records.get(at) & 0xff;
            if (kind == 0) throw new EOFException("a record of kind 0 is not one of MCAP");
            if (kind >= SCHEMA && kind <= MESSAGE) take(kind, records, content, (int) length, place);
            else passOver(kind, place);
            at = content + (int) length;
        }
    }

    private void put(int id, LogChannel channel) {
        if (byId.size() >= MOST_CHANNELS) throw wrong("has more than " + MOST_CHANNELS + " channels");
        byId.put(id, channel);
    }

    /** Says that messages may be of two types. What a definition behind all of them contradicts was used by none. */
    private void conflict(String what, int id) {
        if (!isBehind) damaged("the " + what + " " + id + " is defined twice, and differently");
    }

    private void define(ByteBuffer data) {
        int id = base + (data.getShort() & 0xffff);
        int ofSchema = data.getShort() & 0xffff;
        String[] schema = schemas.get(ofSchema);
        String topic = text(data);
        String encoding = text(data);
        Map<String, String> texts = pairs(data);
        // A log repeats its channels behind the messages.
        LogChannel known = byId.get(id);
        if (known != null && !undefined.remove(id)) {
            if (!known.topic.equals(topic)) conflict("channel", id - base);
            return;
        }
        LogChannel channel = channel(topic, encoding, schema, texts);
        if (schema == null && ofSchema != 0) {
            undefined.add(id);
            channel = new LogChannel(topic, "", encoding, null, texts, "the file does not have the definition of its type");
        }
        if (known != null) channel.merge(known);
        byId.remove(id);
        put(id, channel);
    }

    /** A channel with the definition of its type: name, language and text; null without one. */
    private LogChannel channel(String topic, String encoding, String[] schema, Map<String, String> texts) {
        String type = schema == null ? "" : schema[0];
        String language = schema == null ? "" : schema[1];
        Definition definition = null;
        String why = "";
        try {
            if (encoding.equals("cdr") && language.equals("ros2msg")) definition = Definition.ofRos2(type, schema[2]);
            else if (encoding.equals("ros1") && language.equals("ros1msg")) definition = Definition.ofRos1(type, schema[2]);
            // `unknown` is what rosbag2 writes where it finds no definition.
            else if (encoding.equals("cdr") && (language.isEmpty() || language.equals("unknown")) && !type.isEmpty()) {
                // The definition of its own name is among them, or it is not defined.
                if (types.contains("\nMSG: " + type + "\n")) definition = new Definition(type, types);
                else why = "the log has no definition of " + type + "; onbeat.load (file, 'types', FOLDER) takes .msg files";
            }
            else if (!encoding.equals("json")) {
                String of = language.isEmpty() ? "no definition" : "the definition " + language;
                why = "the encoding " + (encoding.isEmpty() ? "(none)" : encoding) + " with " + of + " is not decoded here";
            }
        } catch (OnbeatException wrong) {
            why = wrong.sentence();
        }
        return new LogChannel(topic, type, encoding, definition, texts, why);
    }

    private static String text(ByteBuffer data) {
        int length = data.getInt();
        if (length < 0 || length > data.remaining()) throw new BufferUnderflowException();
        byte[] bytes = new byte[length];
        data.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static Map<String, String> pairs(ByteBuffer data) {
        int bytes = data.getInt();
        if (bytes < 0 || bytes > data.remaining()) throw new BufferUnderflowException();
        int end = data.position() + bytes;
        Map<String, String> pairs = new HashMap<>();
        while (data.position() < end) {
            String name = text(data);
            pairs.put(name, text(data));
        }
        return pairs;
    }
}
