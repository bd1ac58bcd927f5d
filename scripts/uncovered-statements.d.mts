export function uncoveredStatements(
  imports: ReadonlyMap<string, readonly string[]>,
  tests: ReadonlyMap<string, string>,
): readonly string[]
