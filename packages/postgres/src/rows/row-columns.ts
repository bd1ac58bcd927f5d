/* The types of PostgreSQL have names and modifiers; those of MySQL and MariaDB have attributes in the catalog. */
import { postgresVersionRange } from '@txbox/core/internal'
import type { ColumnKind, Row, TableColumn } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { quotedName } from '../connection/identifiers.ts'
import { rowStatements } from './row-statements.ts'

const KINDS: Readonly<Record<string, ColumnKind>> = {
  ...{ int2: 'integer', int4: 'integer', int8: 'integer', oid: 'integer', numeric: 'decimal' },
  ...{ float4: 'float', float8: 'float', bool: 'boolean', json: 'json', jsonb: 'json', bytea: 'bytes' },
  ...{ timestamptz: 'instant', timestamp: 'instant' },
}

/** A column with the name of its type, without that of a domain. */
export interface PostgresColumn extends TableColumn {
  readonly type: string
}

export function tableColumn(row: Row): PostgresColumn {
  const type = columns.flag(row, 'is_known') ? columns.text(row, 'type') : ''
  return {
    name: columns.text(row, 'name'),
    type,
    kind: KINDS[type] ?? 'text',
    range: postgresVersionRange(type, columns.number(row, 'modifier')),
  }
}

const OF_CATALOG = { doing: 'reading the columns of a table' }

/** The expression by which a column is read as text. */
export function expressionOf({ name, kind, type }: TableColumn & { readonly type?: string }): string {
  const column = quotedName(OF_CATALOG, name)
  if (kind === 'bytes') return rowStatements.hex(column)
  if (kind === 'float') return rowStatements.double(column)
  if (kind === 'instant') return rowStatements.milliseconds(column)
  return type === 'date' ? rowStatements.day(column) : rowStatements.text(column)
}

/** Converts a value as the statement returns it to the text from which the value of the program is made. */
export function textOf(kind: ColumnKind, value: unknown): string | null {
  if (typeof value !== 'string') return null
  return kind === 'float' ? String(Buffer.from(value, 'hex').readDoubleBE()) : value
}
