export * from '@txbox/redis'
