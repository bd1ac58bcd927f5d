import { onTestFinished } from 'vitest'
import { checkedByPromtool } from '../support/subjects/promtool.ts'
import { parseMetrics, type ScrapedSample } from '../support/subjects/metrics-text.ts'
import { until } from '../support/worlds/until.ts'
import { ended, startTxbox, type Ended } from './run-txbox.ts'

export interface Scraped {
  /** Reads the metrics, and checks that Prometheus could. */
  scrape(): Promise<readonly ScrapedSample[]>
  get(path: string): Promise<Response>
  /** Stops the process. */
  stop(): Promise<Ended>
}

/** Starts a command, which serves its metrics on a free port. */
export async function startMetrics(command: readonly string[], url: string): Promise<Scraped> {
  const child = startTxbox([
    ...command,
    ...['--database', url, '--health-port', '0', '--health-host', '127.0.0.1', '--metrics', '--json'],
  ])
  const end = ended(child)
  onTestFinished(() => void child.kill('SIGKILL'))
  let log = ''
  child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()))
  const port = (): string | undefined => /"event":"health","port":(\d+)/.exec(log)?.[1]
  await until(
    async () => port() !== undefined && log.includes('"event":"started"'),
    () => `the command has started: ${log}`,
  )
  const get = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port()}${path}`)
  return {
    get,
    async scrape() {
      const text = await (await get('/metrics')).text()
      checkedByPromtool(text)
      return parseMetrics(text)
    },
    stop() {
      child.kill('SIGTERM')
      return end
    },
  }
}
