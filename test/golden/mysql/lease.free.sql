select hex(name) as name, cast(term as char) as term, cast(owner is not null as char) as after_crash
from `txbox_leases`
where name in (?) and (expires_at is null or expires_at <= utc_timestamp(6))
order by name
limit ?
for update skip locked
