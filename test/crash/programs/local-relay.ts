// A relay that handles its messages itself, by an inbox in the same process. The effect of a message is a row.
import type { ConnectedDatabase } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import { createRelay, publishEach, type OutboxMessage } from '@txbox/relay'
import { mortalMysqlPool } from './mortal-mysql-pool.ts'
import { configOf, Mortal, report, type ProgramConfig } from './mortal.ts'

export interface LocalRelayConfig extends ProgramConfig {
  readonly owner: string
  readonly leaseMs: number
}

const config = configOf<LocalRelayConfig>()
const mortal = new Mortal(config.fate)

if (config.url.startsWith('mysql:')) {
  await relay(mysql({ db: mortalMysqlPool(mortal, config, 6) }), (tx, name) =>
    tx.query('insert into effects (name) values (?)', [name]),
  )
} else {
  await relay(postgres({ db: mortal.pool(config, 6) }), (tx, name) =>
    tx.query('insert into public.effects (name) values ($1)', [name]),
  )
}

async function relay<Tx extends object>(
  database: ConnectedDatabase<Tx>,
  effect: (tx: Tx, name: string) => Promise<unknown>,
): Promise<void> {
  const inbox = createInbox({ database, consumer: 'local' })
  const inner = publishEach(async (message, { signal }) => {
    const handle = async (tx: Tx): Promise<void> => {
      mortal.reach('before the effect')
      await effect(tx, nameOf(message))
      mortal.reach('after the effect')
    }
    await inbox.run(message, handle, { signal })
    mortal.reach('handled')
  })
  const running = createRelay({
    database,
    publisher: {
      async publish(messages, options) {
        const results = await inner.publish(messages, options)
        mortal.reach('before it settles')
        return results
      },
    },
    ...{ owner: config.owner, leaseMs: config.leaseMs, pollIntervalMs: { min: 2, max: 20 } },
  })
  running.on('error', ({ error }) => report(`error ${String(error)}`))
  await running.start()
  report('started')
}

function nameOf(message: OutboxMessage): string {
  const { key, n } = message.json<{ key: string; n: number }>()
  return `${key}:${n}`
}
