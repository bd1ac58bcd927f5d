import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Drained } from './relay-drains.ts'

/** The work of a process, and where its tables are. The program is queue-process.ts. */
export interface QueueProcess {
  readonly worker:
    | 'byHand'
    | 'graphileWorker'
    | 'once'
    | 'nothing'
    | 'graphileWorkerOfNothing'
    | 'pgBossOfNothing'
  /** The address of the database. */
  readonly url: string
  /** The schema of the queue's tables. */
  readonly schema: string
  /** The schema of the accounts. */
  readonly accounts: string
}

/** Processes that have loaded what they need, and wait for the start. */
export class QueueProcesses {
  readonly #children: readonly ChildProcess[]

  private constructor(children: readonly ChildProcess[]) {
    this.#children = children
  }

  static async start(count: number, config: QueueProcess): Promise<QueueProcesses> {
    const program = new URL('queue-process.ts', import.meta.url)
    const children = Array.from({ length: count }, () => fork(program, [JSON.stringify(config)]))
    await Promise.all(children.map((child) => once(child, 'message')))
    return new QueueProcesses(children)
  }

  /** Handles so many messages in all, from opening the first connection on. */
  async drain(messages: number): Promise<Drained> {
    const finished = Promise.withResolvers<void>()
    let published = 0
    for (const child of this.#children) {
      child.on('message', (handled: number) => {
        published += handled
        if (published >= messages) finished.resolve()
      })
      child.once('exit', (code) => finished.reject(new Error(`A process of the bench ended with ${code}.`)))
      child.send('go')
    }
    await finished.promise
    return {
      published,
      end: async () => {
        const ended = this.#children.map((child) => once(child, 'exit'))
        for (const child of this.#children) child.send('end')
        await Promise.all(ended)
      },
    }
  }
}
