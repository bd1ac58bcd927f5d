select trigger_name as name, event_object_table as owner
from information_schema.triggers
where event_object_schema = database() and event_object_table in (
  _utf8mb4'txbox_outbox', _utf8mb4'txbox_queue', _utf8mb4'txbox_local_outbox'
)
