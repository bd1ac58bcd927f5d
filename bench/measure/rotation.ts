/**
 * The order of the variants in a turn: each variant comes first, and last, equally often, and every second turn runs
 * backwards, so that no variant always follows the same one.
 */
export function orderOfTurn<T>(variants: readonly T[], turn: number): readonly T[] {
  const start = Math.floor(turn / 2) % variants.length
  const order = [...variants.slice(start), ...variants.slice(0, start)]
  return turn % 2 === 0 ? order : order.toReversed()
}
