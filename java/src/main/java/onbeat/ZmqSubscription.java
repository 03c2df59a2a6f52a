package onbeat;

import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;

/**
 * A channel of a ZeroMQ publisher, such as {@code onbeat message send walker/cycle --to tcp://127.0.0.1:5556}, for one thread.
 *
 * <p>It reads as a {@link Ring} does. {@code docs/transports.md} specifies the frames.
 */
public final class ZmqSubscription implements Closeable {
    /** Records taken from the socket at a time. */
    private static final int MOST_WAITING = 1 << 16;
    /** Bytes of the third frame: number and time of the record. */
    private static final int HEAD_BYTES = 16;

    /** A record that was received and not yet read. */
    private static final class Waiting {
        final long number;
        final long atNs;
        final byte[] bytes;
        final ByteBuffer buffer;

        Waiting(long number, long atNs, byte[] bytes) {
            this.number = number;
            this.atNs = atNs;
            this.bytes = bytes;
            buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    private final ZmtpSubscriber socket;
    private final String name;
    private final Definition definition;
    private final String description;
    private final ArrayDeque<Waiting> waiting = new ArrayDeque<>();
    private Layout layout;
    private long previous;
    private long arrived;
    private long received;
    private long lost;
    private long invalid;

    private ZmqSubscription(String address, String name, Definition definition, String description) {
        this.name = name;
        this.definition = definition;
        this.description = description;
        socket = new ZmtpSubscriber(address, name);
    }

    /**
     * Subscribes to a channel of a publisher at {@code tcp://ADDRESS:PORT}; it may start later. What it sends before the
     * subscription has reached it is not received.
     *
     * @param definition the text of the type, as {@code onbeat message type CHANNEL} prints it
     * @throws OnbeatException for another address or definition
     */
    public static ZmqSubscription open(String address, String name, String type, String definition) {
        return open(address, name, type, definition, "");
    }

    static ZmqSubscription open(String address, String name, String type, String definition, String description) {
        Definition parsed = new Definition(type, definition);
        parsed.check();
        return new ZmqSubscription(address, name, parsed, description);
    }

    /** Returns the number of records that can be read at once. */
    public long pending() {
        fill();
        return waiting.size();
    }

    /** Returns whether a record can be read at once. */
    public boolean hasNew() {
        return await(0);
    }

    /** Returns the number of records received. */
    public long received() {
        return received;
    }

    /** Returns the number of records lost on the way, by the gaps in the publisher's numbers. */
    public long lost() {
        return lost;
    }

    /** Returns the number of messages of one frame: they are not of a channel. */
    public long invalid() {
        return invalid;
    }

    /** Returns the name of the type. */
    public String type() {
        return definition.name;
    }

    /** Returns the publisher's text about the channel; empty if it is not known. */
    public String description() {
        return description;
    }

    /** Returns the next record, or null after {@code ms} milliseconds; 0 never waits. */
    public Message next(int ms) {
        return await(ms) ? message(taken()) : null;
    }

    /** Returns the newest record, or null; those before it are passed over and not counted as lost. */
    public Message latest() {
        fill();
        while (waiting.size() > 1) taken();
        return waiting.isEmpty() ? null : message(taken());
    }

    /**
     * Returns fields of all records since the last call; waits up to {@code ms} milliseconds for the first one. The table
     * ends before a record whose texts or sequences have other lengths.
     */
    public Table drain(String[] fields, int ms) {
        long lostBefore = lost;
        if (await(ms)) fill();
        TableBuilder table = new TableBuilder(fields, waiting.size());
        while (table.hasRoom()) {
            Waiting next = waiting.peek();
            if (!table.isEmpty() && !layout.fits(next.buffer, next.bytes.length)) break;
            taken();
            table.add(layout(next), next.buffer, next.number, next.atNs);
        }
        return table.build(lost - lostBefore);
    }

    /** Waits until a record can be read, at most {@code ms} milliseconds; returns whether one can. 0 never waits. */
    public boolean await(int ms) {
        long end = System.nanoTime() + ms * 1_000_000L;
        int left = ms;
        while (waiting.isEmpty()) {
            boolean came = receive(left);
            left = (int) Math.max((end - System.nanoTime()) / 1_000_000, 0);
            if (!came && left == 0) return false;
        }
        return true;
    }

    /** Ends the subscription. */
    @Override
    public void close() {
        socket.close();
    }

    /** Takes what the socket has, up to its limit. */
    private void fill() {
        while (waiting.size() < MOST_WAITING && receive(0)) {}
    }

    /** Takes a message from the socket; false after {@code ms} milliseconds without one. */
    private boolean receive(int ms) {
        byte[][] frames = socket.receive(ms);
        if (frames == null) return false;
        byte[] first = frames[0];
        byte[] payload = frames.length > 1 ? frames[1] : null;
        byte[] head = frames.length > 2 ? frames[2] : null;

        if (payload == null) {
            invalid++;
        } else if (name.equals(new String(first, StandardCharsets.UTF_8))) {
            arrived++;
            // The third frame may be missing. The clock of Java is CLOCK_MONOTONIC on Linux.
            boolean isWhole = head != null && head.length == HEAD_BYTES;
            ByteBuffer numbers = isWhole ? ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN) : null;
            long number = isWhole ? numbers.getLong(0) : arrived;
            waiting.add(new Waiting(number, isWhole ? numbers.getLong(8) : System.nanoTime(), payload));
        }
        return true;
    }

    /** Takes the oldest record; counts those missing before it. A lower number is that of a publisher that has started again. */
    private Waiting taken() {
        Waiting next = waiting.remove();
        if (received > 0) lost += Math.max(next.number - previous - 1, 0);
        previous = next.number;
        received++;
        return next;
    }

    private Message message(Waiting of) {
        return new Message(of.number, of.atNs, of.bytes, layout(of));
    }

    private Layout layout(Waiting of) {
        if (layout == null || !layout.fits(of.buffer, of.bytes.length)) {
            int length = of.bytes.length;
            layout = definition.name.isEmpty() ? new Layout(definition, length) : new Layout(definition, of.buffer, length);
        }
        return layout;
    }
}
