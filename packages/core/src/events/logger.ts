import type { OptionChecker } from '../options/options.ts'

/**
 * Receives log lines in pino's argument order: an object of plain values first, then a sentence. A pino logger can be
 * passed as it is; {@link consoleLogger} adapts `console`. Log lines never contain payloads or passwords.
 */
export interface Logger {
  debug?(object: object, text: string): void
  info?(object: object, text: string): void
  warn(object: object, text: string): void
  error(object: object, text: string): void
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/**
 * Returns a logger that writes the time, the level and the sentences to `console`: info to standard output, warnings and
 * errors to standard error. Debug lines are not written.
 */
export function consoleLogger(): Logger {
  const at =
    (level: 'info' | 'warn' | 'error') =>
    (_object: object, text: string): void =>
      console[level](`${new Date().toISOString()} ${level.padEnd(5)} ${text}`)
  return { info: at('info'), warn: at('warn'), error: at('error') }
}

/**
 * Checks the option `logger`: a logger, `false` for no log and no warnings, or `undefined`.
 *
 * @throws {InvalidOptionError} when `logger` lacks one of the methods that a {@link Logger} must have.
 */
export function loggerOption(
  check: OptionChecker,
  logger: Logger | false | undefined,
): Logger | false | undefined {
  if (logger === undefined || logger === false) return logger
  const has = (level: LogLevel): boolean => typeof Reflect.get(logger, level) === 'function'
  const lacks = (level: LogLevel): boolean => Reflect.get(logger, level) === undefined
  const isLogger = (): boolean =>
    has('warn') && has('error') && (['debug', 'info'] as const).every((level) => lacks(level) || has(level))
  if (typeof logger !== 'object' || logger === null || !isLogger()) {
    throw check.wrong(
      'logger',
      'an object with the methods warn and error, such as consoleLogger(), or false',
    )
  }
  return logger
}
