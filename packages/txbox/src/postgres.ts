export * from '@txbox/postgres'
