import { InvalidArgumentError } from 'commander'

/** An option's value as a whole number; its bounds are checked by what it is for. */
export function wholeNumber(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('Expected a whole number.')
  return Number(value)
}

/** A number of milliseconds, or for ever. */
export function retention(value: string): number {
  return value === 'forever' ? Infinity : wholeNumber(value)
}

/** From a tenth of a second to a day. */
export function seconds(value: string): number {
  const number = Number(value)
  if (!(number >= 0.1 && number <= 86_400))
    throw new InvalidArgumentError('Expected seconds, from 0.1 to 86400.')
  return number
}
