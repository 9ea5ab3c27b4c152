package app;

import java.io.Serializable;

/** An aggregate: the longest of some texts, the first of several. */
public class Longest implements Serializable {
    private static final long serialVersionUID = 1L;
    private String longest;

    public void start() {
        longest = null;
    }

    public void assemble(String text) {
        if (longest == null || text.length() > longest.length()) {
            longest = text;
        }
    }

    public void combine(Longest other) {
        if (other.longest != null) {
            assemble(other.longest);
        }
    }

    public String end() {
        return longest;
    }
}
