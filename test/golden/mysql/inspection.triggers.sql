select trigger_name as name
from information_schema.triggers
where event_object_schema = database() and event_object_table = _utf8mb4'txbox_outbox'
