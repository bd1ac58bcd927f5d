import { readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { tablesOf } from '../../packages/mysql/src/identifiers.ts'
import * as mysqlDeadLetter from '../../packages/mysql/src/dead-letter-statements.ts'
import * as mysqlGarbage from '../../packages/mysql/src/garbage-statements.ts'
import * as mysqlInbox from '../../packages/mysql/src/inbox-statements.ts'
import * as mysqlInspection from '../../packages/mysql/src/inspection-statements.ts'
import * as mysqlLease from '../../packages/mysql/src/lease-statements.ts'
import * as mysqlMigration from '../../packages/mysql/src/migration-statements.ts'
import * as mysqlOutbox from '../../packages/mysql/src/outbox-statements.ts'
import * as mysqlParked from '../../packages/mysql/src/parked-statements.ts'
import * as mysqlRelay from '../../packages/mysql/src/relay-statements.ts'
import { deadLetterStatements } from '../../packages/postgres/src/dead-letter-statements.ts'
import { garbageStatements } from '../../packages/postgres/src/garbage-statements.ts'
import * as mysqlVersions from '../../packages/mysql/src/version-buffer-statements.ts'
import { inboxStatements } from '../../packages/postgres/src/inbox-statements.ts'
import { inspectionStatements } from '../../packages/postgres/src/inspection-statements.ts'
import { leaseStatements } from '../../packages/postgres/src/lease-statements.ts'
import { MIGRATIONS } from '../../packages/postgres/src/migrations.gen.ts'
import { outboxStatements } from '../../packages/postgres/src/outbox-statements.ts'
import { parkedStatements } from '../../packages/postgres/src/parked-statements.ts'
import { relayStatements } from '../../packages/postgres/src/relay-statements.ts'
import { versionBufferStatements } from '../../packages/postgres/src/version-buffer-statements.ts'

type Areas = Record<string, Readonly<Record<string, string>>>

/** The statements of a database, by area and name, on the tables of a schema or prefix. */
const databases: Record<string, (where: string) => Areas> = {
  postgres: (where) => {
    const schema = `"${where}"`
    return {
      inbox: inboxStatements(schema),
      outbox: outboxStatements(schema),
      relay: relayStatements(schema),
      parked: parkedStatements(schema),
      'dead-letter': deadLetterStatements(schema),
      lease: leaseStatements(schema),
      garbage: garbageStatements(schema),
      inspection: inspectionStatements(schema),
      'version-buffer': versionBufferStatements(schema),
    }
  },
  mysql: (where) => onMysql(where, 'mysql'),
  mariadb: (where) => onlyOther(onMysql(where, 'mariadb'), onMysql(where, 'mysql')),
}
const DEFAULT: Record<string, string> = { postgres: 'txbox', mysql: 'txbox_', mariadb: 'txbox_' }

function onMysql(where: string, engine: 'mysql' | 'mariadb'): Areas {
  const tables = tablesOf('golden', where)
  return {
    inbox: mysqlInbox.inboxStatements(tables, engine),
    outbox: mysqlOutbox.outboxStatements(tables),
    relay: mysqlRelay.relayStatements(tables, engine),
    parked: mysqlParked.parkedStatements(tables),
    'dead-letter': mysqlDeadLetter.deadLetterStatements(tables, engine),
    lease: mysqlLease.leaseStatements(tables),
    garbage: mysqlGarbage.garbageStatements(tables, engine),
    inspection: mysqlInspection.inspectionStatements(tables),
    migration: mysqlMigration.migrationStatements(tables),
    'version-buffer': mysqlVersions.versionBufferStatements(tables),
  }
}

/** MariaDB has files for what differs from MySQL: they are the list of the differences. */
function onlyOther(areas: Areas, than: Areas): Areas {
  const differing = Object.entries(areas).map(([area, texts]) => {
    return [
      area,
      Object.fromEntries(Object.entries(texts).filter(([name, text]) => than[area]?.[name] !== text)),
    ]
  })
  return Object.fromEntries(differing) as Areas
}

/**
 * Every statement has an approved text, so that a change of SQL is a diff that a reviewer sees. After a change that is
 * meant: `vitest run --project unit -u`.
 */
describe.each(Object.keys(databases))('%s', (database) => {
  const approved = path.join(import.meta.dirname, '..', 'golden', database)
  const statementsOn = (where: string): (readonly [string, string])[] =>
    Object.entries(databases[database]!(where)).flatMap(([area, texts]) =>
      Object.entries(texts).map(([name, text]) => [`${area}.${kebab(name)}.sql`, text] as const),
    )
  const statements = statementsOn(DEFAULT[database]!)

  test.for(statements)('%s is as approved', async ([file, text]) => {
    await expect(`${text.trim()}\n`).toMatchFileSnapshot(path.join(approved, file))
  })

  test('no approved text is left of a statement that is gone', () => {
    expect(readdirSync(approved).sort()).toEqual(statements.map(([file]) => file).sort())
  })

  test('every statement is on the tables of the schema or prefix that it is given', () => {
    for (const [name, text] of statementsOn('Else where')) {
      // A part of another statement names no table, and what asks the server itself names none of ours.
      if (name.endsWith('-row.sql') || !/\b(from|into|update|join)\b/i.test(text)) continue
      if (/^(inspection\.|migration\.|relay\.(on-)?server\.)/.test(name) && !text.includes('Else where'))
        continue
      expect(text, name).toContain('Else where')
      expect(text, name).not.toMatch(
        /\b(from|into|update|join)\s+["`]?(txbox\b|txbox_|(inbox|outbox|leases|parked|redrives|versions|waiting|collections|migrations)\b)/i,
      )
    }
  })
})

/** What may stand before a parenthesis in our SQL and is no function that the search path finds. */
const SYNTAX = new Set(
  (
    'and any array as by cast check coalesce conflict copy distinct exists extract filter from greatest group having identity in ' +
    'join key lateral least limit materialized not nullif on or order over partition returning select set stdout then union using values ' +
    'when where with'
  ).split(' '),
)

/** The functions that a text calls by their bare name. */
function unqualifiedIn(text: string): string[] {
  const code = text.replaceAll(/--.*$/gm, '').replaceAll(/'(?:[^']|'')*'/g, "''")
  const ownNames = new Set(
    [...code.matchAll(/([a-z_]\w*) \([\w, ]*\) as (?:materialized )?\(/g)].map(([, name]) => name),
  )
  return [...code.matchAll(/(?<![.\w$"])(?<!\bas )([a-z_]\w*)\s*\(/gi)]
    .map(([, name]) => name!.toLowerCase())
    .filter((name) => !SYNTAX.has(name) && !ownNames.has(name))
}

/**
 * A function of the same name in a schema of the search path, with arguments that fit better, would run with the rights of
 * the relay or of the migrating role.
 */
describe('PostgreSQL functions are qualified', () => {
  const areas = databases['postgres']!('txbox')
  const texts = [
    ...Object.entries(areas).flatMap(([area, named]) =>
      Object.entries(named).map(([name, text]) => [`${area}.${name}`, text]),
    ),
    ...MIGRATIONS.map(({ name, sql }) => [name, sql]),
  ] as [string, string][]

  test.for(texts)('in %s', ([, text]) => {
    expect(unqualifiedIn(text)).toEqual([])
  })

  test('an unqualified call is found', () => {
    expect(unqualifiedIn("select unnest($1::text[]), 'now()', pg_catalog.now() from a as b (c)")).toEqual([
      'unnest',
    ])
  })
})

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}
