package moldau.suite;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The cluster that a test asks for.
 *
 * @param asked how many brokers the test wants
 * @param more whether it may start others besides
 * @param disks log directories of each broker, where it brings none of its own
 * @param common settings of all brokers
 */
public record ClusterShape(int asked, boolean more, int disks, String listener, String protocol, String controllerListener, Map<String, String> common) {
    /** Whether tests that want several brokers get none: for sorting tests into lists. */
    private static final boolean ONE_BROKER = Boolean.getBoolean("suite.one.broker");
    /** Whether brokers are to be given listeners with TLS or logins, and authorizers. */
    static final boolean SECURITY = Boolean.getBoolean("suite.security");
    /** A test that asks for several brokers gets one: a rehearsal. */
    private static final boolean FOLD = Boolean.getBoolean("suite.fold");

    public static Map<String, String> asText(Map<?, ?> settings) {
        Map<String, String> text = new TreeMap<>();
        settings.forEach((name, value) -> text.put(String.valueOf(name),
            value instanceof List<?> list ? list.stream().map(String::valueOf).collect(Collectors.joining(",")) : String.valueOf(value)));
        return text;
    }

    boolean folded() {
        return FOLD && asked > 1;
    }

    /** Whether brokers are to find each other; a single one keeps to itself. */
    boolean coordinated() {
        return (asked > 1 || more) && !FOLD && !ONE_BROKER;
    }

    void check(int brokers) {
        if (asked == 0)
            throw MissingFeature.kraft("controllers without brokers");
        if (Math.max(folded() ? 1 : asked, brokers) > 1 && !coordinated())
            throw new MissingFeature("cluster", Math.max(asked, brokers) + " brokers");
    }
}
