/** Strings, numbers and punctuation of a JSON text that is known to be valid. */
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[{}[\],]/g

/**
 * Parses a JSON text, if the result has everything that the text says. A text whose numbers lose digits, whose texts have lone
 * surrogates, or whose objects have a member twice has the value of another text, and is refused.
 *
 * @returns `undefined` if the text is not JSON, or is refused.
 */
export function parseExactly(text: string): { readonly value: unknown } | undefined {
  let value: unknown
  try {
    value = JSON.parse(text) as unknown
  } catch {
    return undefined
  }
  // Most clients send what `JSON.stringify` has made.
  const isSame = !text.includes('\\u') && JSON.stringify(value) === text
  return isSame || isExact(text) ? { value } : undefined
}

function isExact(text: string): boolean {
  /** The names of the members of each open object; `undefined` stands for an open list. */
  const open: (Set<string> | undefined)[] = []
  let isName = false
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === '{' || token === '[') open.push(token === '{' ? new Set() : undefined)
    else if (token === '}' || token === ']') open.pop()
    else if (token.startsWith('"')) {
      const content = JSON.parse(token) as string
      if (!content.isWellFormed()) return false
      const names = open.at(-1)
      if (isName && names !== undefined) {
        if (names.has(content)) return false
        names.add(content)
      }
    } else if (token !== ',' && !isExactNumber(token)) return false
    isName = token === '{' || token === ','
  }
  return true
}

function isExactNumber(literal: string): boolean {
  const value = Number(literal)
  return Number.isFinite(value) && decimalOf(String(value)) === decimalOf(literal)
}

/** The digits of a number without zeros at either end, and the exponent of the last of them. The sign of zero is lost. */
function decimalOf(literal: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${power}`
}
