import { globSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { dedupLeaseStatements as mysqlDedupLeases } from '../../packages/mysql/src/dedup/dedup-lease-statements.ts'
import * as mysqlDeadLetter from '../../packages/mysql/src/operate/dead-letter-statements.ts'
import * as mysqlGarbage from '../../packages/mysql/src/operate/garbage-statements.ts'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'
import * as mysqlInbox from '../../packages/mysql/src/inbox/inbox-statements.ts'
import * as mysqlInspection from '../../packages/mysql/src/operate/inspection-statements.ts'
import * as mysqlLocalInspection from '../../packages/mysql/src/operate/local-inspection-statements.ts'
import * as mysqlRemoval from '../../packages/mysql/src/operate/removal-statements.ts'
import * as mysqlLease from '../../packages/mysql/src/relay/lease-statements.ts'
import * as mysqlLocal from '../../packages/mysql/src/local/local-statements.ts'
import * as mysqlLocalParked from '../../packages/mysql/src/local/local-parked-statements.ts'
import { lockWaitStatements } from '../../packages/mysql/src/inbox/lock-wait-statements.ts'
import * as mysqlMigration from '../../packages/mysql/src/tables/migration-statements.ts'
import * as mysqlOutbox from '../../packages/mysql/src/outbox/outbox-statements.ts'
import * as mysqlParked from '../../packages/mysql/src/relay/parked-statements.ts'
import * as mysqlQueueAttempt from '../../packages/mysql/src/queue/queue-attempt-statements.ts'
import * as mysqlQueuePurge from '../../packages/mysql/src/queue/queue-purge-statements.ts'
import * as mysqlQueueReceive from '../../packages/mysql/src/queue/queue-receive-statements.ts'
import * as mysqlQueue from '../../packages/mysql/src/queue/queue-statements.ts'
import * as mysqlRelay from '../../packages/mysql/src/relay/relay-statements.ts'
import * as mysqlSession from '../../packages/mysql/src/connection/session-statements.ts'
import { shortTransactionStatements } from '../../packages/mysql/src/connection/short-transaction-statements.ts'
import { subscriptionStatements as mysqlSubscriptions } from '../../packages/mysql/src/local/subscription-statements.ts'
import {
  withTimeLimit,
  withoutRowLimit,
  withoutSafeUpdates,
} from '../../packages/mysql/src/connection/time-limit-statements.ts'
import * as mysqlVersions from '../../packages/mysql/src/versions/version-buffer-statements.ts'
import { deadLetterStatements } from '../../packages/postgres/src/operate/dead-letter-statements.ts'
import { dedupLeaseStatements } from '../../packages/postgres/src/dedup/dedup-lease-statements.ts'
import { garbageStatements } from '../../packages/postgres/src/operate/garbage-statements.ts'
import { inboxStatements } from '../../packages/postgres/src/inbox/inbox-statements.ts'
import { inspectionStatements } from '../../packages/postgres/src/operate/inspection-statements.ts'
import { localInspectionStatements } from '../../packages/postgres/src/operate/local-inspection-statements.ts'
import { removalStatements } from '../../packages/postgres/src/operate/removal-statements.ts'
import { leaseStatements } from '../../packages/postgres/src/relay/lease-statements.ts'
import { listenStatements } from '../../packages/postgres/src/listen/listen-statements.ts'
import { localParkedStatements } from '../../packages/postgres/src/local/local-parked-statements.ts'
import { localStatements } from '../../packages/postgres/src/local/local-statements.ts'
import { migrationStatements } from '../../packages/postgres/src/tables/migration-statements.ts'
import { MIGRATIONS } from '../../packages/postgres/src/tables/migrations.gen.ts'
import { notifyStatements } from '../../packages/postgres/src/notify/notify-statements.ts'
import { outboxStatements } from '../../packages/postgres/src/outbox/outbox-statements.ts'
import {
  ownTransactionStatements,
  together,
} from '../../packages/postgres/src/connection/own-transaction-statements.ts'
import { parkedStatements } from '../../packages/postgres/src/relay/parked-statements.ts'
import { queueReceiveStatements } from '../../packages/postgres/src/queue/queue-receive-statements.ts'
import { queueStatements } from '../../packages/postgres/src/queue/queue-statements.ts'
import { relayStatements } from '../../packages/postgres/src/relay/relay-statements.ts'
import { sessionStatements } from '../../packages/postgres/src/connection/session-statements.ts'
import { subscriptionStatements } from '../../packages/postgres/src/local/subscription-statements.ts'
import { versionBufferStatements } from '../../packages/postgres/src/versions/version-buffer-statements.ts'
import { hiddenStatements } from '../../packages/sql/src/transactions/drivers/hidden-statements.ts'
import { mysql2Statements } from '../../packages/sql/src/transactions/drivers/mysql2-statements.ts'
import { pgStatements } from '../../packages/sql/src/transactions/drivers/pg-statements.ts'
import { connectionStatements } from '../../packages/sql/src/transactions/connection-statements.ts'
import { savepointStatements } from '../../packages/sql/src/transactions/savepoint-statements.ts'
import { PARTS_OF_OPERATING } from './golden-parts.ts'

type Statement = string | ((...parts: never[]) => string)
type Areas = Record<string, Readonly<Record<string, Statement>>>

/** The statements of a database, by area and name, on the tables of a schema or prefix. */
const databases: Record<string, (where: string) => Areas> = {
  postgres: (where) => {
    const schema = `"${where}"`
    return {
      inbox: inboxStatements(schema),
      outbox: outboxStatements(schema),
      relay: relayStatements(schema),
      parked: parkedStatements(schema),
      local: localStatements(schema),
      'local-parked': localParkedStatements(schema),
      subscription: subscriptionStatements(schema),
      queue: queueStatements(schema),
      'queue-receive': queueReceiveStatements(schema),
      'dead-letter': deadLetterStatements(schema),
      'queue-dead-letter': deadLetterStatements(schema, 'queue'),
      'local-dead-letter': deadLetterStatements(schema, 'local_parked'),
      'local-inspection': localInspectionStatements(schema),
      removal: removalStatements(schema),
      'dedup-lease': dedupLeaseStatements(schema),
      lease: leaseStatements(schema),
      garbage: garbageStatements(schema),
      inspection: inspectionStatements(schema),
      'version-buffer': versionBufferStatements(schema),
      migration: migrationStatements(schema),
      listen: listenStatements,
      notify: notifyStatements,
      session: sessionStatements,
      savepoint: savepointStatements,
      connection: connectionStatements,
      transaction: pgStatements,
      hidden: hiddenStatements,
      'own-transaction': { ...ownTransactionStatements, together },
    }
  },
  mysql: (where) => onMysql(where, 'mysql'),
  mariadb: (where) => onlyOther(onMysql(where, 'mariadb'), onMysql(where, 'mysql')),
}
const DEFAULT: Record<string, string> = { postgres: 'txbox', mysql: 'txbox_', mariadb: 'txbox_' }

function onMysql(where: string, engine: 'mysql' | 'mariadb'): Areas {
  const tables = tablesOf('golden', where)
  const leases = mysqlLease.leaseStatements(tables)
  return {
    inbox: mysqlInbox.inboxStatements(tables, engine),
    outbox: mysqlOutbox.outboxStatements(tables),
    relay: mysqlRelay.relayStatements(tables, engine),
    parked: mysqlParked.parkedStatements(tables),
    local: mysqlLocal.localStatements(tables, engine),
    'local-parked': mysqlLocalParked.localParkedStatements(tables, engine),
    subscription: mysqlSubscriptions(tables),
    queue: mysqlQueue.queueStatements(tables),
    'queue-receive': mysqlQueueReceive.queueReceiveStatements(tables, engine),
    'queue-attempt': mysqlQueueAttempt.queueAttemptStatements(tables),
    'queue-purge': mysqlQueuePurge.queuePurgeStatements(tables, engine),
    'dead-letter': mysqlDeadLetter.deadLetterStatements(tables, engine),
    'queue-dead-letter': mysqlDeadLetter.queueDeadLetterStatements(tables, engine),
    'local-dead-letter': mysqlDeadLetter.localDeadLetterStatements(tables, engine),
    'local-inspection': mysqlLocalInspection.localInspectionStatements(tables),
    removal: mysqlRemoval.removalStatements(tables, engine),
    'dedup-lease': mysqlDedupLeases(tables),
    lease: leases,
    garbage: mysqlGarbage.garbageStatements(tables, engine),
    inspection: mysqlInspection.inspectionStatements(tables),
    migration: mysqlMigration.migrationStatements(tables),
    'version-buffer': mysqlVersions.versionBufferStatements(tables),
    session: mysqlSession.sessionStatements,
    savepoint: savepointStatements,
    connection: connectionStatements,
    transaction: mysql2Statements,
    'short-transaction': shortTransactionStatements,
    'lock-wait': lockWaitStatements,
    'time-limit': {
      read: withTimeLimit(leases.holders, engine, 5000),
      write: withTimeLimit(leases.sweep, engine, 5000),
      unlimited: withoutRowLimit(leases.holders, engine),
      unlimitedWrite: withoutSafeUpdates(leases.sweep, engine),
    },
  }
}

/** The room of the statements in the package of the database, unless it has the name of the area. */
const ROOMS: Readonly<Record<string, string>> = {
  'dead-letter': 'operate',
  'dedup-lease': 'dedup',
  garbage: 'operate',
  hidden: 'connection',
  inspection: 'operate',
  lease: 'relay',
  'local-dead-letter': 'operate',
  'local-inspection': 'operate',
  'local-parked': 'local',
  'lock-wait': 'inbox',
  migration: 'tables',
  'own-transaction': 'connection',
  parked: 'relay',
  'queue-attempt': 'queue',
  'queue-dead-letter': 'operate',
  'queue-purge': 'queue',
  'queue-receive': 'queue',
  removal: 'operate',
  savepoint: 'connection',
  session: 'connection',
  subscription: 'local',
  'short-transaction': 'connection',
  'time-limit': 'connection',
  transaction: 'connection',
  'version-buffer': 'versions',
}

/**
 * The parts with which the approved text of a statement is made that depends on how many rows, conditions or branches there
 * are, or on a number that no parameter can hold. A name stands for another statement of the area.
 */
const PARTS: Record<string, readonly unknown[]> = {
  'hidden.onlyInTransaction': ['select 1'],
  'hidden.setLevel': ['serializable'],
  'inbox.claimBatch': [['claimBatchRow', 'claimBatchRow']],
  'inbox.claimBatchWith': [['claimBatchWithRow', 'claimBatchWithRow']],
  'lock-wait.within': ['select 1', 0],
  'outbox.append': [['appendRow', 'appendRow']],
  'outbox.appendLocked': [['appendLockedRow', 'appendRow']],
  'outbox.appendLocal': [
    ['localMessage', 'localMessage'],
    ['registeredSubscribers', 'givenSubscriber'],
    ['routed'],
  ],
  'outbox.schedule': [['scheduleRow']],
  'outbox.scheduleLocal': [['scheduledLocalMessage'], ['givenSubscriber'], []],
  'local-parked.nextOfAll': [['next', 'next']],
  'local-parked.readAllOnward': [['readOnward', 'readOnward']],
  'local-parked.blockedOfAll': [['blocked', 'blocked']],
  'lease.seed': [['seedRow', 'seedRow']],
  'lease.renew': [['heldRow', 'heldRow']],
  'lease.held': [['heldRow', 'heldRow']],
  'lease.release': [['heldRow', 'heldRow']],
  'lease.releaseCutOff': [['heldRow', 'heldRow'], ['heldRow']],
  ...PARTS_OF_OPERATING,
  'parked.nextOfAll': [['next', 'next']],
  'parked.readAllOnward': [['readOnward', 'readOnward']],
  'queue.send': [['sendRow', 'sendRow']],
  'queue.schedule': [['scheduleRow']],
  'queue.holdValid': [['pair', 'pair']],
  'queue.settle': [['pair', 'pair']],
  'queue.settleUnordered': [['pair', 'pair']],
  'queue.settleHeld': [['pair', 'pair']],
  'queue.settleHeldUnordered': [['pair', 'pair']],
  'queue.find': [['pair', 'pair']],
  'queue-receive.ready': [['shardRows', 'readyShard']],
  'queue-receive.seedShards': [['seedShard', 'seedShard']],
  'relay.work': [['onServer', 'hasBacklog', 'hasDue']],
  'savepoint.set': ['txbox_1'],
  'savepoint.release': ['txbox_1'],
  'transaction.limitIdleTime': [60, 'read committed'],
  'transaction.limitStatements': [4500],
  'own-transaction.limitStatement': [4500],
  'own-transaction.together': [['begin', 'limitIdleTime']],
  'short-transaction.limit': [4],
  'short-transaction.kill': [42],
  'listen.listen': ['txbox_outbox_1'],
  'listen.alive': ['txbox_outbox_1'],
}

/** One row or one condition: part of the approved text of the statements in `PARTS`, and no SQL on its own. */
const FRAGMENT = /^\s*(?:\(\?|\(name|\(\(select|and\b)/

/** The text of a statement. */
function textOf(area: string, name: string, statements: Areas[string]): string {
  const statement = statements[name]!
  if (typeof statement === 'string') return statement
  const parts = PARTS[`${area}.${name}`]
  if (parts === undefined) throw new Error(`Say in PARTS with which parts ${area}.${name} is approved.`)
  const texts = parts.map((part) =>
    Array.isArray(part) ? part.map((other: string) => textOf(area, other, statements)) : part,
  )
  return statement(...(texts as never[]))
}

/** MariaDB has files for what differs from MySQL: they are the list of the differences. */
function onlyOther(areas: Areas, than: Areas): Areas {
  const differing = Object.entries(areas).map(([area, statements]) => {
    const texts = Object.keys(statements).map((name) => [name, textOf(area, name, statements)] as const)
    return [
      area,
      Object.fromEntries(texts.filter(([name, text]) => textOf(area, name, than[area]!) !== text)),
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
      Object.keys(texts)
        .map(
          (name) => [`${ROOMS[area] ?? area}/${area}.${kebab(name)}.sql`, textOf(area, name, texts)] as const,
        )
        .filter(([, text]) => !FRAGMENT.test(text)),
    )
  const statements = statementsOn(DEFAULT[database]!)

  test.for(statements)('%s is as approved', async ([file, text]) => {
    await expect(`${text.trim()}\n`).toMatchFileSnapshot(path.join(approved, file))
  })

  test('every approved text belongs to an existing statement', () => {
    const files = globSync('*/*.sql', { cwd: approved })
    expect(files.sort()).toEqual(statements.map(([file]) => file).sort())
  })

  test('every statement uses the tables of the configured schema or prefix', () => {
    for (const [name, text] of statementsOn('Else where')) {
      // A question about the server itself names no table of txbox.
      if (!/\b(from|into|update|join)\b/i.test(text)) continue
      if (
        /\/(inspection\.|listen\.|notify\.|migration\.|removal\.(readers|recorded)\.|outbox\.lock-keys\.|relay\.(on-)?server\.)/.test(
          name,
        ) &&
        !text.includes('Else where')
      )
        continue
      expect(text, name).toContain('Else where')
      expect(text, name).not.toMatch(
        /\b(from|into|update|join)\s+["`]?(txbox\b|txbox_|(inbox|(local_)?outbox|(dedup_)?leases|(local_)?parked|queue|redrives|subscriptions|removals|versions|waiting|collections|key_locks|migrations)\b)/i,
      )
    }
  })
})

/** Words before a parenthesis in SQL that are not functions of the search path. */
const SYNTAX = new Set(
  (
    'all and any array as by cast check coalesce conflict copy distinct else exists extract filter from greatest group having identity in ' +
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
      Object.keys(named).map((name) => [`${area}.${name}`, textOf(area, name, named)]),
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
