import type { Draw } from '../draw.ts'
import type { Fleet } from '../driver/fleet.ts'
import type { WorkerKind } from '../workers/worker-protocol.ts'

/** How often a fault of a process hits a process of local consumers, too, and an HTTP service. */
const BESIDE = 0.5

/**
 * The process of local consumers that a fault hits beside another process; none at times. It is drawn after everything else that the
 * fault draws, so that a seed has the same faults as before there were local consumers.
 */
export function localBeside(fleet: Pick<Fleet, 'slotsOf'>, draw: Draw): readonly string[] {
  return besideOf('local-worker', fleet, draw)
}

/** The processes of local consumers and of HTTP services that a fault hits beside another process. The last ones are drawn last. */
export function beside(fleet: Pick<Fleet, 'slotsOf'>, draw: Draw): readonly string[] {
  return [...localBeside(fleet, draw), ...besideOf('http-service', fleet, draw)]
}

function besideOf(kind: WorkerKind, fleet: Pick<Fleet, 'slotsOf'>, draw: Draw): readonly string[] {
  return draw.chance(BESIDE) ? [draw.pick(fleet.slotsOf(kind))] : []
}
