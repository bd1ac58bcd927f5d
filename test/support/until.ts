/** Polls a condition that only the server knows. Fails with the text of `describe` if it does not become true. */
export async function until(
  condition: () => Promise<boolean>,
  describe: () => Promise<string> | string,
  limitMs = 25_000,
): Promise<void> {
  const deadline = Date.now() + limitMs
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`Not within ${limitMs} ms: ${await describe()}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
