select distinct concat(table_name, '.', index_name) as name
from information_schema.statistics
where table_schema = database() and table_name in (_utf8mb4'txbox_inbox', _utf8mb4'txbox_outbox', _utf8mb4'txbox_key_locks', _utf8mb4'txbox_leases', _utf8mb4'txbox_parked', _utf8mb4'txbox_queue', _utf8mb4'txbox_collections', _utf8mb4'txbox_local_outbox', _utf8mb4'txbox_local_parked', _utf8mb4'txbox_subscriptions', _utf8mb4'txbox_dedup_leases')
