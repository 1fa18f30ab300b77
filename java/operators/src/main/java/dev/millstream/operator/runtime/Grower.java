package dev.millstream.operator.runtime;

/** Enlarges the answer buffer. Tests replace this interface, because they run without an agent. */
@FunctionalInterface
interface Grower {
    /**
     * Enlarges the buffer of a call, and stores the buffer's address and capacity in the request.
     *
     * @param call REQUEST_CALL
     * @param used number of bytes to keep
     * @param needed the minimum new capacity
     * @return the new address; 0 if there is no memory
     */
    long grow(long call, long used, long needed);
}
