import { expect, test, vi } from 'vitest'
import { PollPace } from '../../packages/core/src/leases/poll-pace.ts'

test('continuous notifications cause few polls, and the first one after a quiet time does not wait', async () => {
  const pace = new PollPace({ min: 60_000, max: 60_000 })
  const looks: number[] = []
  const poller = (async () => {
    while (looks.length < 6) {
      await pace.wait()
      looks.push(performance.now())
    }
  })()
  let wakes = 0
  pace.wake()
  await vi.waitUntil(() => looks.length === 1)
  const news = setInterval(() => {
    for (let n = 0; n < 100; n++, wakes++) pace.wake()
  })
  await poller
  clearInterval(news)
  for (const [n, at] of looks.entries()) if (n > 0) expect(at - looks[n - 1]!).toBeGreaterThanOrEqual(1)
  expect(wakes).toBeGreaterThan(looks.length)
})

test('notifications that arrive before the poller waits, or while it gathers, cause one poll', async () => {
  const pace = new PollPace({ min: 60_000, max: 60_000 })
  pace.wake()
  pace.wake()
  await pace.wait()
  for (let gathered = false; !gathered;) {
    let over = false
    pace.wake()
    const gathering = pace.wait().then(() => (over = true))
    await new Promise((resolve) => setImmediate(resolve))
    // On a slow machine the pause may already be over.
    gathered = !over
    if (gathered) pace.wake()
    await gathering
  }
  let looked = false
  const quiet = pace.wait().then(() => (looked = true))
  await new Promise((resolve) => setTimeout(resolve, 10))
  expect(looked).toBe(false)
  pace.stop()
  await quiet
})

test('under a steady load polls are less frequent and find more messages; at a hundred messages per second they are not', async () => {
  const pace = new PollPace({ min: 20, max: 500 })
  pace.moved(100)
  expect(pace.isGathering).toBe(false)
  await pace.wait()
  pace.moved(1000)
  expect(pace.isGathering).toBe(true)
  await pace.wait()
  const lookedAt = performance.now()
  pace.wake()
  await pace.wait()
  expect(performance.now() - lookedAt).toBeGreaterThan(50)
})
