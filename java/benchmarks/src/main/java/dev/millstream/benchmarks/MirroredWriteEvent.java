package dev.millstream.benchmarks;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.SettingDefinition;
import jdk.jfr.Timespan;

/**
 * A socket write that is recorded after the write has ended. Only the JDK's events can set a start and a duration, so the time of this
 * event is the end of the write, and the duration is a field.
 */
@Name(MirroredWriteEvent.NAME)
@Label("Mirrored Socket Write")
@Category({"Millstream", "Benchmarks"})
final class MirroredWriteEvent extends Event {
    static final String NAME = "dev.millstream.MirroredSocketWrite";

    @Label("Write Time")
    @Timespan(Timespan.NANOSECONDS)
    long writeTime;

    @Label("Remote Host")
    String host;

    @Label("Remote Address")
    String address;

    @Label("Remote Port")
    int port;

    @Label("Bytes Written")
    @DataAmount
    long bytesWritten;

    /** Accepts every event, because {@link WriteMirror#shouldCommit} has already checked the limit. */
    @SettingDefinition
    @Name(LimitControl.NAME)
    @Label("Limit")
    boolean limit(LimitControl control) {
        return true;
    }
}
