import java.util.List;
import java.util.Map;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** An OpenSearch node with settings from arguments of the form {@code key=value}. */
public final class SearchNode extends Node {
  private SearchNode(Environment environment) {
    super(environment, List.of(Netty4Plugin.class), false);
  }

  public static void main(String[] args) throws Exception {
    Settings.Builder settings = Settings.builder();
    for (String arg : args) {
      int at = arg.indexOf('=');
      settings.put(arg.substring(0, at), arg.substring(at + 1));
    }
    LogConfigurator.setNodeName("test");
    Environment environment =
        InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), null, () -> "test");
    Node node = new SearchNode(environment);
    node.start();
    System.out.println("started");
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        node.close();
      } catch (Exception error) {
        error.printStackTrace();
      }
    }));
    Thread.currentThread().join();
  }
}
