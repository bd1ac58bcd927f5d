import type { Logger, LogLevel } from '@txbox/core'
import { readerIsGone } from './output-reader.ts'
import { toJson } from './terminal.ts'
import { visible } from './visible.ts'
import { withoutSecrets } from './without-secrets.ts'

/**
 * Writes the log to standard error, because messages may be written to standard output. A line is text, or with `json`
 * a JSON object.
 */
export function stderrLog(json: boolean): Required<Omit<Logger, 'debug'>> {
  const at =
    (level: LogLevel) =>
    (object: object, text: string): void => {
      if (readerIsGone()) return
      const now = new Date().toISOString()
      const safe = withoutSecrets(text)
      const line = json ? toJson({ at: now, level, ...object, text: safe }) : visible(safe)
      process.stderr.write(json ? `${line}\n` : `${now} ${level.padEnd(5)} ${line}\n`)
    }
  return { info: at('info'), warn: at('warn'), error: at('error') }
}
