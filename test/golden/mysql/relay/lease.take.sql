update `txbox_leases`
set crashes = least(crashes, 1000000) + (owner is not null), owner = ?, term = term + 1, expires_at = utc_timestamp(6) + interval ? microsecond
where name in (?)
