package onbeat;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Commands a robot of another computer, over an authenticated connection; {@code docs/remote.md} specifies the bytes. No thread.
 */
final class RemoteCommander implements Closeable {
    private static final byte[] MAGIC = "onbeat remote 1\n".getBytes(StandardCharsets.US_ASCII);
    private static final int NONCE = 32;
    private static final int TAG = 16;
    private static final int HEAD = 9;
    private static final int MOST_FRAME = 2 << 20;
    private static final byte PING = 1;
    private static final byte COMMAND = 2;
    private static final byte LEAVE = 3;
    private static final byte WELCOME = 1;
    private static final byte PONG = 2;
    private static final byte ANSWER = 3;
    private static final byte NOTICE = 4;
    private static final byte FOLLOWED = 0;
    private static final byte TOO_LATE = 1;
    private static final int CONNECTED_WITHIN_MS = 5000;
    private static final long ANSWERED_WITHIN_NS = 1_000_000_000;
    private static final long COMPARE_EVERY_NS = 1_000_000_000;
    private static final long COMPARE_BEFORE_NS = 10_000_000_000L;

    private final String address;
    private final Socket socket;
    private final InputStream input;
    private final Mac toRobot;
    private final Mac fromRobot;
    private final boolean hasKey;
    private final Map<String, Integer> places = new HashMap<>();
    private final ArrayDeque<long[]> unanswered = new ArrayDeque<>();
    private byte[] held = new byte[0];
    private long sent;
    private long got;
    private String description = "";
    private Map<String, Object> described;
    private long lifetimeNs;
    private long robotNs;
    private long ownNs;
    private long uncertainNs;
    private long askedNs;
    private long answeredNs;
    private boolean isDoubtful;
    private String waiting = "";
    private String ended = "";
    private long tooLate;

    /** Connects; {@code key} is the file of the key, or null to read only. */
    RemoteCommander(String host, int port, String key, double lifetime) {
        address = host + ":" + port;
        byte[] secret = key == null ? new byte[0] : keyOf(key);
        hasKey = key != null;
        try {
            socket = new Socket();
            socket.connect(new InetSocketAddress(host, port), CONNECTED_WITHIN_MS);
            socket.setTcpNoDelay(true);
            input = socket.getInputStream();
            byte[] nonce = new byte[NONCE];
            new SecureRandom().nextBytes(nonce);
            long asked = System.nanoTime();
            socket.getOutputStream().write(joined(MAGIC, nonce, new byte[] {(byte) (hasKey ? 1 : 0)}));
            byte[] greeting = exactly(MAGIC.length + NONCE, CONNECTED_WITHIN_MS);
            if (!Arrays.equals(Arrays.copyOf(greeting, MAGIC.length), MAGIC)) {
                throw failed(address + " does not speak the protocol of onbeat, or another version of it");
            }
            byte[] ofRobot = Arrays.copyOfRange(greeting, MAGIC.length, greeting.length);
            byte[] label = "onbeat remote 1 session".getBytes(StandardCharsets.US_ASCII);
            byte[] session = mac(secret).doFinal(joined(label, nonce, ofRobot));
            toRobot = mac(mac(session).doFinal("to the robot".getBytes(StandardCharsets.US_ASCII)));
            fromRobot = mac(mac(session).doFinal("from the robot".getBytes(StandardCharsets.US_ASCII)));
            welcome(frame(CONNECTED_WITHIN_MS), asked, lifetime);
            for (int i = 0; i < 3; i++) compare(CONNECTED_WITHIN_MS);
        } catch (IOException why) {
            close();
            // The message of this exception is the name alone.
            String reason = why instanceof UnknownHostException ? "no such host" : why.getMessage();
            throw failed("cannot connect to " + address + ": " + reason + "; on the robot's computer runs "
                    + "`onbeat message command NAME --from tcp://ADDRESS:" + port + "`");
        } catch (OnbeatException why) {
            close();
            throw why;
        }
    }

    private void welcome(byte[] frame, long asked, double lifetime) {
        if (frame == null || frame[0] != WELCOME) throw failed(address + " does not answer");
        ownNs = System.nanoTime();
        uncertainNs = ownNs - asked;
        robotNs = little(frame).getLong(HEAD);
        description = new String(frame, HEAD + 8, frame.length - HEAD - 8, StandardCharsets.UTF_8);
        try {
            described = Json.object(Json.parse(description));
            List<Object> joints = Json.list(described.get("joints"));
            for (int i = 0; i < joints.size(); i++) places.putIfAbsent((String) Json.object(joints.get(i)).get("name"), i);
            lifetimeNs = (long) (Math.min(lifetime, (Double) described.get("lifetime_ms") / 1e3) * 1e9);
        } catch (IllegalArgumentException | ClassCastException | NullPointerException wrong) {
            throw failed(address + " describes its robot in another way: another version of onbeat");
        }
    }

    /** Returns the robot, its joints and channels, in JSON. */
    String description() {
        return description;
    }

    String name() {
        return (String) described.get("robot");
    }

    Map<String, Object> described() {
        return described;
    }

    String waiting() {
        return waiting;
    }

    long tooLate() {
        return tooLate;
    }

    void command(String[] joints, double[] rad) {
        Commander.checkLengths(joints, rad);
        while (ended.isEmpty() && take(read(0))) {}
        check();
        ByteBuffer payload = ByteBuffer.allocate(14 + 10 * joints.length).order(ByteOrder.LITTLE_ENDIAN);
        payload.position(14);
        for (int i = 0; i < joints.length; i++) {
            Integer place = places.get(joints[i]);
            if (place == null) {
                throw failed(name() + " has no joint " + joints[i] + "; it has " + String.join(", ", places.keySet()));
            }
            payload.putShort((short) (int) place).putDouble(rad[i]);
        }
        long now = System.nanoTime();
        if (isDoubtful || now - ownNs > COMPARE_BEFORE_NS) {
            isDoubtful = false;
            uncertainNs = Long.MAX_VALUE / 2;
            compare(Math.max((int) (lifetimeNs / 1_000_000), 100));
        } else if (now - askedNs > COMPARE_EVERY_NS) {
            ask();
        }
        payload.putLong(0, robotNow()).putInt(8, (int) (lifetimeNs / 1000)).putShort(12, (short) joints.length);
        unanswered.add(new long[] {send(COMMAND, payload.array()), System.nanoTime()});
    }

    /** Takes leave: the robot keeps its last targets. */
    void leave() {
        try {
            if (ended.isEmpty()) {
                send(LEAVE, longs(robotNow()));
                long end = System.nanoTime() + 1_000_000_000L;
                while (ended.isEmpty() && System.nanoTime() < end) take(read(100));
            }
        } catch (OnbeatException gone) {
            // It has ended already.
        }
        close();
    }

    /** Ends without taking leave: a robot that was commanded holds, and then stops safely. */
    @Override
    public void close() {
        if (ended.isEmpty()) ended = "the commander has ended";
        try {
            socket.close();
        } catch (IOException gone) {
            // It has ended already.
        }
    }

    private void check() {
        if (ended.isEmpty() && !unanswered.isEmpty() && System.nanoTime() - unanswered.peek()[1] > ANSWERED_WITHIN_NS) {
            String why = address + " has not answered for a second: " + name() + " holds, and then stops safely";
            close();
            ended = why;
        }
        if (!ended.isEmpty()) throw failed(ended);
    }

    /** The robot's clock now, at the earliest: the clocks differ by 0.1 % at most. */
    private long robotNow() {
        long since = System.nanoTime() - ownNs;
        return robotNs + since - since / 1000;
    }

    private void ask() {
        askedNs = System.nanoTime();
        send(PING, longs(askedNs));
    }

    private void compare(int ms) {
        ask();
        long end = System.nanoTime() + ms * 1_000_000L;
        while (answeredNs != askedNs) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) throw failed(address + " does not answer within " + ms + " ms");
            take(read((int) left));
            if (!ended.isEmpty()) throw failed(ended);
        }
    }

    /** Takes a frame; false without one. */
    private boolean take(byte[] frame) {
        if (frame == null) return false;
        ByteBuffer content = little(frame);
        if (frame[0] == PONG) {
            long asked = content.getLong(HEAD);
            long now = System.nanoTime();
            answeredNs = asked;
            // The better comparison counts: an old one grows worse by what clocks drift.
            if (now - asked < uncertainNs + (now - ownNs) / 1000) {
                robotNs = content.getLong(HEAD + 8);
                ownNs = now;
                uncertainNs = now - asked;
            }
        } else if (frame[0] == ANSWER) {
            long number = content.getLong(HEAD);
            while (!unanswered.isEmpty() && unanswered.peek()[0] <= number) unanswered.remove();
            byte outcome = content.get(HEAD + 8);
            if (outcome == FOLLOWED) waiting = "";
            if (outcome == TOO_LATE) {
                tooLate++;
                isDoubtful = true;
                waiting = "a command was " + content.getInt(HEAD + 9) / 1000 + " ms old when it reached " + name() + ", and lives "
                        + lifetimeNs / 1_000_000 + " ms";
            }
        } else if (frame[0] == NOTICE) {
            notice(new String(frame, HEAD, frame.length - HEAD, StandardCharsets.UTF_8));
        }
        return true;
    }

    private void notice(String text) {
        Map<String, Object> said = Json.object(Json.parse(text));
        if (said.containsKey("left")) ended = "the commander has left";
        if (said.containsKey("waiting")) waiting = (String) said.get("waiting");
        if (said.containsKey("ended")) {
            close();
            ended = (String) said.get("ended");
        }
        if (said.containsKey("refused")) throw failed((String) said.get("refused"));
    }

    private byte[] read(int ms) {
        try {
            return frame(ms);
        } catch (IOException gone) {
            throw failed("the connection to " + address + " has ended: " + gone.getMessage());
        }
    }

    /** Returns kind, number and payload of the next frame, or null after {@code ms} milliseconds; 0 never waits. */
    private byte[] frame(int ms) throws IOException {
        long end = System.nanoTime() + ms * 1_000_000L;
        while (true) {
            if (held.length >= 4) {
                int length = little(held).getInt(0);
                if (length < HEAD + TAG || length > MOST_FRAME) {
                    throw failed(address + " sends a frame of " + length + " bytes, which is not of this protocol");
                }
                if (held.length >= 4 + length) return verified(length);
            }
            int left = (int) Math.max((end - System.nanoTime()) / 1_000_000, 0);
            if (!fill(left) && left == 0) return null;
        }
    }

    private byte[] verified(int length) {
        byte[] content = Arrays.copyOfRange(held, 4, 4 + length - TAG);
        byte[] tag = Arrays.copyOfRange(held, 4 + length - TAG, 4 + length);
        held = Arrays.copyOfRange(held, 4 + length, held.length);
        if (!MessageDigest.isEqual(Arrays.copyOf(fromRobot.doFinal(content), TAG), tag)) {
            throw failed(address + (hasKey ? " does not have this key" : " is changed on its way") + ": a frame of it is not authentic");
        }
        if (little(content).getLong(1) != ++got) throw failed("a frame of " + address + " is missing or replayed");
        return content;
    }

    private byte[] exactly(int count, int ms) throws IOException {
        long end = System.nanoTime() + ms * 1_000_000L;
        while (held.length < count) {
            int left = (int) ((end - System.nanoTime()) / 1_000_000);
            if (left <= 0) throw new IOException("no answer within " + ms + " ms");
            fill(left);
        }
        byte[] taken = Arrays.copyOf(held, count);
        held = Arrays.copyOfRange(held, count, held.length);
        return taken;
    }

    /** Reads what has arrived; false after {@code ms} milliseconds without anything. A connection that has ended is noticed. */
    private boolean fill(int ms) throws IOException {
        byte[] bytes = new byte[1 << 16];
        int available = input.available();
        // Without a wait, the end of the connection shows when a write fails, or at an answer that does not come.
        if (available == 0 && ms == 0) return false;
        socket.setSoTimeout(Math.max(ms, 1));
        try {
            int read = input.read(bytes);
            if (read < 0) throw new IOException("the robot has ended it");
            held = joined(held, Arrays.copyOf(bytes, read));
            return true;
        } catch (SocketTimeoutException none) {
            return false;
        }
    }

    private long send(byte kind, byte[] payload) {
        byte[] head = ByteBuffer.allocate(HEAD).order(ByteOrder.LITTLE_ENDIAN).put(kind).putLong(++sent).array();
        byte[] content = joined(head, payload);
        byte[] length = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(content.length + TAG).array();
        try {
            socket.getOutputStream().write(joined(length, content, Arrays.copyOf(toRobot.doFinal(content), TAG)));
        } catch (IOException gone) {
            throw failed(address + " is not reached any more: " + gone.getMessage());
        }
        return sent;
    }

    private static byte[] longs(long value) {
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
    }

    private static ByteBuffer little(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static byte[] joined(byte[]... parts) {
        int length = 0;
        for (byte[] part : parts) length += part.length;
        ByteBuffer all = ByteBuffer.allocate(length);
        for (byte[] part : parts) all.put(part);
        return all.array();
    }

    private static Mac mac(byte[] key) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            // Java takes no empty key; HMAC fills short ones with zeros.
            mac.init(new SecretKeySpec(key.length == 0 ? new byte[1] : key, "HmacSHA256"));
            return mac;
        } catch (GeneralSecurityException absent) {
            throw new AssertionError(absent);
        }
    }

    private static byte[] keyOf(String file) {
        String digits;
        try {
            digits = new String(Files.readAllBytes(Paths.get(file)), StandardCharsets.US_ASCII).trim();
        } catch (IOException why) {
            throw failed("cannot read the key " + file + ": " + why.getMessage());
        }
        if (!digits.matches("[0-9a-fA-F]{64}")) {
            throw failed("the key " + file + " does not have 64 hexadecimal digits; `onbeat message key FILE` creates one");
        }
        byte[] key = new byte[32];
        for (int i = 0; i < key.length; i++) key[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        return key;
    }

    private static OnbeatException failed(String sentence) {
        return new OnbeatException(OnbeatException.ROBOT, sentence);
    }
}
