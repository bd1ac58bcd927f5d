declare const bound: unique symbol

/**
 * A caller's open transaction, recognised and checked. Opaque to features: only the database that bound it can read it.
 */
export interface Session {
  readonly [bound]: true
}
