export * from '@txbox/queue'
