select hex(name) as name, hex(owner) as owner, cast(term as char) as term,
  cast(timestampdiff(microsecond, utc_timestamp(6), expires_at) div 1000 as char) as remaining_ms
from `txbox_leases`
where owner is not null
order by name
