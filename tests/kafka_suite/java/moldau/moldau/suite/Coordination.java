package moldau.suite;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where the brokers of a cluster find each other: the ensemble that the run was given, or a coordination process of
 * Moldau, started for the first cluster that needs it and shared by all of this JVM. Each cluster has a path of its own.
 */
final class Coordination {
    /** A broker that is killed is missed soon, and one that a busy machine holds up is not missed too soon. */
    static final String SESSION_MS = "6000";
    private static final Pattern READY = Pattern.compile("coordination listening on (\\S+:\\d+)");
    private static final int START_S = 60;
    private static String address = System.getProperty("suite.zookeeper");

    private Coordination() {
    }

    /** For {@code zookeeper.connect}, of the cluster with this directory. */
    static synchronized String connect(Path cluster) {
        if (address == null)
            address = start();
        return address + "/" + cluster.getFileName();
    }

    private static String start() {
        try {
            Path directory = Files.createTempDirectory("coordination");
            Path output = directory.resolve("output.log");
            Process process = new ProcessBuilder(System.getProperty("suite.moldau"), "coordination", "serve",
                "--listen", "127.0.0.1:0", "--data-dir", directory.resolve("data").toString())
                .redirectErrorStream(true).redirectOutput(output.toFile()).start();
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
            Waiting.until("coordination did not start", START_S, () -> {
                if (!process.isAlive())
                    throw new AssertionError("coordination ended: " + Files.readString(output));
                return READY.matcher(Files.readString(output)).find();
            });
            Matcher ready = READY.matcher(Files.readString(output));
            ready.find();
            return ready.group(1);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
