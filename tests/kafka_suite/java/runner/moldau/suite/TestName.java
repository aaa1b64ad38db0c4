package moldau.suite;

import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestIdentifier;

/** Class#method, and where a method runs in several forms, [its form]: as the lists have it. */
final class TestName {
    /** What a form says without being special. */
    private static final String USUAL = "MetadataVersion=4\\.4-IV0|(Broker|Controller)SecurityProtocol=PLAINTEXT"
        + "|BrokerListenerName=ListenerName\\(EXTERNAL\\)|ControllerListenerName=ListenerName\\(CONTROLLER\\)|(?<=,),+";

    /** Milliseconds of today, which a form says that is made from the clock. */
    private static final String TIME = "\\b\\d{13}\\b";

    private TestName() {
    }

    static String of(TestIdentifier test) {
        if (test.getSource().orElse(null) instanceof MethodSource source) {
            String form = form(test.getDisplayName().replaceAll("\\s+", " "), source.getMethodName());
            return typeName(test.getUniqueId()) + "#" + source.getMethodName() + (form.isEmpty() ? "" : "[" + form + "]");
        }
        return test.getSource().orElse(null) instanceof ClassSource source ? source.getClassName() : test.getDisplayName();
    }

    /** The class that was asked for: a method may come from a class that it extends. */
    private static String typeName(String uniqueId) {
        String type = uniqueId.replaceAll(".*\\[class:([^\\]]+)\\].*", "$1");
        return uniqueId.contains("[nested-class:") ? type + "$" + uniqueId.replaceAll(".*\\[nested-class:([^\\]]+)\\].*", "$1") : type;
    }

    private static String form(String displayName, String method) {
        return displayName.replaceAll("^\"|\"$", "").replaceFirst("^" + method + "(\\(.*\\))?", "").replaceFirst("^[ .]?(\\[\\d+\\] ?)?", "")
            .replaceFirst("^Type=Raft-\\w+(, )?", "").replaceAll(USUAL, "").replaceAll("^,+|,+$", "").replaceAll(TIME, "now").trim();
    }
}
