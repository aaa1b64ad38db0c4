package moldau.suite;

import org.mockito.Mockito;

/** Objects of Kafka's own classes that were never constructed: whatever is called on them, this harness gives the answer. */
final class StandIn {
    interface Answers {
        Object to(String method, Object[] args) throws Exception;
    }

    private StandIn() {
    }

    static <T> T of(Class<T> type, Answers answers) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String method = call.getMethod().getName();
            return method.equals("toString") ? "Moldau's " + type.getSimpleName() : answers.to(method, call.getArguments());
        }));
    }
}
