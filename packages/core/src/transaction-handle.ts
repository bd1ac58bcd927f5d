/*
 * The types that a caller may pass as an open transaction, recognized by their structure. No library's types are
 * imported, because types of a library that is not installed would silently become `any`. Where types distinguish a
 * pool or a root from a transaction, passing a pool or a root does not compile.
 */
// oxlint-disable typescript/no-unsafe-function-type -- only that a member is a function matters

export interface KyselyTransactionLike {
  readonly isTransaction: true
  getExecutor(): unknown
}
export interface PgClientLike {
  query(sql: string, values?: unknown[]): Promise<unknown>
  escapeIdentifier(s: string): string
  readonly totalCount?: never
}
export interface Mysql2ConnectionLike {
  execute: Function
  beginTransaction: Function
  threadId: unknown
  readonly getConnection?: never
  /** A connection of the `mariadb` connector has this method. txbox does not know that library. */
  readonly batch?: never
}

/** An open transaction of a library that txbox knows. */
export type TransactionHandle = KyselyTransactionLike | PgClientLike | Mysql2ConnectionLike

type PoolOrRoot =
  | { getConnection: unknown }
  | { totalCount: number }
  | { $transaction: unknown }
  | { isTransaction: false }

/** Turns a value that is not a transaction handle into a type error with one readable sentence. */
export type InTransaction<H> = H extends PoolOrRoot
  ? { readonly 'txbox: this is a pool or a root; pass the open transaction': never }
  : H extends TransactionHandle
    ? unknown
    : { readonly 'txbox: no transaction handle that it knows': never }

/** The type of the transactions that a root opens. */
export type TransactionOf<D> =
  // Kysely
  D extends { transaction(): { execute<T>(work: (tx: infer Tx) => Promise<T>): Promise<T> } }
    ? Tx
    : // a mysql2 promise pool, not one of the `mariadb` connector; tested before `connect`, which this pool has too
      D extends { getConnection(): Promise<infer C>; readonly batch?: never }
      ? C
      : // pg.Pool (an overload pair)
        D extends { connect: { (): Promise<infer C>; (cb: never): void } }
        ? C
        : never
