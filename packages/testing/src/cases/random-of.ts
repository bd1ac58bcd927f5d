/** Random numbers from 0 (inclusive) to `below` (exclusive), the same for the same seed. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    // A linear congruential generator; its low bits are not used.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
