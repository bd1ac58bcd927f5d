/**
 * The order of a turn: each variant comes first, and last, equally often, and every other turn runs backwards, so that
 * none always profits or suffers from the one before it.
 */
export function orderOfTurn<T>(variants: readonly T[], turn: number): readonly T[] {
  const start = Math.floor(turn / 2) % variants.length
  const order = [...variants.slice(start), ...variants.slice(0, start)]
  return turn % 2 === 0 ? order : order.toReversed()
}
