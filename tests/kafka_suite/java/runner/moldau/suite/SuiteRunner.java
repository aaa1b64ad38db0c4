package moldau.suite;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestExecutionResult.Status;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * {@code SuiteRunner RESULTS CLASS [METHOD...]} runs one class, or methods of it, and appends two lines a test to RESULTS:
 * name, "started"; and name, outcome, milliseconds, message. Methods that RESULTS already names are left out: a tool under
 * test may end the process, and the next one goes on behind that test.
 */
public class SuiteRunner implements TestExecutionListener {
    private static final boolean ON_MOLDAU = SuiteRunner.class.getResource("MoldauCluster.class") != null;
    private static final int MESSAGE_LENGTH = 400;
    private static final long EXIT_GRACE_S = 30;

    private final Path results;
    private final Map<String, Long> startMs = new ConcurrentHashMap<>();
    private final Map<String, Integer> runs = new HashMap<>();
    private TestPlan plan;

    private SuiteRunner(Path results) {
        this.results = results;
    }

    public static void main(String[] args) throws Exception {
        Path results = Path.of(args[0]);
        Class<?> type = Class.forName(args[1], false, SuiteRunner.class.getClassLoader());
        Set<String> methods = Set.copyOf(List.of(args).subList(2, args.length));
        Set<String> begun = methodsIn(results);
        PostDiscoveryFilter rest = test -> FilterResult.includedIf(!(test.getSource().orElse(null) instanceof MethodSource m) || !begun.contains(m.getMethodName()));
        var request = LauncherDiscoveryRequestBuilder.request().selectors(selectors(type, methods)).filters(rest)
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.execution.timeout.testable.method.default", System.getProperty("suite.test.timeout.s") + " s")
            .build();
        LauncherFactory.create().execute(request, new SuiteRunner(results));
        exit();
    }

    private static List<DiscoverySelector> selectors(Class<?> type, Set<String> methods) {
        if (methods.isEmpty())
            return List.of(DiscoverySelectors.selectClass(type));
        List<DiscoverySelector> selectors = new ArrayList<>();
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass())
            for (var method : declaring.getDeclaredMethods())
                if (!method.isSynthetic() && methods.contains(method.getName()))
                    selectors.add(DiscoverySelectors.selectMethod(type, method));
        return selectors;
    }

    private static Set<String> methodsIn(Path results) throws IOException {
        Set<String> methods = new TreeSet<>();
        for (String line : Files.readAllLines(results))
            methods.add(line.replaceAll("^[^#]*#([^\\[\\t~]+).*", "$1"));
        return methods;
    }

    /** Threads that tests left behind do not keep the process, nor do shutdown hooks that hang. */
    private static void exit() {
        Thread halt = new Thread(() -> {
            try {
                TimeUnit.SECONDS.sleep(EXIT_GRACE_S);
            } catch (InterruptedException e) {
                return;
            }
            Runtime.getRuntime().halt(0);
        });
        halt.setDaemon(true);
        halt.start();
        System.exit(0);
    }

    @Override
    public void testPlanExecutionStarted(TestPlan testPlan) {
        plan = testPlan;
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        startMs.put(test.getUniqueId(), System.currentTimeMillis());
        if (test.isTest()) {
            CurrentTest.begin();
            System.err.println("=== " + TestName.of(test) + " " + test.getDisplayName());
            append(TestName.of(test), "started", 0, "");
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (!OneForm.REASON.equals(reason))
            recordAll(test, NamesOnly.REASON.equals(reason) ? "named" : "skipped", reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Throwable error = result.getThrowable().orElse(null);
        if (error != null) {
            System.err.println("--- " + result.getStatus() + " " + TestName.of(test));
            error.printStackTrace();
        }
        String message = error == null ? "" : message(error);
        if (test.isTest())
            record(test, outcome(result.getStatus(), error), System.currentTimeMillis() - startMs.get(test.getUniqueId()), message);
        else if (result.getStatus() != Status.SUCCESSFUL)
            recordAll(test, outcome(result.getStatus(), error), "before all: " + message);
    }

    private static String outcome(Status status, Throwable error) {
        if (status == Status.SUCCESSFUL)
            return CurrentTest.folded ? "fold-pass" : ON_MOLDAU && !CurrentTest.usedCluster ? "no-broker" : "pass";
        for (Throwable cause = error; cause != null; cause = cause.getCause())
            if (cause instanceof MissingFeature missing)
                return "needs-" + missing.feature;
        if (status == Status.ABORTED)
            return "skipped";
        if (CurrentTest.missing != null)
            return "needs-" + CurrentTest.missing.feature;
        return CurrentTest.folded ? "fold-fail" : "fail";
    }

    private static String message(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null && root.getCause() != root)
            root = root.getCause();
        String missing = CurrentTest.missing == null ? "" : " | " + CurrentTest.missing.getMessage();
        return firstLine(error) + (root == error ? "" : " <- " + firstLine(root)) + missing;
    }

    private static String firstLine(Throwable error) {
        String text = error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
        return text.substring(0, Math.min(text.length(), MESSAGE_LENGTH));
    }

    /** The outcome of a class, or of a method with several forms, is that of each test below it that has none of its own. */
    private void recordAll(TestIdentifier container, String outcome, String message) {
        Set<TestIdentifier> tests = new java.util.LinkedHashSet<>();
        for (TestIdentifier each : container.isTest() ? Set.of(container) : plan.getDescendants(container))
            if (each.isTest() || each.getSource().orElse(null) instanceof MethodSource && plan.getChildren(each).isEmpty())
                tests.add(each);
        for (TestIdentifier test : tests.isEmpty() ? Set.of(container) : tests)
            if (!runs.containsKey(TestName.of(test)))
                record(test, outcome, 0, message);
    }

    private synchronized void record(TestIdentifier test, String outcome, long ms, String message) {
        int run = runs.merge(TestName.of(test), 1, Integer::sum); // some forms have one name
        append(TestName.of(test) + (run > 1 ? "~" + run : ""), outcome, ms, message);
    }

    private synchronized void append(String name, String outcome, long ms, String message) {
        try {
            Files.writeString(results, String.join("\t", name, outcome, Long.toString(ms), message) + "\n", StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
