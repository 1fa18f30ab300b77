import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;

/** Logs numbered lines over a number of milliseconds, to the destination in log4j2.xml. */
class Writer {
    public static void main(String[] args) throws InterruptedException {
        int count = Integer.parseInt(args[0]);
        long time = Long.parseLong(args[1]);
        Logger logger = LogManager.getLogger(Writer.class);
        long begun = System.nanoTime();
        for (int number = 0; number < count; number++) {
            logger.info(String.format("line %07d and some words behind it", number));
            long ahead = number * time / count - (System.nanoTime() - begun) / 1_000_000;
            if (ahead > 5) {
                Thread.sleep(ahead);
            }
        }
        LogManager.shutdown();
    }
}
