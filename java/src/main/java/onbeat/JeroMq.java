package onbeat;

import java.io.Closeable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;

/**
 * A socket of jeromq, ZeroMQ in Java, by reflection: the jar of onbeat neither contains jeromq nor needs it for anything else.
 *
 * <p>{@code mvn package dependency:copy-dependencies} in {@code java/} puts jeromq beside the jar of onbeat. One thread at a time.
 */
final class JeroMq implements Closeable {
    private static final String ABSENT = "jeromq, by which onbeat speaks ZeroMQ, is not in the class path; "
            + "call javaaddpath('java/target/dependency/jeromq-0.6.0.jar') before the first use of onbeat";
    private static final int MORE_FOLLOW = 2;
    /** Messages that may wait in a socket; a publisher drops those beyond. */
    private static final int MOST_WAITING = 1 << 16;

    private final Object context;
    private final Object socket;
    private final Method send;

    /** Opens a socket of the type {@code PUB}. */
    JeroMq(String type) {
        try {
            ClassLoader loader = JeroMq.class.getClassLoader();
            Class<?> ofContext = Class.forName("org.zeromq.ZContext", true, loader);
            Class<?> ofType = Class.forName("org.zeromq.SocketType", true, loader);
            Class<?> ofSocket = Class.forName("org.zeromq.ZMQ$Socket", true, loader);
            context = ofContext.getConstructor().newInstance();
            Object typed = ofType.getMethod("valueOf", String.class).invoke(null, type);
            socket = ofContext.getMethod("createSocket", ofType).invoke(context, typed);
            send = ofSocket.getMethod("send", byte[].class, int.class);
        } catch (ClassNotFoundException | NoClassDefFoundError absent) {
            throw new OnbeatException(OnbeatException.NO_JEROMQ, ABSENT);
        } catch (ReflectiveOperationException other) {
            throw new OnbeatException(OnbeatException.NO_JEROMQ, "this jeromq is not 0.6.0 or alike: " + other);
        }
        call("setHWM", int.class, MOST_WAITING);
        call("setLinger", int.class, 1000);
    }

    /** Listens on an address. */
    void listen(String address) {
        join("bind", address);
    }

    /** Sends a message. */
    void send(byte[]... frames) {
        for (int i = 0; i < frames.length; i++) {
            called(send, frames[i], i + 1 < frames.length ? MORE_FOLLOW : 0);
        }
    }

    @Override
    public void close() {
        try {
            called(context.getClass().getMethod("close"), context, new Object[0]);
        } catch (NoSuchMethodException other) {
            throw new AssertionError(other);
        }
    }

    /** Connects or binds; a socket that cannot is closed. */
    private void join(String how, String address) {
        try {
            if (!address.matches("tcp://.+:\\d+")) {
                String sentence = address + " is not an address of ZeroMQ; write tcp://ADDRESS:PORT";
                throw new OnbeatException(OnbeatException.NETWORK, sentence);
            }
            call(how, String.class, address);
        } catch (OnbeatException why) {
            close();
            throw why;
        }
    }

    private void call(String method, Class<?> type, Object value) {
        try {
            called(socket.getClass().getMethod(method, type), value);
        } catch (NoSuchMethodException other) {
            throw new OnbeatException(OnbeatException.NO_JEROMQ, "this jeromq is not 0.6.0 or alike: it has no " + method);
        }
    }

    private Object called(Method method, Object... values) {
        return called(method, socket, values);
    }

    private static Object called(Method method, Object of, Object[] values) {
        try {
            return method.invoke(of, values);
        } catch (InvocationTargetException why) {
            throw new OnbeatException(OnbeatException.NETWORK, "ZeroMQ cannot " + method.getName() + " " + Arrays.toString(values) + ": " + why.getCause());
        } catch (IllegalAccessException other) {
            throw new AssertionError(other);
        }
    }
}
