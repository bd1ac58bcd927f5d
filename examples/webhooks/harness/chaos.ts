import { setTimeout as pause } from 'node:timers/promises'
import type { SeededRandom } from './seeded-random.ts'
import type { ServiceProcess } from './service-process.ts'

const ROUNDS = 3
const FIRST_KILL_WITHIN_MS = 200
/** A short delay: the service has just restarted, and is catching up. */
const SECOND_KILL_WITHIN_MS = 50

export interface Kill {
  readonly victim: ServiceProcess
  /** The acknowledged deliveries before the kill: not a time, so that the kill interrupts work on a slow machine, too. */
  readonly afterDeliveries: number
  /** The delay after that, in which the victim works, so that the kill can hit any step of the work. */
  readonly delayMs: number
}

/**
 * Each service is killed at a random point of every third of the deliveries, and once more when it has just restarted
 * and has much work left. The same seed plans the same kills, but does not determine which step each kill interrupts.
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

/** Kills the services as planned, independently: two may be down at the same time. */
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
