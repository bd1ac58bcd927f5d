/** Encrypts stored responses: their status, headers and body. Both functions may be asynchronous, and have `timeoutMs`. */
export interface Seal {
  /** Runs in the transaction of the handler: what it throws rolls back, and the answer is 500. */
  seal(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>
  /** Throws if the bytes were not sealed with a known key: the answer is 500. If `open` takes too long, the answer is 503. */
  open(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>
}
