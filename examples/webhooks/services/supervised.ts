// What a service needs to run under the demo. Started by hand, with the same environment, it works as well.

// The services end with the demo, however the demo ends.
process.once('disconnect', () => process.exit(1))

export function announceReady(): void {
  process.send?.('ready')
}

/** A required setting. */
export function environment(name: string): string {
  const value = process.env[name]
  if (value === undefined || value === '') throw new Error(`Set ${name} in the environment.`)
  return value
}
