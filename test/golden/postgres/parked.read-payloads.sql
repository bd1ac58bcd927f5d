select p.place::text as seq, encode(p.payload, 'hex') as payload
from "txbox".parked as p
where p.place = any ($1::bigint[])
