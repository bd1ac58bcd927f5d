(select null as shard, cast(count(*) as char) as locks from `txbox_leases` where name in (?))
