package onbeat;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The files of a log: one, or those of the folder of a ROS 2 bag; and what was compressed as a whole. */
final class LogFiles {
    private static final String PACKED = ".zstd";
    private static final Pattern PART = Pattern.compile(".+\\.(mcap|db3)(\\.zstd)?");
    private static final Pattern NAMED = Pattern.compile("(?m)^\\s*-\\s+(?!\\s|\\w+:\\s|[\"']\\w+[\"']:)[\"']?(.+?\\.(?:mcap|db3)(?:\\.zstd)?)[\"']?\\s*$");
    private static final Pattern KEY = Pattern.compile("(?m)^( *)relative_file_paths:");
    private static final int ZSTD = 0x28b52ffd;
    /** Longest metadata, longest message and longest file, in bytes. */
    private static final long MOST_METADATA = 64L << 20;
    private static final int MOST_MESSAGE = 256 << 20;
    private static final long MOST_UNPACKED = 64L << 30;

    /** Files in the order of the bag. */
    final List<File> files = new ArrayList<>();
    /** Names of those that are missing. */
    final List<String> missing = new ArrayList<>();
    /** Whether a folder has a {@code metadata.yaml}, and how many records it states; -1 if it does not. */
    final boolean hasMetadata;
    final long stated;

    /** Finds the files of a folder. */
    LogFiles(File folder) throws IOException {
        File about = new File(folder, "metadata.yaml");
        hasMetadata = about.isFile() && about.length() <= MOST_METADATA;
        String text = hasMetadata ? new String(Files.readAllBytes(about.toPath()), StandardCharsets.UTF_8) : "";
        // Named in `relative_file_paths` and again in `files`.
        Matcher named = NAMED.matcher(text);
        while (named.find()) {
            File file = placeOf(folder, named.group(1));
            String name = new File(named.group(1)).getName();
            if (file != null && !files.contains(file)) files.add(file);
            if (file == null && !missing.contains(name)) missing.add(name);
        }
        if (files.isEmpty()) {
            File[] all = folder.listFiles((in, name) -> PART.matcher(name).matches());
            for (File file : all == null ? new File[0] : all) {
                // A packed file beside the unpacked one has the same records.
                boolean isCopy = file.getName().endsWith(PACKED) && new File(folder, plain(file.getName())).isFile();
                if (!isCopy) files.add(file);
            }
            // `bag_10` is behind `bag_9`.
            files.sort(Comparator.comparing((File file) -> plain(file.getName()).length()).thenComparing(File::getName));
        }
        Matcher key = KEY.matcher(text);
        Matcher count = Pattern.compile("(?m)^" + (key.find() ? key.group(1) : "") + "message_count: *(\\d{1,18})\\s*$").matcher(text);
        stated = hasMetadata && count.find() ? Long.parseLong(count.group(1)) : -1;
    }

    /**
     * Finds a file that is named, or null: older versions name the folder too, and the player of ROS 2 leaves the unpacked file
     * beside the packed one. A name leads nowhere else.
     */
    private static File placeOf(File folder, String name) {
        List<String> parts = new ArrayList<>(Arrays.asList(name.split("/")));
        parts.removeIf(part -> part.isEmpty() || part.equals(".") || part.equals(".."));
        for (; !parts.isEmpty(); parts.remove(0)) {
            String end = String.join("/", parts);
            for (String one : new String[] {end, plain(end)}) {
                File file = new File(folder, one);
                if (file.isFile()) return file;
            }
        }
        return null;
    }

    private static String plain(String name) {
        return name.endsWith(PACKED) ? name.substring(0, name.length() - PACKED.length()) : name;
    }

    /** Reads the {@code .msg} files in a folder, {@code PACKAGE/msg/Name.msg}, as parts of a schema with their full names. */
    static String definitions(File folder) {
        StringBuilder all = new StringBuilder();
        try (Stream<Path> files = Files.walk(folder.toPath())) {
            for (Path file : (Iterable<Path>) files.filter(it -> it.toString().endsWith(".msg")).sorted()::iterator) {
                if (Files.size(file) > MOST_METADATA) continue;
                Path in = file.toAbsolutePath().getParent();
                Path owner = in != null && in.endsWith("msg") ? in.getParent() : in;
                String name = file.getFileName().toString().replaceAll("\\.msg$", "");
                // Editors of Windows begin a text with a byte order mark.
                String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8).replace("\ufeff", "");
                all.append("===\nMSG: ").append(owner == null ? "" : owner.getFileName()).append("/msg/").append(name);
                all.append('\n').append(text).append('\n');
            }
        } catch (IOException | UncheckedIOException why) {
            throw new OnbeatException(OnbeatException.LOG, "cannot read " + folder + ": " + why.getMessage());
        }
        if (all.length() == 0) throw new OnbeatException(OnbeatException.LOG, folder + " has no .msg files");
        return all.toString();
    }

    /** Returns whether bytes begin as a frame of zstd. */
    static boolean isPacked(byte[] bytes, int at, int length) {
        if (length < 4) return false;
        int first = 0;
        for (int i = 0; i < 4; i++) first = first << 8 | bytes[at + i] & 0xff;
        return first == ZSTD;
    }

    /** Returns whether a file is a journal of SQLite that is not over: the first byte of one that is over is 0. */
    static boolean isJournal(File file) throws IOException {
        if (!file.isFile()) return false;
        try (InputStream in = Files.newInputStream(file.toPath())) {
            return in.read() > 0;
        }
    }

    /** Unpacks a file into a temporary one, which the caller deletes. */
    static File unpacked(File packed) throws IOException {
        Path file = Files.createTempFile("onbeat", ".log");
        try (InputStream in = Zstd.stream(Files.newInputStream(packed.toPath()));
                OutputStream out = Files.newOutputStream(file)) {
            copy(in, out, MOST_UNPACKED);
            return file.toFile();
        } catch (IOException | RuntimeException why) {
            Files.deleteIfExists(file);
            throw why;
        }
    }

    /** Unpacks a message that was compressed alone. */
    static byte[] unpacked(byte[] packed) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream(4 * packed.length);
        try (InputStream in = Zstd.stream(new ByteArrayInputStream(packed))) {
            copy(in, out, MOST_MESSAGE);
        }
        return out.toByteArray();
    }

    private static void copy(InputStream in, OutputStream out, long most) throws IOException {
        byte[] piece = new byte[1 << 16];
        long left = most;
        try {
            for (int bytes = in.read(piece); bytes >= 0; bytes = in.read(piece)) {
                left -= bytes;
                if (left < 0) throw new IOException("it has more than " + most + " bytes when unpacked");
                out.write(piece, 0, bytes);
            }
        } catch (IllegalArgumentException | IndexOutOfBoundsException | IllegalStateException wrong) {
            throw new IOException("it is not a frame of zstd: " + wrong.getMessage());
        } catch (RuntimeException wrong) {
            // What the library throws for a damaged frame is a class of its own.
            throw new IOException("it cannot be unpacked: " + wrong.getMessage());
        }
    }
}
