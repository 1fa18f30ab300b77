package dev.millstream.javaagent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** Finds the id of this process's container. */
final class ContainerId {
    private static final Pattern ID = Pattern.compile("(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])");

    /** Root of a file that a container runtime mounts into the container. */
    private static final Pattern ROOT = Pattern.compile("containers/([0-9a-f]{64})/");

    /** Mount points in the container itself. A host has mounts of all its containers at other mount points. */
    private static final Pattern MOUNT_POINT = Pattern.compile("/etc/(hostname|hosts|resolv\\.conf)");

    private static final int MOUNTINFO_ROOT = 3;
    private static final int MOUNTINFO_POINT = 4;

    private ContainerId() {}

    /** Returns the id in the cgroup paths. In a cgroup namespace, which is the default with cgroup v2, only the mounts contain the id. */
    static Optional<String> find(Path cgroup, Path mountinfo) {
        return lines(cgroup).flatMap(ContainerId::inGroup).findFirst()
            .or(() -> lines(mountinfo).flatMap(ContainerId::inMount).findFirst());
    }

    private static Stream<String> lines(Path path) {
        try {
            return Files.readAllLines(path).stream();
        } catch (IOException | RuntimeException error) {
            // The file does not exist on other systems, or is not readable.
            return List.<String>of().stream();
        }
    }

    /**
     * Returns the id in the last part of the path, such as {@code 4:memory:/kubepods/pod7/ID} or {@code 0::/system.slice/docker-ID.scope}.
     */
    private static Stream<String> inGroup(String line) {
        Matcher matcher = ID.matcher(line.substring(line.lastIndexOf('/') + 1));
        return matcher.find() ? Stream.of(matcher.group()) : Stream.empty();
    }

    private static Stream<String> inMount(String line) {
        String[] fields = line.split(" ");
        if (fields.length <= MOUNTINFO_POINT || !MOUNT_POINT.matcher(fields[MOUNTINFO_POINT]).matches()) {
            return Stream.empty();
        }
        Matcher matcher = ROOT.matcher(fields[MOUNTINFO_ROOT]);
        return matcher.find() ? Stream.of(matcher.group(1)) : Stream.empty();
    }
}
