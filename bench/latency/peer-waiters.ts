import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { PgBoss } from 'pg-boss'
import type { BenchDatabase } from '../postgres/bench-database.ts'
import { anyOrder } from '../order-message.ts'
import type { Waiter } from './waiter.ts'

const silent = new Logger(() => () => undefined)

/** pg-boss and Graphile Worker, as they come. */
export function peerWaiters(database: BenchDatabase): readonly Waiter[] {
  return [pgBoss(database), graphileWorker(database)]
}

function pgBoss({ url }: BenchDatabase): Waiter {
  return {
    name: 'pg-boss',
    async start(got) {
      const boss = await new PgBoss({ connectionString: url, schema: 'wait_pg_boss' }).start()
      boss.on('error', (error) => console.error(error))
      await boss.createQueue('orders')
      await boss.work('orders', async (jobs) => jobs.forEach(got))
      return {
        async send() {
          await boss.send('orders', anyOrder().payload)
        },
        stop: () => boss.stop(),
      }
    },
  }
}

function graphileWorker({ url }: BenchDatabase): Waiter {
  const preset = { worker: { connectionString: url, schema: 'wait_graphile', logger: silent } }
  return {
    name: 'Graphile Worker',
    async start(got) {
      const runner = await run({ preset, noHandleSignals: true, taskList: { order: async () => got() } })
      const utils = await makeWorkerUtils({ preset })
      return {
        async send() {
          await utils.addJob('order', anyOrder().payload)
        },
        async stop() {
          await runner.stop()
          await utils.release()
        },
      }
    },
  }
}
