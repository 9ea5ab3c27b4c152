package app;

/** What functions inherit. */
public class FunctionsBase {
    public String inherited(String text) {
        return text + " of the base class";
    }

    public static int fixed() {
        return 1;
    }
}
