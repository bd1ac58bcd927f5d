import { setTimeout as pause } from 'node:timers/promises'
import type { Target } from '../engines/target.ts'

const PAUSE_MS = 20

/**
 * Measures the time of some work without the time that a busy machine costs. Beside the work, short pauses alternate with the
 * shortest statement, and the time that these take longer than usual is subtracted. A wait of the code under test makes
 * neither longer, and counts in full.
 */
export async function undisturbed<T>(
  target: Pick<Target, 'sql'>,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly tookMs: number }> {
  let isOver = false
  async function measureLoss(): Promise<number> {
    let lostMs = 0
    while (!isOver) {
      const begunAt = performance.now()
      await pause(PAUSE_MS)
      await target.sql('select 1')
      lostMs += Math.max(0, performance.now() - begunAt - PAUSE_MS)
    }
    return lostMs
  }
  const loss = measureLoss()
  const begunAt = performance.now()
  try {
    const result = await work()
    const tookMs = performance.now() - begunAt
    isOver = true
    return { result, tookMs: tookMs - (await loss) }
  } finally {
    isOver = true
    await loss
  }
}
