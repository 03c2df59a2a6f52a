package onbeat;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;

/**
 * The reading end of a channel, for one thread. The writer is never delayed, and learns nothing of its readers. Records of a channel
 * without a type have the field {@code payload}, their bytes.
 *
 * <p>{@code docs/ring.md} specifies the memory. Numbers that others change are loaded between {@link #fence()}s.
 */
public final class Ring implements Closeable {
    private static final long MAGIC = ByteBuffer.wrap("ONBEATRG".getBytes(StandardCharsets.US_ASCII))
            .order(ByteOrder.nativeOrder()).getLong();
    private static final long VERSION = 1;
    private static final int HEADER_BYTES = 384;
    /** Largest ring, and longest schema and description, in bytes. */
    private static final long MOST_BYTES = 1536L << 20;
    private static final long MOST_TEXT = 16L << 20;
    /** A writer of a billion records a second reaches it after a century. */
    private static final long MOST_RECORDS = 1L << 62;
    private static final int STATE = 40;
    private static final int WRITTEN = 320;
    /** Bytes of a slot before its payload: sequence, time, length. */
    private static final int HEAD_BYTES = 24;
    private static final long LOOK_EVERY_NS = 100_000;
    private static final long CHECK_EVERY_NS = 100_000_000;

    private final String channel;
    private final MappedByteBuffer memory;
    private final long slots;
    private final int slotBytes;
    private final int slotsAt;
    private final long writer;
    private final Definition definition;
    private final String description;

    /** The slot being read; allocated once. */
    private final byte[] slot;
    private final ByteBuffer slotBuffer;
    private final ByteBuffer source;
    private Layout layout;
    private long next;
    private long received;
    private long lost;
    private long slotNumber;
    private volatile int fenced;
    private Process gateway;

    private Ring(String channel, MappedByteBuffer memory) {
        this.channel = channel;
        this.memory = memory;
        writer = memory.getLong(32);
        slots = memory.getLong(48);
        slotBytes = (int) memory.getLong(56);
        slotsAt = (int) memory.getLong(64);
        String type = text(160, 160).split("\0", 2)[0];
        definition = new Definition(type, text(HEADER_BYTES, (int) memory.getLong(72)));
        description = text((int) memory.getLong(80), (int) memory.getLong(88));
        slot = new byte[slotBytes - HEAD_BYTES];
        slotBuffer = ByteBuffer.wrap(slot).order(ByteOrder.LITTLE_ENDIAN);
        source = memory.duplicate();
        next = written() + 1;
    }

    /**
     * Opens a channel, such as {@code walker/cycle}, for records from now on.
     *
     * @throws OnbeatException if the channel does not exist, or its file is not trusted or not a complete ring
     */
    public static Ring open(String channel) {
        if (!channel.matches("[\\w.-]{1,64}/[\\w.-]{1,64}")) {
            throw new OnbeatException(OnbeatException.NO_CHANNEL, channel + " is not a channel; write NAME/TOPIC");
        }
        String name = channel.replace('/', ':');
        for (RuntimeDirectory directory : RuntimeDirectory.existing()) {
            Path path = directory.path.resolve(name);
            try (FileChannel file = directory.open(name, MOST_BYTES)) {
                return new Ring(channel, mapped(channel, path, file));
            } catch (NoSuchFileException none) {
                continue;
            } catch (IOException why) {
                throw new OnbeatException(OnbeatException.NOT_A_RING, "cannot open " + path + ": " + why.getMessage());
            }
        }
        String others = String.join(", ", channels());
        String sentence = "channel " + channel + " does not exist; there are: " + (others.isEmpty() ? "none" : others);
        throw new OnbeatException(OnbeatException.NO_CHANNEL, sentence);
    }

    /** Maps a ring whose header agrees with itself and with the file. */
    private static MappedByteBuffer mapped(String channel, Path path, FileChannel file) throws IOException {
        ByteBuffer header = header(file);
        if (header.limit() < HEADER_BYTES || header.getLong(0) == 0) {
            throw notARing("the ring of " + channel + " is not complete; open it again in a moment");
        }
        if (header.getLong(0) != MAGIC) throw notARing(path + " is not a ring of onbeat: it begins with other bytes");
        // The magic number is written last: what is read after it has been seen is complete.
        header = header(file);
        if (header.getLong(8) != VERSION) {
            throw notARing("the ring of " + channel + " has version " + header.getLong(8) + ", this client reads " + VERSION);
        }
        if (!isConsistent(header)) {
            throw notARing(path + " is not a ring of onbeat: the sizes in its header contradict each other");
        }
        long total = header.getLong(16);
        if (file.size() < total) {
            throw notARing(path + " is not a complete ring: its header states " + total + " bytes, and " + file.size()
                    + " are allocated");
        }
        MappedByteBuffer memory = file.map(FileChannel.MapMode.READ_ONLY, 0, total);
        memory.order(ByteOrder.nativeOrder());
        return memory;
    }

    private static ByteBuffer header(FileChannel file) throws IOException {
        ByteBuffer header = ByteBuffer.allocate(HEADER_BYTES).order(ByteOrder.nativeOrder());
        while (header.hasRemaining() && file.read(header, header.position()) > 0) continue;
        header.limit(header.position());
        return header;
    }

    /** Checks the sizes in a header against each other. */
    private static boolean isConsistent(ByteBuffer header) {
        long total = header.getLong(16);
        long slots = header.getLong(48);
        long slotBytes = header.getLong(56);
        long slotsAt = header.getLong(64);
        long schemaBytes = header.getLong(72);
        long descriptionAt = header.getLong(80);
        long descriptionBytes = header.getLong(88);
        for (long text : new long[] {schemaBytes, descriptionBytes}) if (text < 0 || text > MOST_TEXT) return false;
        for (long size : new long[] {total, slots, slotBytes}) if (size < 0 || size > MOST_BYTES) return false;
        return slots >= 2 && Long.bitCount(slots) == 1 && slotBytes >= 64 && slotBytes % 64 == 0
                && descriptionAt == HEADER_BYTES + wholeLines(schemaBytes)
                && slotsAt == descriptionAt + wholeLines(descriptionBytes)
                && total == slotsAt + slots * slotBytes;
    }

    private static long wholeLines(long length) {
        return (length + 63) / 64 * 64;
    }

    private static OnbeatException notARing(String sentence) {
        return new OnbeatException(OnbeatException.NOT_A_RING, sentence);
    }

    /**
     * Returns the names of all channels of this user and of root.
     *
     * @throws OnbeatException if a directory of shared objects cannot be trusted
     */
    public static String[] channels() {
        TreeSet<String> found = new TreeSet<>();
        for (RuntimeDirectory directory : RuntimeDirectory.existing()) {
            for (String name : directory.names()) {
                if (!name.matches("[\\w.-]{1,64}:[\\w.-]{1,64}")) continue;
                try {
                    directory.open(name, MOST_BYTES).close();
                    found.add(name.replace(':', '/'));
                } catch (IOException | OnbeatException another) {
                    continue;
                }
            }
        }
        return found.toArray(new String[0]);
    }

    /** Moves to the oldest record that is kept. */
    public void rewind() {
        next = Math.max(written() - (slots - 2), 1);
    }

    /** Returns the number of records published and not yet read. */
    public long pending() {
        return Math.max(written() + 1 - next, 0);
    }

    /** Returns whether a record can be read at once. */
    public boolean hasNew() {
        return pending() > 0;
    }

    /** Returns the number of records received. */
    public long received() {
        return received;
    }

    /** Returns the number of records lost, because they were overwritten before they were read. */
    public long lost() {
        return lost;
    }

    /** Returns the name of the type. */
    public String type() {
        return definition.name;
    }

    /** Returns the writer's text about this channel: joints, devices, values, in JSON. */
    public String description() {
        return description;
    }

    /**
     * Returns the next record, or null after {@code ms} milliseconds; 0 never waits.
     *
     * @throws OnbeatException if the writer has ended and everything was read
     */
    public Message next(int ms) {
        if (!await(ms) || !take()) return null;
        return message();
    }

    /**
     * Returns the newest record, or null if there is no new one; those before it are passed over and not counted as lost.
     *
     * @throws OnbeatException if the writer has ended and everything was read
     */
    public Message latest() {
        if (!await(0)) return null;
        next = Math.max(next, written());
        return take() ? message() : null;
    }

    /**
     * Returns fields of all records since the last call; waits up to {@code ms} milliseconds for the first one. The table
     * ends before a record whose texts or sequences have other lengths.
     */
    public Table drain(String[] fields, int ms) {
        long lostBefore = lost;
        int room = await(ms) ? (int) Math.min(pending(), slots) : 0;
        TableBuilder table = new TableBuilder(fields, room);
        while (table.hasRoom() && take()) {
            if (!table.isEmpty() && !layout.fits(slotBuffer, slotLength)) {
                next--;
                received--;
                break;
            }
            table.add(table.isEmpty() ? layout() : layout, slotBuffer, slotNumber, slotAtNs);
        }
        return table.build(lost - lostBefore);
    }

    /** Chooses fields for reading record by record. */
    public Rows rows(String[] fields) {
        return new Rows(this, fields);
    }

    /** Ends this program when the channel is closed. */
    Ring endsWith(Process program) {
        gateway = program;
        return this;
    }

    /** Forgets the channel. The memory is unmapped with the object. */
    @Override
    public void close() {
        layout = null;
        if (gateway != null) gateway.destroy();
    }

    private int slotLength;
    private long slotAtNs;

    private Message message() {
        return new Message(slotNumber, slotAtNs, Arrays.copyOf(slot, slotLength), layout());
    }

    /** Returns the layout of the record that was taken last. */
    Layout layout() {
        if (layout == null || !layout.fits(slotBuffer, slotLength)) {
            // The layout keeps its message, and the slot is read again.
            ByteBuffer own = ByteBuffer.wrap(Arrays.copyOf(slot, slotLength)).order(ByteOrder.LITTLE_ENDIAN);
            layout = definition.name.isEmpty() ? new Layout(definition, slotLength) : new Layout(definition, own, slotLength);
        }
        return layout;
    }

    /** Returns a number of the record that was taken last. */
    double number(Layout.Part part, int i) {
        return part.number(slotBuffer, i);
    }

    long slotNumber() {
        return slotNumber;
    }

    long slotAtNs() {
        return slotAtNs;
    }

    /** Copies the next record into {@link #slot}; false if there is none. Counts what was lost. */
    boolean take() {
        while (true) {
            long newest = written();
            if (newest < next) return false;
            if (newest - next < slots - 1 && copy()) {
                slotNumber = next++;
                received++;
                return true;
            }
            long oldest = Math.max(written() - (slots - 2), 1) + slots / 8;
            long first = Math.max(oldest, next + 1);
            lost += first - next;
            next = first;
        }
    }

    private boolean copy() {
        int at = slotsAt + (int) (next % slots) * slotBytes;
        long sequence = memory.getLong(at);
        fence();
        slotAtNs = memory.getLong(at + 8);
        slotLength = (int) Math.min(Math.max(memory.getLong(at + 16), 0), slot.length);
        source.position(at + HEAD_BYTES);
        source.get(slot, 0, slotLength);
        fence();
        return sequence == 2 * next && memory.getLong(at) == sequence;
    }

    private long written() {
        fence();
        long written = memory.getLong(WRITTEN);
        fence();
        // 2^63 and more are negative here.
        if (written < 0 || written > MOST_RECORDS) {
            throw notARing("the ring of " + channel + " states " + Long.toUnsignedString(written)
                    + " records, more than can have been written");
        }
        return written;
    }

    /** Keeps loads before it before those behind it: a volatile store, then a volatile load, is a full fence. */
    private void fence() {
        fenced = 1;
        if (fenced == 0) throw new AssertionError("stored above");
    }

    /**
     * Waits until a record can be read, at most {@code ms} milliseconds; returns whether one can. 0 never waits.
     *
     * @throws OnbeatException if the writer has ended and everything was read
     */
    public boolean await(int ms) {
        if (hasNew()) return true;
        long now = System.nanoTime();
        long end = now + ms * 1_000_000L;
        long check = ms > 0 ? now + CHECK_EVERY_NS : now;
        while (!hasNew()) {
            if (now - check >= 0) {
                checkAlive();
                check = now + CHECK_EVERY_NS;
            }
            if (now - end >= 0 || Thread.interrupted()) return hasNew();
            LockSupport.parkNanos(LOOK_EVERY_NS);
            now = System.nanoTime();
        }
        return true;
    }

    private void checkAlive() {
        long state = memory.getLong(STATE);
        long pid = writer & ((1 << 22) - 1);
        String why = null;
        if (state == 2) why = "the writer of " + channel + " has ended";
        else if (state == 3) why = "the writer of " + channel + " was replaced; open the channel again";
        else if (!isAlive(pid)) why = "the writer of " + channel + ", process " + pid + ", is gone; start it again";
        if (why != null && !hasNew()) throw new OnbeatException(OnbeatException.ENDED, why);
    }

    private boolean isAlive(long pid) {
        try {
            String stat = new String(Files.readAllBytes(Paths.get("/proc/" + pid + "/stat")), StandardCharsets.UTF_8);
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return !"ZXx".contains(fields[0]) && Long.parseLong(fields[19]) == writer >>> 22;
        } catch (IOException | RuntimeException gone) {
            return false;
        }
    }

    private String text(int at, int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) bytes[i] = memory.get(at + i);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
