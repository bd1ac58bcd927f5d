/** Calls `stop` at the first SIGTERM or SIGINT while `work` runs. */
export async function untilSignal<R>(work: Promise<R>, stop: (signal: string) => void): Promise<R> {
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  try {
    return await work
  } finally {
    process.off('SIGTERM', stop)
    process.off('SIGINT', stop)
  }
}
