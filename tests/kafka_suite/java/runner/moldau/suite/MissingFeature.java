package moldau.suite;

/** A test asked for something that a broker in another process does not offer; {@code feature} is a word of kinds.toml. */
public class MissingFeature extends UnsupportedOperationException {
    public final String feature;

    public MissingFeature(String feature, String detail) {
        super("needs " + feature + ": " + detail);
        this.feature = feature;
        CurrentTest.missing = this; // tests wrap what they catch, or swallow it
    }

    public static MissingFeature internals(String what) {
        return new MissingFeature("internals", what);
    }

    public static MissingFeature kraft(String what) {
        return new MissingFeature("kraft", what);
    }
}
