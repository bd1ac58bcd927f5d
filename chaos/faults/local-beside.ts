import type { Draw } from '../draw.ts'
import type { Fleet } from '../driver/fleet.ts'

/** How often a fault of a process hits a process of local consumers, too. */
const BESIDE = 0.5

/**
 * The process of local consumers that a fault hits beside another process; none at times. It is drawn after everything else that the
 * fault draws, so that a seed has the same faults as before there were local consumers.
 */
export function localBeside(fleet: Pick<Fleet, 'slotsOf'>, draw: Draw): readonly string[] {
  return draw.chance(BESIDE) ? [draw.pick(fleet.slotsOf('local-worker'))] : []
}
