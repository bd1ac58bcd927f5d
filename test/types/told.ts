/** What `InTransaction` makes of a pool or a root: the sentence that the compiler shows. */
export type PoolOrRootSentence = {
  readonly 'txbox: this is a pool or a root; pass the open transaction': never
}
/** What `InTransaction` makes of everything else that is no transaction. */
export type UnknownSentence = { readonly 'txbox: no transaction handle that it knows': never }
