export * from '@txbox/versioning'
