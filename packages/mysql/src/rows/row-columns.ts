/* The types of MySQL and MariaDB have attributes in the catalog; those of PostgreSQL have names and modifiers. */
import { mysqlVersionRange } from '@txbox/core/internal'
import type { ColumnKind, Row, TableColumn } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { quotedColumn } from '../connection/identifiers.ts'
import { rowStatements } from './row-statements.ts'

const TEXTS = /text|char|enum|set|date|time|year|json/

const KINDS: Readonly<Record<string, ColumnKind>> = {
  ...{ tinyint: 'integer', smallint: 'integer', mediumint: 'integer', int: 'integer', bigint: 'integer' },
  ...{ bit: 'integer', decimal: 'decimal', float: 'float', double: 'float', json: 'json' },
  ...{ datetime: 'instant', timestamp: 'instant' },
}

/** A column with the name of its type. */
export interface MysqlColumn extends TableColumn {
  readonly type: string
}

export function tableColumn(row: Row): MysqlColumn {
  const type = columns.text(row, 'type').toLowerCase()
  const kind = columns.flag(row, 'is_json') ? 'json' : (KINDS[type] ?? (TEXTS.test(type) ? 'text' : 'bytes'))
  const size = { precision: columns.number(row, 'digits'), scale: columns.number(row, 'scale') }
  const range = mysqlVersionRange(type, columns.text(row, 'declared'), size)
  return { name: columns.key(row, 'name'), type, kind, range }
}

const OF_CATALOG = { doing: 'reading the columns of a table' }

/** The expression by which a column is read. */
export function expressionOf({ name, kind, type }: TableColumn & { readonly type?: string }): string {
  const column = quotedColumn(OF_CATALOG, name)
  if (kind === 'bytes') return rowStatements.hex(column)
  if (type === 'bit') return rowStatements.bits(column)
  if (kind === 'float') return rowStatements.double(column)
  return isInHex(kind) ? rowStatements.text(column) : rowStatements.digits(column)
}

/** Converts a value as the statement returns it to the text from which the value of the program is made. */
export function textOf(kind: ColumnKind, row: Row, name: string): string | null {
  if (!columns.has(row, name)) return null
  if (isInHex(kind)) return columns.key(row, name)
  const text = columns.text(row, name)
  return kind === 'instant' ? milliseconds(text) : text
}

function isInHex(kind: ColumnKind): boolean {
  return kind === 'text' || kind === 'json'
}

/** A DATETIME contains UTC. The date of zeros is no instant, and stays text. */
function milliseconds(text: string): string {
  const ms = Date.parse(`${text.slice(0, 23).replace(' ', 'T')}Z`)
  return Number.isNaN(ms) ? text : String(ms)
}
