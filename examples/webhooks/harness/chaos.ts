import { setTimeout as pause } from 'node:timers/promises'
import type { SeededRandom } from './seeded-random.ts'
import type { ServiceProcess } from './service-process.ts'

const ROUNDS = 3
const FIRST_KILL_WITHIN_MS = 200
/** Short: it has just come back, and is catching up. */
const SECOND_KILL_WITHIN_MS = 50

export interface Kill {
  readonly victim: ServiceProcess
  /** After how many acknowledged deliveries. Not a time: on a slow machine, too, it falls into the work. */
  readonly afterDeliveries: number
  /** And then so long after that the victim is at work, so that any step of the work can be hit. */
  readonly delayMs: number
}

/**
 * Each service is killed at a random point of every third of the deliveries, and once more when it has just come back
 * and has much to catch up with. The same seed plans the same kills; what each of them interrupts, no seed can say.
 */
export function planKills(
  victims: readonly ServiceProcess[],
  deliveries: number,
  random: SeededRandom,
): readonly Kill[] {
  return victims.flatMap((victim) =>
    Array.from({ length: ROUNDS }, (_, round) => {
      const afterDeliveries = Math.floor(((round + random.next()) / ROUNDS) * deliveries)
      return [FIRST_KILL_WITHIN_MS, SECOND_KILL_WITHIN_MS].map((withinMs) => ({
        victim,
        afterDeliveries,
        delayMs: random.integer(0, withinMs),
      }))
    }).flat(),
  )
}

/** Kills as planned, each service on its own: two may be down at once. */
export async function wreakHavoc(
  plan: readonly Kill[],
  acknowledged: () => number,
  signal: AbortSignal,
): Promise<void> {
  const victims = new Set(plan.map((kill) => kill.victim))
  await Promise.all(
    [...victims].map(async (victim) => {
      for (const { afterDeliveries, delayMs } of plan.filter((kill) => kill.victim === victim)) {
        while (acknowledged() < afterDeliveries) await pause(10, undefined, { signal })
        await victim.ready
        await pause(delayMs, undefined, { signal })
        victim.kill()
      }
    }),
  )
}
