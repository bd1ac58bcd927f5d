import type { Session } from '@txbox/core'
import type { ColumnValues, RowChange, RowCondition, RowStore, UserRow } from '@txbox/core/ports'
import { RowByKey } from '../rules/row-by-key.ts'
import { checkedInsert as checkedKeyOfInsert, setEntries } from '../rules/set-option.ts'
import { assertVersionsFit } from '../rules/version-range.ts'
import { InvalidOptionError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { columnValues } from './column-values.ts'

/** A row of the user by its key, before a transaction is known: all of its options are checked. */
export class TableRow extends RowByKey<RowCondition> implements UserRow {
  declare readonly key: ColumnValues
  readonly rows: RowStore
  #session: Session | undefined

  /** @throws {InvalidOptionError} when the table has no name, or the key is empty or contains a value that is not plain. */
  constructor(where: string, rows: RowStore, table: string, key: unknown) {
    super(where, table, key)
    this.rows = rows
    // A Date of another realm becomes one of this realm.
    Object.assign(this, { key: columnValues(this, 'where', Object.entries(this.key)) })
  }

  /** The row in an open transaction, in which it is read and written from now on. */
  in(session: Session): this {
    this.#session = session
    return this
  }

  /**
   * @param managed the column that txbox writes itself.
   * @throws {InvalidOptionError} when `set` is not an object of values, or names the managed column or a column of the key.
   */
  checkedSet(set: unknown, managed: string): ColumnValues {
    const values = columnValues({ doing: this.where }, 'set', setEntries(this.where, set, managed))
    const inKey = Object.keys(values).find((column) => Object.hasOwn(this.key, column))
    if (inKey === undefined) return values
    throw new InvalidOptionError(
      `${this.where}: 'set' must not contain '${oneLine(inKey)}', a column of 'where': the row would get another key. Nothing was written.`,
    )
  }

  /** @throws {InvalidOptionError} when `insert` is not an object of values, or has another key than the row. */
  checkedInsert(insert: unknown, managed: string): ColumnValues {
    if (typeof insert !== 'object' || insert === null || Array.isArray(insert)) {
      throw new InvalidOptionError(`${this.doing}: 'insert' must be an object of columns and values.`)
    }
    checkedKeyOfInsert(this, insert)
    // txbox sets these columns.
    const others = Object.entries(insert).filter(
      ([column]) => column !== managed && !Object.hasOwn(this.key, column),
    )
    return columnValues(this, 'insert', others)
  }

  /** @returns whether the row was written, and its version if the database returns it. */
  async update(change: RowChange): Promise<{ written: boolean; found: string | undefined }> {
    const { count, found } = await this.rows.update(this.session, this, change)
    if (count > 1) throw this.ambiguous()
    return { written: count > 0, found }
  }

  async delete(condition: RowCondition): Promise<boolean> {
    const count = await this.rows.delete(this.session, this, condition)
    if (count > 1) throw this.ambiguous()
    return count > 0
  }

  /** @throws {InvalidMessageError} when the column cannot hold the versions. */
  assertFits(column: string, ...versions: readonly bigint[]): Promise<void> {
    return assertVersionsFit(this, column, versions, (options) =>
      this.rows.rangeOf(this.session, this, column, options),
    )
  }

  get session(): Session {
    if (this.#session === undefined) throw new Error('A row is read and written in a transaction.')
    return this.#session
  }

  protected look(condition: RowCondition): Promise<readonly (string | null)[]> {
    return this.rows.look(this.session, this, condition)
  }
}
