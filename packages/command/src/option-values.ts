import { InvalidArgumentError } from 'commander'

/** Parses a whole number. The function that uses the option checks its bounds. */
export function wholeNumber(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('Expected a whole number.')
  return Number(value)
}

/** Parses a port; 0 selects any free port. */
export function port(value: string): number {
  const number = wholeNumber(value)
  if (number > 65_535) throw new InvalidArgumentError('Expected a port, from 0 to 65535.')
  return number
}

/** Parses a number of milliseconds, or `forever`. */
export function retention(value: string): number {
  return value === 'forever' ? Infinity : wholeNumber(value)
}

export function seconds(value: string): number {
  const number = Number(value)
  if (!(number >= 0.1 && number <= 86_400))
    throw new InvalidArgumentError('Expected seconds, from 0.1 to 86400.')
  return number
}

/** Parses minutes, which may have a fraction: from 0 to a year. */
export function minutes(value: string): number {
  const number = Number(value)
  if (value.trim() === '' || !(number >= 0 && number <= 525_600))
    throw new InvalidArgumentError('Expected minutes, from 0 to 525600.')
  return number
}

/** Parses the interval between log lines, in milliseconds: from a tenth of a second to a day. */
export function interval(value: string): number {
  const number = wholeNumber(value)
  if (number < 100 || number > 86_400_000)
    throw new InvalidArgumentError('Expected milliseconds, from 100 to 86400000.')
  return number
}
