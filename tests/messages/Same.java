import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;

/** Decodes messages with generated classes and encodes them again; the result must be the same bytes. */
public final class Same {
    private Same() {}

    public static void main(String[] words) throws IOException, ReflectiveOperationException {
        for (int i = 0; i < words.length; i += 2) System.out.println(same(words[i], words[i + 1]));
    }

    private static int same(String type, String path) throws IOException, ReflectiveOperationException {
        Class<?> generated = Class.forName(type);
        Object message = generated.getConstructor().newInstance();
        Method decode = generated.getMethod("decode", byte[].class);
        Method encode = generated.getMethod("encode");
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(Paths.get(path))).order(ByteOrder.LITTLE_ENDIAN);
        int count = 0;
        while (data.hasRemaining()) {
            byte[] bytes = new byte[data.getInt()];
            data.get(bytes);
            // Into the same object: nothing of the previous message may stay.
            decode.invoke(message, bytes);
            if (!Arrays.equals((byte[]) encode.invoke(message), bytes)) throw new AssertionError(type + " " + count);
            try {
                decode.invoke(message, Arrays.copyOf(bytes, bytes.length - 1));
                throw new AssertionError(type + ": a part was accepted");
            } catch (InvocationTargetException refused) {
                count++;
            }
        }
        return count;
    }
}
