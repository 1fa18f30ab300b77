package dev.millstream.operator.runtime;

/** Enlarges the buffer of an answer; replaced in tests, where no agent is linked. */
@FunctionalInterface
interface Grower {
    /**
     * Enlarges the buffer of a call, and stores its address and capacity in the request.
     *
     * @param call REQUEST_CALL
     * @param used number of bytes to keep
     * @param needed the new capacity, at least
     * @return the new address; 0 if there is no memory
     */
    long grow(long call, long used, long needed);
}
