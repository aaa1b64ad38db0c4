package moldau.suite;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A test that Kafka runs twice, with the controller in a process of its own and inside the broker, runs once: to Moldau both
 * are the same, and the figures of both systems count the same tests.
 */
public class OneForm implements ExecutionCondition {
    static final String REASON = "the same as Type=Raft-Isolated";
    private static final Set<Type> BOTH = Set.of(Type.KRAFT, Type.CO_KRAFT);

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        boolean combined = context.getTestMethod().isPresent() && context.getDisplayName().contains("] Type=Raft-Combined");
        return combined && runsInBothForms(context) ? ConditionEvaluationResult.disabled(REASON) : ConditionEvaluationResult.enabled("");
    }

    private static boolean runsInBothForms(ExtensionContext context) {
        Class<?> type = context.getRequiredTestClass();
        Method method = context.getRequiredTestMethod();
        ClusterTestDefaults defaults = type.getDeclaredAnnotation(ClusterTestDefaults.class);
        Type[] usual = defaults == null ? Type.values() : defaults.types();
        ClusterTest single = method.getDeclaredAnnotation(ClusterTest.class);
        if (single != null)
            return runsInBothForms(single, usual);
        ClusterTests several = method.getDeclaredAnnotation(ClusterTests.class);
        if (several != null)
            return Arrays.stream(several.value()).anyMatch(test -> runsInBothForms(test, usual));
        ClusterTemplate template = method.getDeclaredAnnotation(ClusterTemplate.class);
        return template != null && templateHasBothForms(context, type, template.value());
    }

    private static boolean runsInBothForms(ClusterTest test, Type[] usual) {
        return Set.of(test.types().length == 0 ? usual : test.types()).containsAll(BOTH);
    }

    private static boolean templateHasBothForms(ExtensionContext context, Class<?> type, String generatorName) {
        try {
            Method generator = Arrays.stream(type.getDeclaredMethods()).filter(m -> m.getName().equals(generatorName)).findFirst().orElseThrow();
            generator.setAccessible(true);
            List<?> configs = (List<?>) generator.invoke(context.getTestInstance().orElse(null));
            return configs.stream().anyMatch(config -> ((ClusterConfig) config).clusterTypes().containsAll(BOTH));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("cannot ask " + generatorName + " of " + type, e);
        }
    }
}
