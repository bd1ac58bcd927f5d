/** Something that has not moved while the database and the broker were well. */
export interface Standstill {
  readonly check: 'standstill' | 'http standstill'
  readonly ms: number
  /** The message that did not move, by its table and its number; or the HTTP request. */
  readonly what: string
  /** One sentence. */
  readonly text: string
}
