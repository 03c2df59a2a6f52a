package onbeat;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Reads the tables of a database of SQLite (sqlite.org/fileformat2.html), as bags of ROS 2 are: MATLAB has no SQLite for bags, and
 * its libraries for Java are native.
 *
 * <p>Rows come in the order of their numbers. What another program has written since into a journal beside the file is not read.
 * Pages and lengths are a stranger's: none is believed. Rows that are damaged, or of a file that was cut, are passed over.
 */
final class SqliteTables implements AutoCloseable {
    /** Takes the columns of a row by their names: {@code Long}, {@code Double}, {@code byte[]} or null; and its number. */
    interface Row {
        void take(long number, Map<String, Object> columns) throws IOException;
    }

    private static final int HEAD = 100;
    private static final int LEAF = 0x0d;
    private static final int INTERIOR = 0x05;
    private static final int INDEX_LEAF = 0x0a;
    private static final int INDEX_INTERIOR = 0x02;
    private static final int MOST_DEPTH = 32;
    /** Longest value, in bytes. */
    private static final long MOST_BYTES = 256L << 20;
    private static final Charset[] LETTERS = {StandardCharsets.UTF_8, StandardCharsets.UTF_8, StandardCharsets.UTF_16LE, StandardCharsets.UTF_16BE};

    private final RandomAccessFile file;
    private final int pageBytes;
    private final int usable;
    private final long pages;
    private final Charset letters;
    /** Root page and text of the definition of each table. */
    private final Map<String, Object[]> tables = new HashMap<>();
    /** Root page of each index. */
    private final Map<String, Long> indexes = new HashMap<>();
    /** Pages that may still be read: a table that leads back to itself would never end. */
    private long left;
    /** The row before the next one, why those behind it cannot be read, and a sentence for each place of such rows. */
    private long last;
    private String why = "";
    private final List<String> damage = new ArrayList<>();
    /** Why the file is not complete; empty if it is. */
    final String cut;

    SqliteTables(File path) throws IOException {
        file = new RandomAccessFile(path, "r");
        byte[] head = new byte[HEAD];
        file.readFully(head);
        ByteBuffer of = ByteBuffer.wrap(head);
        int bytes = of.getShort(16) & 0xffff;
        pageBytes = bytes == 1 ? 1 << 16 : bytes;
        usable = pageBytes - (head[20] & 0xff);
        letters = LETTERS[Math.max(0, Math.min(of.getInt(56), 3))];
        if (pageBytes < 512 || usable < 480) throw new IOException("the database is damaged: its pages have " + pageBytes + " bytes");
        pages = file.length() / pageBytes;
        long stated = of.getInt(28) & 0xffffffffL;
        // Writers of old left the number as it was, and did not count this change.
        cut = stated <= pages || of.getInt(24) != of.getInt(92)
                ? ""
                : "the file has " + pages + " of the " + stated + " pages of its database: it was not copied whole, or its recorder was killed";
        rows(1, "type,name,tbl_name,rootpage,sql".split(","), (number, columns) -> {
            if (!(columns.get("rootpage") instanceof Long)) return;
            String name = text(columns.get("name"));
            String type = text(columns.get("type"));
            if (type.equals("table")) tables.put(name, new Object[] {columns.get("rootpage"), text(columns.get("sql"))});
            if (type.equals("index")) indexes.put(name, (Long) columns.get("rootpage"));
        });
        if (tables.isEmpty() && !damage.isEmpty()) throw new IOException(damage.get(0));
    }

    boolean has(String table) {
        return tables.containsKey(table);
    }

    /** Hands over all rows of a table; returns a sentence for each place of rows that cannot be read. */
    List<String> rows(String table, Row to) throws IOException {
        Object[] of = tables.get(table);
        rows((Long) of[0], columnsOf((String) of[1]), to);
        return new ArrayList<>(damage);
    }

    /** Returns the number of rows in an index; 0 for one that is missing or damaged. */
    long indexed(String index) {
        Long root = indexes.get(index);
        left = 2 * pages + 16;
        try {
            return root == null ? 0 : indexed(root, 0);
        } catch (IOException | IndexOutOfBoundsException damaged) {
            return 0;
        }
    }

    private long indexed(long number, int depth) throws IOException {
        ByteBuffer page = page(number);
        int kind = page.get(0);
        if (kind != INDEX_LEAF && kind != INDEX_INTERIOR || depth > MOST_DEPTH) {
            throw new IOException("the database is damaged: page " + number + " is not one of an index");
        }
        // Pages that lead to others have rows of their own.
        int rows = page.getShort(3) & 0xffff;
        if (kind == INDEX_LEAF) return rows;
        long all = rows + indexed(page.getInt(8) & 0xffffffffL, depth + 1);
        for (int i = 0; i < rows; i++) {
            int cell = page.getShort(12 + 2 * i) & 0xffff;
            all += indexed(page.getInt(cell) & 0xffffffffL, depth + 1);
        }
        return all;
    }

    /** Decodes a text; null is empty. */
    String text(Object value) {
        return value instanceof byte[] ? new String((byte[]) value, letters) : value == null ? "" : value.toString();
    }

    @Override
    public void close() throws IOException {
        file.close();
    }

    /** Names of the columns in {@code CREATE TABLE name(id INTEGER PRIMARY KEY, topic TEXT, ...)}. */
    private static String[] columnsOf(String sql) {
        List<String> names = new ArrayList<>();
        int begin = sql.indexOf('(') + 1;
        int depth = 0;
        for (int i = begin; i < sql.length() && depth >= 0; i++) {
            char letter = sql.charAt(i);
            if (letter == '(') depth++;
            if (letter == ')') depth--;
            if (depth < 0 || depth == 0 && letter == ',') {
                String name = sql.substring(begin, i).trim().split("\\s", 2)[0];
                names.add(name.replaceAll("[\"`\\[\\]']", "").toLowerCase(Locale.ROOT));
                begin = i + 1;
            }
        }
        return names.toArray(new String[0]);
    }

    private void rows(long root, String[] names, Row to) throws IOException {
        left = 2 * pages + 16;
        last = 0;
        why = "";
        damage.clear();
        table(root, names, to, 0);
        if (!why.isEmpty()) damage.add("rows from " + (last + 1) + " on cannot be read: " + why);
    }

    /** Hands over the rows of a page and of those below it, as far as they can be read. */
    private void table(long number, String[] names, Row to, int depth) throws IOException {
        try {
            page(number, names, to, depth);
        } catch (IOException | BufferUnderflowException | IllegalArgumentException | IndexOutOfBoundsException wrong) {
            note(wrong);
        }
    }

    private void note(Exception wrong) {
        if (why.isEmpty()) why = wrong instanceof IOException ? wrong.getMessage() : "the database is damaged: a row contradicts its own length";
    }

    private ByteBuffer page(long number) throws IOException {
        if (number < 1 || number > pages || left-- <= 0) throw new IOException("the database is damaged: it refers to page " + number + " of " + pages);
        byte[] bytes = new byte[pageBytes];
        file.seek((number - 1) * pageBytes);
        file.readFully(bytes);
        return ByteBuffer.wrap(bytes);
    }

    private void page(long number, String[] names, Row to, int depth) throws IOException {
        ByteBuffer page = page(number);
        int head = number == 1 ? HEAD : 0;
        int kind = page.get(head);
        if (kind != LEAF && kind != INTERIOR || depth > MOST_DEPTH) {
            throw new IOException("the database is damaged: page " + number + " is not one of a table");
        }
        int cells = page.getShort(head + 3) & 0xffff;
        int places = head + (kind == LEAF ? 8 : 12);
        for (int i = 0; i < cells; i++) {
            page.position(page.getShort(places + 2 * i) & 0xffff);
            if (kind == INTERIOR) {
                table(page.getInt() & 0xffffffffL, names, to, depth + 1);
                continue;
            }
            try {
                row(page, names, to);
            } catch (IOException | BufferUnderflowException | IllegalArgumentException | IndexOutOfBoundsException wrong) {
                note(wrong);
            }
        }
        if (kind == INTERIOR) table(page.getInt(head + 8) & 0xffffffffL, names, to, depth + 1);
    }

    private void row(ByteBuffer page, String[] names, Row to) throws IOException {
        long bytes = varint(page);
        long number = varint(page);
        ByteBuffer record = payload(page, bytes);
        int begin = record.position();
        int end = begin + (int) Math.min(varint(record), record.remaining());
        Map<String, Object> columns = new HashMap<>();
        int at = end;
        for (int i = 0; record.position() < end; i++) {
            long of = varint(record);
            int next = record.position();
            record.position(at);
            Object value = value(record, of);
            at = record.position();
            record.position(next);
            // A key that is the number of the row is stored as nothing.
            if (i < names.length) columns.put(names[i], value);
        }
        if (number <= last && last > 0) throw new IOException("row " + number + " is behind row " + last);
        if (!why.isEmpty()) damage.add("rows " + (last + 1) + " to " + (number - 1) + " cannot be read: " + why);
        why = "";
        last = number;
        to.take(number, columns);
    }

    /** The bytes of a record, of which those that do not fit into the page are in others. */
    private ByteBuffer payload(ByteBuffer page, long bytes) throws IOException {
        int most = usable - 35;
        if (bytes < 0 || bytes > MOST_BYTES) throw new IOException("the database has a row of " + bytes + " bytes; at most " + MOST_BYTES + " are read");
        if (bytes <= most) {
            ByteBuffer whole = page.slice();
            if (whole.remaining() < bytes) throw new IOException("the database is damaged: a row is longer than its page");
            whole.limit((int) bytes);
            return whole;
        }
        int least = (usable - 12) * 32 / 255 - 23;
        int here = least + (int) ((bytes - least) % (usable - 4));
        if (here > most) here = least;
        // The pages are counted: a claim alone takes no memory.
        if (bytes / (usable - 4) > pages) throw new IOException("the database is damaged: a row claims " + bytes + " bytes");
        byte[] whole = new byte[(int) bytes];
        page.get(whole, 0, here);
        long next = page.getInt() & 0xffffffffL;
        for (int at = here; at < whole.length; ) {
            // Each was allocated with its table's pages.
            left++;
            ByteBuffer more = page(next);
            next = more.getInt() & 0xffffffffL;
            int piece = Math.min(usable - 4, whole.length - at);
            more.get(whole, at, piece);
            at += piece;
        }
        return ByteBuffer.wrap(whole);
    }

    private static Object value(ByteBuffer record, long of) throws IOException {
        if (of == 0) return null;
        if (of == 8 || of == 9) return of - 8;
        if (of == 7) return record.getDouble();
        if (of < 7) {
            int bytes = of < 5 ? (int) of : of == 5 ? 6 : 8;
            long number = record.get();
            for (int i = 1; i < bytes; i++) number = number << 8 | record.get() & 0xff;
            return number;
        }
        long bytes = (of - 12) / 2;
        if (of < 12 || bytes > record.remaining()) throw new IOException("the database is damaged: a value is longer than its row");
        byte[] value = new byte[(int) bytes];
        record.get(value);
        return value;
    }

    private static long varint(ByteBuffer of) {
        long number = 0;
        for (int i = 0; i < 8; i++) {
            byte next = of.get();
            number = number << 7 | next & 0x7f;
            if (next >= 0) return number;
        }
        return number << 8 | of.get() & 0xff;
    }
}
