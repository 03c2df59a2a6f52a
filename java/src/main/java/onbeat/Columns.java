package onbeat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Decodes records of any lengths into columns: the numbers or texts of a field one after the other, and for each list around
 * them how many elements it has.
 *
 * <p>Lengths and counts are a stranger's: each is compared with the bytes that are left of its record.
 */
final class Columns {
    /** A field of all records. */
    static final class Column {
        final boolean isText;
        /** Counts of each list around the values, the outermost first. */
        final List<Numbers> counts = new ArrayList<>();
        final Numbers values = new Numbers();
        final List<String> texts = new ArrayList<>();

        Column(boolean isText, int levels) {
            this.isText = isText;
            for (int i = 0; i < levels; i++) counts.add(new Numbers());
        }

        /** Forgets what a record has added that proved too short. */
        void shrink(int[] to) {
            values.count = to[0];
            while (texts.size() > to[1]) texts.remove(texts.size() - 1);
            for (int i = 0; i < counts.size(); i++) counts.get(i).count = to[2 + i];
        }

        int[] size() {
            int[] size = new int[2 + counts.size()];
            size[0] = values.count;
            size[1] = texts.size();
            for (int i = 0; i < counts.size(); i++) size[2 + i] = counts.get(i).count;
            return size;
        }
    }

    /** Numbers that become more. */
    static final class Numbers {
        private double[] all = new double[16];
        int count;

        void add(double number) {
            if (count == all.length) all = Arrays.copyOf(all, 2 * count);
            all[count++] = number;
        }

        double[] toArray() {
            return Arrays.copyOf(all, count);
        }
    }

    /** A field with what is within it. */
    private static final class Node {
        final Definition.Field field;
        final Node[] inner;
        final List<Column> leaves = new ArrayList<>();
        /** Lists around the field. */
        final int level;

        Node(Definition.Field field, Node[] inner, int level) {
            this.field = field;
            this.inner = inner;
            this.level = level;
        }
    }

    private final Definition definition;
    private final boolean isRos1;
    private final Map<String, Column> columns = new LinkedHashMap<>();
    private final Node[] nodes;
    private ByteBuffer data;
    private int begin;
    private int at;
    private int end;
    private int alignment;
    private boolean hasDelimiters;
    /** Bytes of a unit of a wide text. */
    private int wide = 2;

    Columns(Definition definition, boolean isRos1) {
        this.definition = definition;
        this.isRos1 = isRos1;
        nodes = nodes(definition.name, "", 0);
    }

    Map<String, Column> columns() {
        return columns;
    }

    private Node[] nodes(String type, String prefix, int level) {
        List<Definition.Field> fields = definition.fields(type);
        Node[] all = new Node[fields.size()];
        for (int i = 0; i < all.length; i++) {
            Definition.Field field = fields.get(i);
            int within = level + (field.count == Definition.Field.SINGLE ? 0 : 1);
            Node[] inner = field.isPlain() ? new Node[0] : nodes(field.kind, prefix + field.name + ".", within);
            all[i] = new Node(field, inner, level);
            if (field.isPlain()) {
                Column column = new Column(!field.isNumber(), within);
                columns.put(prefix + field.name, column);
                all[i].leaves.add(column);
            }
            for (Node node : inner) all[i].leaves.addAll(node.leaves);
        }
        return all;
    }

    /** Adds a record; returns why it cannot be decoded, or nothing. Then no column has changed. */
    String add(ByteBuffer chunk, int from, int length) {
        data = chunk.duplicate();
        begin = from;
        at = from;
        end = from + length;
        alignment = 1;
        hasDelimiters = false;
        data.order(ByteOrder.LITTLE_ENDIAN);
        if (!isRos1) {
            if (length < 4 || data.get(from) != 0) return "it does not begin as CDR";
            int kind = data.get(from + 1);
            if (kind != 0 && kind != 1 && kind != 6 && kind != 7) return "its encoding, 00 0" + kind + ", is not read";
            data.order((kind & 1) == 1 ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN);
            alignment = kind > 1 ? 4 : 8;
            hasDelimiters = kind > 1;
            begin = from + 4;
            at = begin;
        }
        List<int[]> sizes = new ArrayList<>();
        for (Column column : columns.values()) sizes.add(column.size());
        try {
            message(nodes);
            return "";
        } catch (OnbeatException why) {
            int i = 0;
            for (Column column : columns.values()) column.shrink(sizes.get(i++));
            return "its bytes end within a field";
        }
    }

    /** Finds how many bytes a unit of a wide text has: two, or the four of Fast CDR 1, which ROS 2 had before Jazzy. */
    void findWide(LogChannel channel) {
        int[] fitting = new int[2];
        for (int i = 0; i < 2; i++) {
            wide = 2 + 2 * i;
            int of = i;
            channel.eachRecord((chunk, from, length) -> {
                if (add(chunk, from, length).isEmpty() && end - at < 8) fitting[of]++;
            });
            for (Column column : columns.values()) column.shrink(new int[2 + column.counts.size()]);
        }
        wide = fitting[1] > fitting[0] ? 4 : 2;
    }

    private static OnbeatException isShort() {
        return new OnbeatException(OnbeatException.LOG, "a record is too short");
    }

    private int take(int bytes, int align) {
        int wide = Math.min(align, alignment);
        at += (wide - (at - begin) % wide) % wide;
        if (bytes < 0 || bytes > end - at) throw isShort();
        at += bytes;
        return at - bytes;
    }

    private int count() {
        int count = data.getInt(take(4, 4));
        if (count < 0 || count > end - at) throw isShort();
        return count;
    }

    private void message(Node[] fields) {
        if (fields.length == 0 && !isRos1) take(1, 1);
        for (Node node : fields) {
            int several = node.field.count;
            if (several == Definition.Field.SINGLE) {
                one(node);
                continue;
            }
            if (hasDelimiters && !node.field.isNumber()) take(4, 4);
            int count = several == Definition.Field.SEQUENCE ? count() : several;
            if (count > end - at) throw isShort();
            for (Column column : node.leaves) column.counts.get(node.level).add(count);
            for (int i = 0; i < count; i++) one(node);
        }
    }

    private void one(Node node) {
        Definition.Field field = node.field;
        if (field.isNumber()) {
            int bytes = field.bytes();
            int place = take(bytes, bytes);
            node.leaves.get(0).values.add(new Layout.Part(field.kind, place, bytes, 1).number(data, 0));
        } else if (field.kind.equals("string")) {
            int bytes = count();
            int place = take(bytes, 1);
            int letters = isRos1 || bytes == 0 ? bytes : bytes - 1;
            node.leaves.get(0).texts.add(text(place, letters, StandardCharsets.UTF_8));
        } else if (field.kind.equals("wstring")) {
            int letters = count();
            if (letters > (end - at) / wide) throw isShort();
            int place = take(wide * letters, 1);
            char[] text = new char[letters];
            for (int i = 0; i < letters; i++) text[i] = wide == 2 ? data.getChar(place + 2 * i) : (char) data.getInt(place + 4 * i);
            boolean hasZero = letters > 0 && text[letters - 1] == 0;
            node.leaves.get(0).texts.add(new String(text, 0, hasZero ? letters - 1 : letters));
        } else {
            message(node.inner);
        }
    }

    private String text(int place, int length, Charset letters) {
        byte[] bytes = new byte[length];
        ByteBuffer from = data.duplicate();
        from.position(place);
        from.get(bytes);
        return new String(bytes, letters);
    }
}
