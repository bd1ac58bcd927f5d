/** How often a relay tries a message before the message becomes a dead letter. */
export const RELAY_ATTEMPTS = 8
export const RELAY_POOL_SIZE = 6
export const CONSUMER_POOL_SIZE = 8
/** Connections of all workers together: pools, and one more for each relay's leases and one for notifications. */
export const MOST_CONNECTIONS = 2 * (RELAY_POOL_SIZE + 2) + 2 * CONSUMER_POOL_SIZE + 2 * 2 + 2
