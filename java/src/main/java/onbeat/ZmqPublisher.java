package onbeat;

import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * A ZeroMQ publisher, from which {@code onbeat message receive NAME CHANNEL --from tcp://127.0.0.1:5557} makes channels.
 *
 * <p>{@code docs/transports.md} specifies the frames. jeromq must be in the class path.
 */
public final class ZmqPublisher implements Closeable {
    private static final int HEAD_BYTES = 16;

    private final JeroMq socket = new JeroMq("PUB");
    private final Map<String, Long> published = new HashMap<>();

    private ZmqPublisher(String address) {
        socket.listen(address);
    }

    /**
     * Listens on {@code tcp://ADDRESS:PORT}. What is published before a subscription has arrived is not for its subscriber.
     *
     * @throws OnbeatException without jeromq in the class path, or for an address that cannot be listened on
     */
    public static ZmqPublisher open(String address) {
        return new ZmqPublisher(address);
    }

    /** Publishes a message: its bytes as {@link Message#bytes} returns them, or a generated class writes them. Never waits. */
    public void publish(String name, byte[] bytes) {
        long number = published.merge(name, 1L, Long::sum);
        ByteBuffer head = ByteBuffer.allocate(HEAD_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        head.putLong(number).putLong(System.nanoTime());
        socket.send(name.getBytes(StandardCharsets.UTF_8), bytes, head.array());
    }

    /** Ends, after subscribers have had a second to read what waits for them. */
    @Override
    public void close() {
        socket.close();
    }
}
