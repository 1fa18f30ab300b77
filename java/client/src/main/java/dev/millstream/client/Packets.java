package dev.millstream.client;

import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * All packets there are, each in one of four places: free, in a slot with points and perhaps room for more, full, or with a thread. Who
 * records takes one away from its slot, adds to it and puts it back: nobody ever waits for another thread, and one that is held up holds up
 * one packet.
 */
final class Packets {
    /** Slots lie this far apart, on cache lines of their own. */
    private static final int STRIDE = 16;

    /** Slots that are tried, from the one of the thread on. */
    private static final int PROBES = 4;

    private final Packet[] all;
    private final Stack free;
    private final Stack full;
    private final AtomicReferenceArray<Packet> slots;
    private final int slotBits;
    private final int mask;
    private final Runnable wake;

    /** Packets of messages of up to {@code messageBytes}; {@code wake} is called when one has become full. */
    Packets(int count, int messageBytes, int processors, Runnable wake) {
        this.wake = wake;
        all = new Packet[count];
        free = new Stack(count);
        full = new Stack(count);
        for (int index = count - 1; index >= 0; index--) {
            all[index] = new Packet(index, messageBytes);
            free.push(index);
        }
        // Twice as many as threads that run at a time, and never so many that slots use up the packets.
        int wanted = Math.max(1, Math.min(2 * processors, count / 4));
        slotBits = 32 - Integer.numberOfLeadingZeros(wanted - 1);
        mask = (STRIDE << slotBits) - 1;
        slots = new AtomicReferenceArray<>(STRIDE << slotBits);
    }

    /** Bytes that the largest point may take. */
    int roomMax() {
        return all[0].roomMax();
    }

    /** The slot of this thread; virtual threads have numbers one after the other, which the factor spreads. */
    int slot() {
        int spread = (int) Thread.currentThread().getId() * 0x9E3779B9;
        return slotBits == 0 ? 0 : (spread >>> 32 - slotBits) * STRIDE;
    }

    /** A packet with room for so many bytes, or null if all are full. It belongs to the caller until {@link #put}. */
    Packet take(int slot, int room) {
        Packet packet = slots.getAndSet(slot, null);
        if (packet != null) {
            if (packet.hasRoom(room)) {
                return packet;
            }
            hand(packet);
        }
        return takeOther(slot, room);
    }

    /** Another thread has the packet of this slot, or it was full. */
    private Packet takeOther(int slot, int room) {
        for (int probe = 1; probe < PROBES; probe++) {
            int other = slot + probe * STRIDE & mask;
            Packet packet = slots.getPlain(other) == null ? null : slots.getAndSet(other, null);
            if (packet != null && packet.hasRoom(room)) {
                return packet;
            }
            if (packet != null) {
                hand(packet);
            }
        }
        int index = free.pop();
        return index == Stack.NONE ? null : all[index];
    }

    /** Gives a packet back with what was added to it. */
    void put(int slot, Packet packet) {
        // Another thread of this slot may have put a packet there meanwhile.
        for (int probe = 0; probe < PROBES; probe++) {
            if (slots.compareAndSet(slot + probe * STRIDE & mask, null, packet)) {
                return;
            }
        }
        hand(packet);
    }

    private void hand(Packet packet) {
        full.push(packet.index);
        wake.run();
    }

    boolean hasFull() {
        return !full.isEmpty();
    }

    /** Moves all packets with points to those that are full. */
    void sweep() {
        for (int slot = 0; slot < slots.length(); slot += STRIDE) {
            Packet packet = slots.getAndSet(slot, null);
            if (packet != null) {
                full.push(packet.index);
            }
        }
    }

    /** Takes the full packets: their numbers go into {@code out}, which has room for all; returns how many they are. */
    int takeFull(int[] out) {
        return full.popAll(out);
    }

    int count() {
        return all.length;
    }

    Packet get(int index) {
        return all[index];
    }

    /** A packet that was sent or given up is empty again. */
    void free(Packet packet) {
        packet.clear();
        free.push(packet.index);
    }
}
