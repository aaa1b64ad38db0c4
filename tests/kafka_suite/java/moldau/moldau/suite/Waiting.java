package moldau.suite;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/** Conditions that come true after a while; time limits are those of Kafka's own harness. */
public final class Waiting {
    static final int METADATA_S = 60;
    static final int CONDITION_S = 15;
    private static final int POLL_MS = 50;

    private Waiting() {
    }

    public static void until(String failure, long seconds, Callable<Boolean> condition) {
        Exception last = null;
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds); System.nanoTime() < end; ) {
            try {
                if (condition.call())
                    return;
                last = null;
            } catch (Exception e) {
                last = e;
            }
            try {
                TimeUnit.MILLISECONDS.sleep(POLL_MS);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        throw new AssertionError(failure + " after " + seconds + " s", last);
    }
}
