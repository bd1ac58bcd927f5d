/** The type of a pool or a root as an `InTransaction`: its sentence appears in the compiler's error. */
export type PoolOrRootSentence = {
  readonly 'txbox: this is a pool or a root; pass the open transaction': never
}
/** The type of the option `db` in the overload of `postgres()` and `mysql()` that the compiler's error is about. */
export type NoRootSentence = {
  readonly 'txbox: no pool or root that it knows; pass the root itself, not a client, a transaction or a database of txbox': never
}
/** The type of every other value that is not a transaction. */
export type UnknownSentence = { readonly 'txbox: no transaction handle that it knows': never }
