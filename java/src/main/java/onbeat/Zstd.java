package onbeat;

import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;

/**
 * Decompresses frames of zstd by aircompressor, a library in Java (Apache-2.0), by reflection: the jar that {@code mvn package}
 * builds contains it, and whatever else the client does goes without it.
 */
final class Zstd {
    private static final String PACKAGE = "io.airlift.compress.zstd.";
    private static final String ABSENT = "zstd needs aircompressor, which the released onbeat.jar contains, and this class path does not; "
            + "build it by `mvn package` in java/, or call javaaddpath ('aircompressor-0.27.jar')";

    private Zstd() {}

    /** Returns the content of the frame, of which the size is known. */
    static byte[] decompressed(byte[] frame, int from, int length, int size) {
        byte[] whole = new byte[size];
        Class<?>[] types = {byte[].class, int.class, int.class, byte[].class, int.class, int.class};
        Object bytes;
        try {
            Class<?> of = library("ZstdDecompressor");
            Object decompressor = of.getConstructor().newInstance();
            bytes = of.getMethod("decompress", types).invoke(decompressor, frame, from, length, whole, 0, size);
        } catch (InvocationTargetException wrong) {
            throw new IllegalArgumentException("a chunk is not a frame of zstd: " + wrong.getCause().getMessage());
        } catch (ReflectiveOperationException other) {
            throw isOther(other);
        }
        if (!Integer.valueOf(size).equals(bytes)) throw new IllegalArgumentException("a chunk has " + bytes + " bytes, and claims " + size);
        return whole;
    }

    /** Returns the content of frames whose size is not known. */
    static InputStream stream(InputStream packed) {
        try {
            return (InputStream) library("ZstdInputStream").getConstructor(InputStream.class).newInstance(packed);
        } catch (ReflectiveOperationException other) {
            throw isOther(other);
        }
    }

    private static Class<?> library(String name) {
        try {
            return Class.forName(PACKAGE + name, true, Zstd.class.getClassLoader());
        } catch (ClassNotFoundException | NoClassDefFoundError absent) {
            throw new OnbeatException(OnbeatException.LOG, ABSENT);
        }
    }

    private static OnbeatException isOther(ReflectiveOperationException why) {
        return new OnbeatException(OnbeatException.LOG, "this aircompressor is not 0.27 or alike: " + why);
    }
}
