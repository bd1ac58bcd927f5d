declare const bound: unique symbol

/**
 * A caller's open transaction, recognized and checked. Opaque to features: only the database that created the session
 * can read it.
 */
export interface Session {
  readonly [bound]: true
}
