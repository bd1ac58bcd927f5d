select p.payload as payload
from `txbox_parked` as p
where p.place = ?
