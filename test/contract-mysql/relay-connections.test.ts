import { Kysely, MysqlDialect } from 'kysely'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { portsKey } from '@txbox/core'
import type { ConnectedPorts, Lease, RelayStore, OutboxSettlement } from '@txbox/core/ports'
import type { MysqlSession } from '../../packages/mysql/src/connection/session.ts'
import { poolOf } from '../support/engines/mysql-pool.ts'
import { kyselyRoot, mysql2Root } from '../support/engines/mysql-roots.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { refusalOf } from '../support/subjects/settlements.ts'
import { useTarget, type Root } from '../support/engines/target.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const NAME = 'outbox/03'
const lease: Lease = { name: NAME, owner: 'me', term: 7n, crashes: 0, inFlight: undefined }
/** An id that does not exist, and is searched for. */
const refused: OutboxSettlement = {
  accepted: [],
  refused: [refusalOf({ seq: 1n, stamp: 1 }, 60_000)],
  behind: [],
}

/** A pool of one connection that runs through a network which can fail. */
async function remote(library: 'kysely' | 'mysql2', autocommit: 0 | 1) {
  const network = await UnreliableNetwork.to(target.address())
  const url = new URL(outbox.url())
  url.hostname = network.address.host
  url.port = String(network.address.port)
  const pool = poolOf(url.href, { connectionLimit: 1 }, [`set session autocommit = ${autocommit}`])
  const root: Root =
    library === 'mysql2'
      ? mysql2Root(pool, {}, 'promise')
      : kyselyRoot(new Kysely({ dialect: new MysqlDialect({ pool }) }), {})
  onTestFinished(async () => {
    await network.close()
    await root.close()
  })
  const ports = (root.database as unknown as Record<symbol, ConnectedPorts>)[portsKey]!
  return { network, root, ports, relay: ports.relay({ statementTimeoutMs: 300 }) }
}

const statements: Readonly<Record<string, (relay: RelayStore) => Promise<unknown>>> = {
  'one statement': (relay) => relay.work([3]),
  'a transaction': (relay) => relay.settle(lease, 3, refused),
}

beforeEach(() =>
  target.sql(
    "insert into txbox_leases (name, owner, term, expires_at) values (?, 'me', 7, utc_timestamp(6) + interval 1 hour)",
    [NAME],
  ),
)

for (const library of ['kysely', 'mysql2'] as const) {
  describe.each([1, 0] as const)(`${library}, autocommit = %s`, (autocommit) => {
    test('the autocommit state of a connection is reported correctly', async () => {
      const { root, ports } = await remote(library, autocommit)
      const transaction = await root.begin()
      const { server } = (await ports.bind(transaction.tx)) as MysqlSession
      await transaction.rollback()
      expect(server.autocommit).toBe(autocommit === 1)
    })

    test.for(Object.entries(statements))(
      'O10 a connection that gives no answer to %s is removed from its pool',
      async ([, run]) => {
        const { network, root, relay } = await remote(library, autocommit)
        await run(relay)
        // The only connection is back in its pool, with its original settings.
        await (await root.begin()).rollback()
        network.abandon()
        await expect(run(relay)).rejects.toMatchObject({ code: 'TXBOX_DATABASE_UNAVAILABLE' })
        // The pool has no other connection.
        await run(relay)
      },
    )

    test('a connection returns to its pool with its original settings', async () => {
      const { root, relay } = await remote(library, autocommit)
      const settings = async (): Promise<unknown> => {
        const transaction = await root.begin()
        const rows = await transaction.exec(
          "show session variables where variable_name in ('transaction_isolation', 'tx_isolation', 'autocommit', 'wait_timeout')",
        )
        await transaction.rollback()
        return rows
      }
      const before = await settings()
      for (const run of Object.values(statements)) await run(relay)
      expect(await settings()).toEqual(before)
      expect((await outbox.transactions()).length).toBe(0)
    })
  })
}
