/** How often a relay tries a message before the message becomes a dead letter. */
export const RELAY_ATTEMPTS = 8
export const RELAY_POOL_SIZE = 6
export const CONSUMER_POOL_SIZE = 8
/** Transactions of a producer that change aggregates, at a time. */
export const PRODUCER_LANES = 2
/** Two more, for a message of the queue that is committed after a later one, and two for one of the local consumers. */
export const PRODUCER_POOL_SIZE = PRODUCER_LANES + 4
/** How often a message of the broker is delivered to a handler before it becomes a dead letter. */
export const CONSUMER_ATTEMPTS = 8
/** How often a message of the queue is received before it becomes a dead letter. */
export const QUEUE_RECEIVES = 8
/** Handlers of a worker of the queue at a time. */
export const QUEUE_CONCURRENCY = 6
/** Batches of a worker of the queue at a time, and the messages of a batch. */
export const QUEUE_BATCHES = 4
export const QUEUE_BATCH_SIZE = 4
/** A connection for each handler or batch, one to receive, and one to settle and to extend visibility timeouts. */
export const QUEUE_POOL_SIZE = QUEUE_CONCURRENCY + 2
/** How often a message of a local consumer is tried before it becomes a dead letter. */
export const LOCAL_ATTEMPTS = 8
/** Handlers of a local consumer at a time in one process; of the other one batches, and the messages of a batch. */
export const LOCAL_CONCURRENCY = 5
export const LOCAL_BATCHES = 3
export const LOCAL_BATCH_SIZE = 6
/** A connection for each handler and batch, and four for the loops of both local consumers. */
export const LOCAL_POOL_SIZE = LOCAL_CONCURRENCY + LOCAL_BATCHES + 4
/** Transactions of an HTTP service at a time: of handlers, and of requests that ask whether theirs was handled. */
export const HTTP_POOL_SIZE = 8
/**
 * Connections of all workers together: pools, one more for each relay's leases and one for notifications, and one for
 * the notifications of each worker of the queue and of local consumers.
 */
export const MOST_CONNECTIONS =
  2 * (RELAY_POOL_SIZE + 2) +
  2 * CONSUMER_POOL_SIZE +
  2 * (QUEUE_POOL_SIZE + 1) +
  2 * (LOCAL_POOL_SIZE + 1) +
  2 * HTTP_POOL_SIZE +
  2 * PRODUCER_POOL_SIZE +
  2
