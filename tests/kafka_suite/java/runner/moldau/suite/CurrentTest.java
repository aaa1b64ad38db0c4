package moldau.suite;

import java.util.concurrent.atomic.AtomicInteger;

/** What is known about the test that runs: one at a time, so it is static. */
public final class CurrentTest {
    /** The last feature that was asked for and is not there. */
    public static volatile MissingFeature missing;
    /** The test asked for several brokers and has one. */
    public static volatile boolean folded;
    /** A cluster of Moldau ran during the test. One that says nothing about a broker is not counted. */
    public static volatile boolean usedCluster;

    private static final AtomicInteger CLUSTERS = new AtomicInteger();

    private CurrentTest() {
    }

    static void begin() {
        missing = null;
        folded = false;
        usedCluster = CLUSTERS.get() > 0; // one that was started for the whole class
    }

    public static void clusterStarted() {
        CLUSTERS.incrementAndGet();
        usedCluster = true;
    }

    public static void clusterClosed() {
        CLUSTERS.decrementAndGet();
    }
}
