package onbeat;

import java.io.EOFException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A log: an MCAP file that {@code onbeat message record} wrote, or ROS 2. It is read as a whole.
 *
 * <p>A log whose writer was killed is read up to its last complete chunk.
 */
public final class Log {
    private static final byte[] MAGIC = {(byte) 0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};
    private static final int FOOTER = 0x02;
    private static final int SCHEMA = 0x03;
    private static final int CHANNEL = 0x04;
    private static final int MESSAGE = 0x05;
    private static final int CHUNK = 0x06;
    private static final int NOTE = 0x0c;
    /** Bytes of a record before its content, and of a message before its payload. */
    private static final int HEAD = 9;
    private static final int MESSAGE_HEAD = 22;
    /** Longest record and longest chunk, in bytes, and what one compressed byte of LZ4 can stand for. */
    private static final int MOST_BYTES = 256 << 20;
    private static final long LZ4_RATIO = 255;
    private static final long LZ4_MORE = 1 << 16;

    private final String path;
    private final Map<Integer, String[]> schemas = new HashMap<>();
    private final Map<Integer, LogChannel> byId = new HashMap<>();
    private final Map<String, LogChannel> channels = new LinkedHashMap<>();
    private final Map<String, Map<String, String>> accounts = new HashMap<>();
    private boolean isComplete;

    private Log(String path) {
        this.path = path;
    }

    /** Reads a log. */
    public static Log open(String path) {
        Log log = new Log(path);
        try (RandomAccessFile file = new RandomAccessFile(path, "r")) {
            log.read(file);
        } catch (IOException why) {
            throw new OnbeatException(OnbeatException.LOG, "cannot read " + path + ": " + why.getMessage());
        } catch (BufferUnderflowException | IllegalArgumentException | IndexOutOfBoundsException why) {
            throw log.wrong("is damaged: a record contradicts its own length");
        }
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
        Map<String, String> account = accounts.get(name);
        return account == null ? Double.NaN : Double.parseDouble(account.get("lost"));
    }

    /** Returns whether the log was ended in order: false after a kill of its writer. */
    public boolean isComplete() {
        return isComplete;
    }

    private OnbeatException wrong(String why) {
        return new OnbeatException(OnbeatException.LOG, path + " " + why);
    }

    private void read(RandomAccessFile file) throws IOException {
        byte[] magic = new byte[MAGIC.length];
        if (file.read(magic) != magic.length || !java.util.Arrays.equals(magic, MAGIC)) throw wrong("is not an MCAP file");
        byte[] head = new byte[HEAD];
        long end = file.length();
        while (file.getFilePointer() + HEAD <= end) {
            file.readFully(head);
            long length = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getLong(1);
            if (length < 0 || length > end - file.getFilePointer()) return;
            int kind = head[0] & 0xff;
            if (kind == FOOTER) {
                isComplete = true;
                return;
            }
            boolean isRead = kind == SCHEMA || kind == CHANNEL || kind == MESSAGE || kind == CHUNK || kind == NOTE;
            if (!isRead) {
                file.seek(file.getFilePointer() + length);
                continue;
            }
            if (length > MOST_BYTES) throw wrong("has a record of " + length + " bytes; at most " + MOST_BYTES + " are read");
            byte[] content = new byte[(int) length];
            file.readFully(content);
            take(kind, ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN), 0, content.length);
        }
    }

    /** Takes the record whose content is in {@code data} at {@code at}. */
    private void take(int kind, ByteBuffer data, int at, int length) throws IOException {
        if (kind == MESSAGE) {
            if (length < MESSAGE_HEAD) throw new EOFException("a message is shorter than its head");
            LogChannel channel = byId.get(data.getShort(at) & 0xffff);
            if (channel != null) {
                channel.add(data, at + MESSAGE_HEAD, length - MESSAGE_HEAD, data.getInt(at + 2), data.getLong(at + 6));
            }
            return;
        }

        data.position(at);
        if (kind == CHUNK) {
            chunk(data);
        } else if (kind == SCHEMA) {
            int id = data.getShort() & 0xffff;
            String[] schema = {text(data), text(data), text(data)};
            if (schema[1].equals("ros2msg")) schemas.put(id, schema);
        } else if (kind == CHANNEL) {
            define(data);
        } else if (kind == NOTE && text(data).equals("onbeat:account")) {
            Map<String, String> account = pairs(data);
            accounts.put(account.get("channel"), account);
        }
    }

    private void chunk(ByteBuffer data) throws IOException {
        long size = data.getLong(16);
        data.position(28);
        String compression = text(data);
        data.getLong();
        ByteBuffer records = data;
        if (compression.equals("lz4")) {
            long most = Math.min(MOST_BYTES, data.remaining() * LZ4_RATIO + LZ4_MORE);
            if (size < 0 || size > most) {
                String claimed = Long.toUnsignedString(size);
                throw wrong("has a chunk of " + data.remaining() + " bytes that claims " + claimed + "; at most " + most + " are read");
            }
            byte[] whole = Lz4.decompressed(data.array(), data.position(), (int) size);
            records = ByteBuffer.wrap(whole).order(ByteOrder.LITTLE_ENDIAN);
        } else if (!compression.isEmpty()) {
            throw wrong("is compressed by " + compression.replaceAll("[^ -~]", "?") + ", which this client does not read; convert it: "
                    + "mcap compress --compression lz4 -o OUT " + path);
        }

        int at = records.position();
        while (at + HEAD <= records.capacity()) {
            long length = records.getLong(at + 1);
            int content = at + HEAD;
            if (length < 0 || length > records.capacity() - content) throw new EOFException("a record is longer than its chunk");
            take(records.get(at) & 0xff, records, content, (int) length);
            at = content + (int) length;
        }
    }

    private void define(ByteBuffer data) {
        int id = data.getShort() & 0xffff;
        String[] schema = schemas.get(data.getShort() & 0xffff);
        String topic = text(data);
        boolean isCdr = text(data).equals("cdr");
        // A log repeats its channels behind the messages.
        if (!isCdr || schema == null || byId.containsKey(id)) return;
        LogChannel channel = new LogChannel(new Definition(schema[0], schema[2]), pairs(data));
        byId.put(id, channel);
        channels.put(topic, channel);
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
        int end = data.position() + bytes;
        Map<String, String> pairs = new HashMap<>();
        while (data.position() < end) {
            String name = text(data);
            pairs.put(name, text(data));
        }
        return pairs;
    }
}
