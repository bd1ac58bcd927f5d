delete from "txbox".leases
where starts_with(name, $1)
  and (owner is null or expires_at < clock_timestamp() - $2::double precision * interval '1 millisecond')
