select hex(name) as name, hex(owner) as owner, cast(term as char) as term,
  cast(timestampdiff(microsecond, utc_timestamp(6), expires_at) div 1000 as char) as remaining_ms
from `txbox_leases`
where owner is not null
  -- A relay or a consumer that has vanished leaves the row by which the others knew it. That it has gone shows by the shards it
  -- held.
  and (name not like 'relay/%' and name not like 'local-member/%' and name <> 'metrics' or expires_at > utc_timestamp(6))
order by name
