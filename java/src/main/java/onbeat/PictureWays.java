package onbeat;

import java.awt.image.BufferedImage;
import java.awt.image.DataBufferByte;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Locale;
import javax.imageio.ImageIO;

/**
 * One picture in the forms in which programs in Java hand pictures on, for {@code onbeat camera bench}: the ways of the article
 * "Streaming HD Video in Real-Time" (2017). {@link #main} measures the same ways within the virtual machine.
 */
public final class PictureWays {
    private final int height;
    private final int width;
    private final int channels;
    private final BufferedImage image;
    private final byte[] rows;
    private final byte[] columns;
    private final byte[] jpeg;

    /** Makes a picture with gradients. */
    public PictureWays(int height, int width, int channels) throws IOException {
        this.height = height;
        this.width = width;
        this.channels = channels;
        image = new BufferedImage(width, height, channels == 1 ? BufferedImage.TYPE_BYTE_GRAY : BufferedImage.TYPE_3BYTE_BGR);
        rows = ((DataBufferByte) image.getRaster().getDataBuffer()).getData();
        columns = new byte[rows.length];
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                for (int channel = 0; channel < channels; channel++) {
                    byte level = (byte) (x / 8 + y / 4 + 64 * channel);
                    // Blue comes first in a row.
                    rows[(y * width + x) * channels + channels - 1 - channel] = level;
                    columns[(channel * width + x) * height + y] = level;
                }
            }
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ImageIO.write(image, "jpg", out);
        jpeg = out.toByteArray();
    }

    /** Returns an array of arrays of arrays: height, width, channels. */
    public byte[][][] array() {
        byte[][][] all = new byte[height][width][channels];
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                for (int channel = 0; channel < channels; channel++) all[y][x][channel] = columns[(channel * width + x) * height + y];
            }
        }
        return all;
    }

    /** Returns an array of arrays: height, width; of the first channel. */
    public byte[][] grayArray() {
        byte[][] all = new byte[height][width];
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) all[y][x] = columns[x * height + y];
        }
        return all;
    }

    /** Returns the picture compressed. */
    public byte[] jpeg() {
        return jpeg;
    }

    /** Returns the pixels row by row, blue, green, red; gray alone if there is one channel. */
    public byte[] rows() {
        return rows;
    }

    /** Returns planes of red, green, blue, column by column. */
    public byte[] columns() {
        return columns;
    }

    private interface Way {
        Object run() throws IOException;
    }

    private static void measure(String name, int rounds, Way way) throws IOException {
        StringBuilder line = new StringBuilder(name);
        for (int round = 0; round <= rounds; round++) {
            long began = System.nanoTime();
            Object kept = way.run();
            double ms = (System.nanoTime() - began) / 1e6;
            if (kept == null) throw new IOException(name + " has no picture");
            // The first one loads classes and makes memory.
            if (round > 0) line.append(String.format(Locale.ROOT, " %.4f", ms));
        }
        System.out.println(line);
    }

    /** Measures the ways within the virtual machine: CAMERA WIDTH HEIGHT CHANNELS ROUNDS; a line each, with times in ms. */
    public static void main(String[] words) throws IOException {
        int[] number = new int[5];
        for (int i = 1; i < 5; i++) number[i] = Integer.parseInt(words[i]);
        int rounds = number[4];
        PictureWays own = new PictureWays(number[2], number[1], number[3]);
        measure("array", Math.min(rounds, 10), () -> own.channels == 1 ? own.grayArray() : own.array());
        measure("jpeg", Math.min(rounds, 10), () -> ImageIO.read(new ByteArrayInputStream(own.jpeg)));
        byte[] target = new byte[own.rows.length];
        measure("rows", rounds, () -> {
            System.arraycopy(own.rows, 0, target, 0, target.length);
            return target;
        });
        Frames copied = Frames.open(words[0]);
        StringBuilder copies = new StringBuilder("columns");
        StringBuilder views = new StringBuilder("shared");
        for (int round = 0; round <= rounds; round++) {
            if (!copied.await(5000)) throw new IOException("no picture came");
            long began = System.nanoTime();
            boolean is = copied.newest(0);
            double ms = (System.nanoTime() - began) / 1e6;
            if (is && round > 0) copies.append(String.format(Locale.ROOT, " %.4f", ms));
            began = System.nanoTime();
            ByteBuffer view = copied.view();
            ms = (System.nanoTime() - began) / 1e6;
            if (view.remaining() == target.length && round > 0) views.append(String.format(Locale.ROOT, " %.4f", ms));
        }
        System.out.println(copies);
        System.out.println(views);
    }
}
