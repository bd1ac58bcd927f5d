select hex(name) as name, cast(term as char) as term, cast(crashes + (owner is not null) as char) as crashes,
  cast(in_flight as binary) as in_flight
from `txbox_leases`
where name in (?) and (expires_at is null or expires_at <= utc_timestamp(6))
order by name
limit ?
for update skip locked
