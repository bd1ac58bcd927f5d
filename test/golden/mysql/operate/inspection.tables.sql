select concat(table_name, ' has engine ', engine) as found
from information_schema.tables
where table_schema = database() and table_name in (_utf8mb4'txbox_inbox', _utf8mb4'txbox_outbox', _utf8mb4'txbox_key_locks', _utf8mb4'txbox_leases', _utf8mb4'txbox_parked', _utf8mb4'txbox_queue', _utf8mb4'txbox_collections', _utf8mb4'txbox_local_outbox', _utf8mb4'txbox_local_parked', _utf8mb4'txbox_subscriptions', _utf8mb4'txbox_dedup_leases') and engine <> 'InnoDB'
union all
select concat(table_name, '.', column_name, ' is ', data_type)
from information_schema.columns
where table_schema = database() and data_type <> 'varbinary' and (
  table_name = _utf8mb4'txbox_inbox' and column_name in ('consumer', 'key')
  or table_name = _utf8mb4'txbox_dedup_leases' and column_name in ('consumer', 'key')
  or table_name = _utf8mb4'txbox_leases' and column_name = 'name'
  or table_name = _utf8mb4'txbox_queue' and column_name in ('topic', 'order_key')
  or table_name = _utf8mb4'txbox_local_outbox' and column_name = 'consumer'
  or table_name = _utf8mb4'txbox_local_parked' and column_name in ('consumer', 'order_key')
  or table_name = _utf8mb4'txbox_subscriptions' and column_name in ('type', 'consumer')
)
