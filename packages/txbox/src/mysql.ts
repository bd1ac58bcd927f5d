export * from '@txbox/mysql'
