import { describe, expect, test } from 'vitest'
import { OneEndpoint, type Fault } from '../../packages/webhook/src/publish/one-endpoint.ts'

const { signal } = new AbortController()

/** An endpoint with a clock that the test moves, and a probe that the test answers. */
function endpointOf(isThere = true) {
  const state = { nowMs: 1_000_000, isThere, probes: 0 }
  const endpoint = new OneEndpoint(
    async () => {
      state.probes += 1
      return state.isThere
    },
    () => state.nowMs,
  )
  const failed = (id: string): Promise<Fault> => endpoint.failed(id, signal)
  /** Both messages fail again and again, as a relay in an outage would try them. */
  const failBoth = async (forMs: number): Promise<Fault[]> => {
    const faults: Fault[] = []
    for (const untilMs = state.nowMs + forMs; state.nowMs < untilMs; state.nowMs += 2000) {
      faults.push(await failed('a'), await failed('b'))
    }
    return faults
  }
  return { state, endpoint, failed, failBoth }
}

describe('one endpoint', () => {
  test('W9 a message that fails alone is at fault if the probe is answered, however long it fails', async () => {
    const { state, failed } = endpointOf()
    for (let attempt = 0; attempt < 5; attempt += 1) {
      expect(await failed('a')).toBe('at-fault')
      state.nowMs += 30_000
    }
    state.isThere = false
    expect(await failed('a')).toBe('away')
  })

  test('W9 two messages that fail alike within 10 s are an outage, without a probe', async () => {
    const { state, failed } = endpointOf()
    await failed('a')
    state.nowMs += 9_999
    const { probes } = state
    expect(await failed('b')).toBe('away')
    expect(state.probes).toBe(probes)
    expect(await failed('b')).toBe('away')
    state.nowMs += 10_000
    expect(await failed('a')).toBe('at-fault')
  })

  test('W9 messages that fail alike for a minute let others pass, and are at fault once another was accepted', async () => {
    const { state, endpoint, failed, failBoth } = endpointOf()
    const [, ...faults] = await failBoth(60_000)
    expect(new Set(faults)).toEqual(new Set(['away']))
    expect([await failed('a'), await failed('b')]).toEqual(['undecided', 'undecided'])
    endpoint.answered('good', true)
    expect([await failed('a'), await failed('b'), await failed('a')]).toEqual([
      'at-fault',
      'at-fault',
      'at-fault',
    ])
    // Their failures say nothing about the endpoint any more. Those of two other messages do.
    state.nowMs += 1
    expect([await failed('c'), await failed('a'), await failed('d')]).toEqual([
      'at-fault',
      'at-fault',
      'away',
    ])
  })

  test('W9 after a minute of failures, ten messages pass that have failed for less time, and then none for a minute', async () => {
    const { state, failed, failBoth } = endpointOf()
    await failBoth(60_000)
    const others = async () => {
      const faults: Fault[] = []
      for (let n = 0; n < 12; n += 1) faults.push(await failed(`${state.nowMs} ${n}`))
      return faults
    }
    const tenPass: Fault[] = [...Array.from({ length: 10 }, (): Fault => 'undecided'), 'away', 'away']
    expect(await others()).toEqual(tenPass)
    const [, ...faults] = await failBoth(58_000)
    expect(new Set(faults)).toEqual(new Set(['undecided']))
    expect(new Set(await others())).toEqual(new Set(['away']))
    state.nowMs += 2000
    expect(await others()).toEqual(tenPass)
  })

  test('W9 failures that come late, after a time-out, are in doubt after a minute as well', async () => {
    const { state, failed } = endpointOf()
    // The failure of one message ends the call, so that those of the others are not known.
    for (let n = 0; n < 3; n += 1, state.nowMs += 20_000) {
      await failed('a')
      expect(await failed('b')).toBe('away')
    }
    await failed('a')
    expect(await failed('never tried before')).toBe('undecided')
  })

  test('W9 a message that fails while another one is probed leaves both undecided', async () => {
    const { state, failed, failBoth } = endpointOf()
    await failBoth(60_000)
    state.nowMs += 10_000
    expect(await Promise.all([failed('a'), failed('b')])).toEqual(['undecided', 'undecided'])
  })

  test('W9 while the probe is not answered, an outage remains one', async () => {
    const { state, failed, failBoth } = endpointOf(false)
    expect(new Set(await failBoth(120_000))).toEqual(new Set(['away']))
    expect(await failed('a')).toBe('away')
    state.isThere = true
    expect(await failed('b')).toBe('undecided')
  })

  test('W9 a message that was answered begins again', async () => {
    const { state, endpoint, failed } = endpointOf()
    await failed('a')
    state.nowMs += 60_000
    await failed('b')
    endpoint.answered('a', false)
    expect(await failed('a')).toBe('away')
    state.nowMs += 60_000
    await failed('c')
    expect(await failed('b')).toBe('undecided')
  })

  test('W9 at most 10,000 messages are remembered', async () => {
    const { state, failed } = endpointOf()
    await failed('a')
    await failed('b')
    state.nowMs += 60_000
    for (let n = 0; n < 9_999; n += 1) await failed(`other ${n}`)
    // The message that failed first was forgotten, and begins again; the second one was not.
    expect([await failed('b'), await failed('a')]).toEqual(['undecided', 'away'])
  })
})
