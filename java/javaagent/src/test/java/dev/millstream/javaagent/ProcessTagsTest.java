package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the service name and the container id. */
class ProcessTagsTest {
    private static final String ID = "0123456789abcdef".repeat(4);

    private static String service(Map<String, String> variables, Map<String, String> properties) {
        return ServiceName.find(variables::get, properties::get);
    }

    @Test
    void the_first_name_wins() {
        Map<String, String> both = Map.of("otel.service.name", "c", "dd.service", "d", "sun.java.command", "a.Main");
        assertEquals("a", service(Map.of("OTEL_SERVICE_NAME", "a", "DD_SERVICE", "b"), both));
        assertEquals("c", service(Map.of("DD_SERVICE", "b"), both));
        assertEquals("b", service(Map.of("DD_SERVICE", "b"), Map.of("dd.service", "d")));
        assertEquals("d", service(Map.of("OTEL_SERVICE_NAME", ""), Map.of("dd.service", "d")));
    }

    @Test
    void without_names_the_main_class_or_jar_has_it() {
        Map<String, String> commands = Map.of("com.acme.Main --port 1", "Main", "Main", "Main", "/opt/shop-1.2.jar serve a.jar", "shop-1.2",
            "mod/com.acme.Main x", "Main", "jdk.compiler/com.sun.tools.javac.launcher.Main /a/SlowRemote.java 5", "SlowRemote",
            "com.sun.tools.javac.launcher.SourceLauncher Shop.java", "Shop", " ", "java", "a.", "java");
        commands.forEach((command, name) -> assertEquals(name, service(Map.of(), Map.of("sun.java.command", command))));
        assertEquals("java", service(Map.of(), Map.of()));
    }

    private static Optional<String> container(Path dir, String cgroup, String mountinfo) throws IOException {
        return ContainerId.find(Files.writeString(dir.resolve("cgroup"), cgroup), Files.writeString(dir.resolve("mountinfo"), mountinfo));
    }

    @Test
    void the_container_is_found_in_both_versions_of_control_groups(@TempDir Path dir) throws IOException {
        Optional<String> found = Optional.of(ID);
        assertEquals(found, container(dir, "4:memory:/docker/" + ID + "\n3:cpu:/docker/" + ID + "\n", ""));
        assertEquals(found, container(dir, "1:name=systemd:/kubepods/besteffort/pod1-2/" + ID + "\n0::/\n", ""));
        assertEquals(found, container(dir, "0::/kubepods.slice/cri-containerd-" + ID + ".scope\n", ""));
        String hostname = "711 700 254:1 /var/lib/docker/containers/" + ID + "/hostname /etc/hostname rw,relatime - ext4 /dev/vda1 rw\n";
        assertEquals(found, container(dir, "0::/\n", "1 2 0:1 / / rw - overlay overlay rw\n" + hostname));
        String podman = "1 2 0:25 /containers/storage/overlay-containers/" + ID + "/userdata/hosts /etc/hosts rw - tmpfs tmpfs rw\n";
        assertEquals(found, container(dir, "0::/\n", podman));
    }

    @Test
    void a_host_with_containers_is_none(@TempDir Path dir) throws IOException {
        String mounts = "1 2 0:45 / /var/lib/docker/containers/" + ID + "/mounts/shm rw - tmpfs shm rw\n";
        assertEquals(Optional.empty(), container(dir, "0::/user.slice/user-0.slice/session-1.scope\n", mounts));
        assertEquals(Optional.empty(), container(dir, "0::/system.slice/a" + ID + ".scope\n", "x\n"));
        assertEquals(Optional.empty(), ContainerId.find(dir.resolve("none"), dir.resolve("none")));
    }
}
