export const ENGINES = ['postgres', 'mysql', 'mariadb'] as const
export type Engine = (typeof ENGINES)[number]
