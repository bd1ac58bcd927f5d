// Words in comments, docs and titles of tests that readers may not understand, and the words that replace them.

const WRONG_WORDS = [
  { pattern: /\banew\b/i, instead: 'again' },
  { pattern: /\bmend(?:s|ed|ing)?\b/i, instead: 'fix' },
  { pattern: /\bdear(?:er|est)\b/i, instead: 'expensive' },
  { pattern: /\bunder way\b/i, instead: 'in flight' },
  { pattern: /\bon (?:its|their) way\b/i, instead: 'in flight' },
  { pattern: /\bfor ever\b/i, instead: 'forever' },
  { pattern: /\b(?:whoever|somebody|anybody)\b/i, instead: 'the noun' },
  { pattern: /\bin (?:the|its|his) hands\b/i, instead: 'in flight' },
  { pattern: /\b(?:in|from) hand\b/i, instead: 'held, or unsettled' },
  { pattern: /\bon loan\b/i, instead: 'unsettled' },
  { pattern: /\bhears? (?:of|from)\b|\bheard (?:of|from)\b/i, instead: 'receives, or is informed of' },
  { pattern: /\bcomes? again\b|\bcame again\b/i, instead: 'is delivered again' },
  { pattern: /\bwhat (?:becomes|became|comes|came) of\b/i, instead: 'the result of' },
  { pattern: /\bunless said\b/i, instead: 'by default' },
  { pattern: /\bof his own\b/i, instead: 'the noun' },
  { pattern: /\bof (?:ours|theirs)\b/i, instead: 'the noun' },
  { pattern: /^\s*(?:\/\*)?\*+ →/, instead: '@returns' },
]

/** A line of a test file that is, or begins with, a title: the first argument of `test` or `describe`, or the only text of a line. */
const TITLE = /(?:\b(?:test|describe|it)\b[^'"`]*\(|\]\)\(|^)\s*(['"`])(.*)\1\s*(?:,|\)|$)/

/** Finds the wrong words in the comments of a program, the titles of tests, or the prose of a page or a form. */
export function wrongWords(file, text) {
  const found = []
  let isCode = false
  for (const [index, line] of text.split('\n').entries()) {
    if (file.endsWith('.md') && /^\s*```/.test(line)) isCode = !isCode
    if (isCode) continue
    const prose = proseOf(file, line)
    for (const { pattern, instead } of WRONG_WORDS) {
      const word = pattern.exec(prose)?.[0]
      if (word !== undefined) found.push({ line: index + 1, word: word.trim(), instead })
    }
  }
  return found
}

function proseOf(file, line) {
  if (/\.(?:md|ya?ml)$/.test(file)) return line
  if (/^\s*(?:\/\*|\*|\/\/)|\s\/\/\s/.test(line)) return line.replace(/^.*?(?=\/\*|\/\/|^\s*\*)/, '')
  return file.endsWith('.test.ts') ? (TITLE.exec(line)?.[2] ?? '') : ''
}
