package onbeat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;

/**
 * Copies each new picture of a ring into an array, so that the copy is there when it is asked for. A thread of its own that holds no
 * lock; it ends when nobody has asked for a picture for two seconds.
 *
 * <p>An array has one owner at a time: this thread, {@link #copied}, or the caller of {@link #take}, who gives back another one.
 */
final class CopyAhead extends Thread {
    private static final int NEWEST = 320;
    private static final int STAMPS_AT = 4096;
    private static final int STAMP_BYTES = 128;
    private static final int ALIGN = 2 << 20;
    private static final long LOOK_EVERY_NS = 500_000;
    private static final long ASKED_WITHIN_NS = 2_000_000_000L;

    /** A picture, copied as a whole. */
    static final class Copied {
        final long[] stamp = new long[STAMP_BYTES / 8];
        long number;
        byte[] pixels;

        Copied(int bytes) {
            pixels = new byte[bytes];
        }
    }

    private final AtomicReference<Copied> copied = new AtomicReference<>();
    private final AtomicReference<byte[]> spare = new AtomicReference<>();
    private final ByteBuffer memory;
    private final int slots;
    private final int slotBytes;
    private final int frameBytes;
    private volatile long asked = System.nanoTime();
    private volatile boolean isLeft;
    private volatile int fenced;
    private long last;

    CopyAhead(ByteBuffer memory, int slots, int slotBytes, int frameBytes, long last) {
        super("onbeat-copy-ahead");
        setDaemon(true);
        this.memory = memory.duplicate().order(ByteOrder.nativeOrder());
        this.slots = slots;
        this.slotBytes = slotBytes;
        this.frameBytes = frameBytes;
        this.last = last;
    }

    /** Returns picture {@code number} if it was copied; null otherwise. {@code given} is the caller's array, for the next copy then. */
    Copied take(long number, byte[] given) {
        asked = System.nanoTime();
        Copied found = copied.getAndSet(null);
        if (found == null) return null;
        if (found.number != number) {
            spare.set(found.pixels);
            return null;
        }
        spare.set(given);
        return found;
    }

    void leave() {
        isLeft = true;
    }

    @Override
    public void run() {
        while (!isLeft && System.nanoTime() - asked < ASKED_WITHIN_NS) {
            long newest = load(NEWEST);
            if (newest > last && copy(newest)) last = newest;
            LockSupport.parkNanos(LOOK_EVERY_NS);
        }
    }

    private boolean copy(long number) {
        Copied next = copied.getAndSet(null);
        if (next == null) {
            byte[] pixels = spare.getAndSet(null);
            next = new Copied(pixels == null || pixels.length != frameBytes ? frameBytes : 0);
            if (next.pixels.length != frameBytes) next.pixels = pixels;
        }
        int slot = (int) (number % slots);
        int at = STAMPS_AT + slot * STAMP_BYTES;
        if (load(at) != 2 * number) {
            spare.set(next.pixels);
            return false;
        }
        for (int word = 0; word < next.stamp.length; word++) next.stamp[word] = memory.getLong(at + 8 * word);
        ByteBuffer source = memory.duplicate();
        source.position(ALIGN + slot * slotBytes);
        source.get(next.pixels, 0, frameBytes);
        if (load(at) != 2 * number) {
            spare.set(next.pixels);
            return false;
        }
        next.number = number;
        copied.set(next);
        return true;
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
