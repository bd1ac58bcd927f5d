import { AsyncLocalStorage } from 'node:async_hooks'
import { NotInTransactionError } from '@txbox/core'

/** A transaction of the box, for as long as its work runs. */
interface Scope {
  readonly tx: object
  isOpen: boolean
}

/** Knows the transaction of the box in which the caller runs. */
export class Ambient {
  /** Each box has its own storage: a transaction of another box is none of this one. */
  readonly #storage = new AsyncLocalStorage<Scope | undefined>()

  /** The open transaction of the caller; `undefined` if there is none. */
  get transaction(): object | undefined {
    const scope = this.#storage.getStore()
    return scope?.isOpen === true ? scope.tx : undefined
  }

  /** Runs work whose calls find the transaction until the work has ended. */
  async inside<R>(tx: unknown, work: () => Promise<R> | R): Promise<R> {
    const scope: Scope = { tx: tx as object, isOpen: true }
    try {
      return await this.#storage.run(scope, work)
    } finally {
      scope.isOpen = false
    }
  }

  /** Runs work whose calls find no transaction, also if it is started inside one. */
  outside<R>(work: () => R): R {
    return this.#storage.run(undefined, work)
  }

  /** @throws {NotInTransactionError} outside of an open transaction of the box. */
  required(where: string): object {
    const tx = this.transaction
    if (tx !== undefined) return tx
    const what =
      this.#storage.getStore() === undefined
        ? 'this call runs in no transaction of the box'
        : 'the transaction of the box in which this call was made has ended'
    throw new NotInTransactionError(
      `${where}: ${what}. Call it inside box.transact(async (tx) => …), or inside a handler with a transaction, and await it there; ` +
        `or pass the open transaction: box.${where}(tx, message). A handler that atLeastOnce has marked has no transaction: use ` +
        'box.transact in it. Nothing was written.',
    )
  }
}
