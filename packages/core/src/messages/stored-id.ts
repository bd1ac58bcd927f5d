/** The result of publishing or sending a message. */
export interface StoredId {
  /** The id of the stored message; for a duplicate, the id of the first message. */
  readonly id: string
  /** A message with the same deduplication id was stored before, so this message was not. Only with `deduplication`. */
  readonly duplicate: boolean
}
