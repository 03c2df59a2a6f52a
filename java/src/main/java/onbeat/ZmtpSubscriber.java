package onbeat;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A subscriber of ZeroMQ: ZMTP 3.0 with the mechanism NULL, without a library. It connects again when its publisher is back.
 */
final class ZmtpSubscriber implements Closeable {
    private static final Pattern ADDRESS = Pattern.compile("tcp://\\[?(.+?)\\]?:(\\d{1,5})");
    private static final int GREETING = 64;
    private static final int MORE = 1;
    private static final int LONG = 2;
    private static final int COMMAND = 4;
    /** Longest message of a publisher, in bytes, and its most frames. */
    private static final int MOST_MESSAGE = 1 << 24;
    private static final int MOST_FRAMES = 16;
    private static final long CONNECT_EVERY_NS = 100_000_000;

    private final String host;
    private final int port;
    private final byte[] name;
    private final Selector selector;
    private final ArrayDeque<byte[][]> messages = new ArrayDeque<>();
    private SocketChannel channel;
    private ByteBuffer in = ByteBuffer.allocate(1 << 16);
    private ByteBuffer out = ByteBuffer.allocate(0);
    private boolean isGreeted;
    private boolean hasSubscribed;
    private List<byte[]> frames = new ArrayList<>();
    private int bytesOfFrames;
    private long tried;

    /** For messages that begin with this name. */
    ZmtpSubscriber(String address, String name) {
        Matcher parts = ADDRESS.matcher(address);
        if (!parts.matches()) {
            String sentence = address + " is not an address of ZeroMQ; write tcp://ADDRESS:PORT";
            throw new OnbeatException(OnbeatException.NETWORK, sentence);
        }
        host = parts.group(1);
        port = Integer.parseInt(parts.group(2));
        if (port < 1 || port > 65535) {
            throw new OnbeatException(OnbeatException.NETWORK, address + ": a port is 1 to 65535");
        }
        this.name = name.getBytes(StandardCharsets.UTF_8);
        try {
            selector = Selector.open();
        } catch (IOException why) {
            throw new OnbeatException(OnbeatException.NETWORK, "no socket: " + why.getMessage());
        }
        tried = System.nanoTime() - CONNECT_EVERY_NS;
        step(0);
    }

    /** Returns the next message, or null after {@code ms} milliseconds; 0 never waits. */
    byte[][] receive(int ms) {
        long end = System.nanoTime() + ms * 1_000_000L;
        while (messages.isEmpty()) {
            long left = (end - System.nanoTime()) / 1_000_000;
            boolean did = step(Math.max(Math.min(left, 50), 0));
            if (!did && left <= 0) return null;
        }
        return messages.remove();
    }

    @Override
    public void close() {
        drop();
        try {
            selector.close();
        } catch (IOException gone) {
            // Nothing waits for it.
        }
    }

    /** Connects, writes and reads what is possible within this time; returns whether bytes arrived. */
    private boolean step(long ms) {
        try {
            if (channel == null) connect();
            if (ms > 0) selector.select(ms);
            else selector.selectNow();
            selector.selectedKeys().clear();
            if (channel == null || channel.isConnectionPending() && !channel.finishConnect()) return false;
            SelectionKey key = channel.keyFor(selector);
            while (out.hasRemaining() && channel.write(out) > 0) {}
            key.interestOps(SelectionKey.OP_READ | (out.hasRemaining() ? SelectionKey.OP_WRITE : 0));
            int read = channel.read(in);
            if (read < 0) throw new IOException("the publisher has ended");
            return read > 0 && split();
        } catch (IOException gone) {
            drop();
            return false;
        }
    }

    private void connect() throws IOException {
        if (System.nanoTime() - tried < CONNECT_EVERY_NS) return;
        tried = System.nanoTime();
        InetSocketAddress address = new InetSocketAddress(host, port);
        if (address.isUnresolved()) throw new IOException("no such host: " + host);
        channel = SocketChannel.open();
        channel.configureBlocking(false);
        channel.register(selector, SelectionKey.OP_CONNECT);
        channel.connect(address);
        in.clear();
        out = opening();
        isGreeted = false;
        hasSubscribed = false;
        frames = new ArrayList<>();
    }

    private void drop() {
        if (channel == null) return;
        try {
            channel.close();
        } catch (IOException gone) {
            // It is gone.
        }
        channel = null;
    }

    private static ByteBuffer opening() {
        ByteBuffer bytes = ByteBuffer.allocate(128);
        bytes.put(0, (byte) 0xff).put(9, (byte) 0x7f).put(10, (byte) 3);
        bytes.position(12);
        bytes.put("NULL".getBytes(StandardCharsets.US_ASCII)).position(GREETING);
        byte[] ready = "\5READY\13Socket-Type\0\0\0\3SUB".getBytes(StandardCharsets.ISO_8859_1);
        bytes.put((byte) COMMAND).put((byte) ready.length).put(ready);
        bytes.flip();
        return bytes;
    }

    /** Before its READY, a publisher takes no message. */
    private void subscribe() {
        ByteBuffer bytes = ByteBuffer.allocate(out.remaining() + 3 + name.length);
        bytes.put(out).put((byte) 0).put((byte) (name.length + 1)).put((byte) 1).put(name);
        bytes.flip();
        out = bytes;
        hasSubscribed = true;
    }

    /** Takes whole frames out of what has arrived. */
    private boolean split() throws IOException {
        in.flip();
        if (!isGreeted && in.remaining() >= GREETING) {
            if ((in.get(0) & 0xff) != 0xff || in.get(10) < 3) throw new IOException("not ZMTP 3");
            in.position(GREETING);
            isGreeted = true;
        }
        while (isGreeted && takesFrame()) {}
        int wanted = in.remaining() == in.capacity() ? 2 * in.capacity() : in.capacity();
        if (wanted > in.capacity()) in = ByteBuffer.allocate(wanted).put(in);
        else in.compact();
        return true;
    }

    private boolean takesFrame() throws IOException {
        int at = in.position();
        if (in.remaining() < 2) return false;
        int flags = in.get(at);
        boolean isLong = (flags & LONG) != 0;
        int head = isLong ? 9 : 2;
        if (in.remaining() < head) return false;
        long length = isLong ? in.getLong(at + 1) : in.get(at + 1) & 0xff;
        if (length < 0 || length + bytesOfFrames > MOST_MESSAGE || frames.size() >= MOST_FRAMES) {
            throw new IOException("a message of more than " + MOST_MESSAGE + " bytes");
        }
        if (in.remaining() < head + length) return false;
        in.position(at + head);
        byte[] frame = new byte[(int) length];
        in.get(frame);
        if ((flags & COMMAND) != 0) {
            if (!hasSubscribed) subscribe();
            return true;
        }
        frames.add(frame);
        bytesOfFrames += frame.length;
        if ((flags & MORE) == 0) {
            messages.add(frames.toArray(new byte[0][]));
            frames = new ArrayList<>();
            bytesOfFrames = 0;
        }
        return true;
    }
}
