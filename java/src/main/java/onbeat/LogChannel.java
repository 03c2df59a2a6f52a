package onbeat;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/** The records of one channel of a log, in the order of their times. */
public final class LogChannel {
    private static final double NS = 1e-9;
    /** The one field of records that are not decoded, and of those in JSON. */
    private static final String BYTES = "payload";
    private static final String JSON = "json";

    final String topic;
    final String type;
    final String encoding;
    private final Definition definition;
    private final Map<String, String> texts;
    private final long utcOffsetNs;
    /** Why records cannot be decoded; empty if they can. */
    private String why;
    private final List<ByteBuffer> chunks = new ArrayList<>();
    private int[] chunkOf = new int[1024];
    private int[] places = new int[1024];
    private int[] lengths = new int[1024];
    private long[] utcNs = new long[1024];
    private long[] numbers = new long[1024];
    private int rows;
    private long wraps;
    private int damaged;
    private Layout layout;
    private Columns columns;

    /** Without a definition, records are bytes, for the reason {@code why}. */
    LogChannel(String topic, String type, String encoding, Definition definition, Map<String, String> texts, String why) {
        this.topic = topic;
        this.type = type;
        this.encoding = encoding;
        this.definition = definition;
        this.texts = texts;
        this.why = why;
        String offset = texts.get("onbeat:utc_offset_ns");
        this.utcOffsetNs = offset == null || !offset.matches("\\d{1,19}") ? 0 : Long.parseUnsignedLong(offset);
    }

    void add(ByteBuffer chunk, int at, int bytes, int number, long logTime) {
        if (chunks.isEmpty() || chunks.get(chunks.size() - 1) != chunk) chunks.add(chunk);
        // The file has the low 32 bits.
        long low = number & 0xffffffffL;
        if (rows > 0 && (numbers[rows - 1] & 0xffffffffL) - low > 1L << 31) wraps += 1L << 32;
        append(chunks.size() - 1, at, bytes, low + wraps, logTime);
    }

    private void append(int chunk, int at, int bytes, long number, long logTime) {
        if (rows == places.length) {
            chunkOf = Arrays.copyOf(chunkOf, 2 * rows);
            places = Arrays.copyOf(places, 2 * rows);
            lengths = Arrays.copyOf(lengths, 2 * rows);
            utcNs = Arrays.copyOf(utcNs, 2 * rows);
            numbers = Arrays.copyOf(numbers, 2 * rows);
        }
        chunkOf[rows] = chunk;
        places[rows] = at;
        lengths[rows] = bytes;
        utcNs[rows] = logTime;
        numbers[rows++] = number;
    }

    /** Returns whether another writer of the topic has the same type, in the same version. */
    boolean isAlike(LogChannel other) {
        boolean isSame = definition == null ? other.definition == null : other.definition != null && definition.isAlike(other.definition);
        return isSame && type.equals(other.type) && encoding.equals(other.encoding) && why.equals(other.why);
    }

    /** Takes the records of another writer of the topic. */
    void merge(LogChannel other) {
        int first = chunks.size();
        chunks.addAll(other.chunks);
        for (int i = 0; i < other.rows; i++) {
            append(first + other.chunkOf[i], other.places[i], other.lengths[i], other.numbers[i], other.utcNs[i]);
        }
    }

    /** Brings the records into the order of their times and decodes them; returns how many of how many are damaged, with the reason. */
    String finish(boolean skips) {
        String packed = unpack();
        sort();
        if (isJson()) return sound(packed, "JSON", (chunk, at, length) -> Json.defect(new String(bytesOf(chunk, at, length), StandardCharsets.UTF_8)));
        if (definition == null || rows == 0) return packed;
        boolean isRos1 = encoding.equals("ros1");
        try {
            definition.checkSize();
            if (!isRos1 && definition.isFlat(definition.name) && hasOneLayout()) return packed;
            columns = new Columns(definition, isRos1);
            if (definition.hasWide() && !isRos1) columns.findWide(this);
        } catch (OnbeatException wrong) {
            why = wrong.sentence();
            return packed;
        }
        return sound(packed, "a " + type, columns::add);
    }

    /** Says what is wrong with a record; nothing if it is sound. */
    private interface Check {
        String of(ByteBuffer chunk, int at, int length);
    }

    /** Keeps the records that are sound; returns why others are not. */
    private String sound(String packed, String what, Check check) {
        String reason = packed;
        int kept = 0;
        for (int i = 0; i < rows; i++) {
            String bad = check.of(chunks.get(chunkOf[i]), places[i], lengths[i]);
            if (bad.isEmpty()) {
                keep(kept++, i);
            } else if (reason.isEmpty()) {
                reason = "record " + (i + 1) + " of " + rows + " of " + topic + " is not " + what + ": " + bad;
            }
        }
        if (kept == 0 && rows > 0) {
            why = reason;
            columns = null;
            return "";
        }
        damaged += rows - kept;
        rows = kept;
        return reason;
    }

    /** Hands each record to a reader. */
    void eachRecord(RecordReader reader) {
        for (int i = 0; i < rows; i++) reader.read(chunks.get(chunkOf[i]), places[i], lengths[i]);
    }

    /** Reads a record. */
    interface RecordReader {
        void read(ByteBuffer chunk, int at, int length);
    }

    /** Unpacks messages that ROS 2 has compressed one by one: CDR begins with a zero, a frame of zstd with another byte. */
    private String unpack() {
        if (!encoding.equals("cdr")) return "";
        String reason = "";
        int kept = 0;
        for (int i = 0; i < rows; i++) {
            ByteBuffer chunk = chunks.get(chunkOf[i]);
            int from = chunk.arrayOffset() + places[i];
            if (LogFiles.isPacked(chunk.array(), from, lengths[i])) {
                try {
                    byte[] whole = LogFiles.unpacked(Arrays.copyOfRange(chunk.array(), from, from + lengths[i]));
                    chunks.add(ByteBuffer.wrap(whole).order(ByteOrder.LITTLE_ENDIAN));
                    chunkOf[i] = chunks.size() - 1;
                    places[i] = 0;
                    lengths[i] = whole.length;
                } catch (IOException wrong) {
                    if (reason.isEmpty()) reason = "record " + (i + 1) + " of " + rows + " of " + topic + ": " + wrong.getMessage();
                    continue;
                }
            }
            keep(kept++, i);
        }
        damaged = rows - kept;
        rows = kept;
        return reason;
    }

    private boolean hasOneLayout() {
        try {
            ByteBuffer first = chunks.get(chunkOf[0]).duplicate();
            first.position(places[0]);
            layout = new Layout(definition, first.slice().order(ByteOrder.LITTLE_ENDIAN), lengths[0]);
        } catch (OnbeatException other) {
            return false;
        }
        for (int i = 0; i < rows; i++) {
            ByteBuffer chunk = chunks.get(chunkOf[i]);
            boolean isCdr = lengths[i] > 1 && chunk.get(places[i]) == 0 && chunk.get(places[i] + 1) == 1;
            if (!isCdr || !layout.fits(chunk, places[i], lengths[i])) {
                layout = null;
                return false;
            }
        }
        return true;
    }

    private void keep(int to, int from) {
        chunkOf[to] = chunkOf[from];
        places[to] = places[from];
        lengths[to] = lengths[from];
        utcNs[to] = utcNs[from];
        numbers[to] = numbers[from];
    }

    private void sort() {
        boolean isSorted = true;
        for (int i = 1; i < rows && isSorted; i++) isSorted = Long.compareUnsigned(utcNs[i - 1], utcNs[i]) <= 0;
        if (isSorted) return;
        Integer[] order = new Integer[rows];
        for (int i = 0; i < rows; i++) order[i] = i;
        Arrays.sort(order, Comparator.comparingLong(i -> utcNs[i] ^ Long.MIN_VALUE));
        int[][] ints = {chunkOf.clone(), places.clone(), lengths.clone()};
        long[][] longs = {utcNs.clone(), numbers.clone()};
        for (int i = 0; i < rows; i++) {
            chunkOf[i] = ints[0][order[i]];
            places[i] = ints[1][order[i]];
            lengths[i] = ints[2][order[i]];
            utcNs[i] = longs[0][order[i]];
            numbers[i] = longs[1][order[i]];
        }
    }

    /** Returns the number of records. */
    public int rows() {
        return rows;
    }

    /** Returns the number of records that are not of the type, and were left out. */
    public int damaged() {
        return damaged;
    }

    /** Returns the name of the type. */
    public String type() {
        return type;
    }

    /** Returns the encoding, such as {@code cdr}, {@code json} or {@code ros1}. */
    public String encoding() {
        return encoding;
    }

    /** Returns why the records are not decoded; empty if they are. Then they have the field {@code payload}, their bytes. */
    public String why() {
        return why;
    }

    /** Returns the writer's text about the channel: JSON with joints and values; empty for a log of others. */
    public String description() {
        String text = texts.get("onbeat:description");
        return text == null ? "" : text;
    }

    /** Returns the names of the fields with a blank between two. */
    public String fieldNames() {
        if (layout != null) return String.join(" ", layout.names());
        if (columns != null) return String.join(" ", columns.columns().keySet());
        return isJson() ? JSON : rows == 0 ? "" : BYTES;
    }

    private boolean isJson() {
        return encoding.equals("json") && why.isEmpty();
    }

    /** Returns the times of the records by CLOCK_MONOTONIC if onbeat wrote the log, else since 1970, in s. */
    public double[] at() {
        double[] at = new double[rows];
        for (int i = 0; i < rows; i++) at[i] = (utcNs[i] - utcOffsetNs) * NS;
        return at;
    }

    /** Returns the times of the records since 1970 (UTC), in ns. */
    public long[] utcNs() {
        return Arrays.copyOf(utcNs, rows);
    }

    /** Returns the numbers of the records. */
    public double[] numbers() {
        double[] whole = new double[rows];
        for (int i = 0; i < rows; i++) whole[i] = numbers[i];
        return whole;
    }

    private Columns.Column column(String field) {
        Columns.Column column = columns.columns().get(field);
        if (column == null) {
            String known = String.join(", ", columns.columns().keySet());
            throw new OnbeatException(OnbeatException.TYPE, type + " has no field " + field + "; it has " + known);
        }
        return column;
    }

    /** Returns whether a field is a text. */
    public boolean isText(String field) {
        if (layout != null) return layout.part(field).isText();
        return columns == null ? isJson() : column(field).isText;
    }

    /** Returns how many lists are around the values of a field, as {@link #counts} has them; 0 for one value in each record. */
    public int levels(String field) {
        if (layout != null) return 0;
        return columns == null ? (isJson() ? 0 : 1) : column(field).counts.size();
    }

    /** Returns the numbers of elements of the lists at a level, from 0, the outermost: of each record, or each element above. */
    public double[] counts(String field, int level) {
        if (columns != null) return column(field).counts.get(level).toArray();
        double[] counts = new double[rows];
        for (int i = 0; i < rows; i++) counts[i] = lengths[i];
        return counts;
    }

    /** Returns the number of columns of {@link #values} where each record has as many; 0 for a text or a list. */
    public int columns(String field) {
        if (layout != null) return layout.part(field).isText() ? 0 : layout.part(field).count;
        return levels(field) == 0 && !isText(field) ? 1 : 0;
    }

    /**
     * Returns the numbers of a field of all records: column by column, {@code reshape(values, rows, columns)}, where
     * {@link #columns} is not 0, else those of one record after the other.
     *
     * @throws OnbeatException if they are more than an array of Java can have
     */
    public double[] values(String field) {
        if (columns != null) return column(field).values.toArray();
        if (layout == null) return bytes();
        Layout.Part part = layout.part(field);
        int columns = columns(field);
        double[] values = new double[size((long) rows * columns)];
        boolean isDouble = part.kind.equals("float64");
        for (int row = 0; row < rows; row++) {
            ByteBuffer data = chunks.get(chunkOf[row]);
            // Most numbers of a log are these.
            int from = places[row] + part.at;
            for (int i = 0; i < columns; i++) {
                values[i * rows + row] = isDouble ? data.getDouble(from + 8 * i) : part.number(data, places[row], i);
            }
        }
        return values;
    }

    private int size(long numbers) {
        if (numbers > Integer.MAX_VALUE - 8) {
            String sentence = topic + " has " + numbers + " numbers in one field, more than an array can have; load fewer channels in Python";
            throw new OnbeatException(OnbeatException.LOG, sentence);
        }
        return (int) numbers;
    }

    private double[] bytes() {
        long whole = 0;
        for (int row = 0; row < rows; row++) whole += lengths[row];
        double[] values = new double[size(whole)];
        int to = 0;
        for (int row = 0; row < rows; row++) {
            ByteBuffer data = chunks.get(chunkOf[row]);
            for (int i = 0; i < lengths[row]; i++) values[to++] = data.get(places[row] + i) & 0xff;
        }
        return values;
    }

    /** Returns the texts of a field of all records. */
    public Texts texts(String field) {
        if (columns != null) return new Texts(column(field).texts);
        List<String> texts = new ArrayList<>(rows);
        byte[] last = null;
        String text = "";
        for (int row = 0; row < rows; row++) {
            // Names of frames are the same in most records.
            byte[] bytes = textBytes(field, row);
            if (!Arrays.equals(bytes, last)) text = new String(bytes, StandardCharsets.UTF_8);
            last = bytes;
            texts.add(text);
        }
        return new Texts(texts);
    }

    private byte[] textBytes(String field, int row) {
        ByteBuffer data = chunks.get(chunkOf[row]);
        int at = places[row];
        int length = lengths[row];
        if (layout != null) {
            at += layout.part(field).at;
            length = Math.max(layout.part(field).count, 0);
        }
        return bytesOf(data, at, length);
    }

    private static byte[] bytesOf(ByteBuffer data, int at, int length) {
        byte[] bytes = new byte[length];
        System.arraycopy(data.array(), data.arrayOffset() + at, bytes, 0, length);
        return bytes;
    }
}
