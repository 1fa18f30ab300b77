package dev.millstream.client;

import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * A lock-free pool of packets. Each packet is free, in a slot and partially filled, full, or owned by a thread. A recording thread takes
 * the packet of its slot, adds a point and returns the packet. Threads never wait for each other: a stalled thread holds up only one
 * packet.
 */
final class PacketPool {
    /** Distance between slots, so that each slot has a separate cache line. */
    private static final int STRIDE = 16;

    /** Number of slots to try, starting with the thread's slot. */
    private static final int PROBES = 4;

    private final Packet[] all;
    private final IndexStack free;
    private final IndexStack full;
    private final AtomicReferenceArray<Packet> slots;
    private final int slotBits;
    private final int mask;
    private final Runnable wake;

    /** Creates packets for messages of up to {@code messageBytes}. The pool calls {@code wake} when a packet is full. */
    PacketPool(int count, int messageBytes, int cpus, Runnable wake) {
        this.wake = wake;
        all = new Packet[count];
        free = new IndexStack(count);
        full = new IndexStack(count);
        for (int index = count - 1; index >= 0; index--) {
            all[index] = new Packet(index, messageBytes);
            free.push(index);
        }
        // Twice the number of threads that run concurrently, but limited so that the slots do not take all packets.
        int slotsWanted = Math.max(1, Math.min(2 * cpus, count / 4));
        slotBits = 32 - Integer.numberOfLeadingZeros(slotsWanted - 1);
        mask = (STRIDE << slotBits) - 1;
        slots = new AtomicReferenceArray<>(STRIDE << slotBits);
    }

    /** Returns the maximum size of a point in bytes. */
    int pointBytesMax() {
        return all[0].capacity();
    }

    /** Returns the slot of this thread. The multiplication spreads the consecutive ids of virtual threads. */
    int slot() {
        int spread = (int) Thread.currentThread().getId() * 0x9E3779B9;
        return slotBits == 0 ? 0 : (spread >>> 32 - slotBits) * STRIDE;
    }

    /** Takes a packet with capacity for a point, or returns null if all packets are full. The caller owns the packet until {@link #put}. */
    Packet take(int slot, int pointBytes) {
        Packet packet = slots.getAndSet(slot, null);
        if (packet != null) {
            if (packet.hasCapacity(pointBytes)) {
                return packet;
            }
            markFull(packet);
        }
        return takeOther(slot, pointBytes);
    }

    /** Takes a packet from another slot, or a free packet, because this slot's packet was full or another thread owns it. */
    private Packet takeOther(int slot, int pointBytes) {
        for (int probe = 1; probe < PROBES; probe++) {
            int other = slot + probe * STRIDE & mask;
            Packet packet = slots.getPlain(other) == null ? null : slots.getAndSet(other, null);
            if (packet != null && packet.hasCapacity(pointBytes)) {
                return packet;
            }
            if (packet != null) {
                markFull(packet);
            }
        }
        int index = free.pop();
        return index == IndexStack.NONE ? null : all[index];
    }

    /** Returns a packet to the pool. */
    void put(int slot, Packet packet) {
        // Another thread may have returned a packet to this slot in the meantime.
        for (int probe = 0; probe < PROBES; probe++) {
            if (slots.compareAndSet(slot + probe * STRIDE & mask, null, packet)) {
                return;
            }
        }
        markFull(packet);
    }

    private void markFull(Packet packet) {
        full.push(packet.index);
        wake.run();
    }

    boolean hasFull() {
        return !full.isEmpty();
    }

    /** Marks the packets of all slots as full. */
    void markSlotsFull() {
        for (int slot = 0; slot < slots.length(); slot += STRIDE) {
            Packet packet = slots.getAndSet(slot, null);
            if (packet != null) {
                full.push(packet.index);
            }
        }
    }

    /**
     * Takes all full packets. Writes their indexes to {@code out}, which must have capacity for all packets. Returns the number of packets.
     */
    int takeFull(int[] out) {
        return full.popAll(out);
    }

    int count() {
        return all.length;
    }

    Packet get(int index) {
        return all[index];
    }

    /** Clears and frees a packet that was sent or dropped. */
    void free(Packet packet) {
        packet.clear();
        free.push(packet.index);
    }
}
