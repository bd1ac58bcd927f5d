interface PoolUse {
  readonly parts: Set<{ readonly part: string; readonly connections: number }>
  isReported: boolean
}

const uses = new WeakMap<object, PoolUse>()

/**
 * Records that a part of txbox may need so many connections of a pool at once, until the returned function is called. If all
 * parts together may need more than the pool opens, a process warning says so, once for each pool: a part that waits for a
 * connection looks as if the database did not answer.
 *
 * @param most how many connections the pool opens; `undefined` if it hides that.
 */
export function useConnections(
  pool: object,
  most: number | undefined,
  part: string,
  connections: number,
): () => void {
  let use = uses.get(pool)
  if (use === undefined) uses.set(pool, (use = { parts: new Set(), isReported: false }))
  const { parts } = use
  const added = { part, connections }
  parts.add(added)
  const sum = [...parts].reduce((total, each) => total + each.connections, 0)
  if (most !== undefined && sum > most && !use.isReported) {
    use.isReported = true
    const list = [...parts].map((each) => `${each.part} ${each.connections}`).join(', ')
    process.emitWarning(
      `The parts of txbox on one pool may need ${sum} connections at once (${list}), but the pool opens at most ${most}. ` +
        `They will wait for each other and for your own statements: give the pool at least ${sum} connections, give the relay ` +
        'a pool of its own, or lower the concurrency of the consumers.',
      { type: 'TxboxWarning', code: 'TXBOX_SMALL_POOL' },
    )
  }
  return () => void parts.delete(added)
}
