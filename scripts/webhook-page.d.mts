export const WEBHOOKS_PAGE: string
export function runWebhooksPage(project: string, env: NodeJS.ProcessEnv): Promise<void>
