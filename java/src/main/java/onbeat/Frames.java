package onbeat;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.locks.LockSupport;

/**
 * Pictures of a running camera, for one thread. No lock is held at any time, and the camera learns nothing of its readers.
 *
 * <pre>{@code
 * Frames left = Frames.open("left");
 * while (left.next(1000)) use(left.pixels(), left.number());
 * }</pre>
 *
 * <p>A camera that continues with another size, or was started again, is followed. {@code docs/frames.md} specifies the memory.
 */
public final class Frames {
    private static final long MAGIC = ByteBuffer.wrap("ONBEATFR".getBytes(StandardCharsets.US_ASCII))
            .order(ByteOrder.nativeOrder()).getLong();
    private static final long VERSION = 1;
    private static final int HEADER_BYTES = 1024;
    private static final long MOST_BYTES = 1536L << 20;
    private static final long MOST_SIDE = 16384;
    private static final int STATE = 40;
    private static final int FIRST = 144;
    private static final int NEWEST = 320;
    private static final int DROPPED = 384;
    private static final int STATUS = 512;
    private static final int STAMPS_AT = 4096;
    private static final int STAMP_BYTES = 128;
    private static final long ALIGN = 2L << 20;
    private static final int MOST_TRIES = 3;
    private static final long LOOK_EVERY_NS = 200_000;
    private static final long CHECK_EVERY_NS = 100_000_000;

    private final String name;
    private MappedByteBuffer memory;
    private ByteBuffer source;
    private long writer;
    private int slots;
    private int slotBytes;
    private int width;
    private int height;
    private int channels;
    private int layout;
    private int frameBytes;
    /** The picture taken last; used again by the next one. */
    private byte[] pixels = new byte[0];
    private final long[] stamp = new long[STAMP_BYTES / 8];
    private long last;
    private long received;
    private long passedOver;
    private long generation;
    private Path path = Paths.get("");
    private volatile int fenced;
    /** Copies the next picture while the caller is at work with the one before; made by the first call. */
    private CopyAhead ahead;

    private Frames(String name) {
        this.name = name;
        map();
    }

    /**
     * Opens a camera; the first frame is the newest one there is.
     *
     * @throws OnbeatException if it does not run, or its file is not trusted or not complete
     */
    public static Frames open(String name) {
        if (!name.matches("[\\w-][\\w.-]{0,63}")) {
            throw new OnbeatException(OnbeatException.NO_CAMERA, name + " is not the name of a camera");
        }
        return new Frames(name);
    }

    private void map() {
        String file = name + ".frames";
        for (RuntimeDirectory directory : RuntimeDirectory.existing()) {
            Path path = directory.path.resolve(file);
            try (FileChannel opened = directory.open(file, MOST_BYTES)) {
                map(path, opened);
                return;
            } catch (NoSuchFileException none) {
                continue;
            } catch (IOException why) {
                throw notFrames("cannot open " + path + ": " + why.getMessage());
            }
        }
        throw new OnbeatException(OnbeatException.NO_CAMERA, "camera " + name + " is not running; start it with: onbeat camera run "
                + "SOURCE --name " + name);
    }

    private void map(Path path, FileChannel file) throws IOException {
        ByteBuffer header = header(file);
        if (header.limit() < HEADER_BYTES || header.getLong(0) == 0) {
            throw notFrames("camera " + name + " is starting; open it again in a moment");
        }
        if (header.getLong(0) != MAGIC) throw notFrames(path + " does not hold the pictures of a camera");
        // The magic number is written last: what is read after it has been seen is complete.
        header = header(file);
        if (header.getLong(8) != VERSION) {
            throw notFrames("the pictures of camera " + name + " have version " + header.getLong(8) + ", this client reads "
                    + VERSION);
        }
        if (!isConsistent(header) || file.size() < header.getLong(16)) {
            throw notFrames(path + " does not hold the pictures of a camera: its sizes contradict each other");
        }
        memory = file.map(FileChannel.MapMode.READ_ONLY, 0, header.getLong(16));
        memory.order(ByteOrder.nativeOrder());
        source = memory.duplicate();
        this.path = path;
        if (ahead != null) ahead.leave();
        ahead = null;
        generation = header.getLong(24);
        writer = header.getLong(32);
        slots = (int) header.getLong(48);
        slotBytes = (int) header.getLong(56);
        width = (int) header.getLong(80);
        height = (int) header.getLong(88);
        channels = (int) header.getLong(96);
        layout = (int) header.getLong(104);
        frameBytes = (int) header.getLong(112);
        // Another process may have stored any number: 2^63 and more are negative here, and no frames.
        last = Math.max(Math.max(Math.max(load(NEWEST), 1) - 1, load(FIRST)), last);
        if (pixels.length != frameBytes) pixels = new byte[frameBytes];
    }

    private static ByteBuffer header(FileChannel file) throws IOException {
        ByteBuffer header = ByteBuffer.allocate(HEADER_BYTES).order(ByteOrder.nativeOrder());
        while (header.hasRemaining() && file.read(header, header.position()) > 0) continue;
        header.limit(header.position());
        return header;
    }

    private static boolean isConsistent(ByteBuffer header) {
        long slots = header.getLong(48);
        long width = header.getLong(80);
        long height = header.getLong(88);
        long channels = header.getLong(96);
        long layout = header.getLong(104);
        if (slots < 4 || slots > 64 || width < 1 || width > MOST_SIDE || height < 1 || height > MOST_SIDE) return false;
        if (channels != 1 && channels != 3 || layout < 1 || layout > 3) return false;
        long bytes = width * height * channels;
        if (layout == 3 && channels == 3) bytes = width * height + 2 * ((width + 1) / 2) * ((height + 1) / 2);
        long slotBytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        return header.getLong(112) == bytes && header.getLong(56) == slotBytes && header.getLong(64) == ALIGN
                && header.getLong(72) == STAMPS_AT && header.getLong(16) == ALIGN + slots * slotBytes
                && header.getLong(16) <= MOST_BYTES;
    }

    private static OnbeatException notFrames(String sentence) {
        return new OnbeatException(OnbeatException.NOT_FRAMES, sentence);
    }

    /**
     * Takes the newest frame if it is new, after at most {@code ms} milliseconds; 0 never waits. Frames between are counted as
     * passed over.
     *
     * @throws OnbeatException if the camera has ended
     */
    public boolean newest(int ms) {
        return await(ms) && take(false);
    }

    /** As {@link #newest}, but takes the next frame in order; those that were overwritten are counted as passed over. */
    public boolean next(int ms) {
        return await(ms) && take(true);
    }

    private boolean take(boolean each) {
        for (int i = 0; i < MOST_TRIES; i++) {
            long newest = load(NEWEST);
            if (newest <= last) return false;
            long oldest = Math.max(newest + 1 - (slots - 2), load(FIRST) + 1);
            long number = each ? Math.max(last + 1, oldest) : newest;
            if (!each && takeAhead(number) || copy(number)) {
                passedOver += number - last - 1;
                last = number;
                received++;
                return true;
            }
        }
        return false;
    }

    /** Takes the picture that was copied ahead, if it is this one. */
    private boolean takeAhead(long number) {
        if (ahead == null || !ahead.isAlive()) {
            ahead = new CopyAhead(memory, slots, slotBytes, frameBytes, last);
            ahead.start();
            return false;
        }
        CopyAhead.Copied copied = ahead.take(number, pixels);
        if (copied == null) return false;
        pixels = copied.pixels;
        System.arraycopy(copied.stamp, 0, stamp, 0, stamp.length);
        return true;
    }

    /**
     * Takes a frame without copying it, for a caller that copies it by other means; returns its number, 0 if there is no new one.
     * Whoever finds it overwritten calls {@link #overtaken} and claims another one.
     */
    public long claim(boolean each) {
        for (int i = 0; i < MOST_TRIES; i++) {
            long newest = load(NEWEST);
            if (newest <= last) return 0;
            long number = each ? Math.max(last + 1, Math.max(newest + 1 - (slots - 2), load(FIRST) + 1)) : newest;
            int at = STAMPS_AT + (int) (number % slots) * STAMP_BYTES;
            if (load(at) != 2 * number) continue;
            for (int word = 0; word < stamp.length; word++) stamp[word] = memory.getLong(at + 8 * word);
            if (load(at) != 2 * number) continue;
            passedOver += number - last - 1;
            last = number;
            received++;
            return number;
        }
        return 0;
    }

    /** The frame claimed last was overwritten before it was copied: it counts as passed over. */
    public void overtaken() {
        received--;
        passedOver++;
    }

    /** Returns the name of the camera. */
    public String name() {
        return name;
    }

    /** Returns the path of the ring's file, for those who read it by other means. */
    public String file() {
        return path.toString();
    }

    /** Returns the number of successive rings of this camera. */
    public long generation() {
        return generation;
    }

    private boolean copy(long number) {
        int slot = (int) (number % slots);
        int at = STAMPS_AT + slot * STAMP_BYTES;
        if (load(at) != 2 * number) return false;
        for (int word = 0; word < stamp.length; word++) stamp[word] = memory.getLong(at + 8 * word);
        source.position((int) ALIGN + slot * slotBytes);
        source.get(pixels, 0, frameBytes);
        return load(at) == 2 * number;
    }

    /**
     * Returns the pixels of the newest frame in shared memory, without a copy. They are a picture as long as
     * {@link #isValid} says so: a ring of four slots keeps it for two further frames. Its number and times are those of the frame
     * taken last.
     */
    public ByteBuffer view() {
        claim(false);
        ByteBuffer view = memory.duplicate();
        view.position((int) ALIGN + (int) (last % slots) * slotBytes);
        view.limit(view.position() + frameBytes);
        return view.slice();
    }

    /** Returns whether the slot of frame {@code number} still holds it. */
    public boolean isValid(long number) {
        return number > 0 && load(STAMPS_AT + (int) (number % slots) * STAMP_BYTES) == 2 * number;
    }

    /** Returns the picture taken last, as bytes in the order of the ring. The next one overwrites them. */
    public byte[] pixels() {
        return pixels;
    }

    /** Returns the picture taken last as Octave's own matrix, height x width x channels of uint8. */
    public Object matrix() {
        if (layout != 1) throw notFrames("the pictures of camera " + name + " are not in columns; start it with --layout columns");
        try {
            // It belongs to Octave's class loader, which is not that of this jar.
            Class<?> matrix = Class.forName("org.octave.Matrix", true, ClassLoader.getSystemClassLoader());
            Constructor<?> made = matrix.getConstructor(byte[].class, int[].class);
            return made.newInstance(pixels, channels == 1 ? new int[] {height, width} : new int[] {height, width, channels});
        } catch (ReflectiveOperationException why) {
            throw notFrames("this is not Octave: " + why);
        }
    }

    /** Returns the number of the frame taken last, from 1. */
    public long number() {
        return last;
    }

    /** Returns capture, received, decoded and published time of the frame taken last, in s (CLOCK_MONOTONIC). */
    public double[] times() {
        return new double[] {stamp[2] / 1e9, stamp[3] / 1e9, stamp[4] / 1e9, stamp[5] / 1e9};
    }

    /** Returns the capture time of the frame taken last, CLOCK_MONOTONIC in ns. */
    public long captureNs() {
        return stamp[2];
    }

    /** Returns height, width, channels. */
    public int[] size() {
        return new int[] {height, width, channels};
    }

    /** Returns frames taken, frames passed over, and frames dropped before publication. */
    public double[] stats() {
        return new double[] {received, passedOver, load(DROPPED)};
    }

    /** Returns why no pictures come, in one sentence; empty if they do. */
    public String status() {
        for (int i = 0; i < MOST_TRIES; i++) {
            long before = load(STATUS);
            byte[] text = new byte[(int) Math.min(Math.max(memory.getLong(STATUS + 8), 0), 496)];
            for (int at = 0; at < text.length; at++) text[at] = memory.get(STATUS + 16 + at);
            if (before % 2 == 0 && load(STATUS) == before) return new String(text, StandardCharsets.UTF_8);
        }
        return "";
    }

    /**
     * Waits until there is a frame that was not taken, at most {@code ms} milliseconds; returns whether there is. 0 never waits.
     *
     * @throws OnbeatException if the camera has ended
     */
    public boolean await(int ms) {
        long now = System.nanoTime();
        long end = now + ms * 1_000_000L;
        long check = ms > 0 ? now + CHECK_EVERY_NS : now;
        while (load(NEWEST) <= last) {
            if (now - check >= 0) {
                checkAlive();
                check = now + CHECK_EVERY_NS;
            }
            if (now - end >= 0 || Thread.interrupted()) return load(NEWEST) > last;
            LockSupport.parkNanos(LOOK_EVERY_NS);
            now = System.nanoTime();
        }
        return true;
    }

    private void checkAlive() {
        long state = load(STATE);
        if (state == 3) {
            map();
            return;
        }
        long pid = writer & ((1 << 22) - 1);
        if (state != 2 && isAlive(pid)) return;
        if (load(NEWEST) > last) return;
        try {
            long before = writer;
            map();
            // Another process is this camera now.
            if (writer != before && load(STATE) == 1) {
                last = Math.max(load(FIRST), 0);
                return;
            }
        } catch (OnbeatException gone) {
            // Reported below.
        }
        String why = state == 2 ? "camera " + name + " has ended" : "camera " + name + ", process " + pid + ", is gone; start it again";
        throw new OnbeatException(OnbeatException.ENDED_CAMERA, why);
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

    private long load(int at) {
        fence();
        long value = memory.getLong(at);
        fence();
        return value;
    }

    /** Keeps loads before it before those behind it: a volatile store, then a volatile load, is a full fence. */
    private void fence() {
        fenced = 1;
        if (fenced == 0) throw new AssertionError("stored above");
    }
}
