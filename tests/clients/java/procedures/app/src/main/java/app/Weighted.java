package app;

/** An aggregate over two values: a mean with weights. */
public class Weighted {
    private double sum;
    private double weights;

    public void start() {
    }

    public void assemble(double value, long weight) {
        sum += value * weight;
        weights += weight;
    }

    public void combine(Weighted other) {
        sum += other.sum;
        weights += other.weights;
    }

    public Double end() {
        return weights == 0 ? null : sum / weights;
    }
}
