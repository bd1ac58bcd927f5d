/** Encrypts stored responses. Both functions may be asynchronous. */
export interface Seal {
  seal(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>
  /** Throws if the bytes were not sealed with a known key. */
  open(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>
}
