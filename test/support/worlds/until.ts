const SHORTEST_PAUSE_MS = 2
const LONGEST_PAUSE_MS = 25

/**
 * Polls a condition that only the server knows. Fails with the text of `describe` if it does not become true. The pauses
 * grow with the wait: each poll is a statement, and the tests that wait must not take the processor from those that work.
 */
export async function until(
  condition: () => Promise<boolean>,
  describe: () => Promise<string> | string,
  limitMs = 25_000,
): Promise<void> {
  const begunAt = Date.now()
  while (!(await condition())) {
    const waitedMs = Date.now() - begunAt
    if (waitedMs > limitMs) throw new Error(`Not within ${limitMs} ms: ${await describe()}`)
    const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, waitedMs / 10))
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
