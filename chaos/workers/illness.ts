import { setTimeout as pause } from 'node:timers/promises'
import type { Illness } from './worker-protocol.ts'
import type { Worker } from './worker.ts'

/**
 * What an ill message does to its handler, unless the illness was removed. Each attempt may also do no harm.
 *
 * @param mostMs how long a handler hangs at most.
 */
export async function suffer(
  { draw, mode }: Worker,
  ill: Illness | undefined,
  mostMs = Infinity,
): Promise<void> {
  if (ill === undefined || mode.healed) return
  if (ill === 'fail') throw new Error('The message is poison each time.')
  if (ill === 'slow') await pause(draw.integer(100, 1500))
  if (!draw.chance(0.6)) return
  if (ill === 'hang') await pause(Math.min(mostMs, draw.integer(1000, 4000)))
  if (ill === 'kill') process.kill(process.pid, 'SIGKILL')
  if (ill === 'throw' || ill === 'hang') throw new Error('The message is poison.')
}
