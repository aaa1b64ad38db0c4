package moldau.suite;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

/** In a rehearsal on one broker, topics that are to have several replicas have one. */
final class Folding {
    private static boolean installed;

    private Folding() {
    }

    static synchronized void install() {
        if (installed)
            return;
        installed = true;
        new AgentBuilder.Default().disableClassFormatChanges().with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .type(ElementMatchers.named("org.apache.kafka.clients.admin.NewTopic"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(OneReplica.class).on(ElementMatchers.isConstructor().and(ElementMatchers.takesArguments(String.class, Optional.class, Optional.class))))
                .visit(Advice.to(NoAssignment.class).on(ElementMatchers.isConstructor().and(ElementMatchers.takesArguments(String.class, Map.class)))))
            .installOn(ByteBuddyAgent.install());
    }

    static final class OneReplica {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 2, readOnly = false) Optional<Short> replicas) {
            if (replicas.isPresent() && replicas.get() > 1)
                replicas = Optional.of((short) 1);
        }
    }

    static final class NoAssignment {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(1) Map<Integer, List<Integer>> assignment) {
            for (List<Integer> brokers : assignment.values())
                if (!brokers.equals(List.of(0)))
                    throw new MissingFeature("cluster", "an assignment to brokers");
        }
    }
}
