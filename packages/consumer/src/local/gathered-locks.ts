import type { Session } from '@txbox/core'
import type { LocalRow } from '@txbox/core/ports'

interface Gathering {
  readonly rows: LocalRow[]
  readonly done: Promise<ReadonlySet<LocalRow>>
}

/** Gathers rows of one tick and transaction, so that one statement is for all of them. */
export class GatheredLocks {
  readonly #run: (session: Session, rows: readonly LocalRow[]) => Promise<readonly LocalRow[]>
  readonly #gathering = new WeakMap<Session, Gathering>()

  /** @param run runs the statement. @returns those of the given objects whose rows it has found. */
  constructor(run: (session: Session, rows: readonly LocalRow[]) => Promise<readonly LocalRow[]>) {
    this.#run = run
  }

  /** @returns whether the statement has found the row. If it fails, the calls of all its rows reject. */
  async add(session: Session, row: LocalRow): Promise<boolean> {
    let gathering = this.#gathering.get(session)
    if (gathering === undefined) {
      const rows: LocalRow[] = []
      gathering = { rows, done: this.#afterThisTick(session, rows) }
      this.#gathering.set(session, gathering)
    }
    gathering.rows.push(row)
    return (await gathering.done).has(row)
  }

  async #afterThisTick(session: Session, rows: readonly LocalRow[]): Promise<ReadonlySet<LocalRow>> {
    await Promise.resolve()
    this.#gathering.delete(session)
    return new Set(await this.#run(session, rows))
  }
}
