import type { Session } from '@txbox/core'
import type { VersionRange } from '@txbox/core/ports'
import type { ColumnKind } from './column-values.ts'

export interface TableColumn {
  readonly name: string
  readonly kind: ColumnKind
  /** Present for columns that can hold a version. */
  readonly range?: VersionRange | undefined
}

type Columns = readonly TableColumn[]

/** Remembers the columns of tables. Tables can be altered while the program runs. */
export class TableCatalog {
  readonly #tables = new Map<string, Columns>()
  readonly #ask: (session: Session, table: string) => Promise<Columns>

  constructor(ask: (session: Session, table: string) => Promise<Columns>) {
    this.#ask = ask
  }

  /** @param again whether the server is asked even if it was asked before. */
  async columnsOf(session: Session, table: string, { again }: { again: boolean }): Promise<Columns> {
    const known = again ? undefined : this.#tables.get(table)
    if (known !== undefined) return known
    const columns = await this.#ask(session, table)
    // A table that does not exist may be created.
    if (columns.length > 0) this.#tables.set(table, columns)
    return columns
  }

  /** Runs a statement that names the known columns. After an error, the server is asked again: a column may have been dropped. */
  async forgettingOnError<R>(table: string, work: () => Promise<R>): Promise<R> {
    try {
      return await work()
    } catch (error) {
      this.#tables.delete(table)
      throw error
    }
  }

  async rangeOf(
    session: Session,
    table: string,
    column: string,
    options: { again: boolean },
  ): Promise<VersionRange | undefined> {
    const columns = await this.columnsOf(session, table, options)
    return columns.find(({ name }) => name === column)?.range
  }
}
